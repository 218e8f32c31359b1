"""The ends of texts: filled up to a length, or freed of spaces and other characters."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from parser.types import STRING, DataType
from udf.arrays.arrays import is_constant, row_by_row, rows_of
from udf.growth import PADDED, REPEATED
from udf.registry import KernelContext, Literals, Total, Types, Values, function
from udf.signatures import (
    Custom,
    int_,
    nullable,
    takes,
    text,
    text_or_null,
    varying_as_first,
)

_STRING = pa.string()


def _padding(value: str, length: int, pad: str) -> str:
    missing = length - len(value)
    return (pad * (missing // len(pad) + 1))[:missing]


def _lpad(value: str, length: int, pad: str) -> str | None:
    if length < 0 or not pad:
        return None
    return value[:length] if length <= len(value) else _padding(value, length, pad) + value


def _rpad(value: str, length: int, pad: str) -> str | None:
    if length < 0 or not pad:
        return None
    return value[:length] if length <= len(value) else value + _padding(value, length, pad)


def _repeat(value: str, count: int) -> str:
    return value * count


# Up to this length Arrow fills all rows, and then cuts those that were longer.
_SHORT = 1024


def _is_plain(value: Values, length: Values, pad: Values) -> bool:
    if not is_constant(length, pad) or not (length.is_valid and pad.is_valid):
        return False
    return isinstance(value, pa.Array) and 0 <= length.as_py() <= _SHORT and len(pad.as_py()) == 1


def _cut(value: pa.Array, length: Values) -> pa.Array:
    return pc.utf8_slice_codeunits(value, 0, length.as_py())


@function("LPAD", signature=takes(text, int_, text, result=STRING), growth=PADDED)
def lpad(ctx: KernelContext, value: Values, length: Values, pad: Values) -> Values:
    """LPAD(text, length, filling): the text padded at its left to `length`, or cut to it; NULL for
    a negative length or an empty padding.

    >>> LPAD('hi', 4, '?')
    '??hi'
    """
    if _is_plain(value, length, pad):
        return _cut(pc.utf8_lpad(value, length.as_py(), padding=pad.as_py()), length)
    return row_by_row(ctx.num_rows, _lpad, _STRING, value, length, pad)


@function("RPAD", signature=takes(text, int_, text, result=STRING), growth=PADDED)
def rpad(ctx: KernelContext, value: Values, length: Values, pad: Values) -> Values:
    """RPAD(text, length, filling): the text padded at its right to `length`, or cut to it; NULL for
    a negative length or an empty padding.

    >>> RPAD('hi', 4, '?')
    'hi??'
    """
    if _is_plain(value, length, pad):
        return _cut(pc.utf8_rpad(value, length.as_py(), padding=pad.as_py()), length)
    return row_by_row(ctx.num_rows, _rpad, _STRING, value, length, pad)


@function("REPEAT", signature=takes(text, int_, result=STRING), growth=REPEATED)
def repeat(ctx: KernelContext, value: Values, count: Values) -> Values:
    """REPEAT(text, count): the text `count` times; empty for a count below 1.

    >>> REPEAT('ab', 3)
    'ababab'
    """
    if is_constant(count) and count.is_valid and count.as_py() > 0 and isinstance(value, pa.Array):
        return pc.binary_repeat(value, count.as_py())
    return row_by_row(ctx.num_rows, _repeat, _STRING, value, count)


def _trim_types(types: Types) -> tuple[DataType, ...] | None:
    return tuple(types) if len(types) in (1, 3) and all(t.is_string for t in types) else None


def _trim_result(types: Types, literals: Literals) -> DataType:
    return varying_as_first((types[-1],), ()).with_nullable(nullable(types))


_TRIMS = {"BOTH": pc.utf8_trim, "LEADING": pc.utf8_ltrim, "TRAILING": pc.utf8_rtrim}
_STRIPS = {"BOTH": str.strip, "LEADING": str.lstrip, "TRAILING": str.rstrip}


def _trimmed(num_rows: int, mode: str, value: Values, characters: Values | None) -> Values:
    if characters is None:
        return _TRIMS[mode](value, characters=" ")
    if is_constant(characters) and characters.is_valid:
        return _TRIMS[mode](value, characters=characters.as_py()) if characters.as_py() else value
    strip = _STRIPS[mode]
    return row_by_row(num_rows, lambda v, c: strip(v, c) if c else v, _STRING, value, characters)


@function(
    "TRIM",
    signature=Custom(_trim_types, _trim_result, "a string, or a mode, characters and a string"),
    total=Total.ALWAYS,
)
def trim(ctx: KernelContext, *args: Values) -> Values:
    """TRIM([BOTH | LEADING | TRAILING] [characters] FROM text), TRIM(text): the text without
    spaces, or any of the characters, at the ends.

    >>> TRIM(LEADING 'ab' FROM 'abac')
    'c'
    """
    if len(args) == 1:
        return _trimmed(ctx.num_rows, "BOTH", args[0], None)
    mode = next(iter(rows_of(args[0])), "BOTH")  # the parser writes a literal there
    return _trimmed(ctx.num_rows, str(mode), args[2], args[1])


@function(
    "LTRIM", signature=takes(text, text, optional=1, result=varying_as_first), total=Total.ALWAYS
)
def ltrim(ctx: KernelContext, value: Values, characters: Values | None = None) -> Values:
    """LTRIM(text [, characters]): the text without spaces, or any of the characters, at the left.

    >>> LTRIM('  a ')
    'a '
    """
    return _trimmed(ctx.num_rows, "LEADING", value, characters)


@function(
    "RTRIM", signature=takes(text, text, optional=1, result=varying_as_first), total=Total.ALWAYS
)
def rtrim(ctx: KernelContext, value: Values, characters: Values | None = None) -> Values:
    """RTRIM(text [, characters]): the text without spaces, or any of the characters, at the right.

    >>> RTRIM('  a ')
    '  a'
    """
    return _trimmed(ctx.num_rows, "TRAILING", value, characters)


@function("BTRIM", signature=takes(text_or_null, text_or_null, optional=1, result=STRING))
def btrim(ctx: KernelContext, value: Values, characters: Values | None = None) -> Values:
    """BTRIM(text [, characters]): the text without spaces, or any of the characters, at both ends.

    >>> BTRIM('xyax', 'xy')
    'a'
    """
    return _trimmed(ctx.num_rows, "BOTH", value, characters)
