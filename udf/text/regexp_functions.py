"""REGEXP_COUNT, REGEXP_EXTRACT_ALL, REGEXP_INSTR, REGEXP_SUBSTR: all of Java's dialect, NULL for an
invalid pattern."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from parser.types import INT, STRING, array
from udf.arrays.arrays import is_ascii, is_constant, row_errors
from udf.java.regex import JavaRegex
from udf.registry import KernelContext, Values, function
from udf.signatures import always_nullable, integer_or_null, takes, text_or_null
from udf.text.searches import known, searched
from udf.vector import Vector

_TEXTS = array(STRING)


def regexp_count(value: str, pattern: str) -> int | None:
    """REGEXP_COUNT for one value. RowError when it takes too long."""
    compiled = known(pattern)
    if compiled is None:
        return None
    return searched(
        compiled, value, lambda limit: sum(1 for _ in compiled.exact.finditer(value, timeout=limit))
    )


def regexp_extract_all(value: str, pattern: str, group: int = 1) -> list[str | None] | None:
    """REGEXP_EXTRACT_ALL for one value. RowError when it takes too long."""
    compiled = known(pattern)
    if compiled is None or not 0 <= group <= compiled.groups:
        return None
    if compiled.groups == 1 and group == 1 and 1 in compiled.steady:
        return searched(
            compiled, value, lambda limit: list(compiled.exact.findall(value, timeout=limit))
        )
    return searched(
        compiled,
        value,
        lambda limit: [match[group] for match in compiled.exact.finditer(value, timeout=limit)],
    )


def _first(value: str, pattern: str) -> tuple[int, str] | None:
    """Returns the start and the text of the first match; (-1, '') without a match, None for an
    invalid pattern."""
    compiled = known(pattern)
    if compiled is None:
        return None
    match = searched(compiled, value, lambda limit: compiled.exact.search(value, timeout=limit))
    return (-1, "") if match is None else (match.start(), match[0])


def regexp_instr(value: str, pattern: str) -> int | None:
    """REGEXP_INSTR for one value. RowError when it takes too long."""
    first = _first(value, pattern)
    if first is None or first[0] < 0:
        return None if first is None else 0
    # As Java counts: such a character is two.
    return first[0] + 1 + sum(c > "\uffff" for c in value[: first[0]])


def regexp_substr(value: str, pattern: str) -> str | None:
    """REGEXP_SUBSTR for one value. RowError when it takes too long."""
    first = _first(value, pattern)
    return None if first is None or first[0] < 0 else first[1]


def _constant(value: Values, pattern: Values) -> JavaRegex | None:
    """The pattern if it is the same for all rows and RE2 may be asked."""
    usable = isinstance(value, pa.Array) and is_constant(pattern) and pattern.is_valid
    return known(pattern.as_py()) if usable else None


def _by_rows(
    ctx: KernelContext, function: Callable[..., object], result: pa.DataType, *values: Values
) -> Vector:
    return Vector(*row_errors(ctx.num_rows, function, result, *values))


@function("REGEXP_COUNT", signature=takes(text_or_null, text_or_null, result=always_nullable(INT)))
def regexp_count_kernel(ctx: KernelContext, value: Values, pattern: Values) -> Values | Vector:
    """REGEXP_COUNT(text, pattern): the number of matches. Error: the search takes too long.

    >>> REGEXP_COUNT('hello123world45', '[0-9]+')
    2
    """
    compiled = _constant(value, pattern)
    re2 = compiled.re2_for(value) if compiled is not None and compiled.least else None
    if re2 is not None:
        return pc.count_substring_regex(value, re2)
    return _by_rows(ctx, regexp_count, pa.int32(), value, pattern)


@function(
    "REGEXP_EXTRACT_ALL",
    signature=takes(
        text_or_null, text_or_null, integer_or_null, optional=1, result=always_nullable(_TEXTS)
    ),
)
def regexp_extract_all_kernel(
    ctx: KernelContext, value: Values, pattern: Values, *group: Values
) -> Vector:
    """REGEXP_EXTRACT_ALL(text, pattern [, group]): the group (1 by default, 0 is all) of every
    match; an element is NULL where the group took no part. NULL for a group that does not exist.
    Error: the search takes too long.

    >>> REGEXP_EXTRACT_ALL('a1b22', '([a-z])([0-9]+)', 2)
    ['1', '22']
    """
    return _by_rows(ctx, regexp_extract_all, _TEXTS.arrow, value, pattern, *group)


@function("REGEXP_INSTR", signature=takes(text_or_null, text_or_null, result=always_nullable(INT)))
def regexp_instr_kernel(ctx: KernelContext, value: Values, pattern: Values) -> Vector:
    """REGEXP_INSTR(text, pattern): the position of the first match, from 1; 0 if there is none.
    Error: the search takes too long.

    >>> REGEXP_INSTR('hello', 'l+')
    3
    """
    compiled = _constant(value, pattern)
    re2 = compiled.re2_for(value) if compiled is not None and is_ascii(value) else None
    if re2 is not None:
        return Vector(pc.add(pc.find_substring_regex(value, re2), pa.scalar(1, pa.int32())))
    return _by_rows(ctx, regexp_instr, pa.int32(), value, pattern)


@function(
    "REGEXP_SUBSTR", signature=takes(text_or_null, text_or_null, result=always_nullable(STRING))
)
def regexp_substr_kernel(ctx: KernelContext, value: Values, pattern: Values) -> Vector:
    """REGEXP_SUBSTR(text, pattern): the first match; NULL if there is none. Error: the search takes
    too long.

    >>> REGEXP_SUBSTR('hello', 'l+')
    'll'
    """
    compiled = _constant(value, pattern)
    re2 = compiled.re2_for(value) if compiled is not None else None
    if re2 is not None:
        return Vector(pc.struct_field(pc.extract_regex(value, f"(?P<g0>{re2})"), "g0"))
    return _by_rows(ctx, regexp_substr, pa.string(), value, pattern)
