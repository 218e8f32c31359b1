"""Arrays in an order: sorted, reversed, the extreme elements. NULL for a NULL array."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import PlanError
from parser.types import DataType
from udf.arrays.arrays import bools, valid
from udf.arrays.lists import NULL_CODE, Indices, elements_in, is_array, lists_from, lists_of
from udf.arrays.signatures import ONE_ARRAY, one_array, ordered
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import Custom, boolean_or_null, nullable
from udf.vector import BoolArray


@function("ARRAY_REVERSE", signature=ONE_ARRAY)
def array_reverse(ctx: KernelContext, value: Values) -> Values:
    """ARRAY_REVERSE(array): the elements in reverse order.

    >>> ARRAY_REVERSE(ARRAY[1, 2, 3])
    [3, 2, 1]
    """
    lists = lists_of(value, ctx.num_rows)
    lengths = lists.lengths
    total = int(lengths.sum())
    # How many follow in the row.
    behind = np.repeat(np.cumsum(lengths), lengths) - np.arange(total) - 1
    return lists_from(
        np.repeat(lists.starts, lengths) + behind,
        lengths,
        lists.present,
        lists.values,
        ctx.result_type.arrow,
    )


def _sort_types(types: Types) -> tuple[DataType, ...] | None:
    if not 1 <= len(types) <= 3 or not is_array(types[0]) or not ordered(types[0].children[0]):
        return None
    return (types[0], *[boolean_or_null.cast(t) for t in types[1:]])


@function(
    "ARRAY_SORT",
    signature=Custom(
        _sort_types,
        lambda t, _: t[0].with_nullable(nullable(t)),
        "an array of values that can be ordered and two BOOLEAN",
    ),
)
def array_sort(
    ctx: KernelContext, value: Values, ascending: Values | None = None, first: Values | None = None
) -> Values:
    """ARRAY_SORT(array [, ascending [, nulls first]]): the elements sorted; NULL comes first in
    ascending order and last in descending order, unless the third argument says otherwise. NULL
    if one is NULL.

    >>> ARRAY_SORT(ARRAY[3, NULL, 1])
    [NULL, 1, 3]
    """
    n = ctx.num_rows
    lists = lists_of(value, n)
    rank = _ranks(lists.values)
    up = ascending if ascending is not None else pa.scalar(True)
    early = first if first is not None else up
    up_rows, early_rows = _flags(up, n), _flags(early, n)
    present = lists.present & valid(up, n) & valid(early, n)
    lists = replace(lists, ends=np.where(present, lists.ends, lists.starts))
    places, rows = elements_in(lists), np.repeat(np.arange(n), lists.lengths)
    known = rank[places]
    # Descending is ascending by the negative rank.
    ordered_by = np.where(up_rows[rows], known, -known)
    last = int(rank.max(initial=0)) + 1
    nulls = known == NULL_CODE
    # NULL is put before or behind all ranks, whatever the direction.
    ordered_by[nulls] = np.where(early_rows[rows[nulls]], -last, last)
    # lexsort's last key is the first criterion: rows stay together.
    order = np.lexsort((ordered_by, rows))
    return lists_from(places[order], lists.lengths, present, lists.values, ctx.result_type.arrow)


def _flags(values: Values, num_rows: int) -> BoolArray:
    return bools(pa.repeat(values, num_rows) if isinstance(values, pa.Scalar) else values)


def _ranks(values: pa.Array) -> Indices:
    """Numbers in the order of the values; NULL has -1."""
    # Arrow's `rank` does not take booleans.
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    if not len(values) or pa.types.is_null(values.type):
        return np.full(len(values), NULL_CODE)
    ranks = pc.rank(values, sort_keys="ascending", tiebreaker="dense")
    return np.where(valid(values, len(values)), ranks.to_numpy().astype(np.int64), NULL_CODE)


def _extreme_result(types: Types, literals: Literals) -> DataType:
    element = types[0].children[0]
    if not ordered(element):
        raise PlanError(f"elements of type {element.plain} have no order")
    return element.with_nullable(True)


def _extreme(ctx: KernelContext, value: Values, *, greatest: bool) -> Values:
    lists = lists_of(value, ctx.num_rows)
    rank = _ranks(lists.values)
    places, lengths = elements_in(lists), lists.lengths
    # For the minimum ranks are mirrored, so that the greatest key is the best either way; NULL
    # stays below all.
    key = (
        rank[places]
        if greatest
        else np.where(rank[places] == NULL_CODE, NULL_CODE, int(rank.max(initial=0)) - rank[places])
    )
    best_places = np.full(ctx.num_rows, -1, np.int64)
    # `reduceat` takes the element itself for an empty range, so empty rows are left out.
    not_empty = np.flatnonzero(lengths)
    if len(not_empty):
        starts = (np.cumsum(lengths) - lengths)[not_empty]
        best = np.maximum.reduceat(key, starts)
        # A row of NULLs only has the best key NULL_CODE, and so no hit.
        hits = np.flatnonzero((key == np.repeat(best, lengths[not_empty])) & (key != NULL_CODE))
        best_places[np.repeat(not_empty, lengths[not_empty])[hits]] = places[hits]
    return lists.values.take(pa.array(best_places, mask=best_places < 0)).cast(
        ctx.result_type.arrow
    )


@function("ARRAY_MAX", signature=Custom(one_array, _extreme_result, "an array"))
def array_max(ctx: KernelContext, value: Values) -> Values:
    """ARRAY_MAX(array): the greatest element that is not NULL; NULL if there is none.

    >>> ARRAY_MAX(ARRAY[1, NULL, 3])
    3
    """
    return _extreme(ctx, value, greatest=True)


@function("ARRAY_MIN", signature=Custom(one_array, _extreme_result, "an array"))
def array_min(ctx: KernelContext, value: Values) -> Values:
    """ARRAY_MIN(array): the smallest element that is not NULL; NULL if there is none.

    >>> ARRAY_MIN(ARRAY[1, NULL, 3])
    1
    """
    return _extreme(ctx, value, greatest=False)
