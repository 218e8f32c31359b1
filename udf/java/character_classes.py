"""Character classes of Java patterns, written for `regex` and for RE2, and summed up for
Hyperscan."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import regex

from udf.java.case import with_case
from udf.java.pattern_text import BadPattern, NotTranslated, Source, quoted

_SPACE = r"\t\n\x0b\x0c\r\x20"
_HORIZONTAL = r"\x20\t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000"
_VERTICAL = r"\n\x0b\x0c\r\x85\u2028\u2029"
CLASS_ESCAPES = {
    "d": "[0-9]",
    "D": "[^0-9]",
    "w": "[a-zA-Z_0-9]",
    "W": "[^a-zA-Z_0-9]",
    "s": f"[{_SPACE}]",
    "S": f"[^{_SPACE}]",
    "h": f"[{_HORIZONTAL}]",
    "H": f"[^{_HORIZONTAL}]",
    "v": f"[{_VERTICAL}]",
    "V": f"[^{_VERTICAL}]",
}
_PUNCTUATION = r"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e"
_POSIX = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": _PUNCTUATION,
    "Graph": r"\x21-\x7e",
    "Print": r"\x20-\x7e",
    "Blank": r"\x20\t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": _SPACE,
}
_CATEGORIES = frozenset(
    "L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C Cc Cf"
    " Co Cn".split()
)
# Properties of all of Unicode by the names that `regex` has for them.
_PROPERTIES = {
    "IsAlphabetic": "Alphabetic",
    "IsLowercase": "Lowercase",
    "IsUppercase": "Uppercase",
    "IsLetter": "L",
    "IsDigit": "Nd",
    "IsPunctuation": "P",
    "IsWhite_Space": "White_Space",
    "IsIdeographic": "Ideographic",
    "javaAlphabetic": "Alphabetic",
    "javaLowerCase": "Lowercase",
    "javaUpperCase": "Uppercase",
    "javaLetter": "L",
    "javaDigit": "Nd",
}
_CASED = frozenset(
    "Lower Upper Lu Ll Lt IsLowercase IsUppercase javaLowerCase javaUpperCase".split()
)
_NAMED = regex.compile(r"(?:Is|In|script=|block=)[A-Za-z_]+")
_POSITIVE = regex.compile(r"\[([^\[\]^][^\[\]]*)\]")
_FOREIGN = regex.compile(r"\\[pP]\{(?![LMNPSZC][a-z]?\})")
_CODE = regex.compile(r"\\(?:u([0-9a-f]{4})|U([0-9a-f]{8}))")


@dataclass(frozen=True)
class Members:
    """The ASCII characters of a class, and whether it may hold others."""

    ascii: str
    ascii_only: bool = True

    @property
    def byte_class(self) -> str:
        """Returns a class of the bytes of members; a class without members matches no byte of valid
        UTF-8."""
        others = [] if self.ascii_only else list(range(128, 256))
        return _byte_class([ord(c) for c in self.ascii] + others)

    @property
    def once(self) -> str:
        """The bytes of one member: one of ASCII, or up to four of any other."""
        if self.ascii_only:
            return self.byte_class
        own = f"{_byte_class([ord(c) for c in self.ascii])}|" if self.ascii else ""
        return f"(?:{own}{_byte_class(list(range(128, 256)))}{{1,4}})"


def _byte_class(codes: list[int]) -> str:
    spans: list[tuple[int, int]] = []
    for code in codes or [255]:
        if spans and spans[-1][1] == code - 1:
            spans[-1] = (spans[-1][0], code)
        else:
            spans.append((code, code))
    return "[" + "".join(f"\\x{low:02x}-\\x{high:02x}" for low, high in spans) + "]"


@lru_cache(maxsize=4096)
def members_of(text: str) -> Members:
    """Tries each ASCII character on the class, so that the summary cannot differ from it."""
    pattern = regex.compile(text, regex.VERSION1 | regex.UNICODE)
    plain = all(token not in text for token in ("[^", "\\p", "\\P", "\\u", "\\U", "&&", "\\S"))
    ascii_only = plain and not regex.search(r"\\x[89a-f]", text)
    return Members("".join(chr(i) for i in range(128) if pattern.fullmatch(chr(i))), ascii_only)


@lru_cache(maxsize=4096)
def re2_class(text: str) -> str:
    """The class for RE2, which knows neither nested nor intersected ones and fewer names: those are
    listed."""
    flat = text if "&&" in text else text[0] + _POSITIVE.sub(r"\1", text[1:])
    if "[" in flat[1:] or "&&" in flat or _FOREIGN.search(flat):
        flat = _listed(text)
    return str(_CODE.sub(r"\\x{\1\2}", flat))


def _listed(text: str) -> str:
    """Rewrites a class by its ranges. Surrogates, which no text of RE2 has, are left out."""
    codes = np.r_[0:0xD800, 0xE000:0x110000].astype("<u4")
    everything = codes.tobytes().decode("utf-32-le")
    spans = regex.compile(text + "+", regex.VERSION1 | regex.UNICODE).finditer(everything)
    ranges = [(int(codes[m.start()]), int(codes[m.end() - 1])) for m in spans]
    return (
        "[" + "".join(f"\\x{{{a:x}}}-\\x{{{b:x}}}" for a, b in ranges) + "]"
        if ranges
        else r"[^\x{0}-\x{10ffff}]"
    )


class ClassParser:
    """Reads what follows `[`. The result is a class of `regex` in its version 1, where classes nest
    as in Java."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def parse(self) -> str:
        negated = self.source.take("^")
        parts: list[str] = []
        current: list[str] = []
        first = True
        while first or not self.source.take("]"):
            if self.source.take("&&"):
                parts.append("".join(current))
                current = []
            elif self.source.take("["):
                current.append(self.parse())
            else:
                current.append(self._item(first))
            first = False
        parts.append("".join(current))
        if any(not part for part in parts):
            raise NotTranslated("a character class with an empty side of '&&'")
        body = parts[0] if len(parts) == 1 else "&&".join(f"[{part}]" for part in parts)
        return f"[{'^' if negated else ''}{body}]"

    def _item(self, first: bool) -> str:
        low = self._member()
        if len(low) != 1 or not self.source.take("-"):
            return low if len(low) != 1 else self._range(low, low)
        if self.source.peek() in ("]", "["):
            return self._range(low, low) + quoted("-")
        high = self._member()
        if len(high) != 1:
            raise NotTranslated("a character range that ends with a class")
        if high < low:
            raise BadPattern(f"illegal character range '{low}-{high}'")
        return self._range(low, high)

    def _member(self) -> str:
        r"""Parses one character, or the text of a class such as `\d`."""
        char = self.source.next()
        if char != "\\":
            return char
        char = self.source.next_as_is()
        if char in CLASS_ESCAPES:
            return CLASS_ESCAPES[char]
        if char in "pP":
            return self.property(char == "P")
        if char == "Q":
            return "".join(self._range(c, c) for c in self.source.until_end_of_quotation())
        if char in "123456789bBAGZzRXk":
            raise BadPattern(f"illegal escape sequence '\\{char}' in a character class")
        return self.source.character_escape(char)

    def _range(self, low: str, high: str) -> str:
        if "i" not in self.source.flags:
            return span(low, high)
        return "".join(
            span(a, b) for a, b in with_case(low, high, everywhere="u" in self.source.flags)
        )

    def property(self, negated: bool) -> str:
        r"""Parses what follows `\p`: a class of its own."""
        name = self.source.up_to("}") if self.source.take("{") else self.source.next()
        if name in _CASED and "i" in self.source.flags:
            raise NotTranslated(f"\\p{{{name}}} without regard to case")
        if name in _POSIX:
            return f"[{'^' if negated else ''}{_POSIX[name]}]"
        for prefix in ("Is", "gc=", "general_category="):
            if name.startswith(prefix) and name[len(prefix) :] in _CATEGORIES:
                name = name[len(prefix) :]
        if name not in _CATEGORIES:
            name = _known_property(name)
        return f"[{'^' if negated else ''}\\p{{{name}}}]"


def _known_property(name: str) -> str:
    """A property, script or block as `regex` has it."""
    if name in _PROPERTIES:
        return _PROPERTIES[name]
    if not _NAMED.fullmatch(name):
        raise NotTranslated(f"\\p{{{name}}}")
    try:
        regex.compile(f"\\p{{{name}}}", regex.VERSION1)
    except regex.error:
        raise NotTranslated(f"\\p{{{name}}}") from None
    return name


def span(low: str, high: str) -> str:
    """Returns the text of the range from `low` to `high` inside a class."""
    return quoted(low) if low == high else f"{quoted(low)}-{quoted(high)}"
