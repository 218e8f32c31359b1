"""Characters and character classes of Java's regular expressions, as `regex` and RE2 write them."""

from __future__ import annotations

from dataclasses import dataclass, field

import regex

_META = frozenset("\\^$.|?*+()[]{}")
CLASSES = {
    "d": "0-9",
    "w": "a-zA-Z0-9_",
    "s": r"\t\n\x0B\f\r ",
    "h": r" \t\xA0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000",
    "v": r"\n\x0B\f\r\x85\u2028\u2029",
}
_POSIX = {
    "Lower": "a-z", "Upper": "A-Z", "ASCII": r"\x00-\x7F", "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~", "Graph": "!-~", "Print": " -~", "Blank": r" \t", "Cntrl": r"\x00-\x1F\x7F",
    "XDigit": "0-9a-fA-F", "Space": r"\t\n\x0B\f\r ",
}  # fmt: skip
_SIMPLE_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}


class InvalidRegex(Exception):
    """Java refuses the pattern."""


class UnsupportedRegex(Exception):
    """Java knows what the pattern says, this version does not."""


@dataclass
class Flags:
    ignore_case: bool = False
    dot_all: bool = False
    multi_line: bool = False
    unicode_case: bool = False
    comments: bool = False


@dataclass
class ClassReader:
    """A pattern and how far it has been read, with what reading it brought out. Pieces of the result come in two texts:
    for `regex`, and for RE2."""

    text: str
    at: int = 0
    flags: Flags = field(default_factory=Flags)
    re2: bool = True
    ascii_only: bool = False
    at_end: bool = False
    groups: int = 0
    names: dict[str, int] = field(default_factory=dict)
    loose: set[int] = field(default_factory=set)

    def _peek(self, size: int = 1) -> str:
        return self.text[self.at : self.at + size]

    def _next(self) -> str:
        if self.at >= len(self.text):
            raise InvalidRegex("unexpected end of pattern")
        self.at += 1
        return self.text[self.at - 1]

    def _take(self, expected: str) -> bool:
        if not self.text.startswith(expected, self.at):
            return False
        self.at += len(expected)
        return True

    def _until(self, end: str) -> str:
        stop = self.text.find(end, self.at)
        if stop < 0:
            raise InvalidRegex(f"'{end}' is missing")
        found = self.text[self.at : stop]
        self.at = stop + len(end)
        return found

    def _literal(self, c: str) -> tuple[str, str]:
        if self.flags.ignore_case and self.flags.unicode_case and c.isalpha():
            return f"(?i:{c})", f"(?i:{c})"
        if self.flags.ignore_case and c.isascii() and c.isalpha():
            self.ascii_only = True
            return f"[{c.lower()}{c.upper()}]", f"(?i:{c})"
        return regex.escape(c, special_only=True) if c in _META or c.isspace() else _class_char(c), quoted_character(c)

    def _character(self, c: str) -> str:
        """The character of an escape, whose first letter is `c`."""
        if c in _SIMPLE_ESCAPES:
            return _SIMPLE_ESCAPES[c]
        if c == "x":
            return self._code(self._until("}") if self._take("{") else self._next() + self._next())
        if c == "u":
            return self._code("".join(self._next() for _ in range(4)))
        if c == "0":
            found = regex.compile("[0-3]?[0-7]{1,2}").match(self.text, self.at)
            if found is None:
                raise InvalidRegex("illegal octal escape")
            self.at = found.end()
            return chr(int(found[0], 8))
        if c == "c":
            return chr(ord(self._next()) ^ 64)
        if c.isascii() and c.isalnum():
            raise InvalidRegex(f"illegal escape '\\{c}'")
        return c

    def _code(self, digits: str) -> str:
        try:
            found = chr(int(digits, 16))
        except (ValueError, OverflowError):
            raise InvalidRegex(f"illegal code '{digits}'") from None
        if "\ud800" <= found <= "\udfff":
            raise UnsupportedRegex(f"half a character (\\u{digits}) is not supported in a regular expression")
        return found

    def _property(self, negated: bool) -> str:
        name = self._until("}") if self._take("{") else self._next()
        if name in _POSIX:
            inner = _POSIX[name]
            if not negated:
                return inner
            self.re2 = False
            return f"[^{inner}]"
        name = {"IsAlphabetic": "L", "javaLowerCase": "Ll", "javaUpperCase": "Lu"}.get(name, name)
        general = name.removeprefix("Is")
        if not regex.fullmatch(r"L[ultmo]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cfon]?", general):
            self.re2 = False  # scripts and blocks
            general = name.removeprefix("Is").removeprefix("script=")
        return f"\\{'P' if negated else 'p'}{{{general}}}"

    def _class(self) -> tuple[str, str]:
        """What stands between the brackets of a class, the opening one of which has been read."""
        negated = "^" if self._take("^") else ""
        out: list[str] = []
        first = True
        while first or self._peek() != "]":
            first = False
            if self.flags.comments and self._peek().isspace():
                self.at += 1
                continue
            if self._take("&&"):
                self.re2 = False
                out.append("&&")
                continue
            out.append(self._class_item())
            if self.at >= len(self.text):
                raise InvalidRegex("unclosed character class")
        self.at += 1
        inner = negated + "".join(out)
        return inner, re2_class(inner)

    def _class_item(self) -> str:
        c = self._next()
        if c == "[":
            self.re2 = False
            return f"[{self._class()[0]}]"
        if c == "\\":
            kind = self._peek()
            if kind in ("p", "P"):
                self.at += 1
                return self._property(kind == "P")
            if kind and kind.lower() in CLASSES and kind.isalpha():
                self.at += 1
                return self._class_shorthand(kind)
            if kind == "Q":
                self.at += 1
                return "".join(_class_char(q) for q in self._until("\\E"))
            c = self._character(self._next())
        if self._peek() == "-" and self._peek(2)[1:] not in ("]", "[", ""):
            self.at += 1
            end = self._next()
            if end == "\\":
                end = self._character(self._next())
            return self._range(c, end)
        return self._class_literal(c)

    def _class_shorthand(self, kind: str) -> str:
        if not kind.isupper():
            return CLASSES[kind]
        self.re2 = False
        return f"[^{CLASSES[kind.lower()]}]"

    def _range(self, start: str, end: str) -> str:
        if ord(end) < ord(start):
            raise InvalidRegex("illegal character range")
        text = f"{_class_char(start)}-{_class_char(end)}"
        if self.flags.ignore_case:
            for low, high, shift in (("a", "z", -32), ("A", "Z", 32)):
                first, last = max(start, low), min(end, high)
                if first <= last:
                    text += f"{chr(ord(first) + shift)}-{chr(ord(last) + shift)}"
        return text

    def _class_literal(self, c: str) -> str:
        if self.flags.ignore_case and c.isascii() and c.isalpha():
            return c.lower() + c.upper()
        return _class_char(c)


def quoted_character(c: str) -> str:
    if c.isalnum() or c == "_" or ord(c) > 127:
        return c
    return f"\\x{ord(c):02x}" if ord(c) < 32 or ord(c) == 127 else "\\" + c


def _class_char(c: str) -> str:
    """A character by itself inside or outside of a class, for `regex` and RE2 alike."""
    if c.isalnum() or c == "_":
        return c
    code = ord(c)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def re2_class(text: str) -> str:
    """Escapes of code points as RE2 writes them."""
    return str(regex.sub(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))", r"\\x{\1\2}", text))
