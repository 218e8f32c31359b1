"""A script: many statements in one text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from parser.errors import ParseError, Position
from parser.places import Places

# An unclosed quote or comment takes all that follows, so that the statement after it is not run by
# accident.
_PART = re.compile(
    r"""
    (?P<space>\s++|(?:--|//)[^\n\r]*+|/\*(?!\+).*?\*/)
  | (?<![\w$])[eE]'(?:[^'\\]|\\.|'')*+(?:'|\Z)
  | '[^']*+(?:'|\Z)
  | `[^`]*+(?:`|\Z)
  | /\*(?:.*?\*/|.*+)
  | (?P<end>;)
  | (?P<word>[^\W\d][\w$]*+)
  | [\d(),.=<>*+]++
  | .
    """,
    re.VERBOSE | re.DOTALL,
)
_VARIABLE = re.compile(r"\$\{([A-Za-z_][\w.-]*)\}", re.ASCII)

# The first words of a statement that holds others, each with its own semicolon, up to END.
_BLOCKS = (("BEGIN", "STATEMENT", "SET"), ("STATEMENT", "SET", "BEGIN"))


@dataclass(frozen=True)
class Piece:
    """The text of one statement, without its semicolon and the space around it, and where it
    begins."""

    sql: str
    position: Position


def split(text: str) -> list[Piece]:
    """The statements of a script: cut at semicolons outside quotes, comments and statement sets.
    Never fails."""
    places = Places(text)
    pieces: list[Piece] = []
    start: int | None = None
    end = 0
    words: list[str] = []
    fresh = False  # nothing has come since a semicolon inside a block
    closing = False  # END has come there: the next semicolon closes the block
    for part in _PART.finditer(text):
        if part.lastgroup == "space":
            continue
        if part.lastgroup == "end":
            # Inside BEGIN … END semicolons separate the inner statements.
            if start is not None and _in_block(words) and not closing:
                fresh, end = True, part.end()
                continue
            _add(pieces, text, start, end, places)
            start, words, fresh, closing = None, [], False, False
            continue
        start = part.start() if start is None else start
        word = part.group().upper() if part.lastgroup == "word" else ""
        closing = word == "END" if fresh else closing and word == "END"
        fresh, end = False, part.end()
        if len(words) < 12:
            words.append(word)
    _add(pieces, text, start, end, places)
    return pieces


def _in_block(words: list[str]) -> bool:
    if words[0] not in ("BEGIN", "EXECUTE", "EXPLAIN", "COMPILE"):
        return False
    return any(tuple(words[i : i + 3]) in _BLOCKS for i in range(len(words) - 2))


def _add(pieces: list[Piece], text: str, start: int | None, end: int, places: Places) -> None:
    if start is not None:
        pieces.append(Piece(text[start:end].rstrip(), places.at(start)))


def substitute(text: str, defines: Mapping[str, str]) -> str:
    """`text` with each `${NAME}` replaced by its value. ParseError at a name that has none."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name in defines:
            return defines[name]
        position = Places(text).at(match.start(), len(match.group()))
        raise ParseError(
            f"variable '{name}' has no value", hint=f"pass -D {name}=VALUE", position=position
        )

    return _VARIABLE.sub(value, text)
