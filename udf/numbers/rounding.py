"""ROUND, FLOOR and CEIL of numbers; of times FLOOR and CEIL to a unit."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import DataType, Root, decimal
from udf.arrays.arrays import row_by_row, valid, wrap
from udf.numbers.decimal_units import shortened
from udf.numbers.decimals import EXACT, cut_decimals, decimal_rows
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import Custom, int_, nullable
from udf.time.intervals import ceil_time, floor_time

_WIDE = EXACT.copy()
_WIDE.prec = 800


def _round_result(types: Types, literals: Literals) -> DataType:
    value = types[0].plain
    digits = literals[1] if len(types) > 1 else 0
    # One digit more before the point, for 9.9 rounds to 10.
    if value.root is Root.DECIMAL and isinstance(digits, int) and digits < value.scale:
        value = decimal(min(38, 1 + value.precision - value.scale + max(digits, 0)), max(digits, 0))
    return value.with_nullable(nullable(types))


def _round_types(types: Types) -> tuple[DataType, ...] | None:
    if len(types) not in (1, 2) or not types[0].is_numeric:
        return None
    return (types[0], *[int_.cast(t) for t in types[1:]])


@function("ROUND", signature=Custom(_round_types, _round_result, "a number and a number of digits"))
def round_(ctx: KernelContext, value: Values, digits: Values | None = None) -> Values:
    """ROUND(number [, digits]): the number rounded half up (away from zero), by its decimal text;
    negative digits round before the point.

    >>> ROUND(-2.5)
    -3
    """
    places = pa.scalar(0, pa.int32()) if digits is None else digits
    root = ctx.arg_types[0].root
    if root is Root.DECIMAL:
        return cut_decimals(ctx, value, places, ROUND_HALF_UP, _round_decimal)
    if root in (Root.FLOAT, Root.DOUBLE):
        return _round_floats(ctx, value, places)
    if isinstance(places, pa.Scalar) and (not places.is_valid or places.as_py() >= 0):
        return value if places.is_valid else pa.nulls(ctx.num_rows, value.type)
    bits = ctx.result_type.arrow.bit_width
    return row_by_row(
        ctx.num_rows,
        lambda v, d: wrap(int(_round_decimal(Decimal(v), d)), bits),
        ctx.result_type.arrow,
        value,
        places,
    )


def _round_decimal(value: Decimal, digits: int) -> Decimal:
    # Nothing behind the digits to cut.
    if not value.is_finite() or digits >= 400 or -value.as_tuple().exponent <= digits:  # type: ignore[operator]
        return value
    if digits < -400:
        return Decimal(0)
    return value.quantize(Decimal((0, (1,), -digits)), rounding=ROUND_HALF_UP, context=_WIDE)


def _round_floats(ctx: KernelContext, value: Values, places: Values) -> Values:
    if (
        isinstance(places, pa.Scalar)
        and places.is_valid
        and 0 <= places.as_py() <= 15
        and isinstance(value, pa.Array)
    ):
        doubles = value.cast(pa.float64())
        numbers = doubles.fill_null(0.0).to_numpy(zero_copy_only=False)
        rounded = pa.array(_round_fast(numbers, places.as_py()), mask=~valid(value, len(value)))
        return rounded.cast(value.type, safe=False)
    kind = value.type
    rounded = row_by_row(ctx.num_rows, _round_float, pa.float64(), value.cast(pa.float64()), places)
    return rounded.cast(kind, safe=False)


def _round_float(value: float, digits: int) -> float:
    # Adding 0.0 turns -0.0 into 0.0.
    return float(_round_decimal(Decimal(repr(value)), digits)) + 0.0


def _round_fast(numbers: npt.NDArray[np.float64], digits: int) -> npt.NDArray[np.float64]:
    """Whole units of the last digit, divided once; rows that are large go by their text."""
    with np.errstate(all="ignore"):
        scaled = np.abs(numbers) * 10.0**digits
        floor = np.floor(scaled)
        # The double that is nearest to it, as its text is.
        half = (floor * 10 + 5) / 10.0 ** (digits + 1)
        result = np.copysign((floor + (np.abs(numbers) >= half)) / 10.0**digits, numbers) + 0.0
        # The negation also catches NaN.
        doubtful = ~(scaled < 2.0**40)
    for row in np.flatnonzero(doubtful):
        result[row] = _round_float(float(numbers[row]), digits)
    return result


def _whole_result(types: Types, literals: Literals) -> DataType:
    value = types[0].plain
    return (decimal(value.precision, 0) if value.root is Root.DECIMAL else value).with_nullable(
        types[0].nullable
    )


def _whole(
    ctx: KernelContext, value: Values, kernel: Callable[[Values], Values], rounding: str
) -> Values:
    if ctx.arg_types[0].is_integer:
        return value
    # Arrow's kernels overflow silently where the result has a digit more.
    if ctx.result_type.root is Root.DECIMAL:
        fast = (
            shortened(value, 0, rounding, ctx.result_type) if isinstance(value, pa.Array) else None
        )
        exact: Callable[[Decimal], Decimal] = lambda v: v.to_integral_value(rounding, context=EXACT)  # noqa: E731
        return decimal_rows(ctx.num_rows, exact, ctx.result_type, value) if fast is None else fast
    return kernel(value)


def _floor_types(types: Types) -> tuple[DataType, ...] | None:
    if len(types) == 1 and types[0].is_numeric:
        return tuple(types)
    temporal = len(types) == 2 and (
        types[0].is_timestamp or types[0].root in (Root.DATE, Root.TIME)
    )
    return tuple(types) if temporal and types[1].is_string else None


_FLOOR = Custom(_floor_types, _whole_result, "a number, or a date or time and a unit")


@function("FLOOR", signature=_FLOOR)
def floor(ctx: KernelContext, value: Values, unit: Values | None = None) -> Values:
    """FLOOR(number), FLOOR(time TO unit): the greatest whole number at or below; for a time, the
    beginning of its unit.

    >>> FLOOR(TIMESTAMP '2020-05-17 12:44:31' TO HOUR)
    2020-05-17T12:00
    """
    return (
        _whole(ctx, value, pc.floor, ROUND_FLOOR) if unit is None else floor_time(ctx, value, unit)
    )


@function("CEIL", "CEILING", signature=_FLOOR)
def ceil(ctx: KernelContext, value: Values, unit: Values | None = None) -> Values:
    """CEIL(number), CEIL(time TO unit): the least whole number at or above; for a time, the next
    beginning of the unit, or the time itself if it is one.

    >>> CEIL(1.2)
    2
    """
    return (
        _whole(ctx, value, pc.ceil, ROUND_CEILING) if unit is None else ceil_time(ctx, value, unit)
    )
