"""Secrets that stand plainly in texts of SQL: values of options, and passwords within URLs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

from parser.writer.names import quoted
from sqlengine.connectors.option_texts import Value, values_behind, values_in
from sqlengine.connectors.registry import connector_names, get_connector
from sqlengine.connectors.secret_names import is_secret, remedy
from sqlengine.formats.base import Option
from sqlengine.system.hidden import MASK, hidden_in_sql
from sqlengine.system.secrets import REFERENCE

# Without one of these a value has no secret within it, and a text has no options.
_BEFORE_SECRET: Final = re.compile(r"://|[?&;]")
_OPTIONS: Final = re.compile(r"\b(?:WITH|SET|OPTIONS)\b\s*+[^\s\w`]", re.IGNORECASE)
_URL: Final = re.compile(r"://[^/@\s:]*+:([^/@\s]+)@")
_PARAMETER: Final = re.compile(
    r"[?&;](?:password|passwd|pwd|secret|(?:access_|auth_|id_)?token|api_?key|sig(?:nature)?|sas)="
    r"([^&;#\s]++)",
    re.IGNORECASE,
)
# Of a longer text the beginning is shown.
_LONG: Final = 16_384

Spans: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class OptionValue:
    """The value of an option in a text, with secrets at `spans` of what its literal stands for.
    `nth`: of those of the same option and table in the text."""

    value: Value
    spans: Spans
    nth: int

    @property
    def key(self) -> tuple[str, str, int]:
        return (self.value.owner, self.value.option, self.nth)

    @property
    def secrets(self) -> list[str]:
        return [self.value.text[start:end] for start, end in self.spans]

    @property
    def remedy(self) -> str | None:
        """The way to get the password out of the text, for people; None where there is none."""
        return remedy(self.value.option, declared_by(self.value.options))

    def written(self, replaced: Callable[[str], str]) -> str:
        """Returns the literal with others in the place of its secrets."""
        return quoted(_replaced(self.value.text, self.spans, replaced))


def option_values(text: str) -> list[OptionValue]:
    """Returns the values of all options in a text. Never fails."""
    if not _OPTIONS.search(text):
        return []
    found, counts = [], Counter[tuple[str, str]]()
    for value in values_in(text):
        spans = _spans(value.option, value.text, declared_by(value.options))
        found.append(OptionValue(value, spans, counts[value.owner, value.option]))
        counts[value.owner, value.option] += 1
    return found


def plain_values(text: str) -> list[str]:
    """Returns all that is probably a secret in a text, also in one that makes no sense."""
    values = [secret for found in option_values(text) for secret in found.secrets]
    secrets = _declared_secrets()
    values += values_behind(text, lambda option: is_secret(option, secrets))
    return [v for v in dict.fromkeys(values) if v not in ("", MASK) and not REFERENCE.search(v)]


def masked(text: str) -> str:
    """Returns a text of SQL as it is shown: with a mask for each secret."""
    return hidden_in_sql(rewritten(text, lambda found: found.written(lambda _: MASK)).text)


def shown(text: str) -> str:
    """Returns a text of SQL as it is shown among others: masked, and of a long one the beginning.

    To find the secrets of a megabyte takes a second."""
    if len(text) <= _LONG:
        return masked(text)
    head = masked(text[: 4 * _LONG])
    # Where masks took the place of nearly all, what is left may end within a secret.
    known = len(text) <= 4 * _LONG or len(head) > 2 * _LONG
    return f"{head[:_LONG]} …" if known else "…"


def rewritten(text: str, change: Callable[[OptionValue], str]) -> Rewritten:
    """Returns a text with other literals in the place of those that have secrets."""
    parts, edits, end = [], [], 0
    for found in option_values(text):
        if found.spans:
            value, literal = found.value, change(found)
            parts += [text[end : value.start], literal]
            edits.append((value.start, value.end, len(literal)))
            end = value.end
    return Rewritten("".join([*parts, text[end:]]), tuple(edits))


@dataclass(frozen=True)
class Rewritten:
    """A text with some literals replaced. `edits`: where each began and ended before, and the
    length of its replacement."""

    text: str
    edits: tuple[tuple[int, int, int], ...] = ()

    def before(self, offset: int) -> int:
        """Returns where something of this text was before."""
        shift = 0  # of the text behind the edits so far: old minus new
        for start, end, length in self.edits:
            if offset < start - shift:
                break
            if offset < start - shift + length:
                return start
            shift += end - start - length
        return offset + shift


def masked_option(option: str, text: str, options: Mapping[str, str]) -> str:
    """Returns the value of an option of a table as it is shown."""
    spans = _spans(option, text, declared_by(options))
    return hidden_in_sql(_replaced(text, spans, lambda _: MASK))


def _spans(option: str, text: str, declared: Mapping[str, Option]) -> Spans:
    """Returns where the value of an option has secrets. References are none."""
    if is_secret(option, declared):
        return ((0, len(text)),) if text and not REFERENCE.search(text) else ()
    if not _BEFORE_SECRET.search(text):
        return ()
    found, end = [], 0
    for start, stop in sorted(m.span(1) for p in (_URL, _PARAMETER) for m in p.finditer(text)):
        if start >= end and not REFERENCE.search(text[start:stop]):
            found.append((start, stop))
            end = stop
    return tuple(found)


def _replaced(text: str, spans: Spans, replaced: Callable[[str], str]) -> str:
    parts, end = [], 0
    for start, stop in spans:
        parts += [text[end:start], replaced(text[start:stop])]
        end = stop
    return "".join([*parts, text[end:]])


def declared_by(options: Mapping[str, str]) -> Mapping[str, Option]:
    """Returns the options that the connector of a table declares; where it is not named, the
    secrets of all connectors."""
    name = options.get("connector")
    declared = None if name is None else _connector(name)
    return _declared_secrets() if declared is None else declared


@cache
def _declared_secrets() -> Mapping[str, Option]:
    every = (options for name in connector_names() if (options := _connector(name)) is not None)
    return {name: o for options in every for name, o in options.items() if o.secret}


def _connector(name: str) -> Mapping[str, Option] | None:
    with suppress(Exception):  # a connector of others that cannot be loaded: its tables say so
        connector = get_connector(name)
        return None if connector is None else connector.options
    return None
