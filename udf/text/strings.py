"""Strings. Lengths and positions count Unicode code points, from 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import INT, STRING, DataType
from udf.arrays.arrays import is_ascii, is_constant, map_text, per_distinct, rows_of, valid
from udf.casts.coercion import concat_type
from udf.growth import JOINED, REPLACED, SEPARATED
from udf.registry import KernelContext, Literals, Total, Types, Values, function
from udf.signatures import (
    Custom,
    Positional,
    always_nullable,
    int_,
    nullable,
    same_as_first,
    takes,
    text,
    varying_as_first,
)
from udf.text.bytes import bytes_of, sliced, with_bytes
from udf.time.intervals import integers

_STRING = pa.string()


def _cased(
    values: Values, ascii_kernel: Callable[..., Values], full: Callable[[str], str]
) -> Values:
    return ascii_kernel(values) if is_ascii(values) else per_distinct(full, _STRING, values)


@function("LOWER", signature=takes(text, result=same_as_first), total=Total.ALWAYS, strict=True)
def lower(ctx: KernelContext, value: Values) -> Values:
    """LOWER(text): the text in lower case.

    >>> LOWER('ABC')
    'abc'
    """
    return _cased(value, pc.ascii_lower, str.lower)


@function("UPPER", signature=takes(text, result=same_as_first), total=Total.ALWAYS, strict=True)
def upper(ctx: KernelContext, value: Values) -> Values:
    """UPPER(text): the text in upper case; `ß` becomes `SS`.

    >>> UPPER('abc')
    'ABC'
    """
    return _cased(value, pc.ascii_upper, str.upper)


_IS_WORD = np.array([chr(c).isascii() and chr(c).isalnum() for c in range(256)])
_SMALL = np.array([c + 32 if 65 <= c <= 90 else c for c in range(256)], np.uint8)


@function("INITCAP", signature=takes(text, result=same_as_first))
def initcap(ctx: KernelContext, value: Values) -> Values:
    """INITCAP(text): every word with its first letter in upper case and the others in lower case.
    Only the letters and digits of ASCII make words; all others stay as they are.

    >>> INITCAP('hello wORLD')
    'Hello World'
    """
    if isinstance(value, pa.Scalar):
        value = pa.repeat(value, ctx.num_rows)
    offsets, data = bytes_of(value)
    words, small = _IS_WORD[data], _SMALL[data]
    first = words.copy()
    first[1:] &= ~words[:-1]
    starts = offsets[:-1][offsets[:-1] < len(data)]
    first[starts] = words[starts]
    first &= (small >= 97) & (small <= 122)
    return with_bytes(value, small - 32 * first.astype(np.uint8))


@function("CHAR_LENGTH", "CHARACTER_LENGTH", signature=takes(text, result=INT), total=Total.ALWAYS)
def char_length(ctx: KernelContext, value: Values) -> Values:
    """CHAR_LENGTH(text): the number of characters.

    >>> CHAR_LENGTH('héé')
    3
    """
    return pc.utf8_length(value)


def _concat_types(types: Types) -> tuple[DataType, ...] | None:
    same_kind = len(types) == 2 and all(t.is_string for t in types)
    return tuple(types) if same_kind else None


def _concat_result(types: Types, literals: Literals) -> DataType:
    return concat_type(types[0], types[1]).with_nullable(nullable(types))


@function(
    "||",
    signature=Custom(_concat_types, _concat_result, "two strings"),
    total=Total.ALWAYS,
    growth=JOINED,
)
def concat_operator(ctx: KernelContext, left: Values, right: Values) -> Values:
    """a || b: both texts joined; NULL if one is NULL.

    >>> 'a' || 'b'
    'ab'
    """
    return pc.binary_join_element_wise(left, right, _EMPTY)


@function(
    "CONCAT", signature=takes(text, result=STRING, variadic=True), total=Total.ALWAYS, growth=JOINED
)
def concat(ctx: KernelContext, *values: Values) -> Values:
    """CONCAT(text, …): all texts joined; NULL if one is NULL.

    >>> CONCAT('a', 'b', 'c')
    'abc'
    """
    return pc.binary_join_element_wise(*values, _EMPTY)


@function(
    "CONCAT_WS",
    signature=Positional((text, text), lambda t, _: STRING.with_nullable(nullable(t)), 1, True),
    growth=SEPARATED,
)
def concat_ws(ctx: KernelContext, separator: Values, *values: Values) -> Values:
    """CONCAT_WS(separator, text, …): the texts joined by the separator, without those that are
    NULL; NULL if the separator is NULL.

    >>> CONCAT_WS(',', 'a', CAST(NULL AS STRING), 'b')
    'a,b'
    """
    if not values:
        return pc.if_else(pc.is_valid(separator), _EMPTY, pa.scalar(None, _STRING))
    joined = pc.binary_join_element_wise(*values, separator, null_handling="skip")
    if len(joined) == ctx.num_rows:
        return joined
    # Arrow loses rows of NULLs.
    rows = zip(range(ctx.num_rows), rows_of(separator), *map(rows_of, values), strict=False)
    return pa.array(
        [None if sep is None else _joined(str(sep), parts) for _, sep, *parts in rows], _STRING
    )


def _joined(separator: str, parts: Sequence[object]) -> str:
    return separator.join(str(p) for p in parts if p is not None)


_EMPTY = pa.scalar("", _STRING)


def _substring_result(types: Types, literals: Literals) -> DataType:
    return varying_as_first(types, literals).with_nullable(True)


def substring_of(value: str, start: int, length: int | None = None) -> str | None:
    """SUBSTRING for one value: a `start` below 1 counts from the end, 0 is 1; NULL for a negative
    length."""
    if length is not None and length < 0:
        return None
    begin = start - 1 if start > 0 else len(value) + start if start < 0 else 0
    if begin < 0:
        return ""
    return value[begin:] if length is None else value[begin : begin + length]


@function(
    "SUBSTRING", "SUBSTR", signature=takes(text, int_, int_, optional=1, result=_substring_result)
)
def substring(
    ctx: KernelContext, value: Values, start: Values, length: Values | None = None
) -> Values:
    """SUBSTRING(text FROM start [FOR length]), SUBSTRING(text, start [, length]): a part of the
    text; a negative start counts from the end; NULL for a negative length.

    >>> SUBSTRING('hello' FROM 2 FOR 3)
    'ell'
    """
    rest = (start,) if length is None else (start, length)
    if is_constant(*rest) and all(r.is_valid for r in rest) and start.as_py() >= 0:
        begin = max(start.as_py() - 1, 0)
        size = None if length is None else length.as_py()
        if size is None or size >= 0:
            return pc.utf8_slice_codeunits(value, begin, None if size is None else begin + size)
    if isinstance(value, pa.Array) and is_ascii(value):
        return _sliced_ascii(ctx.num_rows, value, *rest)
    return map_text(ctx.num_rows, substring_of, _STRING, value, *rest)


def _sliced_ascii(
    num_rows: int, value: pa.Array, start: Values, length: Values | None = None
) -> pa.Array:
    """Computes `substring_of` for columns of numbers."""
    offsets, data = bytes_of(value)
    sizes, first = np.diff(offsets).astype(np.int64), integers(start, num_rows)
    begin = np.where(first > 0, first - 1, np.where(first < 0, sizes + first, 0))
    present = valid(value, num_rows) & valid(start, num_rows)
    taken = sizes
    if length is not None:
        taken = integers(length, num_rows)
        present &= valid(length, num_rows) & (taken >= 0)
    from_ = np.clip(begin, 0, sizes)
    until = np.where(begin < 0, from_, np.minimum(from_ + np.maximum(taken, 0), sizes))
    return sliced(data, offsets[:-1] + from_, offsets[:-1] + until, present, _STRING)


@function("LEFT", signature=takes(text, int_, result=_substring_result))
def left(ctx: KernelContext, value: Values, length: Values) -> Values:
    """LEFT(text, length): the first characters; empty for a negative length.

    >>> LEFT('hello', 2)
    'he'
    """
    if is_constant(length) and length.is_valid:
        return pc.utf8_slice_codeunits(value, 0, max(length.as_py(), 0))
    return map_text(ctx.num_rows, lambda v, n: v[: max(n, 0)], _STRING, value, length)


@function("RIGHT", signature=takes(text, int_, result=_substring_result))
def right(ctx: KernelContext, value: Values, length: Values) -> Values:
    """RIGHT(text, length): the last characters; empty for a negative length.

    >>> RIGHT('hello', 2)
    'lo'
    """
    if is_constant(length) and length.is_valid and length.as_py() > 0:
        return pc.utf8_slice_codeunits(value, -length.as_py())
    return map_text(ctx.num_rows, lambda v, n: v[-n:] if n > 0 else "", _STRING, value, length)


@function("REPLACE", signature=takes(text, text, text, result=STRING), growth=REPLACED)
def replace(ctx: KernelContext, value: Values, search: Values, replacement: Values) -> Values:
    """REPLACE(text, search, replacement): the text with every occurrence of `search` replaced; an
    empty `search` occurs before, between and after all characters.

    >>> REPLACE('hello world', 'world', 'there')
    'hello there'
    """
    if (
        is_constant(search, replacement)
        and search.is_valid
        and replacement.is_valid
        and search.as_py()
    ):
        return pc.replace_substring(value, search.as_py(), replacement.as_py())
    return map_text(ctx.num_rows, str.replace, _STRING, value, search, replacement)


@function("REVERSE", signature=takes(text, result=always_nullable(STRING)))
def reverse(ctx: KernelContext, value: Values) -> Values:
    """REVERSE(text): the characters in reverse order.

    >>> REVERSE('abc')
    'cba'
    """
    return pc.ascii_reverse(value) if is_ascii(value) else pc.utf8_reverse(value)
