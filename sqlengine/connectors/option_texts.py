"""The values of options in a text of SQL, whether or not it can be parsed: those of WITH (…),
SET (…) and OPTIONS (…), and of SET 'key' = '…', also in comments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from parser.errors import ParseError
from parser.grammar.lexer import decoded, tokenize

_TOKEN: Final = re.compile(
    r"""
    (?P<comment>(?:--|//)[^\n\r]*+|/\*(?!\+).*?(?:\*/|\Z))
  | (?P<string>(?<![\w$])[eE]'(?:[^'\\]|\\.|'')*+(?:'|\Z)
              |(?:(?<![\w$])(?:[nN]|[uU]&|_\w{1,40}+))?'(?:[^']|'')*+(?:'|\Z))
  | (?P<word>(?:[^\W\d]|\$(?=[\w$]))[\w$]*+|`(?:[^`]|``)*+`)
  | (?P<mark>/\*\+|[=().;,])
  | \d[\w.]*+ | \S
    """,
    re.VERBOSE | re.DOTALL,
)
# Between an option and its value, and what may stand there where a text makes no sense.
_EQUALS: Final = re.compile(r"'\s{0,20}=\s{0,20}(?=')")
_MEANT: Final = re.compile(r"'[\s=:,(]{1,20}(?=')")
_STRING: Final = re.compile(r"'(?:[^'\n]|'')*+'?")
_LONGEST: Final = 200  # characters of an option's name
# Of the name of an object: what goes beyond it begins another one.
_LONGEST_NAME: Final = 1000
# What an object's name stands behind, and what may stand between.
_KINDS: Final = ("TABLE", "CATALOG", "DATABASE")
_BETWEEN: Final = ("IF", "NOT", "EXISTS")


@dataclass(frozen=True)
class Value:
    """The value of an option: the literal `written` at `start`. `owner`: the table, as it is
    written; `options`: all of the same parentheses; `comment`: it stands in one."""

    start: int
    written: str
    option: str
    owner: str
    options: Mapping[str, str]
    comment: bool = False

    @property
    def end(self) -> int:
        return self.start + len(self.written)

    @cached_property
    def text(self) -> str:
        """The text that the literal stands for."""
        return _content(self.written)


@dataclass
class _Scanner:
    """The place in a text that is scanned.

    `name`: the last one that was written, of several parts perhaps; `table`: the one that the
    statement defines or alters, and `hinted` the one before a hint; `group`: the options of the
    parentheses that are open; `key`: the option whose value may come next."""

    found: list[Value] = field(default_factory=list)
    first: str = ""
    last: str = ""
    name: str = ""
    table: str = ""
    hinted: str = ""
    owner: str = ""
    group: dict[str, str] | None = None
    key: str | None = None

    def comment(self, text: str, start: int) -> None:
        for option, value in _pairs(text, _EQUALS):
            at = start + value.start()
            self.found.append(Value(at, value.group(), option, "", {}, comment=True))

    def string(self, text: str, start: int) -> None:
        if self.key is not None and self.last == "=":
            options = {} if self.group is None else self.group
            self.found.append(Value(start, text, self.key, self.owner, options))
            options[self.key] = _content(text)
            self.key = None
        elif self.group is not None or self.first == self.last == "SET":
            self.key = _content(text)
        self.last = "'"

    def word(self, text: str) -> None:
        upper = text.upper()
        self.first = self.first or upper
        if self.last == "." and len(self.name) < _LONGEST_NAME:
            self.name += f".{text}"
        else:
            self.name = text
        if self.last in _KINDS and upper not in _BETWEEN:
            self.table = text
        elif self.last == "." and self.table and self.name.startswith(f"{self.table}."):
            self.table = self.name
        # IF NOT EXISTS leaves the place of the name open.
        self.last = self.last if self.last in _KINDS and upper in _BETWEEN else upper

    def mark(self, text: str) -> None:
        match text:
            case ";":
                self.first = self.table = self.owner = ""
                self.group = self.key = None
            case "/*+":
                self.hinted = self.name
            case "(" if self.group is None and self.last in ("WITH", "SET", "OPTIONS"):
                self.group = {}
                self.owner = self.hinted if self.last == "OPTIONS" else self.table
            case ")" | ",":
                self.group = None if text == ")" else self.group
                self.key = None
        self.last = text


def values_in(text: str) -> list[Value]:
    """Returns the values of all options in a text, in their order. Never fails."""
    scanner = _Scanner()
    for token in _TOKEN.finditer(text):
        match token.lastgroup:
            case "comment":
                scanner.comment(token.group(), token.start())
            case "string":
                scanner.string(token.group(), token.start())
            case "word":
                scanner.word(token.group())
            case "mark":
                scanner.mark(token.group())
            case _:
                scanner.last, scanner.key = "", None
    return scanner.found


def values_behind(text: str, wanted: Callable[[str], bool]) -> list[str]:
    """Returns the texts in quotes that follow a wanted one, in a text that may make no sense: of
    some it can be told only by their names that they are an option and its value."""
    known: dict[str, bool] = {}
    found = []
    for option, value in _pairs(text, _MEANT):
        if option not in known:
            known[option] = wanted(option)
        if known[option]:
            found.append(_content(value.group()))
    return found


def _pairs(text: str, between: re.Pattern[str]) -> Iterator[tuple[str, re.Match[str]]]:
    """Yields names of options and their values, wherever other quotes are."""
    for found in between.finditer(text):
        start = text.rfind("'", max(0, found.start() - _LONGEST), found.start())
        value = _STRING.match(text, found.end())
        if start >= 0 and value is not None:
            yield text[start + 1 : found.start()], value


def _content(literal: str) -> str:
    """Returns what a literal stands for; of one that is not closed, or has a bad escape, about
    that."""
    if literal[0] == "'":
        closed = literal.endswith("'") and len(literal) > 1
        return (literal[1:-1] if closed else literal[1:]).replace("''", "'")
    try:
        token = tokenize(literal)[-2]
    except (ParseError, IndexError):
        return literal.partition("'")[2].rstrip("'")
    return (decoded(token.text, "\\") or token.text) if literal[0] in "uU" else token.text
