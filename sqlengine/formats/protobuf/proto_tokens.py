"""The tokens of .proto files."""

from __future__ import annotations

import re
from typing import Final

_TOKEN: Final = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
      | (?P<token> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'
          | [+-]?(?:0[xX][0-9a-fA-F]+ | [0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)? | inf\b | nan\b)
          | \.?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)* | [{}()\[\]<>=;,:.+-] )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)
_SIGNS: Final = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class BadProto(Exception):
    """A text that is no .proto file, with the line and the reason in words."""


class Tokens:
    """Reads tokens one after the other.

    `at` is the place of the next one in `tokens`, each of which stands beside where it begins in
    the text. Methods that read raise BadProto for another token than theirs."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.tokens: list[tuple[str, int]] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self.bad(at, f"unexpected {text[at]!r}")
            if match["token"] is not None:
                self.tokens.append((match["token"], at))
            at = match.end()
        self.at = 0

    def bad(self, at: int, reason: str) -> BadProto:
        """Makes the error of the character at `at`."""
        return BadProto(f"line {self._text.count(chr(10), 0, at) + 1}: {reason}")

    def peek(self) -> str:
        """Returns the next token; '' behind the last one."""
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        """Reads a token. BadProto behind the last one."""
        if self.at >= len(self.tokens):
            raise self.bad(len(self._text), "it ends too early")
        self.at += 1
        return self.tokens[self.at - 1][0]

    def unexpected(self, token: str) -> BadProto:
        """Makes the error of the token that was read last."""
        return self.bad(self.tokens[self.at - 1][1], f"unexpected '{token}'")

    def expect(self, wanted: str) -> None:
        """Reads this token. BadProto where it is another one."""
        token = self.next()
        if token != wanted:
            raise self.unexpected(token)

    def accept(self, wanted: str) -> bool:
        """Reads the token if it is this one, and returns if it is."""
        if self.peek() != wanted:
            return False
        self.at += 1
        return True

    def name(self) -> str:
        """Reads a name, which may have dots."""
        token = self.next()
        if not re.fullmatch(r"\.?[A-Za-z_][A-Za-z0-9_.]*", token):
            raise self.unexpected(token)
        return token

    def number(self) -> int:
        """Reads a whole number, as C writes them."""
        token = self.next()
        try:
            return int(token, 0) if not re.fullmatch(r"0[0-7]+", token) else int(token, 8)
        except ValueError:
            raise self.unexpected(token) from None

    def string(self) -> str:
        """Reads a string, and those that follow it at once."""
        parts: list[str] = []
        while not parts or self.peek()[:1] in ('"', "'"):
            token = self.next()
            if token[0] not in "\"'":
                raise self.unexpected(token)
            parts.append(_ESCAPE.sub(_unescaped, token[1:-1]))
        return "".join(parts)


def _unescaped(match: re.Match[str]) -> str:
    if match[1] is not None:
        return chr(int(match[1], 16))
    if match[2] is not None:
        return chr(int(match[2], 8))
    return _SIGNS.get(match[3], match[3])
