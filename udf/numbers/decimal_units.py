"""Decimals as whole numbers of their last digit in NumPy, where all of a column fit into 64 bits:
what is exact there is as exact as digit by digit, at a fraction of the time."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import DataType
from udf.arrays.arrays import column_of, valid
from udf.vector import BoolArray

Int64s = npt.NDArray[np.int64]
# So many digits surely fit into 64 bits.
MOST = 18


def units_of(values: pa.Array) -> Int64s | None:
    """The numbers without their points, 0 for NULL; None where one has more than MOST digits or the
    type is no decimal of 128 bits."""
    if not pa.types.is_decimal128(values.type):
        return None
    buffer = values.buffers()[1]
    if buffer is None:
        return np.zeros(len(values), np.int64)
    # A decimal of 128 bits is two words, the low one first.
    pairs = np.frombuffer(buffer, np.int64)[
        2 * values.offset : 2 * (values.offset + len(values))
    ].reshape(-1, 2)
    low, high = pairs[:, 0], pairs[:, 1]
    if values.null_count:
        present = valid(values, len(values))
        # Slots of NULL may hold anything.
        low, high = np.where(present, low, 0), np.where(present, high, 0)
    if values.type.precision > MOST:
        most = 10**MOST
        # It fits if the high word only repeats the sign of the low one.
        if not (np.array_equal(low >> 63, high) and ((low < most) & (low > -most)).all()):
            return None
    return low


def from_units(units: Int64s, present: BoolArray, kind: pa.DataType) -> pa.Array:
    """The reverse: numbers as decimals of `kind`, NULL where not `present`."""
    pairs = np.empty((len(units), 2), np.int64)
    pairs[:, 0] = units
    # The sign fills the high word.
    np.right_shift(units, 63, out=pairs[:, 1])
    return column_of(pairs, present, kind)


def fitted(units: Int64s, present: BoolArray, target: DataType) -> pa.Array:
    """Converts units as `from_units`, with NULL for what has more digits than DECIMAL type
    `target`."""
    if target.precision <= MOST:
        present = present & (np.abs(units) < 10**target.precision)
    return from_units(units, present, target.arrow)


def divided(units: Int64s, digits: int, rounding: str) -> Int64s:
    """The numbers without their last `digits` (0 to 18), rounded as `decimal` names it."""
    if not digits:
        return units
    divisor = 10**digits
    if rounding == ROUND_FLOOR:
        return np.asarray(units // divisor)
    if rounding == ROUND_CEILING:
        # The ceiling is the negative floor of the negative.
        return np.asarray(-(-units // divisor))
    size = np.abs(units)
    half = divisor // 2 if rounding == ROUND_HALF_UP else 0
    assert half or rounding == ROUND_DOWN
    whole = size // divisor
    # Half away from zero: computed of the size, the sign comes back below.
    if half:
        whole += size - whole * divisor >= half
    return np.asarray(np.where(units < 0, -whole, whole))


def shortened(values: pa.Array, places: int, rounding: str, target: DataType) -> pa.Array | None:
    """Decimals rounded to so many places (negative: before the point) as `target`; None where 64
    bits are too few."""
    units = units_of(values)
    cut, more = values.type.scale - places if units is not None else -1, target.scale - places
    if units is None or not 0 <= cut <= MOST or not 0 <= more <= MOST:
        return None
    rounded = divided(units, cut, rounding)
    if more:
        # The shift to the left must not overflow either.
        if len(rounded) and int(np.abs(rounded).max()) >= 10 ** (MOST - more):
            return None
        rounded = rounded * 10**more
    return fitted(rounded, valid(values, len(values)), target)


def doubles(values: pa.Array) -> npt.NDArray[np.float64] | None:
    """The doubles nearest to decimals, 0 for NULL; None where one has more digits than a quotient
    of two exact doubles."""
    units = units_of(values)
    # 10**22 is the largest power of ten that is an exact double, 2**53 bounds exact integers.
    if (
        units is None
        or values.type.scale > 22
        or (len(units) and int(np.abs(units).max()) >= 2**53)
    ):
        return None
    return np.asarray(units / 10.0**values.type.scale)


def quotients(left: pa.Array, right: pa.Array, target: DataType) -> pa.Array | None:
    """left / right, of which none is zero, rounded half up to `target`; None where 64 bits are too
    few."""
    tops, bottoms = units_of(left), units_of(right)
    if tops is None or bottoms is None:
        return None
    present = valid(left, len(left)) & valid(right, len(right))
    digits = target.scale + right.type.scale - left.type.scale
    size, by = np.abs(tops), np.where(present, np.abs(bottoms), 1)
    # So many digits can be appended to a remainder before it overflows.
    step = MOST - len(str(int(by.max(initial=1))))
    if not 0 <= digits <= MOST - 1 or step <= 0:
        return None
    whole = size // by
    rest = size - whole * by
    behind = np.zeros(len(size), np.int64)
    # Long division, `step` digits at a time.
    for taken in [step] * (digits // step) + [digits % step]:
        rest = rest * 10**taken
        part = rest // by
        rest = rest - part * by
        behind = behind * 10**taken + part
    # The rest after the last digit rounds half up.
    behind += 2 * rest >= by
    most = int(whole.max(initial=0)) + 1
    negative = (tops < 0) != (bottoms < 0)
    if most < 10 ** (MOST - digits):
        units = whole * 10**digits + behind
        return fitted(np.where(negative, -units, units), present, target)
    return (
        _wide(whole, behind, negative, present, digits, target)
        if most * 10**digits < 10**target.precision
        else None
    )


def _wide(
    whole: Int64s,
    behind: Int64s,
    negative: BoolArray,
    present: BoolArray,
    digits: int,
    target: DataType,
) -> pa.Array:
    """whole * 10**digits + behind in 128 bits."""
    sign = np.where(negative, -1, 1)
    # The parts have one sign, so that the sum does not cross zero.
    tops = pa.array(whole * sign).cast(pa.decimal128(19, 0))
    shifted = pc.multiply(tops, pa.scalar(Decimal(10**digits), pa.decimal128(digits + 1, 0)))
    total = pc.add(shifted, pa.array(behind * sign).cast(pa.decimal128(19, 0)))
    bits = None if present.all() else pa.array(present).buffers()[1]
    # The same bits under the target's type: a cast would check the digits again.
    return pa.Array.from_buffers(
        target.arrow, len(total), [bits, total.buffers()[1]], offset=total.offset
    )
