"""The slots of a state table: rows in columns, found by their keys.

A slot is a position in the arrays in memory: it is reused after its row was removed, and no result
may depend on its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import cast

import numpy as np
import pyarrow as pa

from parser.types import Column, Schema
from sqlengine.state.columns import (
    BoolArray,
    IntArray,
    SlotColumn,
    Values,
    blank,
    longer,
    objects,
    to_arrow,
    to_numpy,
)
from sqlengine.state.index import HashIndex
from sqlengine.state.keys import (
    Key,
    KeyColumn,
    buckets_of,
    check_keys,
    hash_rows,
    key_column,
    plain_column,
)

_SMALLEST = 64


class SlotTable:
    """Maps key columns to slots, and holds the key and value columns by slot.

    `columns` has one array per key and value column, in the NumPy type that `storage` gives for its
    type. Beside a key column and a nullable value column `x`, the bool array `x?` is True where the
    value is not NULL. New rows have 0, 0.0, False or None, NULL where nullable. The arrays are
    replaced when the table grows: fetch them after `slots_for`.

    Each row has an arrival number, which orders the rows, and a bucket. `exchange` are the key
    columns whose hash is the bucket. Without any, all rows are in bucket 0. None: the rows belong
    to no bucket (`everywhere`), and each instance of the operator has all of them.
    """

    def __init__(
        self, name: str, keys: Schema, values: Schema, exchange: Sequence[str] | None = ()
    ) -> None:
        check_keys(keys)
        self.name = name
        self.keys = keys
        self.values = values
        self.exchange = tuple(exchange or ())
        self.everywhere = exchange is None
        self.columns: dict[str, SlotColumn] = {}
        self._index = HashIndex()
        self._high = 0  # slots below were used at some time
        self._free: IntArray = np.empty(0, np.int64)
        self._live = 0
        self._alive: BoolArray = np.zeros(_SMALLEST, np.bool_)
        # Rows that were added by `append` are not in the index until somebody looks for a key.
        self._indexed: BoolArray = np.zeros(_SMALLEST, np.bool_)
        self._all_indexed = True
        self._hash = np.zeros(_SMALLEST, np.uint64)
        self._sequence = np.zeros(_SMALLEST, np.int64)
        self._bucket = np.zeros(_SMALLEST, np.uint8)
        self._next_sequence = 0
        self._by_name = {column.name: column for column in (*keys, *values)}
        self._blanks = [(c.name, blank(c.type, 1), c.type.nullable) for c in values]
        for column in (*keys, *values):
            self.columns[column.name] = blank(column.type, _SMALLEST)
            if column.name in keys or column.type.nullable:
                self.columns[column.name + "?"] = np.zeros(_SMALLEST, np.bool_)

    def __len__(self) -> int:
        return self._live

    def slots_for(
        self,
        keys: Sequence[Key],
        num_rows: int,
        insert: bool = True,
        buckets: IntArray | None = None,
    ) -> tuple[IntArray, BoolArray]:
        """Returns the slot of each row's key, and True at the first row of each key that was
        inserted.

        `keys` are arrays by the key schema, or what was made of them for another table. Without
        `insert`, keys that are absent have slot -1.
        `buckets` are the buckets of the rows, for tables whose exchange columns are not among their
        keys.
        """
        columns = [key_column(c.type, k) for c, k in zip(self.keys, keys, strict=True)]
        hashes = hash_rows(columns, num_rows)
        if not self._all_indexed:
            self._index_rest()

        def equals(rows: IntArray, slots: IntArray) -> BoolArray:
            result = np.ones(len(rows), np.bool_)
            for name, column in zip(self.keys.names, columns, strict=True):
                result &= column.same(rows, self.columns[name][slots], self._valid(name)[slots])
            return result

        def create(rows: IntArray) -> IntArray:
            slots = self._create(columns, rows)
            self._hash[slots], self._indexed[slots] = hashes[rows], True
            return slots

        slots, is_new = self._index.find(hashes, equals, create if insert else None)
        if insert:
            self._register(columns, slots, np.flatnonzero(is_new), buckets)
        return slots, is_new

    def append(
        self, keys: Sequence[Key], num_rows: int, buckets: IntArray | None = None
    ) -> IntArray:
        """Adds rows whose keys the table does not have, each once; returns their slots. They are
        not looked for, which makes it cheaper than `slots_for`, unless that is called, too."""
        columns = [key_column(c.type, k) for c, k in zip(self.keys, keys, strict=True)]
        rows = np.arange(num_rows)
        slots = self._create(columns, rows)
        self._indexed[slots] = False
        self._all_indexed = False
        self._register(columns, slots, rows, buckets)
        return slots

    def _index_rest(self) -> None:
        """Takes rows that were appended into the index."""
        slots = np.flatnonzero(self._alive[: self._high] & ~self._indexed[: self._high])
        hashes = hash_rows(self.key_columns(slots, self.keys.names), len(slots))
        self._index.put(hashes, slots)
        self._hash[slots], self._indexed[slots] = hashes, True
        self._all_indexed = True

    def key_arrays(self, slots: IntArray) -> list[pa.Array]:
        """Returns the keys at `slots`, one array per key column."""
        return [self._column(c, slots) for c in self.keys]

    def key_columns(self, slots: IntArray, names: Sequence[str]) -> list[KeyColumn]:
        """Returns some of the key columns at `slots`, as a table compares them."""
        return [
            plain_column(self.keys.type(n), self.columns[n][slots], self._valid(n)[slots])
            for n in names
        ]

    @property
    def arrivals(self) -> IntArray:
        """The arrival number of each key, by slot."""
        return self._sequence

    def identities(self, slots: IntArray) -> tuple[IntArray, IntArray]:
        """Returns a permanent number for each row, and the row's bucket.

        A row keeps the number as long as it exists, wherever it is loaded: rows of another table
        refer to it by this number.
        """
        buckets = self._bucket[slots].astype(np.int64)
        return self._sequence[slots] * 256 + buckets, buckets

    def array(self, name: str, slots: IntArray) -> pa.Array:
        """Returns a key or value column at `slots`."""
        return self._column(self._by_name[name], slots)

    def live(self) -> IntArray:
        """Returns the slots of all rows, in no order."""
        return np.flatnonzero(self._alive[: self._high])

    def in_order(self, slots: IntArray, *by: str) -> IntArray:
        """Returns `slots` sorted by NOT NULL columns, then by the arrival of the keys.

        Keys that arrived in another instance (`load`) may have equal arrival numbers in several
        buckets; the bucket breaks the tie.
        """
        arrival: list[SlotColumn] = [self._bucket[slots], self._sequence[slots]]
        # np.lexsort takes the most significant key last.
        return slots[np.lexsort([*arrival, *(self.columns[b][slots] for b in reversed(by))])]

    def _create(self, columns: Sequence[KeyColumn], rows: IntArray) -> IntArray:
        """Allocates slots for new keys, and writes the keys of `rows` there."""
        reused = min(len(self._free), len(rows))
        fresh = len(rows) - reused
        self._grow(self._high + fresh)
        slots = np.concatenate(
            [self._free[len(self._free) - reused :], np.arange(self._high, self._high + fresh)]
        )
        self._free = self._free[: len(self._free) - reused]
        self._high += fresh
        for name, column in zip(self.keys.names, columns, strict=True):
            self.columns[name][slots] = column.values[rows]
            self._valid(name)[slots] = column.valid[rows]
        for value, nothing, nullable in self._blanks if reused else ():
            # A reused slot still has the values of its former row.
            self.columns[value][slots] = nothing
            if nullable:
                self._valid(value)[slots] = False
        self._alive[slots] = True
        self._live += len(slots)
        return slots

    def _register(
        self, keys: Sequence[KeyColumn], slots: IntArray, first: IntArray, buckets: IntArray | None
    ) -> None:
        """Gives the keys inserted by the rows `first` their arrival numbers and buckets."""
        new = slots[first]
        if buckets is None:
            parts = [keys[self.keys.index(e)] for e in self.exchange]
            if len(first) < len(slots):
                parts = [part.take(first) for part in parts]
            self._bucket[new] = buckets_of(
                [self.keys.type(e) for e in self.exchange], parts, len(first)
            )
        else:
            self._bucket[new] = buckets[first]
        self._sequence[new] = np.arange(self._next_sequence, self._next_sequence + len(first))
        self._next_sequence += len(first)

    def _grow(self, size: int) -> None:
        capacity = len(self._alive)
        if size <= capacity:
            return
        more = max(size, 2 * capacity) - capacity
        for name, array in self.columns.items():
            if array.dtype.kind == "O":
                self.columns[name] = np.concatenate([array, objects(repeat(None, more), more)])
            else:
                self.columns[name] = longer(array, more)
        self._alive = longer(self._alive, more)
        self._indexed = longer(self._indexed, more)
        self._hash = longer(self._hash, more)
        self._sequence = longer(self._sequence, more)
        self._bucket = longer(self._bucket, more)

    def _write(self, column: Column, slots: IntArray, array: Values) -> None:
        values, valid = to_numpy(column.type, array)
        self.columns[column.name][slots] = values
        if column.type.nullable:
            self._valid(column.name)[slots] = valid

    def _valid(self, name: str) -> BoolArray:
        return cast(BoolArray, self.columns[name + "?"])

    def _column(self, column: Column, slots: IntArray) -> pa.Array:
        valid = self._valid(column.name)[slots] if column.name + "?" in self.columns else None
        return to_arrow(column.type, self.columns[column.name][slots], valid)
