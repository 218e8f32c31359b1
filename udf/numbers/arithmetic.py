"""Arithmetic on numbers. Integers wrap around as Java's do; a division of exact numbers by zero is
an error of the row, one of FLOAT or DOUBLE gives an infinity or NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import PlanError
from parser.types import DOUBLE, DataType, Root
from udf.arrays.arrays import column_of, null_where, valid
from udf.casts.coercion import as_decimal, modulus_type, product_type, quotient_type, sum_type
from udf.numbers.decimal_units import quotients
from udf.numbers.decimals import EXACT, combine, decimal_rows, zero_of
from udf.registry import KernelContext, Literals, Total, Types, Values, function
from udf.signatures import Custom, double, nullable, same_as_first, takes
from udf.time.intervals import (
    add_interval,
    integers,
    interval_casts,
    interval_result,
    scale_interval,
)
from udf.vector import Errors, Vector

TypeRule: TypeAlias = Callable[[DataType, DataType], DataType | None]


def _operands(rule: TypeRule, operator: str) -> Custom:
    """Numbers are cast to the result's type, decimals and integers beside them to DECIMAL; dates,
    times and intervals stay as they are."""

    def casts(types: Types) -> tuple[DataType, ...] | None:
        if len(types) != 2 or not all(t.is_numeric for t in types):
            return interval_casts(operator, types)
        kind = rule(*types)
        if kind is None:
            return None
        if kind.is_integer and operator == "%":
            return tuple(types)
        if kind.root is Root.DECIMAL:
            return tuple(as_decimal(t) for t in types)
        return tuple(kind.with_nullable(t.nullable) for t in types)

    def result(types: Types, literals: Literals) -> DataType:
        kind = rule(*types) if all(t.is_numeric for t in types) else interval_result(types)
        if kind is None:
            raise PlanError("exact numbers expected")
        return kind.plain.with_nullable(nullable(types))

    wanted = {
        "+": ", or a date or time and an interval",
        "-": ", or a date or time and an interval",
    }
    return Custom(
        casts, result, f"two {'exact ' if operator == '%' else ''}numbers{wanted.get(operator, '')}"
    )


def _is_decimal(ctx: KernelContext) -> bool:
    return ctx.result_type.root is Root.DECIMAL


@function("+", signature=_operands(sum_type, "+"), total=Total.OF_INTEGERS, strict=True)
def add(ctx: KernelContext, left: Values, right: Values) -> Values | Vector:
    """a + b: the sum; integers wrap around; of a date or time and an interval, the later time.

    >>> 1 + 1.5
    2.5
    """
    if not all(t.is_numeric for t in ctx.arg_types):
        return add_interval(ctx, left, right, sign=1)
    if _is_decimal(ctx):
        return combine(ctx.num_rows, pc.add, EXACT.add, ctx.result_type, left, right)
    return pc.add(left, right)


@function("-", signature=_operands(sum_type, "-"), total=Total.OF_INTEGERS, strict=True)
def subtract(ctx: KernelContext, left: Values, right: Values) -> Values | Vector:
    """a - b: the difference; integers wrap around; of a date or time and an interval, the earlier
    time.

    >>> DATE '2020-03-31' - INTERVAL '1' MONTH
    2020-02-29
    """
    if not all(t.is_numeric for t in ctx.arg_types):
        return add_interval(ctx, left, right, sign=-1)
    if _is_decimal(ctx):
        return combine(ctx.num_rows, pc.subtract, EXACT.subtract, ctx.result_type, left, right)
    return pc.subtract(left, right)


@function("*", signature=_operands(product_type, "*"), total=Total.OF_INTEGERS, strict=True)
def multiply(ctx: KernelContext, left: Values, right: Values) -> Values:
    """a * b: the product; integers wrap around; of an interval and an integer, the longer interval.

    >>> 2 * 3
    6
    """
    if not all(t.is_numeric for t in ctx.arg_types):
        return scale_interval(ctx, left, right)
    if _is_decimal(ctx):
        return combine(ctx.num_rows, pc.multiply, EXACT.multiply, ctx.result_type, left, right)
    return pc.multiply(left, right)


@function("/", signature=_operands(quotient_type, "/"), strict=True)
def divide(ctx: KernelContext, left: Values, right: Values) -> Values | Vector:
    """a / b: the quotient; of integers, truncated to an integer. Error: division by zero (exact
    numbers).

    >>> 7 / 2
    3
    """
    if ctx.result_type.root in (Root.FLOAT, Root.DOUBLE):
        return pc.divide(left, right)
    right, errors = _without_zero(ctx.num_rows, left, right)
    if _is_decimal(ctx):
        return Vector(_decimal_quotients(ctx, left, right), errors)
    # A constant divisor other than -1 cannot overflow.
    if isinstance(right, pa.Scalar) and right.as_py() != -1:
        return Vector(pc.divide(left, right), errors)
    quotient = pc.divide(left, right)
    minus_one = pc.equal(right, pa.scalar(-1, right.type))  # Arrow gives 0 for MIN / -1, Java wraps
    return Vector(pc.if_else(minus_one, pc.negate(left), quotient), errors)


def _decimal_quotients(ctx: KernelContext, left: Values, right: Values) -> pa.Array:
    both = [pa.repeat(v, ctx.num_rows) if isinstance(v, pa.Scalar) else v for v in (left, right)]
    fast = quotients(both[0], both[1], ctx.result_type)
    return (
        decimal_rows(ctx.num_rows, EXACT.divide, ctx.result_type, left, right)
        if fast is None
        else fast
    )


@function("%", "MOD", signature=_operands(modulus_type, "%"), strict=True)
def modulo(ctx: KernelContext, left: Values, right: Values) -> Values | Vector:
    """a % b, MOD(a, b): the remainder of a division, with the dividend's sign. Error: division by
    zero.

    >>> -5 % 3
    -2
    """
    right, errors = _without_zero(ctx.num_rows, left, right)
    if _is_decimal(ctx):
        return Vector(
            decimal_rows(ctx.num_rows, EXACT.remainder, ctx.result_type, left, right), errors
        )
    present = valid(left, ctx.num_rows) & valid(right, ctx.num_rows)
    # NULL divisors become 1, so that NumPy divides by no zero.
    rest = _remainders(_integers(left), _integers(right, 1))
    whole = np.broadcast_to(rest, (ctx.num_rows,)).astype(ctx.result_type.arrow.to_pandas_dtype())
    return Vector(column_of(whole, present, ctx.result_type.arrow), errors)


def _remainders(left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Computes remainders with the dividend's sign. NumPy divides faster by a single divisor."""
    if right.ndim or right <= 0 or not left.ndim:
        return np.asarray(np.fmod(left, right))
    # Floor division, then one divisor back where the remainder should be negative.
    rest = left - left // right * right
    negative = left < 0
    return np.where(negative & (rest != 0), rest - right, rest) if negative.any() else rest


def _integers(values: Values, missing: int = 0) -> npt.NDArray[np.int64]:
    if isinstance(values, pa.Scalar):
        return np.asarray(values.as_py() if values.is_valid else missing, np.int64)
    numbers = integers(values, len(values))
    return (
        np.where(valid(values, len(values)), numbers, missing)
        if missing and values.null_count
        else numbers
    )


def _without_zero(num_rows: int, left: Values, right: Values) -> tuple[Values, Errors | None]:
    """The divisor with NULL for zero, and the rows where that is an error."""
    zero = pc.equal(right, zero_of(right.type))
    if isinstance(zero, pa.Scalar):
        if not zero.as_py():
            return right, None
        return pa.scalar(None, right.type), Errors.where(valid(left, num_rows), "division by zero")
    if not pc.any(zero).as_py():
        return right, None
    mask = zero.fill_null(False).to_numpy(zero_copy_only=False)
    return null_where(mask, right), Errors.where(mask & valid(left, num_rows), "division by zero")


def _negated_types(types: Types) -> tuple[DataType, ...] | None:
    intervals = (Root.INTERVAL_DAY_TIME, Root.INTERVAL_YEAR_MONTH)
    return (
        tuple(types)
        if len(types) == 1 and (types[0].is_numeric or types[0].root in intervals)
        else None
    )


@function(
    "NEG",
    signature=Custom(_negated_types, same_as_first, "a number or an interval"),
    total=Total.OF_INTEGERS,
    strict=True,
)
def negate(ctx: KernelContext, value: Values) -> Values:
    """-a: unary minus; the smallest integer stays itself.

    >>> -(1 + 2)
    -3
    """
    return pc.negate(value)


@function("ABS", signature=Custom(_negated_types, same_as_first, "a number or an interval"))
def absolute(ctx: KernelContext, value: Values) -> Values:
    """ABS(number): the absolute value; the smallest integer stays itself.

    >>> ABS(-5)
    5
    """
    return pc.abs(value)


@function("POWER", signature=takes(double, double, result=DOUBLE))
def power(ctx: KernelContext, base: Values, exponent: Values) -> Values:
    """POWER(base, exponent): the power, as DOUBLE.

    >>> POWER(2, 10)
    1024.0
    """
    if isinstance(exponent, pa.Scalar) and exponent.as_py() == 2:
        return pc.multiply(base, base)  # as Java's machine code does
    return pc.power(base, exponent)


@function("SQRT", signature=takes(double, result=DOUBLE))
def sqrt(ctx: KernelContext, value: Values) -> Values:
    """SQRT(number): the square root as DOUBLE; NaN for a negative number.

    >>> SQRT(2.25)
    1.5
    """
    if isinstance(value, pa.Scalar):
        # As Flink: the root of -0.0 is 0.0, that of -Infinity is Infinity.
        return pc.power(value, pa.scalar(0.5))
    numbers = value.fill_null(0.0).to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore"):
        # Adding 0.0 turns -0.0 into 0.0.
        roots = np.where(np.isneginf(numbers), np.inf, np.sqrt(numbers) + 0.0)
    return column_of(roots, valid(value, len(value)), pa.float64())


@function("LN", signature=takes(double, result=DOUBLE))
def ln(ctx: KernelContext, value: Values) -> Values:
    """LN(number): the natural logarithm as DOUBLE.

    >>> LN(1)
    0.0
    """
    return pc.ln(value)


@function("LOG10", signature=takes(double, result=DOUBLE))
def log10(ctx: KernelContext, value: Values) -> Values:
    """LOG10(number): the logarithm to base 10 as DOUBLE; its last digit may be that of the CPU.

    >>> LOG10(1000)
    3.0
    """
    if isinstance(value, pa.Scalar):
        return _logarithms(pa.array([value.as_py()], pa.float64()))[0]
    return _logarithms(value)


def _logarithms(values: pa.Array) -> pa.Array:
    """Computes logarithms to base 10 as Java does to the last digit, unlike Arrow, where the
    processor has AVX-512; elsewhere the last digit of some is another."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # NULL becomes 1, whose logarithm raises no warning.
        logarithms = np.log10(values.fill_null(1.0).to_numpy(zero_copy_only=False))
    return column_of(logarithms, valid(values, len(values)), pa.float64())


@function("EXP", signature=takes(double, result=DOUBLE))
def exp(ctx: KernelContext, value: Values) -> Values:
    """EXP(number): e to the power of the number, as DOUBLE.

    >>> EXP(0)
    1.0
    """
    return pc.exp(value)
