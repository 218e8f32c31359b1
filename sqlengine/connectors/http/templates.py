"""Templates of URLs, headers and bodies: `{{column}}` stands for the value of a column."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import quote, urlsplit

import msgspec

from parser.errors import OptionError, PlanError
from sqlengine.formats.options import did_you_mean

_MARK: Final = re.compile(r"\{\{([^{}]*)\}\}")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"?')

# The values of a row by column, as JSON.
Values: TypeAlias = Mapping[str, msgspec.Raw]
Write: TypeAlias = Callable[[msgspec.Raw], str]


@dataclass(frozen=True)
class Template:
    """A text with marks: `parts` are texts, and what writes the value of a column."""

    parts: Sequence[str | tuple[str, Write]]

    @property
    def columns(self) -> list[str]:
        """The columns that it names."""
        return list(dict.fromkeys(p[0] for p in self.parts if not isinstance(p, str)))

    def filled(self, values: Values) -> str:
        """Returns the text for one row."""
        return "".join(p if isinstance(p, str) else p[1](values[p[0]]) for p in self.parts)


def url_template(text: str, known: Sequence[str], option: str) -> Template:
    """Returns a template whose values are escaped as parts of a URL. PlanError for an unknown
    column, as the others raise it."""
    return _template(text, known, option, lambda _: _in_url)


def relative_parts(url: str) -> int:
    """Returns how many parts of a URL's path name no place, but one relative to that before
    them."""
    return sum(part in (".", "..") for part in urlsplit(url).path.split("/"))


def text_template(text: str, known: Sequence[str], option: str) -> Template:
    """Returns a template whose values are texts as they are; NULL is an empty one."""
    return _template(text, known, option, lambda _: as_text)


def json_template(text: str, known: Sequence[str], option: str) -> Template:
    """Returns a template of JSON: within a string a value is the escaped text, elsewhere a JSON
    value."""
    within = [m.span() for m in _STRING.finditer(_MARK.sub(lambda m: "_" * len(m[0]), text))]

    def chosen(at: int) -> Write:
        return _in_string if any(start < at < end for start, end in within) else _as_json

    found = _template(text, known, option, chosen)
    _check_json(found, option)
    return found


def _template(
    text: str, known: Sequence[str], option: str, write_at: Callable[[int], Write]
) -> Template:
    parts: list[str | tuple[str, Write]] = []
    end = 0
    for mark in _MARK.finditer(text):
        name = mark[1].strip()
        if name not in known:
            hint = did_you_mean(name, known) or "columns: " + ", ".join(known)
            message = f"option '{option}' names no column '{name}'"
            raise OptionError(message, hint=hint, subject=option)
        parts += [text[end : mark.start()], (name, write_at(mark.start()))]
        end = mark.end()
    rest = [p for p in (*parts, text[end:]) if p]
    if any("{{" in p for p in rest if isinstance(p, str)):
        message = f"option '{option}' has a '{{{{' without its '}}}}'"
        raise OptionError(message, hint="a mark is {{column}}", subject=option)
    return Template(rest)


def _check_json(template: Template, option: str) -> None:
    """Raises PlanError for a template that gives no JSON, whatever the values are."""
    names = template.columns
    sample = template.filled(dict.fromkeys(names, msgspec.Raw(b"null")))
    try:
        json.loads(sample)
    except ValueError as error:
        raise PlanError(
            f"'{option}' is no JSON",
            detail=f"with NULL in all columns it is {sample[:200]}: {error}",
        ) from None


def as_text(value: msgspec.Raw) -> str:
    """Returns a value as people write it: a string without its quotes, NULL as nothing."""
    raw = bytes(value)
    if raw == b"null":
        return ""
    return str(msgspec.json.decode(raw)) if raw[:1] == b'"' else raw.decode()


def _in_url(value: msgspec.Raw) -> str:
    return quote(as_text(value), safe="")


def _as_json(value: msgspec.Raw) -> str:
    return bytes(value).decode()


def _in_string(value: msgspec.Raw) -> str:
    return json.dumps(as_text(value), ensure_ascii=False)[1:-1]
