"""SIMILAR TO: the regular expressions of the SQL standard, written anew as Java's."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import PlanError
from parser.types import BOOLEAN, DataType
from udf.arrays.arrays import RowError, is_constant, row_errors
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import gives, takes, text
from udf.text.searches import found, known
from udf.vector import Vector

# Characters that only Java gives a meaning.
_PLAIN = frozenset("\\$&~#<>=!/")
_CLASSES = {
    "ALPHA": r"\p{Alpha}",
    "UPPER": r"\p{Upper}",
    "LOWER": r"\p{Lower}",
    "DIGIT": r"\d",
    "ALNUM": r"\p{Alnum}",
    "SPACE": " ",
    "WHITESPACE": r"\s",
}


@lru_cache(maxsize=1024)
def similar_pattern(pattern: str, escape: str = "") -> str:
    """The pattern in Java's dialect; RowError for one that is malformed."""
    parts: list[str] = []
    at, in_class = 0, False
    while at < len(pattern):
        c = pattern[at]
        if c == escape:
            if at + 1 >= len(pattern):
                raise RowError(f"pattern '{pattern}' ends in the escape character")
            # An escaped letter must not become one of Java's escapes: \d would be a digit.
            parts.append(
                "\\" + pattern[at + 1] if not pattern[at + 1].isalnum() else pattern[at + 1]
            )
            at += 2
            continue
        # A class of the standard such as [:ALPHA:] stands within brackets only.
        if in_class and pattern.startswith("[:", at) and (end := pattern.find(":]", at)) > 0:
            parts.append(_CLASSES.get(pattern[at + 2 : end].upper(), ""))
            at = end + 2
            continue
        in_class = c == "[" or (in_class and c != "]")
        parts.append(_one(c, in_class))
        at += 1
    # (?s): wildcards stand for line breaks, too; anchored, as the whole text must match.
    return f"(?s)\\A(?:{''.join(parts)})\\z"


def _one(c: str, in_class: bool) -> str:
    # Wildcards are plain characters within brackets.
    if in_class and c in "%_":
        return c
    if c in "%_":
        return ".*" if c == "%" else "."
    return "\\" + c if c in _PLAIN else c


def is_similar(value: str, pattern: str, escape: str = "") -> bool:
    """SIMILAR TO for one value. RowError for a pattern that is none, or takes too long."""
    compiled = known(similar_pattern(pattern, escape))
    if compiled is None:
        raise RowError(f"'{pattern}' is not a pattern of SIMILAR TO")
    return found(compiled, value)


def _re2(value: pa.Array, pattern: str, escape: str = "") -> str | None:
    """The pattern for RE2, if it says the same there of these texts."""
    try:
        compiled = known(similar_pattern(pattern, escape))
    except RowError:
        return None
    return None if compiled is None else compiled.re2_for(value, places=False)


def _result(types: Types, literals: Literals) -> DataType:
    if isinstance(literals[1], str):
        escape = literals[2] if len(literals) > 2 and isinstance(literals[2], str) else ""
        try:
            if known(similar_pattern(literals[1], escape)) is None:
                raise PlanError(f"'{literals[1]}' is not a pattern of SIMILAR TO")
        except RowError as error:
            raise PlanError(str(error)) from None
    return gives(BOOLEAN)(types, literals)


@function("SIMILAR TO", signature=takes(text, text, text, optional=1, result=_result))
def similar_to(ctx: KernelContext, value: Values, pattern: Values, *escape: Values) -> Vector:
    """value SIMILAR TO pattern [ESCAPE character]: TRUE if the whole text matches: '%' is any text,
    '_' any character, and `|`, `*`, `+`, `?`, `{n}`, `( )`, `[ ]` are as in regular expressions.
    Error: an invalid pattern.

    >>> 'abc' SIMILAR TO '(a|b)%'
    TRUE
    """
    if (
        isinstance(value, pa.Array)
        and is_constant(pattern, *escape)
        and all(v.is_valid for v in (pattern, *escape))
    ):
        re2 = _re2(value, pattern.as_py(), *[e.as_py() for e in escape])
        if re2 is not None:
            return Vector(pc.match_substring_regex(value, re2))
    return Vector(*row_errors(ctx.num_rows, is_similar, pa.bool_(), value, pattern, *escape))
