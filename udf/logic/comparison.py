"""Comparisons: =, <>, <, <=, >, >=, BETWEEN, IN, IS NULL, IS [NOT] DISTINCT FROM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import repeat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import BOOLEAN, STRING, DataType, Root
from udf.arrays.arrays import rows_of, valid
from udf.casts.cast import convert
from udf.casts.coercion import comparison_types, in_types, merged_type
from udf.casts.nested import NESTED, parts_of
from udf.logic.boolean import kleene
from udf.registry import KernelContext, Literals, Total, Types, Values, function, lazy_function
from udf.signatures import FACT, PREDICATE, Custom, anything, takes
from udf.time.intervals import INTERVALS
from udf.time.plain import as_plain
from udf.vector import Errors, Vector, merge_errors


def _pair(types: Types, *, equality: bool) -> tuple[DataType, ...] | None:
    return comparison_types(types[0], types[1], equality=equality) if len(types) == 2 else None


def _of_parts(types: Types, literals: Literals) -> DataType:
    """BOOLEAN, which may be NULL where a field of a row may be, as Flink has it."""
    return BOOLEAN.with_nullable(any(map(_may_lack, types)))


def _may_lack(t: DataType) -> bool:
    return t.nullable or (t.root is Root.ROW and any(map(_may_lack, t.children)))


EQUALITY = Custom(lambda t: _pair(t, equality=True), _of_parts, "two values that can be compared")
ORDER = Custom(lambda t: _pair(t, equality=False), PREDICATE, "two values that can be compared")


def _as_given(types: Types) -> tuple[DataType, ...] | None:
    """Types of IS DISTINCT FROM: as for equality, but a text beside a date or time stays, since one
    that is no date is distinct even from NULL."""
    pair = _pair(types, equality=True)
    return pair if pair is None or types[0].is_string == types[1].is_string else tuple(types)


IDENTITY = Custom(_as_given, FACT, "two values that can be compared")


def _equal(ctx: KernelContext, left: Values, right: Values) -> Values:
    """Compares two columns; NULL where one is NULL."""
    t = ctx.arg_types[0]
    if t.root is Root.NULL:
        return pa.nulls(ctx.num_rows, pa.bool_())
    if t.root in NESTED:
        return _equal_nested(ctx, left, right)
    if (
        left.type != right.type and Root.BOOLEAN in (t.root, ctx.arg_types[1].root)
    ) or _text_and_interval(ctx.arg_types):
        present = valid(left, ctx.num_rows) & valid(right, ctx.num_rows)
        # A text is no truth value and no interval.
        return pa.array(np.zeros(ctx.num_rows, np.bool_), mask=~present)
    return (
        _equal_numbers(left, right)
        if pa.types.is_floating(left.type)
        else pc.equal(*_alike(left, right))
    )


def _alike(left: Values, right: Values) -> tuple[Values, Values]:
    """Decimals that have no common type of 38 digits go to one of 76."""
    kinds = left.type, right.type
    if all(map(pa.types.is_decimal128, kinds)) and kinds[0] != kinds[1]:
        scale = max(k.scale for k in kinds)
        if max(k.precision - k.scale for k in kinds) + scale > 38:
            wide = pa.decimal256(76, scale)
            return left.cast(wide), right.cast(wide)
    return left, right


def _equal_numbers(left: Values, right: Values) -> Values:
    """FLOAT or DOUBLE: as keys are equal, NaN equals NaN."""
    return pc.or_kleene(pc.equal(left, right), pc.and_kleene(pc.is_nan(left), pc.is_nan(right)))


_TEMPORAL = (Root.DATE, Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ)


def _text_and_interval(types: Types) -> bool:
    return types[0].is_string != types[1].is_string and any(t.root in INTERVALS for t in types)


def _equal_nested(ctx: KernelContext, left: Values, right: Values) -> pa.Array:
    """Part by part; a NULL field of a row equals a NULL field. Maps have no order."""
    n, t = ctx.num_rows, ctx.arg_types[0]
    pairs = zip(range(n), _plain_rows(left), _plain_rows(right), strict=False)
    same = [
        None if a is None or b is None else not _equals_none(a, t) and _form(a, t) == _form(b, t)
        for _, a, b in pairs
    ]
    return pa.array(same, pa.bool_())


def _equals_none(value: object, t: DataType) -> bool:
    """True if a value has a NULL element, or a NULL as a map's value, itself or in the fields of a
    row: as in Flink nothing equals it."""
    if not isinstance(value, dict | list):
        return False
    if isinstance(value, dict):
        return any(_equals_none(v, c) for v, c in zip(value.values(), t.children, strict=True))
    return None in ([v for _, v in value] if t.root is Root.MAP else value)


def _plain_rows(values: Values) -> Iterable[object]:
    if isinstance(values, pa.Scalar):
        return repeat(as_plain(pa.repeat(values, 1))[0].as_py())
    rows: Iterable[object] = as_plain(values).to_pylist()
    return rows


def _form(value: object, t: DataType) -> object:
    """A form of a nested value that is equal for equal values: NaN equals NaN, and the zeros are
    equal."""
    match value:
        case float():
            return "NaN" if value != value else value + 0.0
        case dict():
            return [_form(v, c) for v, c in zip(value.values(), t.children, strict=True)]
        case list() if t.root is Root.ARRAY:
            return [_form(v, t.children[0]) for v in value]
        case list():
            key, item = parts_of(t)
            return sorted((repr(_form(k, key)), repr(_form(v, item))) for k, v in value)
    return value


@function("=", signature=EQUALITY, total=Total.ALWAYS, strict=True)
def equal(ctx: KernelContext, left: Values, right: Values) -> Values:
    """a = b: TRUE if both are equal; NULL if one is NULL. Strings compare byte by byte, without
    padding. An array with a NULL element, or a map with a NULL value, equals only itself.

    >>> 'a' = 'a '
    FALSE
    """
    return _equal(ctx, left, right)


@function("<>", signature=EQUALITY, total=Total.ALWAYS, strict=True)
def not_equal(ctx: KernelContext, left: Values, right: Values) -> Values:
    """a <> b: TRUE if both differ; NULL if one is NULL.

    >>> 1 <> 2
    TRUE
    """
    return pc.invert(_equal(ctx, left, right))


def _ordered(compare: Callable[..., Values], left: Values, right: Values) -> Values:
    if pa.types.is_boolean(left.type):  # Arrow has no order for booleans
        left, right = left.cast(pa.int8()), right.cast(pa.int8())
    return compare(*_alike(left, right))


@function("<", signature=ORDER, total=Total.ALWAYS, strict=True)
def less(ctx: KernelContext, left: Values, right: Values) -> Values:
    """a < b: TRUE if `a` comes before `b`; NULL if one is NULL.

    >>> 1 < 2
    TRUE
    """
    return _ordered(pc.less, left, right)


@function("<=", signature=ORDER, total=Total.ALWAYS, strict=True)
def less_equal(ctx: KernelContext, left: Values, right: Values) -> Values:
    """a <= b: TRUE if `a` does not come after `b`; NULL if one is NULL.

    >>> 2 <= 2
    TRUE
    """
    return _ordered(pc.less_equal, left, right)


@function(">", signature=ORDER, total=Total.ALWAYS, strict=True)
def greater(ctx: KernelContext, left: Values, right: Values) -> Values:
    """a > b: TRUE if `a` comes after `b`; NULL if one is NULL.

    >>> 1 > 2
    FALSE
    """
    return _ordered(pc.greater, left, right)


@function(">=", signature=ORDER, total=Total.ALWAYS, strict=True)
def greater_equal(ctx: KernelContext, left: Values, right: Values) -> Values:
    """a >= b: TRUE if `a` does not come before `b`; NULL if one is NULL.

    >>> 2 >= 3
    FALSE
    """
    return _ordered(pc.greater_equal, left, right)


def _between_types(types: Types) -> tuple[DataType, ...] | None:
    if len(types) != 3:
        return None
    pairs = [comparison_types(types[0], bound, equality=False) for bound in types[1:]]
    sides = [side for pair in pairs if pair for side in pair]
    common = merged_type(sides) if len(sides) == 4 else None
    if common is None:
        return None
    if common.root is Root.NULL:
        return (BOOLEAN,) * 3
    if common.root in (Root.DECIMAL, Root.CHAR, Root.VARCHAR):  # these compare as they are
        return sides[0], sides[1], sides[3]
    return tuple(common.with_nullable(t.nullable) for t in types)


@lazy_function(
    "BETWEEN",
    signature=Custom(_between_types, PREDICATE, "a value and two bounds that can be compared"),
    total=Total.ALWAYS,
    rejects_null=True,
)
def between(args: Sequence[Vector], ctx: KernelContext) -> Vector:
    """value BETWEEN [ASYMMETRIC | SYMMETRIC] low AND high: `value >= low AND value <= high`;
    SYMMETRIC takes the bounds in either order.

    >>> 5 BETWEEN 1 AND 5
    TRUE
    """
    value, low, high = args
    above = Vector(
        _ordered(pc.greater_equal, value.values, low.values),
        merge_errors([value.errors, low.errors]),
    )
    below = Vector(
        _ordered(pc.less_equal, value.values, high.values),
        merge_errors([value.errors, high.errors]),
    )
    return kleene([above, below], ctx.num_rows, decisive=False)


@lazy_function(
    "IN",
    signature=Custom(
        lambda t: in_types(t) if len(t) > 1 else None, _of_parts, "values of one type"
    ),
    total=Total.ALWAYS,
)
def is_in(args: Sequence[Vector], ctx: KernelContext) -> Vector:
    """value [NOT] IN (value, …): TRUE if the value equals one of the list; else NULL if the value
    or one of the list is NULL; else FALSE.

    >>> 2 IN (1, 2)
    TRUE
    """
    value, *items = args
    if ctx.arg_types[0].root not in NESTED and all(
        isinstance(i.values, pa.Scalar) and i.errors is None for i in items
    ):
        fast = _in_constants(value.array(ctx.num_rows), [i.values for i in items])
        return Vector(fast, value.errors)
    tests = [
        Vector(_equal(ctx, value.values, i.values), merge_errors([value.errors, i.errors]))
        for i in items
    ]
    return kleene(tests, ctx.num_rows, decisive=True)


# Identities of a list's scalars -> the scalars (which keeps the identities theirs), their array,
# has NULL.
_lists: dict[tuple[int, ...], tuple[Sequence[pa.Scalar], pa.Array, bool]] = {}


def _in_constants(value: pa.Array, items: Sequence[pa.Scalar]) -> pa.Array:
    key = tuple(map(id, items))
    cached = _lists.get(key)
    if cached is None:
        if len(_lists) > 10_000:
            _lists.clear()
        known = [i for i in items if i.is_valid]
        cached = (items, pa.array(known, value.type), len(known) < len(items))
        _lists[key] = cached
    _, members, has_null = cached
    if 0 < len(members) <= _FEW and not pa.types.is_floating(value.type):
        equal_to_any = reduce(pc.or_, [pc.equal(value, m) for m in members])
    else:
        equal_to_any = pc.is_in(value, value_set=members)
        if value.null_count:
            equal_to_any = pc.if_else(value.is_valid(), equal_to_any, _UNKNOWN)
    return pc.if_else(equal_to_any, equal_to_any, _UNKNOWN) if has_null else equal_to_any


# Up to so many comparisons take less time than a hash table.
_FEW = 5
_UNKNOWN = pa.scalar(None, pa.bool_())


@function("IS NULL", signature=takes(anything, result=FACT), total=Total.ALWAYS)
def is_null(ctx: KernelContext, value: Values) -> Values:
    """a IS NULL: TRUE if the value is NULL, FALSE else.

    >>> 1 IS NULL
    FALSE
    """
    return pc.is_null(value)


@function(
    "IS NOT NULL", signature=takes(anything, result=FACT), total=Total.ALWAYS, rejects_null=True
)
def is_not_null(ctx: KernelContext, value: Values) -> Values:
    """a IS NOT NULL: FALSE if the value is NULL, TRUE else.

    >>> 1 IS NOT NULL
    TRUE
    """
    return pc.is_valid(value)


@function("IS NOT DISTINCT FROM", signature=IDENTITY, total=Total.ALWAYS)
def is_not_distinct(ctx: KernelContext, left: Values, right: Values) -> Values:
    """a IS NOT DISTINCT FROM b: TRUE if both are equal, where NULL equals NULL. Never NULL.

    >>> CAST(NULL AS INT) IS NOT DISTINCT FROM CAST(NULL AS INT)
    TRUE
    """
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    left_type, right_type = ctx.arg_types
    if left_type.is_string and right_type.root in _TEMPORAL:
        left, left_type = _read(ctx, left, right_type), right_type
    elif right_type.is_string and left_type.root in _TEMPORAL:
        right = _read(ctx, right, left_type)
    same = _equal(replace(ctx, arg_types=(left_type, right_type)), left, right)
    return pc.if_else(both_null, True, pc.coalesce(same, pa.scalar(False)))


def _read(ctx: KernelContext, text: Values, target: DataType) -> pa.Array:
    """Texts as dates or times, NULL where one is none."""
    column = pa.repeat(text, ctx.num_rows) if isinstance(text, pa.Scalar) else text
    return convert(column, STRING, target, ctx.zone).values


@function("IS DISTINCT FROM", signature=IDENTITY, total=Total.ALWAYS)
def is_distinct(ctx: KernelContext, left: Values, right: Values) -> Values:
    """a IS DISTINCT FROM b: TRUE if both differ, where NULL equals NULL. Never NULL.

    >>> 1 IS DISTINCT FROM 2
    TRUE
    """
    return pc.invert(is_not_distinct(ctx, left, right))


def _checked_types(types: Types) -> tuple[DataType, ...] | None:
    return tuple(types) if len(types) == 2 and types[1].is_string else None


def _checked_result(types: Types, literals: Literals) -> DataType:
    return types[0].plain.with_nullable(False)


@function(
    "CHECK NOT NULL",
    signature=Custom(_checked_types, _checked_result, "a value and the name of its column"),
)
def check_not_null(ctx: KernelContext, value: Values, column: Values) -> Vector:
    """CHECK NOT NULL: a value on its way into a column that is NOT NULL (no function of SQL).
    Error: NULL."""
    missing = ~valid(value, ctx.num_rows)
    name = next(iter(rows_of(column)), "")
    return Vector(value, Errors.where(missing, f"NULL for column '{name}', which is NOT NULL"))


def _single_types(types: Types) -> tuple[DataType, ...] | None:
    return tuple(types) if len(types) == 2 and types[1].is_integer else None


def _single_result(types: Types, literals: Literals) -> DataType:
    return types[0].plain


@function(
    "CHECK ONE ROW",
    signature=Custom(_single_types, _single_result, "a value and how many rows there are"),
)
def check_one_row(ctx: KernelContext, value: Values, rows: Values) -> Vector:
    """CHECK ONE ROW: the value of a subquery that gives one row (no function of SQL). Error: it
    gives more."""
    counts = (
        pa.array([rows.as_py()] * ctx.num_rows, rows.type) if isinstance(rows, pa.Scalar) else rows
    )
    several = np.asarray(pc.fill_null(pc.greater(counts, 1), pa.scalar(False)))
    return Vector(
        value, Errors.where(several, "a subquery that stands for one value gives more than one row")
    )
