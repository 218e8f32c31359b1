"""Text to tokens, by Flink's lexical rules: backticks around names, single quotes around strings, a quote inside is
doubled, a backslash means nothing, comments are `--`, `//` and `/* */`."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import pairwise

from sqlglot.tokenizer_core import Token as SqlglotToken
from sqlglot.tokenizer_core import TokenType

from parser.errors import ParseError, Position, UnsupportedError


class Token(SqlglotToken):
    """A sqlglot token whose `line` and `col` are where it begins (from 1), in the whole script. `word` is what the
    grammar compares with: the word in upper case or the operator, and empty for quoted names and literals."""

    __slots__ = ("word",)

    def __init__(self, kind: TokenType, text: str, word: str, line: int, col: int, start: int, end: int) -> None:
        super().__init__(kind, text, line, col, start, end)
        self.word = word

    @property
    def position(self) -> Position:
        return Position(self.line, self.col, max(1, self.end - self.start + 1))

    @property
    def is_name(self) -> bool:
        """A word or a name in backticks; whether the word is reserved is not looked at."""
        return self.token_type in (TokenType.VAR, TokenType.IDENTIFIER)

    def __str__(self) -> str:
        """As an error message calls it."""
        if self.token_type is TokenType.SENTINEL:
            return "end of statement"
        if self.token_type is TokenType.STRING:
            text = "string '" + self.text
            return text[:32] + ("'" if len(text) <= 32 else "…'")
        text = self.text if len(self.text) <= 40 else self.text[:39] + "…"
        return f"'{text}'"


# Possessive quantifiers, and an error at the first thing that is not closed, keep the scan linear on hostile text.
_TOKEN = re.compile(
    r"""
    (?P<space>\s++|(?:--|//)[^\n]*+|/\*(?!\+).*?\*/)
  | (?P<name>`(?:[^`\n\r]|``)++`)
  | (?P<hex>[xX]'[^']*+')
  | (?P<word>(?:[^\W\d]|\$)[\w$]*+)
  | (?P<string>'[^']*+(?:''[^']*+)*+')
  | (?P<number>(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?)
  | (?P<hint>/\*\+.*?\*/)
  | (?P<operator>=>|<=|>=|<>|!=|\|\||/(?!\*)|[-+*%=<>(),.;\[\]{}:?])
    """,
    re.VERBOSE | re.DOTALL,
)
_INSTEAD = {"&": "write AND", "|": "write OR; strings are joined with ||", "!": "write NOT, or <> for not equal"}
_INSTEAD = {"&": "write AND", "|": "write OR; strings are joined with ||", "!": "write NOT, or <> for not equal"}
_HEX_STRING = re.compile(r"[xX]'")
_OPERATORS = {
    "(": TokenType.L_PAREN,
    ")": TokenType.R_PAREN,
    "[": TokenType.L_BRACKET,
    "]": TokenType.R_BRACKET,
    ",": TokenType.COMMA,
    ".": TokenType.DOT,
    ";": TokenType.SEMICOLON,
    "=": TokenType.EQ,
    "*": TokenType.STAR,
}


class Places:
    """Where offsets of `text` are: `text` begins at `origin` of a larger script."""

    def __init__(self, text: str, origin: Position | None = None) -> None:
        self._starts = [0, *(m.end() for m in re.finditer("\n", text))]
        self._line = origin.line if origin else 1
        self._column = origin.column if origin else 1

    def at(self, offset: int, length: int = 1) -> Position:
        line, column = self.line_column(offset)
        return Position(line, column, length)

    def line_column(self, offset: int) -> tuple[int, int]:
        row = bisect_right(self._starts, offset) - 1
        column = offset - self._starts[row] + (self._column if row == 0 else 1)
        return self._line + row, column


def tokenize(text: str, origin: Position | None = None) -> list[Token]:
    """The tokens of `text`, closed by one of type SENTINEL. ParseError where a character begins no token."""
    places = Places(text, origin)
    tokens: list[Token] = []
    offset, size, match = 0, len(text), _TOKEN.match
    while offset < size:
        found = match(text, offset)
        if found is None:
            raise _bad(text, offset, places)
        kind, end = found.lastgroup or "", found.end()
        if kind != "space":
            tokens.append(_token(kind, found.group(), offset, places))
        offset = end
    line, column = places.line_column(size)
    tokens.append(Token(TokenType.SENTINEL, "", "", line, column, size, size))
    _check_prefixes(tokens)
    return tokens


def _token(kind: str, text: str, offset: int, places: Places) -> Token:
    line, column = places.line_column(offset)
    end = offset + len(text) - 1
    if kind == "word":
        return Token(TokenType.VAR, text, text.upper(), line, column, offset, end)
    if kind == "operator":
        return Token(_OPERATORS.get(text, TokenType.PARAMETER), text, text, line, column, offset, end)
    if kind == "string":
        return Token(TokenType.STRING, text[1:-1].replace("''", "'"), "", line, column, offset, end)
    if kind == "name":
        return Token(TokenType.IDENTIFIER, text[1:-1].replace("``", "`"), "", line, column, offset, end)
    if kind == "number":
        return Token(TokenType.NUMBER, text, "", line, column, offset, end)
    if kind == "hex":
        return Token(TokenType.HEX_STRING, text[2:-1], "", line, column, offset, end)
    return Token(TokenType.HINT, text[3:-2].strip(), "/*+", line, column, offset, end)


def _bad(text: str, offset: int, places: Places) -> ParseError:
    for start, what in (("'", "string"), ("`", "name"), ("/*", "comment")):
        if text.startswith(start, offset):
            hint = f"close it with {'*/' if start == '/*' else start}"
            return ParseError(f"the {what} that begins here is not closed", hint=hint, position=places.at(offset))
    char = text[offset]
    position = places.at(offset)
    if _HEX_STRING.match(text, offset):
        return ParseError("the binary string that begins here is not closed", position=position)
    if char == '"':
        hint = "put names in backticks and strings in single quotes"
        return ParseError("double quotes mean nothing in Flink SQL", hint=hint, position=position)
    shown = f"'{char}'" if char.isprintable() else f"U+{ord(char):04X}"
    return ParseError(f"unexpected character {shown}", hint=_INSTEAD.get(char), position=position)


def _check_prefixes(tokens: list[Token]) -> None:
    """N'…', U&'…' and _UTF8'…' lex as a word and a string that touch; no other text does."""
    for word, string in pairwise(tokens):
        if string.token_type is TokenType.STRING and word.token_type is TokenType.VAR and word.end + 1 == string.start:
            if word.word == "N" or word.word.startswith("_"):
                hint = "all strings are Unicode: leave the prefix out"
                raise UnsupportedError(
                    f"string prefix '{word.text}' is not supported", hint=hint, position=word.position
                )
            raise ParseError(f"unexpected string after '{word.text}'", position=string.position)
