"""Characters: their codes, replacing by position or one by one, and tests of all characters of a
text."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import PlanError
from parser.types import BOOLEAN, INT, MAX_LENGTH, STRING, DataType, Root
from udf.arrays.arrays import is_ascii, is_constant, map_text, per_distinct, row_by_row, valid
from udf.casts.coercion import merged_type
from udf.casts.parsing import BLANK
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import (
    Custom,
    always_nullable,
    bigint,
    integer,
    never_null,
    nullable,
    takes,
    text,
)
from udf.text.bytes import bytes_of, with_bytes

_STRING = pa.string()


def _first_byte(value: str) -> int:
    code = value[:1].encode("utf-8", "surrogatepass")[:1]
    return int.from_bytes(code, "big", signed=True)


@function("ASCII", signature=takes(text, result=INT))
def ascii_(ctx: KernelContext, value: Values) -> Values:
    """ASCII(text): the code of the first character; beyond ASCII the first byte of its UTF-8, less
    256; 0 for an empty text.

    >>> ASCII('abc')
    97
    """
    return per_distinct(_first_byte, pa.int32(), value)


_CHARACTERS = pa.array([*map(chr, range(256)), ""], _STRING)


@function("CHR", signature=takes(integer, result=always_nullable(STRING)))
def chr_(ctx: KernelContext, value: Values) -> Values:
    """CHR(integer): the character with this code, modulo 256 above 255; empty for a negative
    number.

    >>> CHR(97)
    'a'
    """
    codes = pc.if_else(
        pc.less(value, 0), pa.scalar(256, pa.int64()), pc.bit_wise_and(value.cast(pa.int64()), 255)
    )
    given = pa.repeat(codes, ctx.num_rows) if isinstance(codes, pa.Scalar) else codes
    return _CHARACTERS.take(given)


def _overlay(value: str, replacement: str, start: int, length: int | None = None) -> str:
    if not 1 <= start <= len(value):
        return value
    size = len(replacement) if length is None else length
    end = start - 1 + size
    return value[: start - 1] + replacement + (value[end:] if size > 0 else "")


def _constant_overlay(
    value: Values, replacement: Values, start: Values, length: Values | None = None
) -> Values | None:
    """Computes OVERLAY where only the text varies; None elsewhere."""
    others = [o for o in (replacement, start, length) if o is not None]
    if (
        not isinstance(value, pa.Array)
        or not is_constant(*others)
        or not all(o.is_valid for o in others)
    ):
        return None
    at, text = start.as_py() - 1, replacement.as_py()
    size = len(text) if length is None else length.as_py()
    if at < 0:
        return value
    behind = pc.utf8_slice_codeunits(value, max(at + size, 0)) if size > 0 else pa.scalar("")
    changed = pc.binary_join_element_wise(
        pc.utf8_slice_codeunits(value, 0, at), replacement, behind, ""
    )
    return pc.if_else(pc.greater(pc.utf8_length(value), at), changed, value)


def _overlay_result(types: Types, literals: Literals) -> DataType:
    length = min(MAX_LENGTH, types[0].length + types[1].length)
    return DataType(Root.VARCHAR, length=length, nullable=nullable(types))


@function(
    "OVERLAY", signature=takes(text, text, bigint, bigint, optional=1, result=_overlay_result)
)
def overlay(ctx: KernelContext, value: Values, replacement: Values, *place: Values) -> Values:
    """OVERLAY(text PLACING replacement FROM start [FOR length]): `length` characters (as many as
    the replacement has) from `start` on replaced; the text as it is when the start is not in it;
    nothing behind the replacement for a length below 1.

    >>> OVERLAY('xxxxxtest' PLACING 'yy' FROM 6)
    'xxxxxyyst'
    """
    fast = _constant_overlay(value, replacement, *place)
    return (
        row_by_row(ctx.num_rows, _overlay, _STRING, value, replacement, *place)
        if fast is None
        else fast
    )


def _translate(value: str, search: str, replacement: str) -> str:
    table: dict[int, str | None] = {}
    for i, c in enumerate(search):
        table.setdefault(ord(c), replacement[i] if i < len(replacement) else None)
    return value.translate(table)


def _translated_bytes(value: Values, search: Values, replacement: Values) -> Values | None:
    """Translates bytes where ASCII characters become other ASCII characters and none is removed;
    None elsewhere."""
    if not (isinstance(value, pa.Array) and is_constant(search, replacement) and search.is_valid):
        return None
    old, new = search.as_py(), replacement.as_py() or ""
    if len(new) < len(old) or not (old + new).isascii():
        return None
    table = np.arange(256, dtype=np.uint8)
    for i, c in reversed(list(enumerate(old))):
        table[ord(c)] = ord(new[i])
    return with_bytes(value, table[bytes_of(value)[1]])


def _as_first(types: Types, literals: Literals) -> DataType:
    return STRING.with_nullable(types[0].nullable)


@function("TRANSLATE", signature=takes(text, text, text, result=_as_first))
def translate(ctx: KernelContext, value: Values, search: Values, replacement: Values) -> Values:
    """TRANSLATE(text, from, to): the text with each character of `from` replaced by the one at its
    place in `to`, or removed where `to` is shorter. A NULL `from` changes nothing, a NULL `to`
    is empty.

    >>> TRANSLATE('abcab', 'ab', 'x')
    'xcx'
    """
    fast = _translated_bytes(value, search, replacement)
    if fast is not None:
        return fast
    empty = pa.scalar("")
    return map_text(
        ctx.num_rows,
        _translate,
        _STRING,
        value,
        pc.coalesce(search, empty),
        pc.coalesce(replacement, empty),
    )


def _elt_types(types: Types) -> tuple[DataType, ...] | None:
    if len(types) < 2 or not types[0].is_integer:
        return None
    common = merged_type(types[1:])
    if common is None or not (common.is_string or common.is_binary):
        return None
    return (types[0], *[common.with_nullable(t.nullable) for t in types[1:]])


def _elt_result(types: Types, literals: Literals) -> DataType:
    """PlanError for a literal below 0."""
    index = literals[0]
    if isinstance(index, int) and index < 0:
        raise PlanError(f"index {index} is below 0")
    return types[1].with_nullable(True)


@function("ELT", signature=Custom(_elt_types, _elt_result, "a number and strings or bytes"))
def elt(ctx: KernelContext, index: Values, *values: Values) -> Values:
    """ELT(index, value, …): the value at the index, from 1; NULL where there is none.

    >>> ELT(2, 'a', 'b')
    'b'
    """
    numbers = index.cast(pa.int64())
    tests = [pc.fill_null(pc.equal(numbers, i), False) for i in range(1, len(values) + 1)]
    conditions = pa.StructArray.from_arrays(
        [t if isinstance(t, pa.Array) else pa.repeat(t, ctx.num_rows) for t in tests],
        [str(i) for i in range(len(tests))],
    )
    return pc.case_when(conditions, *values)


_PLAIN = Custom(
    lambda t: tuple(t) if len(t) == 1 and (t[0].is_string or t[0].is_numeric) else None,
    never_null(BOOLEAN),
    "a string or a number",
)


def _all(values: Values, test: object, ctx: KernelContext) -> Values:
    tests = per_distinct(test, pa.bool_(), values)  # type: ignore[arg-type]
    return pc.fill_null(tests, False)


@function("IS_ALPHA", signature=_PLAIN)
def is_alpha(ctx: KernelContext, value: Values) -> Values:
    """IS_ALPHA(text): TRUE if the text has letters only, and at least one. FALSE for NULL and for a
    number.

    >>> IS_ALPHA('abc')
    TRUE
    """
    if ctx.arg_types[0].is_numeric:
        return pa.repeat(pa.scalar(False), ctx.num_rows)
    return _all(value, lambda v: bool(v) and all(c.isalpha() for c in v), ctx)


@function("IS_DIGIT", signature=_PLAIN)
def is_digit(ctx: KernelContext, value: Values) -> Values:
    """IS_DIGIT(text): TRUE if the text has digits only, and at least one. FALSE for NULL; of a
    number, TRUE if it is an integer.

    >>> IS_DIGIT('12a')
    FALSE
    """
    if ctx.arg_types[0].is_numeric:
        whole = ctx.arg_types[0].is_integer
        return pa.array(np.full(ctx.num_rows, whole) & valid(value, ctx.num_rows))
    if is_ascii(value):
        return pc.fill_null(pc.ascii_is_decimal(value), False)
    return _all(value, lambda v: bool(v) and all(c.isdecimal() for c in v), ctx)


def _is_decimal(value: str) -> bool:
    try:
        return bool(value) and "_" not in value and Decimal(value.strip(BLANK)).is_finite()
    except InvalidOperation:
        return False


@function("IS_DECIMAL", signature=_PLAIN)
def is_decimal(ctx: KernelContext, value: Values) -> Values:
    """IS_DECIMAL(text): TRUE if the text is a number, with or without a point and an exponent.
    FALSE for NULL, and as in Flink for a DECIMAL.

    >>> IS_DECIMAL('-1.5e3')
    TRUE
    """
    kind = ctx.arg_types[0]
    if kind.is_numeric:
        return pa.array(valid(value, ctx.num_rows) & (kind.root is not Root.DECIMAL))
    return _all(value, _is_decimal, ctx)
