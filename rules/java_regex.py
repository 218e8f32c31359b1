"""Java's regular expressions, translated for the `regex` package, and a weaker pattern for Hyperscan.

The two dialects agree on most of the syntax and differ on what it means: `$` and `.` know five line terminators in
Java, `\\w \\d \\s` and caseless letters are ASCII, `\\b` is not, `[a&&[b]]` intersects. So the pattern is parsed and
every piece is written twice:

exact     for `regex`: matches where Java's pattern does
superset  for Hyperscan, over UTF-8 bytes: matches at least wherever the exact one does. What it cannot say is left
          out (look-around, `\\b`) or widened (back-references, long repeats, any non-ASCII character by any other)

What is in neither of the two, or seldom and hard (case folding beyond ASCII, scripts by name), is an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import regex

from parser.errors import SqlError, UnsupportedError
from rules.java_classes import CLASS_ESCAPES, ClassParser, Members, members_of, with_case
from rules.java_text import BadPattern, NotTranslated, Source, byte_text, quoted

TERMINATOR = r"[\n\r\x85\u2028\u2029]"
_WORD = r"[\p{L}\p{Nd}_]"
_END = r"(?:(?=\Z)|(?=\r\n\Z)|(?=(?<!\r)\n\Z)|(?=[\r\x85\u2028\u2029]\Z))"
_UNIX_END = r"(?=\n?\Z)"
_LINE_START = r"(?:(?!\Z)(?:\A|(?<=[\n\x85\u2028\u2029])|(?<=\r)(?!\n)))"
_UNIX_LINE_START = r"(?:(?!\Z)(?:\A|(?<=\n)))"
_LINE_END = r"(?:(?=\Z)|(?=[\r\x85\u2028\u2029])|(?=(?<!\r)\n))"
_BOUNDARY = rf"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))"
_NO_BOUNDARY = rf"(?:(?<={_WORD})(?={_WORD})|(?<!{_WORD})(?!{_WORD}))"
_SUPERSET_END = r"(?:\r\n|[\r\n]|\xc2\x85|\xe2\x80[\xa8\xa9])?$"
# Counts above these cost Hyperscan much and find little; open runs of one class are cheap.
_LEAST, _MOST, _LEAST_IN_RUN = 16, 32, 1024


@dataclass(frozen=True)
class JavaRegex:
    """`exact` is to be used with `search`; `superset` is a Hyperscan expression (DOTALL) over UTF-8. `least`: shorter
    texts do not match. `tame`: its time is at most quadratic in the length of the text, whatever that is."""

    text: str
    least: int = field(compare=False)
    tame: bool = field(compare=False)
    exact: regex.Pattern[str] = field(compare=False)
    superset: bytes = field(compare=False)


@dataclass(frozen=True)
class _Piece:
    """`least`: it takes so many characters at least. `members`: what a single character class holds, for tighter
    repeats in the superset."""

    exact: str
    superset: str
    least: int = 0
    members: Members | None = None


@lru_cache(maxsize=4096)
def translate(pattern: str) -> JavaRegex:
    """SqlError where Java would refuse the pattern, UnsupportedError where the engine does not know the construct."""
    try:
        parser = _Parser(Source(pattern))
        piece = parser.alternation()
        if not parser.source.at_end:
            raise BadPattern("unmatched closing ')'")
        if any(number <= parser.groups for number in parser.ahead):
            raise NotTranslated("a back-reference to a group behind it")
        exact = regex.compile(piece.exact, regex.VERSION1 | regex.UNICODE)
    except NotTranslated as error:
        raise UnsupportedError(
            f"regular expression '{pattern}' uses {error}",
            hint="write it another way; the rest of Java's dialect works",
        ) from None
    except (BadPattern, regex.error, RecursionError) as error:
        detail = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        raise SqlError(f"invalid regular expression '{pattern}'", detail=detail) from None
    return JavaRegex(pattern, piece.least, parser.choices <= 1, exact, piece.superset.encode("latin-1"))


class _Parser:
    """Recursive descent over one pattern: each method reads a construct and gives its piece."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.groups = 0
        self.names: dict[str, int] = {}
        self.ahead: set[int] = set()  # back-references to groups that were not there yet
        self.loose = 0  # repeats that are unbounded or possessive
        self.choices = 0  # places where the search may have to try again

    def alternation(self) -> _Piece:
        """Up to a closing parenthesis or the end. Flags set inside end there."""
        flags = self.source.flags
        branches = [self._sequence()]
        while self.source.take("|"):
            branches.append(self._sequence())
        self.source.flags = flags
        if len(branches) == 1:
            return branches[0]
        self.choices += 1
        exact = "|".join(b.exact for b in branches)
        superset = "|".join(b.superset for b in branches)
        return _Piece(f"(?:{exact})", f"(?:{superset})", min(b.least for b in branches))

    def _sequence(self) -> _Piece:
        pieces: list[_Piece] = []
        while (char := self.source.peek()) not in ("", "|", ")"):
            if char in "*+?":
                raise BadPattern(f"dangling meta character '{char}'")
            pieces.append(self._repeated(self._atom()))
        if len(pieces) == 1:
            return pieces[0]
        return _joined(pieces)

    def _atom(self) -> _Piece:
        char = self.source.next()
        match char:
            case "(":
                return self._group()
            case "[":
                return self._class(ClassParser(self.source).parse())
            case ".":
                return self._dot()
            case "^":
                return self._caret()
            case "$":
                return self._dollar()
            case "\\":
                return self._escape()
            case "{":
                raise BadPattern("illegal repetition: '{' needs a count, or a backslash before it")
        return self._literal(char)

    def _literal(self, char: str) -> _Piece:
        if "i" in self.source.flags and char.isascii() and char.isalpha():
            return self._class(with_case(char))
        return _Piece(quoted(char), byte_text(char), 1, Members(char) if char.isascii() else None)

    def _class(self, text: str) -> _Piece:
        members = members_of(text)
        return _Piece(text, members.once, 1, members)

    def _dot(self) -> _Piece:
        if "s" in self.source.flags:
            return self._class(r"[\s\S]")
        return self._class(r"[^\n]" if "d" in self.source.flags else f"[^{TERMINATOR[1:]}")

    def _caret(self) -> _Piece:
        if "m" not in self.source.flags:
            return _Piece(r"\A", "^")
        return _Piece(_UNIX_LINE_START if "d" in self.source.flags else _LINE_START, "")

    def _dollar(self) -> _Piece:
        unix, lines = "d" in self.source.flags, "m" in self.source.flags
        if lines:
            return _Piece(r"(?=\n|\Z)" if unix else _LINE_END, "")
        return _Piece(_UNIX_END if unix else _END, _SUPERSET_END)

    def _escape(self) -> _Piece:
        source = self.source
        char = source.next_as_is()
        if char in CLASS_ESCAPES:
            return self._class(CLASS_ESCAPES[char])
        if char in _ANCHORS:
            return _ANCHORS[char](self)
        if char in "pP":
            return self._class(ClassParser(source).property(char == "P"))
        if char == "R":
            return _Piece(r"(?:\r\n|[\n\x0b\x0c\r\x85\u2028\u2029])", r"(?:[\x0a-\x0d\x80-\xff]{1,3})", 1)
        if char == "Q":
            return self._quotation()
        if char == "k":
            return self._reference(self._name_in_brackets())
        if char.isdigit() and char != "0":
            return self._reference(self._number(char))
        return self._literal(source.character_escape(char))

    def _quotation(self) -> _Piece:
        text = self.source.until_end_of_quotation()
        pieces = [self._literal(c) for c in text]
        if pieces and self.source.peek() in ("*", "+", "?", "{"):
            pieces[-1] = self._repeated(pieces[-1])
        return _joined(pieces)

    def _number(self, digit: str) -> int:
        """More digits belong to a reference as long as there are so many groups."""
        number = int(digit)
        while self.source.peek().isdigit() and number * 10 + int(self.source.peek()) <= self.groups:
            number = number * 10 + int(self.source.next())
        return number

    def _name_in_brackets(self) -> int:
        if not self.source.take("<"):
            raise BadPattern("\\k is not followed by '<' and a name")
        name = self.source.name(">")
        if name not in self.names:
            raise BadPattern(f"there is no group named '{name}'")
        return self.names[name]

    def _reference(self, number: int) -> _Piece:
        if "i" in self.source.flags:
            raise NotTranslated("a back-reference without regard to case")
        if number > self.groups:  # Java accepts it; without such a group it matches nowhere
            self.ahead.add(number)
            return _Piece("(?!)", "")
        return _Piece(f"(?:\\g<{number}>)", r"[\x00-\xff]*")

    def _group(self) -> _Piece:
        source = self.source
        if not source.take("?"):
            self.groups += 1
            return self._enclosed("(", keep=True)
        for opening in ("<=", "<!", "=", "!"):
            if source.take(opening):
                before = self.loose
                piece = self._enclosed(f"(?{opening}", keep=False)
                if opening[0] == "<" and self.loose > before:
                    raise NotTranslated("a look-behind with an unbounded or possessive repeat")
                return piece
        for opening in (":", ">"):
            if source.take(opening):
                return self._enclosed(f"(?{opening}", keep=True)
        if source.take("<"):
            name = source.name(">")
            if name in self.names:
                raise BadPattern(f"named group '{name}' is already defined")
            self.groups += 1
            self.names[name] = self.groups
            return self._enclosed("(", keep=True)
        return self._flags()

    def _enclosed(self, opening: str, *, keep: bool) -> _Piece:
        inner = self.alternation()
        if not self.source.take(")"):
            raise BadPattern("unclosed group")
        return _Piece(f"{opening}{inner.exact})", f"(?:{inner.superset})" if keep else "", inner.least if keep else 0)

    def _flags(self) -> _Piece:
        before = self.source.flags
        self.source.flags = self.source.read_flags()
        if self.source.take(")"):
            if self.source.peek() == "{":
                raise NotTranslated("a repeat of inline flags")
            return _Piece("", "")  # in force up to the end of the enclosing group
        self.source.next()
        piece = self._enclosed("(?:", keep=True)
        self.source.flags = before
        return piece

    def _repeated(self, piece: _Piece) -> _Piece:
        bounds = self.source.quantifier()
        if bounds is None:
            return piece
        least, most = bounds
        suffix = next((s for s in ("?", "+") if self.source.take(s)), "")
        if self.source.peek() == "{":
            raise NotTranslated("a repeat of a repeat without parentheses")
        self.loose += most is None or suffix == "+"
        if piece.members is None and most != 1:
            self.choices += 2
        elif least != most:
            self.choices += 1
        count = f"{{{least},{'' if most is None else most}}}"
        exact = f"(?:{piece.exact}){count}{suffix}"
        return _Piece(exact, _superset_repeat(piece, least, most), least * piece.least)


def _joined(pieces: list[_Piece]) -> _Piece:
    exact, superset = "".join(p.exact for p in pieces), "".join(p.superset for p in pieces)
    return _Piece(exact, superset, sum(p.least for p in pieces))


def _superset_repeat(piece: _Piece, least: int, most: int | None) -> str:
    if piece.superset in ("", "^", _SUPERSET_END):
        return "" if least == 0 else piece.superset
    most = None if most is None or most > _MOST else most
    least = min(least, _LEAST if piece.members is None or most is not None else _LEAST_IN_RUN)
    if piece.members is None:
        return f"(?:{piece.superset}){_count(least, most)}"
    if most is not None and not piece.members.ascii_only:
        most *= 4  # the bytes of a character
    return piece.members.byte_class + _count(least, most)


def _count(least: int, most: int | None) -> str:
    if most is None:
        return {0: "*", 1: "+"}.get(least, f"{{{least},}}")
    return f"{{{least},{most}}}"


_ANCHORS: dict[str, Callable[[_Parser], _Piece]] = {
    "A": lambda p: _Piece(r"\A", "^"),
    "G": lambda p: _Piece(r"\A", "^"),  # the end of the match before: there is none before the first
    "z": lambda p: _Piece(r"\Z", r"\z"),
    "Z": lambda p: _Piece(_UNIX_END if "d" in p.source.flags else _END, _SUPERSET_END),
    "b": lambda p: _boundary(p, _BOUNDARY),
    "B": lambda p: _boundary(p, _NO_BOUNDARY),
}


def _boundary(parser: _Parser, exact: str) -> _Piece:
    if parser.source.peek() == "{":
        raise NotTranslated("a boundary \\b{…}")
    return _Piece(exact, "")
