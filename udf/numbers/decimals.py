"""Exact decimal values: rounding half up (away from zero), NULL for what does not fit, as in
Flink."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal

import pyarrow as pa

from parser.types import DataType
from udf.arrays.arrays import row_by_row
from udf.numbers.decimal_units import shortened
from udf.registry import KernelContext, Values

# Products of two 38-digit numbers are exact in it, quotients have far more digits than the 38 that
# are kept.
EXACT = Context(prec=90, rounding=ROUND_HALF_UP)


def fit(value: Decimal, target: DataType) -> Decimal | None:
    """`value` rounded to the scale of DECIMAL type `target`; None if its digits do not fit."""
    if not value.is_finite():
        return None
    # Beyond this size no DECIMAL holds it, and quantize would run out of digits.
    rounded = (
        value.quantize(Decimal(1).scaleb(-target.scale, EXACT), context=EXACT)
        if value.adjusted() < 60
        else value
    )
    return (
        rounded if rounded.copy_abs() < Decimal(10) ** (target.precision - target.scale) else None
    )


def decimal_rows(
    num_rows: int, function: Callable[..., Decimal | None], target: DataType, *values: Values
) -> pa.Array:
    """`function` of each row's values, fitted to `target`."""

    def fitted(*row: object) -> Decimal | None:
        result = function(*row)
        return None if result is None else fit(result, target)

    return row_by_row(num_rows, fitted, target.arrow, *values)


def rescale(values: pa.Array, target: DataType) -> pa.Array:
    """Decimals (or integers) as DECIMAL type `target`."""
    source = values.type
    scale = source.scale if pa.types.is_decimal(source) else 0
    # More places lose nothing: Arrow's cast is exact.
    if scale <= target.scale:
        try:
            return values.cast(target.arrow)
        except pa.ArrowInvalid:  # some value does not fit: that row is NULL
            pass
    elif (fast := shortened(values, target.scale, ROUND_HALF_UP, target)) is not None:
        return fast
    return decimal_rows(len(values), lambda v: Decimal(v), target, values)


def combine(
    num_rows: int,
    kernel: Callable[..., Values],
    exact: Callable[..., Decimal],
    target: DataType,
    *values: Values,
) -> Values:
    """An Arrow kernel whose result has just the type `target`, or `exact` row by row where digits
    must be cut."""
    if all(pa.types.is_decimal128(v.type) for v in values):
        try:
            result = kernel(*values)
        except pa.ArrowInvalid:  # the exact result could exceed 38 digits
            result = None
        # A result of another precision or scale must be rounded or cut, which kernels do not do.
        if result is not None and result.type.equals(target.arrow):
            return result
    return decimal_rows(num_rows, exact, target, *values)


def cut_decimals(
    ctx: KernelContext, value: Values, places: Values, rounding: str, exact: Callable[..., Decimal]
) -> pa.Array:
    """Decimals rounded to so many places, by `exact` row by row where that is more than 64 bits
    hold."""
    if isinstance(value, pa.Array) and isinstance(places, pa.Scalar) and places.is_valid:
        scale = value.type.scale
        fast = shortened(value, min(places.as_py(), scale), rounding, ctx.result_type)
        if fast is not None:
            return fast
    return decimal_rows(ctx.num_rows, exact, ctx.result_type, value, places)


def zero_of(kind: pa.DataType) -> pa.Scalar:
    """Zero of a numeric Arrow type."""
    return pa.scalar(Decimal(0) if pa.types.is_decimal(kind) else 0, kind)
