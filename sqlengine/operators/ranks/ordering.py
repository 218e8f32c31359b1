"""Ordering of rows by several columns (ORDER BY)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.logical import SortKey
from sqlengine.state import sort_keys as encoding
from sqlengine.state.columns import IntArray
from sqlengine.state.sort_keys import Sorting


def codes(key: SortKey, column: pa.Array) -> IntArray:
    """Returns a number for each value that orders as the sort key does; equal values have equal
    numbers.

    Texts are compared by their UTF-8 bytes; NaN is greater than all numbers.
    """
    if pa.types.is_nested(column.type):
        return _codes_of_bytes(key, column)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    # As integers, which sort the same and faster.
    elif pa.types.is_temporal(column.type):
        column = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
    placement = "at_start" if key.nulls_first is not key.descending else "at_end"
    ranks = pc.rank(column, sort_keys=[("", "ascending", placement)], tiebreaker="dense")
    dense_ranks: IntArray = np.asarray(ranks).astype(np.int64)
    return -dense_ranks if key.descending else dense_ranks


def _codes_of_bytes(key: SortKey, column: pa.Array) -> IntArray:
    encoded = np.empty(len(column), object)
    encoded[:] = sort_keys([key], [column], len(column))
    numbers: IntArray = np.unique(encoded, return_inverse=True)[1].astype(np.int64)
    return numbers


def sort_keys(keys: Sequence[SortKey], columns: Sequence[pa.Array], count: int) -> list[bytes]:
    """Returns memory-comparable bytes for each of `count` rows."""
    parts = [(c, k.descending, k.nulls_first) for k, c in zip(keys, columns, strict=True)]
    return encoding.sort_keys(parts, count)


def sorting(keys: Sequence[SortKey], latest_first: bool = False) -> Sorting:
    """Returns the order in the form that state tables take."""
    sort_columns = tuple(keys)
    return Sorting(
        tuple(k.column for k in sort_columns),
        lambda columns, n: sort_keys(sort_columns, columns, n),
        latest_first,
    )


def order(
    keys: Sequence[SortKey], columns: Sequence[pa.Array], groups: IntArray, ties: IntArray
) -> IntArray:
    """Returns the indices of rows sorted by group, then by the keys, whose values are `columns`,
    then by `ties`."""
    by = [codes(k, c) for k, c in zip(keys, columns, strict=True)]
    sorted_: IntArray = np.lexsort([ties, *reversed(by), groups])
    return sorted_


def codes_of(columns: Sequence[pa.Array], count: int) -> IntArray:
    """Numbers the rows, equal for rows equal in all columns; NULL equals NULL."""
    numbers = np.zeros(count, np.int64)
    for column in columns:
        if pa.types.is_nested(column.type):
            own = _codes_of_bytes(SortKey(""), column)
            numbers = np.unique(numbers * (int(own.max(initial=0)) + 1) + own, return_inverse=True)[
                1
            ]
            continue
        encoded = column.dictionary_encode("encode")
        own = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        # Renumbered after each column, so that the products stay below rows times distinct values.
        numbers = np.unique(numbers * len(encoded.dictionary) + own, return_inverse=True)[1]
    return numbers
