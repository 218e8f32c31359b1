"""Java's regular expressions, translated for RE2 (as Arrow calls it) where both mean the same, and for the `regex`
package, with a timeout, always. Never `re`: it holds the GIL for as long as a catastrophic pattern runs.

A pattern is read once into pieces. What RE2 lacks (lookaround, back references, possessive quantifiers, multi-line
anchors) or reads otherwise marks the whole pattern as one for `regex`; what differs only beyond ASCII (ignoring case,
`\\b`) marks it as one for RE2 over ASCII, and `$` as one for values that do not end in a line break."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import regex

from udf.arrays import is_ascii
from udf.java_regex_classes import InvalidRegex, UnsupportedRegex, quoted_character
from udf.java_regex_reader import Reader

__all__ = ["TIMEOUT_S", "JavaRegex", "UnsupportedRegex", "quote_re2", "translate"]

TIMEOUT_S = 1.0


class Search(Protocol):
    """A compiled pattern of the `regex` package."""

    groups: int

    def search(self, string: str, *, timeout: float) -> regex.Match[str] | None: ...

    def sub(self, repl: object, string: str, *, timeout: float) -> str: ...


@dataclass(frozen=True)
class JavaRegex:
    """A translated pattern. `re2` is None where RE2 cannot or would match otherwise, and is right for ASCII values only
    if `re2_ascii_only`, for values that do not end in a line break if `re2_no_line_ends`. Its group n is named gn there. `pattern` is for `regex`
    (version 1). `steady` are the groups that take part in every match
    exactly once, 0 always; `min_width` is the shortest match."""

    pattern: str
    re2: str | None
    re2_ascii_only: bool
    re2_no_line_ends: bool
    groups: int
    steady: frozenset[int]
    min_width: int

    @cached_property
    def compiled(self) -> Search:
        compiled: Search = regex.compile(self.pattern, regex.VERSION1)
        return compiled

    def re2_for(self, values: pa.Array) -> str | None:
        """The pattern for RE2 if it means the same for all of these values."""
        if self.re2 is None or (self.re2_ascii_only and not is_ascii(values)):
            return None
        return None if self.re2_no_line_ends and has_line_end(values) else self.re2


@lru_cache(maxsize=4096)
def translate(pattern: str) -> JavaRegex | None:
    """The translated pattern; None where Java refuses it. UnsupportedRegex for what Java has and this version has not."""
    try:
        result = _read(pattern)
        _ = result.compiled
    except InvalidRegex:
        return None
    except RecursionError:
        raise UnsupportedRegex("a regular expression is nested too deeply") from None
    except regex.error as error:
        raise UnsupportedRegex(f"regular expression '{pattern}' is not supported: {error}") from None
    return result


def _read(pattern: str) -> JavaRegex:
    reader = Reader(pattern)
    text, re2, width = reader.whole()
    usable = reader.re2 and (not reader.ascii_only or pattern.isascii())
    steady = frozenset(range(reader.groups + 1)) - reader.loose
    return JavaRegex(text, re2 if usable else None, reader.ascii_only, reader.at_end, reader.groups, steady, width)


def has_line_end(values: pa.Array) -> bool:
    """Whether a value ends in what Java takes for a line break."""
    return bool(pc.any(pc.match_substring_regex(values, r"[\n\r\x{85}\x{2028}\x{2029}]\z")).as_py())


def quote_re2(text: str) -> str:
    """A literal for RE2."""
    return "".join(quoted_character(c) for c in text)
