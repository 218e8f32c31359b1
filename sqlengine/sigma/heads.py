"""The head of a rule: what it says of itself, as YAML in comments before its statement."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from parser.rule_head import SEVERITIES
from sqlengine.sigma.rules import About, LogSource

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./()-]*(?: [A-Za-z0-9_./()-]+)*")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_WORDS: Final = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))


def head(about: About, source: LogSource | None, owner: str, statuses: Mapping[str, str]) -> str:
    """Returns the lines of the head, each a comment."""
    return "".join(f"-- {line}\n" for line in _lines(about, source, owner, statuses))


def _lines(
    about: About, source: LogSource | None, owner: str, statuses: Mapping[str, str]
) -> Iterator[str]:
    yield "@rule"
    single = {
        "title": about.title,
        "id": about.id,
        "severity": about.level if about.level in SEVERITIES else "",
        "status": statuses.get(about.status, "live"),
        "owner": owner,
        "description": about.description,
    }
    yield from (f"{name}: {_scalar(value)}" for name, value in single.items() if value)
    several = {
        "tags": about.tags,
        "references": about.references,
        "false_positives": about.false_positives,
    }
    yield from (f"{name}: {_listed(values)}" for name, values in several.items() if values)
    own = {
        "author": about.author,
        "sigma_status": about.status,
        "logsource": str(source) if source else "",
        **about.more,
    }
    told = ", ".join(f"{_scalar(k)}: {_scalar(v)}" for k, v in own.items() if v)
    if told:
        yield f"attributes: {{{told}}}"


def _listed(values: Sequence[str]) -> str:
    return f"[{', '.join(_scalar(v) for v in values)}]"


def _scalar(text: str) -> str:
    """Returns a text as YAML has it in one line: plain, where nothing in it could mean more."""
    if _UUID.fullmatch(text) or (_PLAIN.fullmatch(text) and text.lower() not in _WORDS):
        return text
    written = json.dumps(text, ensure_ascii=False)
    for character in "\u0085\u2028\u2029\u007f":  # line breaks to YAML, or not printable
        written = written.replace(character, f"\\u{ord(character):04x}")
    return written
