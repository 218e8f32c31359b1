"""Casts of numbers and of BOOLEAN to numbers, as Java makes them."""

from __future__ import annotations

from decimal import ROUND_DOWN, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import DataType, Root
from udf.arrays.arrays import column_of, in_two_ways, valid, wrap
from udf.numbers.decimal_units import MOST, divided, doubles, fitted, units_of
from udf.numbers.decimals import decimal_rows, rescale
from udf.vector import Errors


def to_number(values: pa.Array, source: DataType, target: DataType) -> pa.Array:
    """Numbers as another type of number; those that no DECIMAL holds are NULL."""
    if source.root is Root.BOOLEAN:
        values, source = values.cast(pa.int8()), DataType(Root.TINYINT)
    if target.root is Root.DECIMAL:
        if source.root in (Root.FLOAT, Root.DOUBLE):
            return _decimals_of(values.cast(pa.float64()), target)
        return rescale(values, target)
    if source.root is Root.DECIMAL:
        return _from_decimals(values, target)
    if target.is_integer and not source.is_integer:
        return _saturated(values, target)
    return values.cast(target.arrow, safe=False)


def no_numbers(values: pa.Array) -> Errors | None:
    """NaN and the infinities are no DECIMAL."""
    if not pa.types.is_floating(values.type):
        return None
    outside = pc.invert(pc.is_finite(values)).fill_null(False)
    return Errors.where(outside.to_numpy(zero_copy_only=False), "NaN and Infinity are no DECIMAL")


def _decimals_of(values: pa.Array, target: DataType) -> pa.Array:
    """Doubles as the decimals that their texts are, rounded half up: the double nearest to a half
    tells which side."""
    numbers = values.fill_null(0.0).to_numpy(zero_copy_only=False)
    size = np.abs(numbers)
    # Beyond this size a double has too few bits left for the fraction to be compared exactly.
    small = size < 2.0**40 / 10.0 ** min(target.scale, 40)
    if target.scale > 15 or not small.any():
        # The exact way is through the shortest text of the double, one value at a time.
        return decimal_rows(len(values), lambda v: Decimal(repr(v)), target, values)
    if not small.all():
        # The fast way for those that allow it, the exact one for the rest, merged in order.
        def exact(rest: pa.Array) -> pa.Array:
            return decimal_rows(len(rest), lambda v: Decimal(repr(v)), target, rest)

        return in_two_ways(values, small, lambda v: _decimals_of(v, target), exact)
    # Below 2**40 units a double is precise enough to round by: cut to whole units, then compare
    # with the double nearest to the half.
    floor = np.floor(size * 10.0**target.scale)
    units = (floor + (size >= (floor * 10 + 5) / 10.0 ** (target.scale + 1))).astype(np.int64)
    return fitted(np.where(numbers < 0, -units, units), valid(values, len(values)), target)


def _from_decimals(values: pa.Array, target: DataType) -> pa.Array:
    present = valid(values, len(values))
    units = units_of(values) if target.is_integer else None
    # Units of 64 bits: an integer division replaces Python's Decimal per row.
    if units is not None and values.type.scale <= MOST:
        whole = divided(units, values.type.scale, ROUND_DOWN)
        return pa.array(whole.astype(target.arrow.to_pandas_dtype()), mask=~present)
    exact = None if target.is_integer else doubles(values)
    if exact is not None:
        return column_of(exact, present, pa.float64()).cast(target.arrow, safe=False)
    numbers = [None if v is None else _from_decimal(v, target) for v in values.to_pylist()]
    return pa.array(numbers, target.arrow)


def _from_decimal(value: Decimal, target: DataType) -> int | float:
    # Java's narrowing keeps the low bits, as `wrap` does, and does not saturate.
    return wrap(int(value), target.arrow.bit_width) if target.is_integer else float(value)


def _saturated(values: pa.Array, target: DataType) -> pa.Array:
    """Casts as Java does: NaN is 0, what is too large is the largest INT or BIGINT; smaller types
    take the low bits of an INT."""
    numbers = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
    # TINYINT and SMALLINT go through INT, as in Java, and only then lose their high bits.
    wide = 63 if target.root is Root.BIGINT else 31
    present = valid(values, len(values))
    if target.root is Root.INT and (np.abs(numbers) < 2.0**31).all():
        return column_of(numbers.astype(np.int32), present, pa.int32())
    # NumPy's cast of what does not fit is undefined: cast what fits, and put the limits in after.
    whole = np.nan_to_num(np.trunc(numbers), nan=0.0)
    inside = np.where(np.abs(whole) < 2.0**wide, whole, 0.0).astype(np.int64)
    # 2**63 - 1 has no double, so the limits are put in as integers.
    limit = np.where(whole > 0, 2**wide - 1, -(2**wide))
    # Strictly below 2**wide: -2**63 itself comes from `limit` with the same value.
    result = np.where(np.abs(whole) < 2.0**wide, inside, limit)
    return pa.array(result.astype(target.arrow.to_pandas_dtype()), mask=~present)
