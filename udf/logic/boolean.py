"""AND, OR, NOT and the tests of truth, in three-valued logic and with SQL's laziness.

An operand that decides the result makes the errors of all others irrelevant, whatever their order,
so that operands may be reordered. (Flink evaluates from left to right: there `error AND FALSE`
fails the job; here it is FALSE.)"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from udf.arrays.arrays import bools, null_where
from udf.registry import KernelContext, Total, Values, function, lazy_function
from udf.signatures import FACT, PREDICATE, boolean, takes
from udf.vector import Vector, merge_errors

OPERANDS = takes(boolean, boolean, result=PREDICATE, variadic=True)


def kleene(args: Sequence[Vector], num_rows: int, *, decisive: bool) -> Vector:
    """The operands joined by OR (`decisive` True) or AND (False); a decisive operand hides errors
    of others."""
    combine: Callable[..., Values] = pc.or_kleene if decisive else pc.and_kleene
    result: Values | None = None
    for arg in args:
        values = arg.values
        if arg.errors is not None:  # an operand without value is one that is unknown
            values = null_where(arg.errors.mask, arg.array(num_rows))
        result = values if result is None else combine(result, values)
    errors = merge_errors([a.errors for a in args])
    if errors is None or result is None:
        return Vector(result)
    decided = bools(result if decisive else pc.invert(result))
    return Vector(result, errors.restrict(~decided))


@lazy_function("AND", signature=OPERANDS, total=Total.ALWAYS)
def and_(args: Sequence[Vector], ctx: KernelContext) -> Vector:
    """a AND b: FALSE if an operand is FALSE, else NULL if one is NULL, else TRUE.

    >>> TRUE AND FALSE
    FALSE
    """
    return kleene(args, ctx.num_rows, decisive=False)


@lazy_function("OR", signature=OPERANDS, total=Total.ALWAYS)
def or_(args: Sequence[Vector], ctx: KernelContext) -> Vector:
    """a OR b: TRUE if an operand is TRUE, else NULL if one is NULL, else FALSE.

    >>> TRUE OR FALSE
    TRUE
    """
    return kleene(args, ctx.num_rows, decisive=True)


@function("NOT", signature=takes(boolean, result=PREDICATE), total=Total.ALWAYS, strict=True)
def not_(ctx: KernelContext, value: Values) -> Values:
    """NOT a: TRUE for FALSE, FALSE for TRUE, NULL for NULL.

    >>> NOT TRUE
    FALSE
    """
    return pc.invert(value)


@function("IS TRUE", signature=takes(boolean, result=FACT), total=Total.ALWAYS)
def is_true(ctx: KernelContext, value: Values) -> Values:
    """a IS TRUE: TRUE for TRUE, FALSE for FALSE and NULL.

    >>> (1 < 2) IS TRUE
    TRUE
    """
    return pc.coalesce(value, _FALSE)


@function("IS NOT TRUE", signature=takes(boolean, result=FACT), total=Total.ALWAYS)
def is_not_true(ctx: KernelContext, value: Values) -> Values:
    """a IS NOT TRUE: FALSE for TRUE, TRUE for FALSE and NULL.

    >>> (1 > 2) IS NOT TRUE
    TRUE
    """
    return pc.invert(pc.coalesce(value, _FALSE))


@function("IS FALSE", signature=takes(boolean, result=FACT), total=Total.ALWAYS)
def is_false(ctx: KernelContext, value: Values) -> Values:
    """a IS FALSE: TRUE for FALSE, FALSE for TRUE and NULL.

    >>> (1 > 2) IS FALSE
    TRUE
    """
    return pc.invert(pc.coalesce(value, _TRUE))


@function("IS NOT FALSE", signature=takes(boolean, result=FACT), total=Total.ALWAYS)
def is_not_false(ctx: KernelContext, value: Values) -> Values:
    """a IS NOT FALSE: FALSE for FALSE, TRUE for TRUE and NULL.

    >>> (1 > 2) IS NOT FALSE
    FALSE
    """
    return pc.coalesce(value, _TRUE)


@function("IS UNKNOWN", signature=takes(boolean, result=FACT), total=Total.ALWAYS)
def is_unknown(ctx: KernelContext, value: Values) -> Values:
    """a IS UNKNOWN: TRUE for NULL, FALSE else.

    >>> CAST(NULL AS BOOLEAN) IS UNKNOWN
    TRUE
    """
    return pc.is_null(value)


@function("IS NOT UNKNOWN", signature=takes(boolean, result=FACT), total=Total.ALWAYS)
def is_not_unknown(ctx: KernelContext, value: Values) -> Values:
    """a IS NOT UNKNOWN: FALSE for NULL, TRUE else.

    >>> (1 > 2) IS NOT UNKNOWN
    TRUE
    """
    return pc.is_valid(value)


_TRUE = pa.scalar(True)
_FALSE = pa.scalar(False)
