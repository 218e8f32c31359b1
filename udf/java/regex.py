"""Java's regular expressions, translated for RE2 (as Arrow calls it), for the `regex` package and
for Hyperscan.

The dialects agree on most of the syntax and differ on what it means: `$` and `.` know five line
terminators in Java, `\\w \\d \\s` and caseless letters are ASCII, `\\b` is not, `[a&&[b]]`
intersects. So a pattern is parsed and written anew (`java_parser.py`). RE2 takes linear time and is
asked wherever it means the same; the `regex` package knows all the rest, and goes back and tries
again, without end in bad cases: it is asked with a timeout. What is in none of them, or seldom and
hard (classes of all of Unicode by flag), is an error. Never `re`: it holds the GIL meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import pyarrow as pa
import pyarrow.compute as pc
import regex

from parser.errors import SqlError, UnsupportedError
from udf.arrays.arrays import is_ascii
from udf.java.pattern_parser import Parser
from udf.java.pattern_text import BadPattern, NotTranslated, Source

_TERMINATORS = "\n\r\x85\u2028\u2029"


@dataclass(frozen=True)
class JavaRegex:
    """`exact` is to be used with `search`; `superset` is a Hyperscan expression (DOTALL) over
    UTF-8, found wherever the pattern is and, with `same_in_ascii`, nowhere else in an ASCII text
    without \\n and \\r. `least`: shorter texts do not match. `tame`: `exact` takes time at most
    quadratic in the length of the text, whatever that is. `groups`: their number, without group 0;
    `steady` are those that take part in every match exactly once, 0 always."""

    text: str
    least: int = field(compare=False)
    tame: bool = field(compare=False)
    exact: regex.Pattern[str] = field(compare=False)
    superset: bytes = field(compare=False)
    same_in_ascii: bool = field(compare=False)
    groups: int = field(compare=False)
    steady: frozenset[int] = field(compare=False)
    _re2: str | None = field(compare=False)
    _re2_ascii_only: bool = field(compare=False)
    _re2_same_spans: bool = field(compare=False)
    _line_ends: frozenset[str] = field(compare=False)
    _whole_end: bool = field(compare=False)

    @cached_property
    def re2(self) -> str | None:
        """The pattern for RE2, group n named gn; None where it cannot say the same or would be too
        large."""
        try:
            pc.match_substring_regex(pa.array([""]), self._re2 or "(")
        except pa.ArrowInvalid:
            return None
        return self._re2

    def re2_for(self, values: pa.Array, *, places: bool = True) -> str | None:
        """The pattern for RE2 if it is found in the same of these values; if at the same `places`,
        unless that does not matter."""
        if (
            self.re2 is None
            or (places and not self._re2_same_spans)
            or (self._re2_ascii_only and not is_ascii(values))
        ):
            return None
        return None if self._line_ends and _has_line_end(values) else self.re2

    def re2_texts(self, text: str) -> tuple[str, ...]:
        """Texts of which `re2` must be found in one for the pattern to be found in `text`; none:
        RE2 is no help."""
        if self.re2 is None or (self._re2_ascii_only and not text.isascii()):
            return ()
        if not self._line_ends or text[-1:] not in _TERMINATORS or not text:
            return (text,)
        if self._whole_end or len(self._line_ends) > 1:
            return ()
        if "unix" in self._line_ends:
            return (text, text[:-1]) if text[-1] == "\n" else (text,)
        return (text, text[:-2] if text.endswith("\r\n") else text[:-1])


@lru_cache(maxsize=4096)
def translate(pattern: str) -> JavaRegex:
    """SqlError where Java would refuse the pattern, UnsupportedError where the engine does not know
    the construct."""
    try:
        return _translate(pattern)
    except NotTranslated as error:
        raise UnsupportedError(
            f"regular expression '{pattern}' uses {error}",
            hint="write it another way; the rest of Java's dialect works",
        ) from None
    except RecursionError:
        raise UnsupportedError(f"regular expression '{pattern}' is nested too deep") from None
    except (BadPattern, regex.error) as error:
        raise SqlError(f"invalid regular expression '{pattern}'", detail=str(error)) from None


def _translate(pattern: str) -> JavaRegex:
    parser = Parser(Source(pattern))
    piece = parser.alternation()
    if not parser.source.at_end:
        raise BadPattern("unmatched closing ')'")
    if any(number <= parser.groups for number in parser.ahead):
        raise NotTranslated("a back-reference to a group behind it")
    return JavaRegex(
        pattern,
        piece.least,
        parser.choices <= 1,
        regex.compile(piece.exact, regex.VERSION1 | regex.UNICODE),
        piece.superset.encode("latin-1"),
        not parser.widened,
        parser.groups,
        frozenset(range(parser.groups + 1)) - parser.uneven,
        piece.re2 if parser.re2 else None,
        parser.ascii_only,
        parser.same_spans,
        frozenset(parser.line_ends),
        parser.whole_end,
    )


def _has_line_end(values: pa.Array) -> bool:
    """True if a value ends in what Java takes for a line break."""
    return bool(pc.any(pc.match_substring_regex(values, r"[\n\r\x{85}\x{2028}\x{2029}]\z")).as_py())
