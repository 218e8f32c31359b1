"""Text to tokens, by Flink's lexical rules: backticks around names, single quotes around strings, a
quote inside is doubled, a backslash means nothing, comments are `--`, `//` and `/* */`."""

from __future__ import annotations

import re

from sqlglot.tokenizer_core import Token as SqlglotToken
from sqlglot.tokenizer_core import TokenType

from parser.errors import ParseError, Position
from parser.places import Places

_STRINGS = (TokenType.STRING, TokenType.NATIONAL_STRING, TokenType.UNICODE_STRING)


class Token(SqlglotToken):
    """A sqlglot token whose `line` and `col` are where it begins (from 1), in the whole script.
    `word` is what the grammar compares with: the word in upper case or the operator, and empty for
    quoted names and literals."""

    __slots__ = ("word",)

    def __init__(
        self, kind: TokenType, text: str, word: str, line: int, col: int, start: int, end: int
    ) -> None:
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
        """Returns the token as error messages name it."""
        if self.token_type is TokenType.SENTINEL:
            return "end of statement"
        if self.token_type in _STRINGS:
            text = "string '" + self.text
            return text[:32] + ("'" if len(text) <= 32 else "…'")
        text = self.text if len(self.text) <= 40 else self.text[:39] + "…"
        return f"'{text}'"


# Possessive quantifiers, and an error at the first thing that is not closed, keep the scan linear
# on hostile text. The contents of a hint are tokens like all others.
_TOKEN = re.compile(
    r"""
    \s*+(?:
    (?P<space>\Z|(?:--|//)[^\n\r]*+|/\*(?!\+).*?\*/)
  | (?P<word>(?:[^\W\d]|\$(?=[\w$]))[\w$]*+)
  | (?P<operator>=>|<=|>=|<>|!=|\|\||/\*\+|\*/|/(?!\*)|[-+*%=<>(),;\[\]{}:?|^$]|\.(?!\d))
  | (?P<string>'[^']*+(?:''[^']*+)*+')
  | (?P<name>`(?:[^`\n\r]|``)++`)
  | (?P<number>(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?)
  )""",
    re.VERBOSE | re.DOTALL,
)
# What a word begins that touches a string or name: X'0A', N'a', U&'\00e9', E'a\n', _UTF8'a',
# U&"\00e9".
_PREFIXED = re.compile(
    r"""
    (?P<hex>[xX])'(?P<digits>[^']*+)'
  | (?P<kind>[nN]|[uU]&|_[A-Za-z0-9][\w:.\-]{0,40}+)(?P<string>'[^']*+(?:''[^']*+)*+')
  | [eE]'(?P<escaped>(?:[^'\\]|\\.|'')*+)'
  | [uU]&"(?P<name>(?:[^"\n\r]|"")++)"
      (?:\s++[uU][eE][sS][cC][aA][pP][eE]\s*+'(?P<escape>[^+'"\s0-9a-fA-F])')?
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))|''", re.DOTALL
)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_QUOTES = "strings stand in straight quotes: 'text'"
_INSTEAD = {
    "&": "write AND",
    "!": "write NOT, or <> for not equal",
    **dict.fromkeys("\u2018\u2019\u201c\u201d\u00b4", _QUOTES),
    "\u2212": "write -",
    "\u2013": "write -",
}
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


def tokenize(text: str, origin: Position | None = None) -> list[Token]:
    """The tokens of `text`, closed by one of type SENTINEL. ParseError where a character begins no
    token."""
    places = Places(text, origin)
    _check_characters(text, places)
    tokens: list[Token] = []
    offset, size, match = 0, len(text), _TOKEN.match
    while offset < size:
        token_match = match(text, offset)
        if token_match is None:
            raise _bad(text, offset, places)
        # The pattern skips white space first: the token begins where its group does.
        kind, end = token_match.lastgroup or "", token_match.end()
        offset = token_match.start(kind)
        # Only a word that touches a quote or begins with _ can be a prefix: all others are done.
        if kind == "word" and end < size and (text[end] in "'&" or text[offset] == "_"):
            end = _prefixed(text, offset, end, places, tokens)
        elif kind != "space":
            tokens.append(_token(kind, text[offset:end], offset, places))
        offset = end
    line, column = places.line_column(size)
    tokens.append(Token(TokenType.SENTINEL, "", "", line, column, size, size))
    return tokens


def _token(kind: str, text: str, offset: int, places: Places) -> Token:
    line, column = places.line_column(offset)
    end = offset + len(text) - 1
    # `end` is the last character, and not the one behind it.
    if kind == "word":
        return Token(TokenType.VAR, text, text.upper(), line, column, offset, end)
    if kind == "operator":
        return Token(
            _OPERATORS.get(text, TokenType.PARAMETER), text, text, line, column, offset, end
        )
    if kind == "string":
        return Token(TokenType.STRING, text[1:-1].replace("''", "'"), "", line, column, offset, end)
    if kind == "name":
        return Token(
            TokenType.IDENTIFIER, text[1:-1].replace("``", "`"), "", line, column, offset, end
        )
    return Token(TokenType.NUMBER, text, "", line, column, offset, end)


def _prefixed(text: str, offset: int, word_end: int, places: Places, tokens: list[Token]) -> int:
    """Adds what the word at `offset` begins; gives the offset behind it. A character set is a token
    of its own."""
    prefixed = _PREFIXED.match(text, offset)
    if prefixed is None:
        # X alone is a column, but X' a string without an end.
        if text[word_end] == "'" and text[offset:word_end] in ("x", "X", "n", "N", "e", "E"):
            raise ParseError(
                "the string that begins here is not closed", position=places.at(offset)
            )
        tokens.append(_token("word", text[offset:word_end], offset, places))
        return word_end
    end, (line, column) = prefixed.end(), places.line_column(offset)
    if prefixed["hex"]:
        tokens.append(
            Token(TokenType.HEX_STRING, prefixed["digits"], "", line, column, offset, end - 1)
        )
    elif prefixed["name"]:
        name = decoded(prefixed["name"].replace('""', '"'), prefixed["escape"] or "\\")
        if name is None:
            hint = "write four hexadecimal digits"
            raise ParseError(
                "bad escape in a name", hint=hint, position=places.at(offset, end - offset)
            )
        tokens.append(Token(TokenType.IDENTIFIER, name, "", line, column, offset, end - 1))
    elif prefixed["kind"] is None:
        # E'…' is the only form without a kind.
        tokens.append(
            Token(
                TokenType.STRING, _unescaped(prefixed["escaped"]), "", line, column, offset, end - 1
            )
        )
    else:
        prefix, string = prefixed["kind"], prefixed["string"][1:-1].replace("''", "'")
        kind = {"N": TokenType.NATIONAL_STRING, "U&": TokenType.UNICODE_STRING}.get(
            prefix.upper(), TokenType.STRING
        )
        # What is left is a character set such as _UTF8: an introducer and a string.
        if kind is TokenType.STRING:
            last = offset + len(prefix) - 1
            tokens.append(Token(TokenType.INTRODUCER, prefix[1:], "", line, column, offset, last))
            offset, column = last + 1, column + len(prefix)
        tokens.append(Token(kind, string, "", line, column, offset, end - 1))
    return end


def decoded(text: str, escape: str) -> str | None:
    """Returns the text of U&'…'; None for a bad escape.

    An escape stands before four hexadecimal digits, the first of which may be a plus, as Java reads
    numbers."""
    # The escape may be any character, also one that regular expressions read.
    e = re.escape(escape)

    def plain(escape_match: re.Match[str]) -> str:
        code = escape_match.group(1)
        # A bad escape becomes a lone surrogate, which the decoding below refuses.
        return escape if code == escape else chr(int(code or "D800", 16))

    try:
        # Through UTF-16, which joins two escapes of a surrogate pair to one character.
        return (
            re.sub(rf"{e}({e}|[0-9a-fA-F+][0-9a-fA-F]{{3}})?", plain, text)
            .encode("utf-16", "surrogatepass")
            .decode("utf-16")
        )
    except UnicodeDecodeError:
        return None


def _unescaped(text: str) -> str:
    """Returns the text of E'…', by the escapes of C."""

    def plain(escape_match: re.Match[str]) -> str:
        short, long, hexadecimal, octal, char = escape_match.groups()
        if char is not None:
            return _ESCAPED.get(char, char)
        if octal is not None:
            return chr(int(octal, 8))
        # Neither group: the doubled quote, U+0027.
        code = int(short or long or hexadecimal or "27", 16)
        return (
            chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else escape_match.group()
        )

    return _ESCAPE.sub(plain, text)


def _check_characters(text: str, places: Places) -> None:
    """Raises ParseError for half of a surrogate pair, as JSON may have it: no text can be kept or
    sent with it."""
    if text.isascii():  # costs nothing
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise ParseError(
            f"U+{code:04X} is half of a character",
            hint="send texts as UTF-8",
            position=places.at(error.start),
        ) from None


def _bad(text: str, offset: int, places: Places) -> ParseError:
    # The token begins behind the white space that the pattern would have skipped.
    offset += len(text) - offset - len(text[offset:].lstrip())
    for start, what in (("'", "string"), ("`", "name"), ("/*", "comment")):
        if text.startswith(start, offset):
            hint = f"close it with {'*/' if start == '/*' else start}"
            return ParseError(
                f"the {what} that begins here is not closed", hint=hint, position=places.at(offset)
            )
    char = text[offset]
    position = places.at(offset)
    if char == '"':
        hint = "put names in backticks and strings in single quotes"
        return ParseError("double quotes mean nothing in Flink SQL", hint=hint, position=position)
    shown = f"'{char}'" if char.isprintable() else f"U+{ord(char):04X}"
    return ParseError(f"unexpected character {shown}", hint=_INSTEAD.get(char), position=position)
