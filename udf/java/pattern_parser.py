"""A parser of Java's patterns, which translates every piece into three forms.

- `exact`, for the package `regex`: matches where Java's pattern does.
- `re2`, for RE2, where the two mean the same; what RE2 lacks is an obstacle to the whole pattern.
- `superset`, for Hyperscan, over UTF-8 bytes: matches at least wherever the exact one does. What it
  cannot express is left out (look-around, `\\b`) or widened (back-references, long repeats, any
  non-ASCII character by any other).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from udf.java.case import with_case
from udf.java.character_classes import (
    CLASS_ESCAPES,
    ClassParser,
    Members,
    members_of,
    re2_class,
    span,
)
from udf.java.pattern_text import BadPattern, NotTranslated, Source, byte_text, quoted, quoted_re2

TERMINATOR = r"[\n\r\x85\u2028\u2029]"
_WORD = r"[\p{L}\p{Nd}_]"
# Four cases of Java's `$` without MULTILINE: the very end, before \r\n there, before \n that no \r
# precedes (between the two it does not match), and before another terminator.
_END = r"(?:(?=\Z)|(?=\r\n\Z)|(?=(?<!\r)\n\Z)|(?=[\r\x85\u2028\u2029]\Z))"
_UNIX_END = r"(?=\n?\Z)"
_LINE_START = r"(?:(?!\Z)(?:\A|(?<=[\n\x85\u2028\u2029])|(?<=\r)(?!\n)))"
_UNIX_LINE_START = r"(?:(?!\Z)(?:\A|(?<=\n)))"
_LINE_END = r"(?:(?=\Z)|(?=[\r\x85\u2028\u2029])|(?=(?<!\r)\n))"
_BOUNDARY = rf"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))"
_NO_BOUNDARY = rf"(?:(?<={_WORD})(?={_WORD})|(?<!{_WORD})(?!{_WORD}))"
_LINE_BREAK = r"(?:\r\n|[\n\x0b\x0c\r\x85\u2028\u2029])"
_RE2_LINE_BREAK = r"(?:\r\n|[\n\x0b\x0c\r\x85\x{2028}\x{2029}])"
# Over bytes: U+0085 is c2 85, U+2028 and U+2029 are e2 80 a8 and e2 80 a9.
_SUPERSET_END = r"(?:\r\n|[\r\n]|\xc2\x85|\xe2\x80[\xa8\xa9])?$"
# Counts above these cost Hyperscan much and find little; open runs of one class are cheap.
_LEAST, _MOST, _LEAST_IN_RUN = 16, 32, 1024
_MOST_RE2 = 1000
# Both `regex` and this parser are recursive.
MOST_DEEP = 50


@dataclass(frozen=True)
class Piece:
    """`least`: it takes so many characters at least. `members`: what a single character class
    holds, for tighter repeats in the superset. `ends`: it holds a `$`."""

    exact: str
    superset: str
    re2: str
    least: int = 0
    members: Members | None = None
    ends: bool = False


class Parser:
    """Recursive descent over one pattern: each method reads a construct and gives its piece."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.groups = 0
        self.names: dict[str, int] = {}
        # Back-references to groups that were not there yet.
        self.ahead: set[int] = set()
        # Repeats that are unbounded or possessive.
        self.loose = 0
        # Places where the search may have to backtrack.
        self.choices = 0
        # Groups that may take part in a match more or less often than once.
        self.uneven: set[int] = set()
        self.depth = 0
        # False once there is an obstacle to RE2.
        self.re2 = True
        # RE2 finds the same places, and not only whether there are any.
        self.same_spans = True
        # For RE2 the text must be ASCII.
        self.ascii_only = False
        # What `$` takes for a line break at the end of the text: "java", "unix".
        self.line_ends: set[str] = set()
        # Something depends on the very end of the text, or stands behind a `$`.
        self.whole_end = False
        # The superset may match where the pattern does not, even in ASCII without line breaks.
        self.widened = False

    def alternation(self) -> Piece:
        """Up to a closing parenthesis or the end. Flags set inside end there."""
        # `first` is the first group that may be opened inside: all up to `self.groups` then belong
        # here.
        flags, first = self.source.flags, self.groups + 1
        branches = [self._sequence()]
        while self.source.take("|"):
            branches.append(self._sequence())
        self.source.flags = flags
        if len(branches) == 1:
            return branches[0]
        # A group in one branch takes no part when another branch matches.
        self.choices += 1
        self.uneven.update(range(first, self.groups + 1))
        # The three dialects agree on how alternatives are written; only the pieces differ.
        exact, superset, re2 = (
            f"(?:{'|'.join(parts)})"
            for parts in zip(*((b.exact, b.superset, b.re2) for b in branches), strict=True)
        )
        return Piece(
            exact, superset, re2, min(b.least for b in branches), ends=any(b.ends for b in branches)
        )

    def _sequence(self) -> Piece:
        pieces: list[Piece] = []
        while (char := self.source.peek()) not in ("", "|", ")"):
            if char in "*+?":
                raise BadPattern(f"dangling meta character '{char}'")
            # Counted before the atom is read, for a repeat behind it holds all groups from here on.
            first = self.groups + 1
            pieces.append(self._repeated(self._atom(), first))
            # What stands behind a `$` sees whether the line break before the end was consumed.
            self.whole_end = self.whole_end or (len(pieces) > 1 and pieces[-2].ends)
        if len(pieces) == 1:
            return pieces[0]
        return _joined(pieces)

    def _atom(self) -> Piece:
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

    def _literal(self, char: str) -> Piece:
        if "i" in self.source.flags:
            # The flag itself is not passed on: `regex` and RE2 fold other characters than Java.
            spans = with_case(char, char, everywhere="u" in self.source.flags)
            # A single span has no other case, so the plain literal below is cheaper.
            if len(spans) > 1:
                return self._class(f"[{''.join(span(*s) for s in spans)}]")
        return Piece(
            quoted(char),
            byte_text(char),
            quoted_re2(char),
            1,
            Members(char) if char.isascii() else None,
        )

    def _class(self, text: str) -> Piece:
        members = members_of(text)
        return Piece(text, members.once, re2_class(text), 1, members)

    def _dot(self) -> Piece:
        if "s" in self.source.flags:
            return self._class(r"[\s\S]")
        # A dot is a negated class of the line terminators, with UNIX_LINES of \n alone.
        return self._class(r"[^\n]" if "d" in self.source.flags else f"[^{TERMINATOR[1:]}")

    def _caret(self) -> Piece:
        if "m" not in self.source.flags:
            return Piece(r"\A", "^", r"\A")
        # RE2's multi-line mode knows \n alone; the superset leaves the anchor out, which only
        # widens it.
        self.re2, self.widened = False, True
        return Piece(_UNIX_LINE_START if "d" in self.source.flags else _LINE_START, "", "")

    def _dollar(self) -> Piece:
        if "m" not in self.source.flags:
            return self.end()
        self.re2, self.widened = False, True
        return Piece(r"(?=\n|\Z)" if "d" in self.source.flags else _LINE_END, "", "")

    def end(self) -> Piece:
        """The end of the text, or before a line break there."""
        unix = "d" in self.source.flags
        self.line_ends.add("unix" if unix else "java")
        # The superset takes the line break itself, where the exact form only looks ahead.
        return Piece(_UNIX_END if unix else _END, _SUPERSET_END, r"\z", ends=True)

    def _escape(self) -> Piece:
        source = self.source
        char = source.next_as_is()
        if char in CLASS_ESCAPES:
            return self._class(CLASS_ESCAPES[char])
        if char in _ANCHORS:
            return _ANCHORS[char](self)
        if char in "pP":
            return self._class(ClassParser(source).property(char == "P"))
        if char == "R":
            # A line break is at most three bytes in UTF-8, so any one to three such bytes cover it.
            self.widened = True
            return Piece(_LINE_BREAK, r"(?:[\x0a-\x0d\x80-\xff]{1,3})", _RE2_LINE_BREAK, 1)
        if char == "Q":
            return self._quotation()
        if char == "k":
            return self._reference(self._name_in_brackets())
        if char.isdigit() and char != "0":
            return self._reference(self._number(char))
        return self._literal(source.character_escape(char))

    def _quotation(self) -> Piece:
        text = self.source.until_end_of_quotation()
        pieces = [self._literal(c) for c in text]
        # In \Qab\E+ the repeat belongs to the last character alone.
        if pieces and self.source.peek() in ("*", "+", "?", "{"):
            pieces[-1] = self._repeated(pieces[-1], self.groups + 1)
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

    def _reference(self, number: int) -> Piece:
        if "i" in self.source.flags:
            raise NotTranslated("a back-reference without regard to case")
        self.re2, self.widened = False, True
        if number > self.groups:  # Java accepts it; without such a group it matches nowhere
            self.ahead.add(number)
            # `(?!)` never matches; an empty superset matches everywhere, which is wider and so
            # allowed.
            return Piece("(?!)", "", "")
        # What the group took is not known to Hyperscan: any bytes may stand there.
        return Piece(f"(?:\\g<{number}>)", r"[\x00-\xff]*", "")

    def _group(self) -> Piece:
        source = self.source
        if not source.take("?"):
            return self._capture()
        # Two-character openings come first, for (?<= and (?<! would else be read as a named group.
        for opening in ("<=", "<!", "=", "!"):
            if source.take(opening):
                before, first = self.loose, self.groups + 1
                # Hyperscan has no look-around: `keep=False` leaves it out, which only widens the
                # superset.
                piece = self._enclosed(f"(?{opening}", keep=False)
                self.re2, self.widened = False, True
                self.uneven.update(range(first, self.groups + 1))
                # Java wants a bounded look-behind; with another the two engines differ.
                if opening[0] == "<" and self.loose > before:
                    raise NotTranslated("a look-behind with an unbounded or possessive repeat")
                return piece
        if source.take(":"):
            return self._enclosed("(?:", keep=True)
        # Atomic groups match less than plain ones, so a plain group is a superset of them.
        if source.take(">"):
            self.re2, self.widened = False, True
            return self._enclosed("(?>", keep=True)
        if source.take("<"):
            name = source.name(">")
            if name in self.names:
                raise BadPattern(f"named group '{name}' is already defined")
            self.names[name] = self.groups + 1
            return self._capture()
        return self._flags()

    def _capture(self) -> Piece:
        """Group n is called gn for RE2, since Arrow wants names."""
        self.groups += 1
        return self._enclosed("(", f"(?P<g{self.groups}>", keep=True)

    def _enclosed(self, opening: str, re2: str = "(?:", *, keep: bool) -> Piece:
        self.depth += 1
        # Checked before the descent, so that a hostile pattern ends in an error and not in a stack
        # overflow.
        if self.depth > MOST_DEEP:
            raise NotTranslated(f"groups that are nested more than {MOST_DEEP} deep")
        inner = self.alternation()
        self.depth -= 1
        if not self.source.take(")"):
            raise BadPattern("unclosed group")
        superset, least = (f"(?:{inner.superset})", inner.least) if keep else ("", 0)
        return Piece(
            f"{opening}{inner.exact})", superset, f"{re2}{inner.re2})", least, ends=inner.ends
        )

    def _flags(self) -> Piece:
        before = self.source.flags
        self.source.flags = self.source.read_flags()
        if self.source.take(")"):
            if self.source.peek() == "{":
                raise NotTranslated("a repeat of inline flags")
            return Piece("", "", "")  # in force up to the end of the enclosing group
        self.source.next()
        piece = self._enclosed("(?:", keep=True)
        self.source.flags = before
        return piece

    def _repeated(self, piece: Piece, first: int) -> Piece:
        """`first`: the number of the first group that the piece may hold."""
        bounds = self.source.quantifier()
        if bounds is None:
            return piece
        least, most = bounds
        suffix = next((s for s in ("?", "+") if self.source.take(s)), "")
        if self.source.peek() == "{":
            raise NotTranslated("a repeat of a repeat without parentheses")
        self._note_repeat(piece, first, least, most, possessive=suffix == "+")
        count = f"{{{least},{'' if most is None else most}}}"
        exact, re2 = (f"(?:{text}){count}{suffix}" for text in (piece.exact, piece.re2))
        superset, widened = _superset_repeat(piece, least, most)
        self.widened = self.widened or widened or suffix == "+"
        return Piece(exact, superset, re2, least * piece.least, ends=piece.ends)

    def _note_repeat(
        self, piece: Piece, first: int, least: int, most: int | None, *, possessive: bool
    ) -> None:
        """Records what a repeat means for backtracking, for RE2 and for the groups inside it."""
        self.loose += most is None or possessive
        # A repeat of more than one character may split a text in many ways, and so weighs more.
        if piece.members is None and most != 1:
            self.choices += 2
        elif least != most:
            self.choices += 1
        # A group inside may take part several times, or (least 0) not at all.
        self.uneven.update(range(first, self.groups + 1))
        self.whole_end = self.whole_end or piece.ends
        # RE2 has no possessive quantifiers, and bounds the counts of repeats.
        self.re2 = self.re2 and not possessive and max(least, most or 0) <= _MOST_RE2
        # What may match nothing is repeated differently: RE2 finds other spans there.
        self.same_spans = self.same_spans and piece.least > 0


def _joined(pieces: list[Piece]) -> Piece:
    if not pieces:
        return Piece("", "", "")
    exact, superset, re2 = (
        "".join(p) for p in zip(*((p.exact, p.superset, p.re2) for p in pieces), strict=True)
    )
    return Piece(
        exact, superset, re2, sum(p.least for p in pieces), ends=any(p.ends for p in pieces)
    )


def _superset_repeat(piece: Piece, least: int, most: int | None) -> tuple[str, bool]:
    """The repeat for Hyperscan, and whether it matches more than the exact one in ASCII."""
    # Anchors and what is left out cannot be repeated; once is enough for "at least so often".
    if piece.superset in ("", "^", _SUPERSET_END):
        return ("" if least == 0 else piece.superset), False
    members = piece.members
    # The bytes of a character stand in `once`, so that a character of ASCII is one.
    if members is not None and not members.ascii_only and (least, most) == (0, 1):
        return f"(?:{piece.superset})?", False
    # A bound above the limit becomes open and a large least count a smaller one: both only widen.
    upper = None if most is None or most > _MOST else most
    lower = min(least, _LEAST if members is None or upper is not None else _LEAST_IN_RUN)
    widened = upper != most or lower != least
    if members is None:
        return f"(?:{piece.superset}){_count(lower, upper)}", widened
    if upper is not None and not members.ascii_only:
        upper, widened = 4 * upper, True  # the bytes of a character
    return members.byte_class + _count(lower, upper), widened


def _count(least: int, most: int | None) -> str:
    if most is None:
        return {0: "*", 1: "+"}.get(least, f"{{{least},}}")
    return f"{{{least},{most}}}"


def _start(parser: Parser) -> Piece:
    return Piece(r"\A", "^", r"\A")


def _very_end(parser: Parser) -> Piece:
    parser.whole_end = True
    return Piece(r"\Z", r"\z", r"\z")


def _boundary(parser: Parser, exact: str, re2: str) -> Piece:
    if parser.source.peek() == "{":
        raise NotTranslated("a boundary \\b{…}")
    parser.ascii_only = parser.widened = True
    return Piece(exact, "", re2)


_ANCHORS: dict[str, Callable[[Parser], Piece]] = {
    "A": _start,
    "G": _start,  # the end of the match before: there is none before the first
    "z": _very_end,
    "Z": Parser.end,
    "b": lambda p: _boundary(p, _BOUNDARY, r"\b"),
    "B": lambda p: _boundary(p, _NO_BOUNDARY, r"\B"),
}
