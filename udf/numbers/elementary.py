"""Elementary functions of numbers, and numbers cut off at a digit. All but SIGN and TRUNCATE
compute in DOUBLE."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_DOWN, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import DOUBLE, DataType, Root, decimal
from udf.arrays.arrays import column_of, row_by_row, valid
from udf.numbers.decimals import EXACT, cut_decimals, decimal_rows
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import Custom, double, int_, never_null, nullable, number, same_as_first, takes

_NUMBER = takes(double, result=DOUBLE)
_DEGREES_PER_RADIAN = 57.29577951308232
_RADIANS_PER_DEGREE = 0.017453292519943295


@function("SIN", signature=_NUMBER)
def sin(ctx: KernelContext, value: Values) -> Values:
    """SIN(number): the sine of an angle in radians.

    >>> SIN(0)
    0.0
    """
    return pc.sin(value)


@function("COS", signature=_NUMBER)
def cos(ctx: KernelContext, value: Values) -> Values:
    """COS(number): the cosine of an angle in radians.

    >>> COS(0)
    1.0
    """
    return pc.cos(value)


@function("TAN", signature=_NUMBER)
def tan(ctx: KernelContext, value: Values) -> Values:
    """TAN(number): the tangent of an angle in radians.

    >>> TAN(0)
    0.0
    """
    return pc.tan(value)


@function("COT", signature=_NUMBER)
def cot(ctx: KernelContext, value: Values) -> Values:
    """COT(number): the cotangent of an angle in radians; infinity for 0.

    >>> COT(1)
    0.6420926159343306
    """
    return pc.divide(pa.scalar(1.0), pc.tan(value))


@function("ASIN", signature=_NUMBER)
def asin(ctx: KernelContext, value: Values) -> Values:
    """ASIN(number): the arc sine in radians; NaN below -1 and above 1.

    >>> ASIN(1)
    1.5707963267948966
    """
    return pc.asin(value)


@function("ACOS", signature=_NUMBER)
def acos(ctx: KernelContext, value: Values) -> Values:
    """ACOS(number): the arc cosine in radians; NaN below -1 and above 1.

    >>> ACOS(1)
    0.0
    """
    return pc.acos(value)


@function("ATAN", signature=_NUMBER)
def atan(ctx: KernelContext, value: Values) -> Values:
    """ATAN(number): the arc tangent in radians.

    >>> ATAN(1)
    0.7853981633974483
    """
    return pc.atan(value)


@function("ATAN2", signature=takes(double, double, result=DOUBLE))
def atan2(ctx: KernelContext, y: Values, x: Values) -> Values:
    """ATAN2(y, x): the angle in radians of the point (x, y).

    >>> ATAN2(1, 2)
    0.4636476090008061
    """
    return pc.atan2(y, x)


@function("SINH", signature=_NUMBER)
def sinh(ctx: KernelContext, value: Values) -> Values:
    """SINH(number): the hyperbolic sine.

    >>> SINH(0)
    0.0
    """
    return pc.sinh(value)


@function("COSH", signature=_NUMBER)
def cosh(ctx: KernelContext, value: Values) -> Values:
    """COSH(number): the hyperbolic cosine.

    >>> COSH(0)
    1.0
    """
    return pc.cosh(value)


@function("TANH", signature=_NUMBER)
def tanh(ctx: KernelContext, value: Values) -> Values:
    """TANH(number): the hyperbolic tangent.

    >>> TANH(1000)
    1.0
    """
    return pc.tanh(value)


@function("DEGREES", signature=_NUMBER)
def degrees(ctx: KernelContext, value: Values) -> Values:
    """DEGREES(number): radians as degrees.

    >>> DEGREES(PI())
    180.0
    """
    return pc.multiply(value, pa.scalar(_DEGREES_PER_RADIAN))


@function("RADIANS", signature=_NUMBER)
def radians(ctx: KernelContext, value: Values) -> Values:
    """RADIANS(number): degrees as radians.

    >>> RADIANS(180)
    3.141592653589793
    """
    return pc.multiply(value, pa.scalar(_RADIANS_PER_DEGREE))


@function("LOG", signature=takes(double, double, optional=1, result=DOUBLE))
def log(ctx: KernelContext, first: Values, second: Values | None = None) -> Values:
    """LOG(number): the natural logarithm; LOG(base, number): the logarithm to a base. Minus
    infinity for 0, NaN below.

    >>> LOG(2, 8)
    3.0
    """
    return pc.ln(first) if second is None else pc.divide(pc.ln(second), pc.ln(first))


@function("LOG2", signature=_NUMBER)
def log2(ctx: KernelContext, value: Values) -> Values:
    """LOG2(number): the logarithm to base 2. Minus infinity for 0, NaN below.

    >>> LOG2(8)
    3.0
    """
    return pc.divide(pc.ln(value), pa.scalar(math.log(2.0)))


@function("PI", signature=takes(result=never_null(DOUBLE)))
def pi(ctx: KernelContext) -> Values:
    """PI(): the ratio of a circle's circumference to its diameter.

    >>> PI()
    3.141592653589793
    """
    return pa.scalar(math.pi)


@function("E", signature=takes(result=never_null(DOUBLE)))
def e(ctx: KernelContext) -> Values:
    """E(): the base of the natural logarithm.

    >>> E()
    2.718281828459045
    """
    return pa.scalar(math.e)


@function("SIGN", signature=takes(number, result=same_as_first))
def sign(ctx: KernelContext, value: Values) -> Values:
    """SIGN(number): -1, 0 or 1, in the type of the number.

    >>> SIGN(-2.5)
    -1.0
    """
    if ctx.result_type.root is Root.DECIMAL:
        return decimal_rows(
            ctx.num_rows, lambda v: Decimal((v > 0) - (v < 0)), ctx.result_type, value
        )
    signs = pc.sign(value).cast(ctx.result_type.arrow)
    if not pa.types.is_floating(value.type):
        return signs
    # -0.0 stays what it is, as in Java.
    return pc.if_else(pc.equal(value, pa.scalar(0, value.type)), value, signs)


def _cut_types(types: Types) -> tuple[DataType, ...] | None:
    if len(types) not in (1, 2) or not types[0].is_numeric:
        return None
    return (types[0], *[int_.cast(t) for t in types[1:]])


def _cut_result(types: Types, literals: Literals) -> DataType:
    value, places = types[0].plain, literals[1] if len(types) > 1 else 0
    if value.root is Root.DECIMAL and isinstance(places, int) and places < value.scale:
        value = decimal(min(38, 1 + value.precision - value.scale + max(places, 0)), max(places, 0))
    return value.with_nullable(nullable(types))


def _cut(value: Decimal, places: int) -> Decimal:
    if not value.is_finite() or -int(value.as_tuple().exponent) <= places or places > 400:
        return value
    if places < -400:
        return Decimal(0)
    return value.quantize(Decimal((0, (1,), -places)), rounding=ROUND_DOWN, context=_WIDE)


_WIDE = EXACT.copy()
_WIDE.prec = 800


@function("TRUNCATE", signature=Custom(_cut_types, _cut_result, "a number and a number of digits"))
def truncate(ctx: KernelContext, value: Values, digits: Values | None = None) -> Values:
    """TRUNCATE(number [, digits]): the number without the digits behind these places, by its
    decimal text; negative digits set places before the point to 0.

    >>> TRUNCATE(42.329, 2)
    42.32
    """
    places = pa.scalar(0, pa.int32()) if digits is None else digits
    kind = ctx.result_type
    if kind.root is Root.DECIMAL:
        return cut_decimals(ctx, value, places, ROUND_DOWN, _cut)
    if kind.is_integer:
        return row_by_row(
            ctx.num_rows, lambda v, d: int(_cut(Decimal(v), d)), kind.arrow, value, places
        )
    constant = places.as_py() if isinstance(places, pa.Scalar) and places.is_valid else -1
    if kind.root is Root.DOUBLE and isinstance(value, pa.Array) and 0 <= constant <= 15:
        return _cut_doubles(value, constant)
    text: Callable[[float], str] = (
        (lambda v: str(np.float32(v))) if kind.root is Root.FLOAT else repr
    )
    return row_by_row(
        ctx.num_rows, lambda v, d: _cut_float(v, d, text), pa.float64(), value, places
    ).cast(kind.arrow, safe=False)


def _cut_doubles(values: pa.Array, places: int) -> pa.Array:
    """Whole units of the last place: the double that is nearest to a number of them tells whether
    its text reaches it."""
    numbers, unit = values.fill_null(0.0).to_numpy(zero_copy_only=False), 10.0**places
    size = np.abs(numbers)
    small = size < 2.0**40 / unit
    floor = np.floor(np.where(small, size, 0.0) * unit)
    floor += (size >= (floor + 1) / unit).astype(np.float64) - (size < floor / unit)
    result = np.copysign(floor / unit, numbers) + 0.0
    for row in np.flatnonzero(~small):
        result[row] = _cut_float(float(numbers[row]), places, repr)
    return column_of(result, valid(values, len(values)), pa.float64())


def _cut_float(value: float, places: int, text: Callable[[float], str]) -> float:
    return float(_cut(Decimal(text(value)), places)) if math.isfinite(value) else value
