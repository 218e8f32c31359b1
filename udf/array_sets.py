"""Arrays made of the elements of several: as sets, or one after the other. NULL if an array is NULL."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from parser.types import DataType, array
from udf.array_signatures import ONE_ARRAY
from udf.coercion import merged_type
from udf.lists import (
    Row,
    chosen,
    is_array,
)
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import Custom, nullable


def _common_arrays(least: int, most: int) -> Callable[[Types], tuple[DataType, ...] | None]:
    def casts(types: Types) -> tuple[DataType, ...] | None:
        if not least <= len(types) <= most or not all(is_array(t) for t in types):
            return None
        common = merged_type([t.children[0].with_nullable(True) for t in types])
        if common is None:
            return None
        return tuple(_array_of(common, t) for t in types)

    return casts


def _array_of(element: DataType, given: DataType) -> DataType:
    """The array type with this element; the given one where only nullability differs."""
    wanted = array(element.with_nullable(given.children[0].nullable)).with_nullable(given.nullable)
    return given if given.children[0].same_as(element) else wanted


def _union_result(types: Types, literals: Literals) -> DataType:
    element = types[0].children[0]
    holds_null = any(t.children[0].nullable for t in types)
    return array(element.with_nullable(holds_null)).with_nullable(nullable(types))


def _firsts(held: Sequence[Row], starts: Row, keep: Callable[[int], bool]) -> Row:
    """The places of the first occurrence of every code that is to be kept."""
    seen: dict[int, int] = {}
    for codes, start in zip(held, starts, strict=True):
        for i, code in enumerate(codes):
            if code not in seen and keep(code):
                seen[code] = start + i
    return list(seen.values())


@function("ARRAY_DISTINCT", signature=ONE_ARRAY)
def array_distinct(ctx: KernelContext, value: Values) -> Values:
    """ARRAY_DISTINCT(array): every element once, at its first place.

    >>> ARRAY_DISTINCT(ARRAY[1, 2, 1])
    [1, 2]
    """
    return chosen(ctx, lambda held, starts: _firsts(held, starts, lambda code: True), value)


@function("ARRAY_UNION", signature=Custom(_common_arrays(2, 2), _union_result, "two arrays of one common type"))
def array_union(ctx: KernelContext, left: Values, right: Values) -> Values:
    """ARRAY_UNION(array, array): the elements of both, every one once.

    >>> ARRAY_UNION(ARRAY[1, 2, 1], ARRAY[3, 2])
    [1, 2, 3]
    """
    return chosen(ctx, lambda held, starts: _firsts(held, starts, lambda code: True), left, right)


@function("ARRAY_INTERSECT", signature=Custom(_common_arrays(2, 2), _union_result, "two arrays of one common type"))
def array_intersect(ctx: KernelContext, left: Values, right: Values) -> Values:
    """ARRAY_INTERSECT(array, array): the elements of the first that are in the second, every one once.

    >>> ARRAY_INTERSECT(ARRAY[1, 2, 1], ARRAY[1])
    [1]
    """

    def choose(held: Sequence[Row], starts: Row) -> Row:
        other = set(held[1])
        return _firsts(held[:1], starts[:1], lambda code: code in other)

    return chosen(ctx, choose, left, right)


@function("ARRAY_EXCEPT", signature=Custom(_common_arrays(2, 2), _union_result, "two arrays of one common type"))
def array_except(ctx: KernelContext, left: Values, right: Values) -> Values:
    """ARRAY_EXCEPT(array, array): the elements of the first that are not in the second, every one once.

    >>> ARRAY_EXCEPT(ARRAY[1, 2, 1], ARRAY[2])
    [1]
    """

    def choose(held: Sequence[Row], starts: Row) -> Row:
        other = set(held[1])
        return _firsts(held[:1], starts[:1], lambda code: code not in other)

    return chosen(ctx, choose, left, right)


@function("ARRAY_CONCAT", signature=Custom(_common_arrays(1, 1 << 16), _union_result, "arrays of one common type"))
def array_concat(ctx: KernelContext, *values: Values) -> Values:
    """ARRAY_CONCAT(array, …): the elements of all arrays, one array after the other; NULL if one is NULL.

    >>> ARRAY_CONCAT(ARRAY[1], ARRAY[2, 3])
    [1, 2, 3]
    """

    def choose(held: Sequence[Row], starts: Row) -> Row:
        return [s + i for codes, s in zip(held, starts, strict=True) for i in range(len(codes))]

    return chosen(ctx, choose, *values)
