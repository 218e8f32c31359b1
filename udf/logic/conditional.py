"""CASE, IF, COALESCE, IFNULL, NULLIF, GREATEST, LEAST. Only what is selected can have an error."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import DataType, Root
from udf.arrays.arrays import bools, null_where, valid
from udf.casts.coercion import common_type, comparison_types, merged_type
from udf.logic.comparison import equal
from udf.registry import KernelContext, Literals, Total, Types, Values, function, lazy_function
from udf.signatures import Custom, all_to
from udf.vector import BoolArray, Errors, Vector, merge_errors


def _branches(types: Types) -> tuple[DataType, ...]:
    return (*types[1:-1:2], types[-1])


def _case_types(types: Types) -> tuple[DataType, ...] | None:
    conditions = types[:-1:2]
    common = common_type(_branches(types)) if len(types) % 2 and len(types) > 2 else None
    if (
        common is None
        or common.root is Root.NULL
        or any(c.root is not Root.BOOLEAN for c in conditions)
    ):
        return None
    branches = [common.with_nullable(t.nullable) for t in _branches(types)]
    pairs = [t for pair in zip(conditions, branches, strict=False) for t in pair]
    return (*pairs, branches[-1])


def _case_result(types: Types, literals: Literals) -> DataType:
    branches = _branches(types)
    return branches[0].with_nullable(any(t.nullable for t in branches))


CASE = Custom(_case_types, _case_result, "conditions, branches of one common type and an ELSE")


@lazy_function("CASE", signature=CASE, total=Total.ALWAYS)
def case(args: Sequence[Vector], ctx: KernelContext) -> Vector:
    """CASE WHEN condition THEN value … [ELSE value] END, CASE x WHEN y THEN value … END: the value
    of the first condition that is TRUE, or of the first `y` that equals `x`; without an ELSE, NULL.

    >>> CASE WHEN 1 > 2 THEN 'a' ELSE 'b' END
    'b'
    """
    conditions, values, otherwise = args[:-1:2], args[1:-1:2], args[-1]
    if all(a.errors is None for a in args):
        tests = [c.array(ctx.num_rows) for c in conditions]
        if len(tests) <= _FEW:
            return Vector(_chained(tests, [v.values for v in values], otherwise.values))
        struct = pa.StructArray.from_arrays(tests, [str(i) for i in range(len(tests))])
        return Vector(pc.case_when(struct, *[v.values for v in values], otherwise.values))
    return _case_with_errors(conditions, values, otherwise, ctx.num_rows)


# Up to so many conditions one choice after the other takes less time than all at once.
_FEW = 4


def _chained(tests: Sequence[pa.Array], values: Sequence[Values], otherwise: Values) -> Values:
    for test, value in zip(reversed(tests), reversed(values), strict=True):
        otherwise = pc.if_else(test.fill_null(False) if test.null_count else test, value, otherwise)
    return otherwise


def _case_with_errors(
    conditions: Sequence[Vector], values: Sequence[Vector], otherwise: Vector, num_rows: int
) -> Vector:
    open_rows = np.ones(num_rows, np.bool_)
    errors: list[Errors | None] = []
    chosen: list[BoolArray] = []
    for condition, value in zip(conditions, values, strict=True):
        rows = bools(condition.array(num_rows)) & open_rows
        if condition.errors is not None:
            errors.append(condition.errors.restrict(open_rows))
            rows &= ~condition.errors.mask
            open_rows = open_rows & ~condition.errors.mask
        if value.errors is not None:
            errors.append(value.errors.restrict(rows))
        chosen.append(rows)
        open_rows = open_rows & ~rows
    if otherwise.errors is not None:
        errors.append(otherwise.errors.restrict(open_rows))
    struct = pa.StructArray.from_arrays(
        [pa.array(c) for c in chosen], [str(i) for i in range(len(chosen))]
    )
    result = pc.case_when(struct, *[v.values for v in values], otherwise.values)
    return Vector(result, merge_errors(errors))


_NOT_IN_IF = (
    Root.NULL,
    Root.ARRAY,
    Root.MAP,
    Root.MULTISET,
    Root.ROW,
    Root.STRUCTURED,
    Root.VARIANT,
    Root.BITMAP,
    Root.INTERVAL_DAY_TIME,
    Root.INTERVAL_YEAR_MONTH,
)


def _if_types(types: Types) -> tuple[DataType, ...] | None:
    """Types of IF: as CASE, but only plain values; of two times the first decides."""
    if len(types) != 3 or any(t.root in _NOT_IN_IF for t in types[1:]):
        return None
    types_of_case = _case_types(types)
    if types_of_case is not None and (types[1].is_timestamp or types[1].root is Root.TIME):
        return types_of_case[0], *[types[1].with_nullable(t.nullable) for t in types[1:]]
    return types_of_case


def _if_result(types: Types, literals: Literals) -> DataType:
    return types[1].with_nullable(any(t.nullable for t in types))


@lazy_function(
    "IF",
    signature=Custom(_if_types, _if_result, "a condition and two plain values of one common type"),
    total=Total.ALWAYS,
)
def if_(args: Sequence[Vector], ctx: KernelContext) -> Vector:
    """IF(condition, value, else): the value if the condition is TRUE, else the other one.

    >>> IF(1 < 2, 'yes', 'no')
    'yes'
    """
    return case(args, ctx)


def _first_not_null(types: Types, literals: Literals) -> DataType:
    return types[0].with_nullable(all(t.nullable for t in types))


@lazy_function("COALESCE", signature=all_to(merged_type, _first_not_null), total=Total.ALWAYS)
def coalesce(args: Sequence[Vector], ctx: KernelContext) -> Vector:
    """COALESCE(value, …): the first value that is not NULL.

    >>> COALESCE(CAST(NULL AS INT), 2)
    2
    """
    if all(a.errors is None for a in args):
        return Vector(pc.coalesce(*[a.values for a in args]))
    n = ctx.num_rows
    open_rows = np.ones(n, np.bool_)
    errors: list[Errors | None] = []
    values: list[pa.Array] = []
    for arg in args:
        failed = np.zeros(n, np.bool_) if arg.errors is None else arg.errors.mask
        if arg.errors is not None:
            errors.append(arg.errors.restrict(open_rows))
        values.append(null_where(failed, arg.array(n)))
        open_rows = open_rows & ~failed & ~valid(values[-1], n)
    return Vector(pc.coalesce(*values), merge_errors(errors))


def _ifnull_types(types: Types) -> tuple[DataType, ...] | None:
    """A first value that is never NULL stays of its type: it is the result."""
    common = all_to(merged_type, _first_not_null).casts(types) if len(types) == 2 else None
    return common if common is None or types[0].nullable else (types[0], common[1])


@lazy_function(
    "IFNULL",
    signature=Custom(_ifnull_types, _first_not_null, "two values of one common type"),
    total=Total.ALWAYS,
)
def ifnull(args: Sequence[Vector], ctx: KernelContext) -> Vector:
    """IFNULL(value, replacement): COALESCE of two.

    >>> IFNULL(CAST(NULL AS STRING), 'x')
    'x'
    """
    return coalesce(args if ctx.arg_types[0].nullable else args[:1], ctx)


def _nullif_types(types: Types) -> tuple[DataType, ...] | None:
    known = len(types) == 2 and any(t.root is not Root.NULL for t in types)
    pair = comparison_types(types[0], types[1], equality=True) if known else None
    times = pair is not None and types[0].is_timestamp and types[1].root is types[0].root
    if pair is None or not (pair[0].same_as(types[0]) or types[0].is_numeric or times):
        return None
    # Numbers of different types and times of different precision compare as they are.
    as_given = times or (types[0].is_numeric and types[0].root is not Root.FLOAT)
    return types[0], types[1] if as_given else pair[1]


@function(
    "NULLIF",
    signature=Custom(_nullif_types, lambda t, _: t[0].plain, "two values that can be compared"),
    total=Total.ALWAYS,
)
def nullif(ctx: KernelContext, value: Values, other: Values) -> Values:
    """NULLIF(value, value): NULL if both are equal, else the first.

    >>> NULLIF(5, 5)
    NULL
    """
    same = pc.coalesce(equal(ctx, value, other), pa.scalar(False))
    return pc.if_else(same, pa.scalar(None, value.type), value)


def _widest(types: Types, literals: Literals) -> DataType:
    return types[0].with_nullable(any(t.nullable for t in types))


def _extreme(kernel: Callable[..., Values], values: Sequence[Values]) -> Values:
    """Booleans and times with a zone have no such kernel: they go as the integers behind them."""
    kind = values[0].type
    if pa.types.is_boolean(kind):
        return kernel(*[v.cast(pa.int8()) for v in values], skip_nulls=False).cast(kind)
    if pa.types.is_timestamp(kind):
        return kernel(*[v.cast(pa.int64()) for v in values], skip_nulls=False).cast(kind)
    return kernel(*values, skip_nulls=False)


def _zeros(extremes: Values, values: Sequence[Values], preferred: float) -> Values:
    """Replaces zeros of both signs by the preferred one: here, as in Flink, 0.0 is greater than
    -0.0."""
    zero = pc.equal(extremes, pa.scalar(0, extremes.type))
    if not pc.any(zero).as_py():
        return extremes
    like = [
        pc.equal(
            pc.divide(pa.scalar(1, v.type), v),
            pa.scalar(math.copysign(math.inf, preferred), v.type),
        )
        for v in values
    ]
    there = pc.and_kleene(zero, reduce(pc.or_kleene, like))
    return pc.if_else(there, pa.scalar(preferred, extremes.type), extremes)


def _typed_alike(types: Types) -> tuple[DataType, ...] | None:
    return None if any(t.root is Root.NULL for t in types) else _ALIKE.casts(types)


_ALIKE = all_to(merged_type, _widest)
_EXTREME = Custom(_typed_alike, _widest, _ALIKE.expected)


@function("GREATEST", signature=_EXTREME)
def greatest(ctx: KernelContext, *values: Values) -> Values:
    """GREATEST(value, …): the greatest value; NULL if one is NULL. NaN is greater than all numbers.

    >>> GREATEST(1, 3, 2)
    3
    """
    extremes = _extreme(pc.max_element_wise, values)
    if not pa.types.is_floating(extremes.type):
        return extremes
    nan = reduce(pc.or_kleene, map(pc.is_nan, values))
    extremes = pc.if_else(nan, pa.scalar(float("nan"), extremes.type), extremes)
    return _zeros(extremes, values, 0.0)


@function("LEAST", signature=_EXTREME)
def least(ctx: KernelContext, *values: Values) -> Values:
    """LEAST(value, …): the smallest value; NULL if one is NULL.

    >>> LEAST(2, 1, 3)
    1
    """
    extremes = _extreme(pc.min_element_wise, values)
    return _zeros(extremes, values, -0.0) if pa.types.is_floating(extremes.type) else extremes
