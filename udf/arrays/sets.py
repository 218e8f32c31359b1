"""Arrays made of the elements of several: as sets, or one after the other. NULL if an array is
NULL."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from parser.types import DataType, array
from udf.arrays.lists import elements_of, firsts, is_array
from udf.arrays.signatures import ONE_ARRAY
from udf.casts.coercion import merged_type
from udf.growth import JOINED
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


@function("ARRAY_DISTINCT", signature=ONE_ARRAY)
def array_distinct(ctx: KernelContext, value: Values) -> Values:
    """ARRAY_DISTINCT(array): every element once, at its first place.

    >>> ARRAY_DISTINCT(ARRAY[1, 2, 1])
    [1, 2]
    """
    elements = elements_of(ctx.num_rows, ctx.result_type.arrow, value)
    return elements.kept(firsts(elements.rows, elements.codes), ctx.result_type.arrow)


@function(
    "ARRAY_UNION",
    signature=Custom(_common_arrays(2, 2), _union_result, "two arrays of one common type"),
)
def array_union(ctx: KernelContext, left: Values, right: Values) -> Values:
    """ARRAY_UNION(array, array): the elements of both, every one once.

    >>> ARRAY_UNION(ARRAY[1, 2, 1], ARRAY[3, 2])
    [1, 2, 3]
    """
    elements = elements_of(ctx.num_rows, ctx.result_type.arrow, left, right)
    return elements.kept(firsts(elements.rows, elements.codes), ctx.result_type.arrow)


@function(
    "ARRAY_INTERSECT",
    signature=Custom(_common_arrays(2, 2), _union_result, "two arrays of one common type"),
)
def array_intersect(ctx: KernelContext, left: Values, right: Values) -> Values:
    """ARRAY_INTERSECT(array, array): the distinct elements of the first array that are in the
    second.

    >>> ARRAY_INTERSECT(ARRAY[1, 2, 1], ARRAY[1])
    [1]
    """

    return _compared(ctx, left, right, common=True)


@function(
    "ARRAY_EXCEPT",
    signature=Custom(_common_arrays(2, 2), _union_result, "two arrays of one common type"),
)
def array_except(ctx: KernelContext, left: Values, right: Values) -> Values:
    """ARRAY_EXCEPT(array, array): the distinct elements of the first array that are not in the
    second.

    >>> ARRAY_EXCEPT(ARRAY[1, 2, 1], ARRAY[2])
    [1]
    """

    return _compared(ctx, left, right, common=False)


def _compared(ctx: KernelContext, left: Values, right: Values, *, common: bool) -> Values:
    """The elements of the first array that are in the second, or that are not."""
    elements = elements_of(ctx.num_rows, ctx.result_type.arrow, left, right)
    codes = elements.codes
    # Row and element in one number: codes begin at -1 (NULL), hence the shift by one.
    keys = elements.rows * (int(codes.max(initial=0)) + 2) + codes + 1
    mine = np.flatnonzero(elements.which == 0)
    # An element is in the other array if its number is: a comparison within rows by one set
    # operation.
    wanted = mine[np.isin(keys[mine], keys[elements.which == 1], invert=not common)]
    return elements.kept(
        wanted[firsts(elements.rows[wanted], codes[wanted])], ctx.result_type.arrow
    )


@function(
    "ARRAY_CONCAT",
    signature=Custom(_common_arrays(1, 1 << 16), _union_result, "arrays of one common type"),
    growth=JOINED,
)
def array_concat(ctx: KernelContext, *values: Values) -> Values:
    """ARRAY_CONCAT(array, …): the elements of all arrays, concatenated; NULL if one is NULL.

    >>> ARRAY_CONCAT(ARRAY[1], ARRAY[2, 3])
    [1, 2, 3]
    """

    elements = elements_of(ctx.num_rows, ctx.result_type.arrow, *values)
    return elements.kept(np.arange(len(elements.rows)), ctx.result_type.arrow)
