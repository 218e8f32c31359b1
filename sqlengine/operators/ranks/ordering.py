"""The order of rows by several columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planner.logical import SortKey
from sqlengine.state import sort_keys as encoding
from sqlengine.state.columns import IntArray
from sqlengine.state.rows import Sorting


def codes(key: SortKey, column: pa.Array) -> IntArray:
    """A number for each value, so that numbers are in the order of the key; equal values have equal
    numbers. Texts are compared by their UTF-8 bytes; NaN is greater than all numbers."""
    if pa.types.is_nested(column.type):
        return _codes_of_bytes(key, column)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    elif pa.types.is_temporal(column.type):
        column = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
    placement = "at_start" if key.nulls_first is not key.descending else "at_end"
    ranks = pc.rank(column, sort_keys=[("", "ascending", placement)], tiebreaker="dense")
    found: IntArray = np.asarray(ranks).astype(np.int64)
    return -found if key.descending else found


def _codes_of_bytes(key: SortKey, column: pa.Array) -> IntArray:
    made = np.empty(len(column), object)
    made[:] = sort_keys([key], [column], len(column))
    found: IntArray = np.unique(made, return_inverse=True)[1].astype(np.int64)
    return found


def sort_keys(keys: Sequence[SortKey], columns: Sequence[pa.Array], count: int) -> list[bytes]:
    """For each of `count` rows bytes that compare as the order wants."""
    parts = [(c, k.descending, k.nulls_first) for k, c in zip(keys, columns, strict=True)]
    return encoding.sort_keys(parts, count)


def sorting(keys: Sequence[SortKey], latest_first: bool = False) -> Sorting:
    """The order as state keeps rows in."""
    held = tuple(keys)
    return Sorting(
        tuple(k.column for k in held), lambda columns, n: sort_keys(held, columns, n), latest_first
    )


def order(
    keys: Sequence[SortKey], columns: Sequence[pa.Array], groups: IntArray, ties: IntArray
) -> IntArray:
    """The indices of rows by group, then by the keys, whose values are `columns`, then by
    `ties`."""
    by = [codes(k, c) for k, c in zip(keys, columns, strict=True)]
    sorted_: IntArray = np.lexsort([ties, *reversed(by), groups])
    return sorted_


def codes_of(columns: Sequence[pa.Array], count: int) -> IntArray:
    """A number for each row, equal for rows that are equal in all columns; NULL is equal to
    NULL."""
    found = np.zeros(count, np.int64)
    for column in columns:
        if pa.types.is_nested(column.type):
            own = _codes_of_bytes(SortKey(""), column)
            found = np.unique(found * (int(own.max(initial=0)) + 1) + own, return_inverse=True)[1]
            continue
        encoded = column.dictionary_encode("encode")
        own = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        found = np.unique(found * len(encoded.dictionary) + own, return_inverse=True)[1]
    return found
