"""Keyed state: one row per key, stored in columns.

A table holds the rows of all buckets that its operator owns. A slot is a position in the arrays in
memory: it is reused after its row was removed, and no result may depend on its number. Rows are
ordered by the arrival of their keys.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.errors import ServiceError
from parser.types import Column, Schema
from sqlengine.state.columns import (
    BoolArray,
    IntArray,
    SlotColumn,
    blank,
    longer,
    objects,
    storage,
    to_arrow,
    to_numpy,
)
from sqlengine.state.index import HashIndex
from sqlengine.state.keys import (
    BUCKET_HASH_VERSION,
    KeyColumn,
    buckets_of,
    check_keys,
    hash_rows,
    key_column,
)
from sqlengine.state.timers import Timers
from sqlengine.system.format_numbers import check_number

STATE_FORMAT: Final = 1
METADATA_KEY: Final = b"sqlengine.state"
# A row's arrival number and its bucket: hidden columns of a dump. Together they identify the row in
# its table.
SEQUENCE: Final = "#sequence"
BUCKET: Final = "#bucket"

_SMALLEST = 64
# So many rows tell how large the objects in a column are, besides what each of them takes in
# Python.
_SAMPLE, _OBJECT = 256, 48


@dataclass(frozen=True)
class TableDelta:
    """The changes of a table since a version.

    A reader first deletes the keys in `removed`, then stores `puts` (both have the hidden columns).
    `version` is the `since` of the next call of `KeyedTable.changes`.
    """

    puts: pa.RecordBatch
    removed: pa.RecordBatch
    version: int


class KeyedTable:
    """Maps key columns to one row of value columns.

    `columns` has one array per key and value column, indexed by slot, in the NumPy type that
    `storage` gives for its type. Beside a key column and a nullable value column `x`, the bool
    array `x?` is True where the value is not NULL. New rows have 0, 0.0, False or None, NULL where
    nullable. Operators write value columns in place and then call `mark` for the slots. The arrays
    are replaced when the table grows: fetch them after `slots_for`.

    `exchange` are the key columns whose hash is a row's bucket. Without any, all rows are in bucket
    0. None: the rows belong to no bucket (`everywhere`), and each instance of the operator has all
    of them.
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
        self.version = 0
        self.writes = 0  # rows put or removed so far, counted each time
        self.generation = 0  # how often rows came or went otherwise than by their operator
        self.columns: dict[str, SlotColumn] = {}
        self._index = HashIndex()
        self._high = 0  # slots below were used at some time
        self._free: IntArray = np.empty(0, np.int64)
        self._alive: BoolArray = np.zeros(_SMALLEST, np.bool_)
        self._hash = np.zeros(_SMALLEST, np.uint64)
        self._sequence = np.zeros(_SMALLEST, np.int64)
        self._bucket = np.zeros(_SMALLEST, np.uint8)
        self._modified = np.zeros(_SMALLEST, np.int64)
        self._next_sequence = 0
        self._reported = 0  # rows of higher arrival numbers have never been part of `changes`
        self._removed: list[tuple[int, pa.RecordBatch]] = []
        self._timers: dict[str, Timers] = {}
        for column in (*keys, *values):
            self.columns[column.name] = blank(column.type, _SMALLEST)
            if column.name in keys or column.type.nullable:
                self.columns[column.name + "?"] = np.zeros(_SMALLEST, np.bool_)

    def __len__(self) -> int:
        return len(self._index)

    @property
    def layout(self) -> str:
        """The columns as text: two tables with equal layouts can load each other's rows."""
        keys, values = (
            ", ".join(f"{c.name} {c.type}" for c in schema) for schema in (self.keys, self.values)
        )
        return (
            f"{keys} -> {values} by"
            f" {'everybody' if self.everywhere else ', '.join(self.exchange) or 'nothing'}"
        )

    @property
    def bytes(self) -> int:
        """The size of the arrays in memory, in bytes.

        The size of texts, lists and other objects is estimated from a sample of the rows.
        """
        fixed = (self._alive, self._hash, self._sequence, self._bucket, self._modified)
        total = sum(a.nbytes for a in (*self.columns.values(), *fixed)) + self._index.nbytes
        some = self.live()[:: max(1, len(self) // _SAMPLE)]
        for column in (*self.keys, *self.values):
            if len(some) and self.columns[column.name].dtype.kind == "O":
                array = self._column(column, some)
                total += (array.nbytes // len(some) + _OBJECT) * len(self)
        return total

    def head(self, limit: int) -> pa.RecordBatch:
        """Returns the rows of the first keys in order of arrival, with the hidden columns."""
        return self._rows(self.in_order(self.live())[:limit])

    def copy(self) -> KeyedTable:
        """Returns another table with equal rows."""
        other = KeyedTable(
            self.name, self.keys, self.values, None if self.everywhere else self.exchange
        )
        other.load(self.dump())
        return other

    def slots_for(
        self,
        keys: Sequence[pa.Array],
        num_rows: int,
        insert: bool = True,
        buckets: IntArray | None = None,
    ) -> tuple[IntArray, BoolArray]:
        """Returns the slot of each row's key, and True at the first row of each key that was
        inserted.

        `keys` are arrays by the key schema. Without `insert`, keys that are absent have slot -1.
        `buckets` are the buckets of the rows, for tables whose exchange columns are not among their
        keys.
        """
        columns = [key_column(c.type, k) for c, k in zip(self.keys, keys, strict=True)]
        hashes = hash_rows(columns, num_rows)

        def equals(rows: IntArray, slots: IntArray) -> BoolArray:
            result = np.ones(len(rows), np.bool_)
            for name, column in zip(self.keys.names, columns, strict=True):
                result &= column.same(rows, self.columns[name][slots], self._valid(name)[slots])
            return result

        def create(rows: IntArray) -> IntArray:
            return self._create(columns, hashes, rows)

        slots, is_new = self._index.find(hashes, equals, create if insert else None)
        if insert:
            self._register(keys, slots, np.flatnonzero(is_new), buckets)
        return slots, is_new

    def key_arrays(self, slots: IntArray) -> list[pa.Array]:
        """Returns the keys at `slots`, one array per key column."""
        return [self._column(c, slots) for c in self.keys]

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
        schema = self.keys if name in self.keys else self.values
        return self._column(Column(name, schema.type(name)), slots)

    def write(self, slots: IntArray, columns: Mapping[str, pa.Array]) -> None:
        """Writes value columns by name; of rows with one slot, the last one wins. The caller has to
        call `mark` afterwards.
        """
        for name, array in columns.items():
            self._write(Column(name, self.values.type(name)), slots, array)

    def mark(self, slots: IntArray) -> None:
        """Records that value columns at `slots` were written: checkpoint, counters, timers."""
        self._touch(slots)
        for name in self._timers:
            self._schedule(name, slots)

    def remove(self, slots: IntArray) -> None:
        """Removes rows; each slot is given once. The next `slots_for` may reuse the slots."""
        if len(slots) == 0:
            return
        self.version += 1
        self.writes += len(slots)
        # A row that came and went between two checkpoints was never in the store: only rows that
        # `changes` has returned need a deletion there.
        reported = slots[self._sequence[slots] < self._reported]
        if len(reported):
            self._removed.append((self.version, self._records(self.keys, reported)))
        self._index.remove(self._hash[slots], slots)
        self._alive[slots] = False
        self._free = np.concatenate([self._free, slots])
        for column in (*self.keys, *self.values):
            if storage(column.type).kind == "O":  # frees the objects
                self.columns[column.name][slots] = blank(column.type, 1)

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

    def due(self, column: str, upto: int) -> IntArray:
        """Returns the slots whose value in `column` is at most `upto`, in no order; NULL is never
        due.

        `column` is a date, time or integer, `upto` in its unit. Costs next to nothing where no row
        is due.
        """
        timers = self._timed(column)
        slots = self._schedule(column, timers.take(upto))
        return slots[self.columns[column][slots].astype(np.int64, copy=False) <= upto]

    def earliest(self, column: str) -> int | None:
        """Returns the least value of a column that has timers; None where no row has one."""
        timers = self._timed(column)
        while (end := timers.first_end()) is not None:
            times = self.columns[column][self._present(column, timers.first())].astype(
                np.int64, copy=False
            )
            if (least := int(times.min(initial=end))) < end:
                return least
            # All slots of this bucket were removed or have later times now: file them again.
            self._schedule(column, timers.take(end - 1))
        return None

    def changes(self, since: int) -> TableDelta:
        """Returns the rows put and the keys removed after version `since`.

        0 is the beginning; after a recovery, `version` is what the store holds. There may be one
        reader only: removals up to `since` are forgotten.
        """
        put = np.flatnonzero(self._alive[: self._high] & (self._modified[: self._high] > since))
        self._removed = [entry for entry in self._removed if entry[0] > since]
        self._reported = self._next_sequence
        empty = self._records(self.keys, put[:0])
        removed = pa.Table.from_batches(
            [b for _, b in self._removed], empty.schema
        ).combine_chunks()
        return TableDelta(self._rows(put), (removed.to_batches() or [empty])[0], self.version)

    def dump(self, buckets: Collection[int] | None = None) -> pa.Table:
        """Returns all rows, or those of `buckets`, in order of arrival, with the hidden columns.

        The schema's metadata describe the table. Equal tables give equal dumps, whatever their
        slots.
        """
        return pa.Table.from_batches([self._rows(self.in_order(self._of(buckets)))])

    def load(self, dump: pa.Table | pa.RecordBatch) -> None:
        """Adds the rows of a dump with their arrival numbers; the table must have no rows of their
        buckets.

        ServiceError if the dump is of a table with another layout, or was loaded already.
        """
        self._check(dump)
        batches = dump.to_batches() if isinstance(dump, pa.Table) else [dump]
        for batch in batches:
            # `slots_for` gives new arrival numbers, which the stored ones replace below; the
            # counter goes on behind the greatest of both, so that no number is given twice.
            following = self._next_sequence
            buckets = batch.column(BUCKET).to_numpy().astype(np.int64)
            keys = [batch.column(c) for c in self.keys.names]
            slots, is_new = self.slots_for(keys, batch.num_rows, buckets=buckets)
            if not is_new.all():
                raise ServiceError(
                    f"state of table '{self.name}' was loaded twice",
                    hint="drop the buckets before they are loaded",
                )
            self._sequence[slots] = batch.column(SEQUENCE).to_numpy()
            for column in self.values:
                self._write(column, slots, batch.column(column.name))
            self._next_sequence = max(following, int(self._sequence[slots].max(initial=-1)) + 1)
        self._reported = self._next_sequence
        self._timers.clear()
        self.generation += 1

    def drop(self, buckets: Collection[int]) -> None:
        """Removes all rows of `buckets`, which another instance owns now."""
        self.remove(self._of(buckets))
        self.generation += 1

    def _of(self, buckets: Collection[int] | None) -> IntArray:
        slots = self.live()
        if buckets is None:
            return slots
        wanted = np.zeros(256, np.bool_)
        wanted[list(buckets)] = True
        return slots[wanted[self._bucket[slots]]]

    def _create(
        self, columns: Sequence[KeyColumn], hashes: npt.NDArray[np.uint64], rows: IntArray
    ) -> IntArray:
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
        for value in self.values:
            # A reused slot still has the values of its former row.
            self.columns[value.name][slots] = blank(value.type, 1)
            if value.type.nullable:
                self._valid(value.name)[slots] = False
        self._hash[slots] = hashes[rows]
        self._alive[slots] = True
        return slots

    def _register(
        self, keys: Sequence[pa.Array], slots: IntArray, first: IntArray, buckets: IntArray | None
    ) -> None:
        """Gives the keys inserted by the rows `first` their arrival numbers and buckets."""
        if len(first) == 0:
            return
        new = slots[first]
        if buckets is None:
            index = pa.array(first)
            parts = [keys[self.keys.index(e)].take(index) for e in self.exchange]
            self._bucket[new] = buckets_of(
                [self.keys.type(e) for e in self.exchange], parts, len(first)
            )
        else:
            self._bucket[new] = buckets[first]
        self._sequence[new] = np.arange(self._next_sequence, self._next_sequence + len(first))
        self._next_sequence += len(first)
        self._touch(new)
        # Timers over value columns follow with `mark`, when the operator has written the values.
        for name in self._timers.keys() & set(self.keys.names):
            self._schedule(name, new)

    def _touch(self, slots: IntArray) -> None:
        self.version += 1
        self.writes += len(slots)
        self._modified[slots] = self.version

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
        self._hash = longer(self._hash, more)
        self._sequence = longer(self._sequence, more)
        self._bucket = longer(self._bucket, more)
        self._modified = longer(self._modified, more)

    def _timed(self, column: str) -> Timers:
        if column not in self._timers:
            self._timers[column] = Timers()
            self._schedule(column, self.live())
        return self._timers[column]

    def _schedule(self, name: str, slots: IntArray) -> IntArray:
        """Files the slots in the timers of a column under their present values; returns those that
        exist and are not NULL.
        """
        slots = self._present(name, slots)
        self._timers[name].put(slots, self.columns[name][slots].astype(np.int64, copy=False))
        return slots

    def _present(self, name: str, slots: IntArray) -> IntArray:
        """Those of the slots that are there, and not NULL in the column."""
        slots = slots[self._alive[slots]]
        return slots[self._valid(name)[slots]] if name + "?" in self.columns else slots

    def _write(self, column: Column, slots: IntArray, array: pa.Array) -> None:
        values, valid = to_numpy(column.type, array)
        self.columns[column.name][slots] = values
        if column.type.nullable:
            self._valid(column.name)[slots] = valid

    def _valid(self, name: str) -> BoolArray:
        return cast(BoolArray, self.columns[name + "?"])

    def _column(self, column: Column, slots: IntArray) -> pa.Array:
        valid = self._valid(column.name)[slots] if column.name + "?" in self.columns else None
        return to_arrow(column.type, self.columns[column.name][slots], valid)

    def _rows(self, slots: IntArray) -> pa.RecordBatch:
        return self._records(Schema((*self.keys, *self.values)), slots)

    def _records(self, schema: Schema, slots: IntArray) -> pa.RecordBatch:
        arrays = [self._column(c, slots) for c in schema]
        hidden = [pa.array(self._sequence[slots]), pa.array(self._bucket[slots])]
        return pa.RecordBatch.from_arrays([*arrays, *hidden], schema=self._arrow(schema))

    def _arrow(self, schema: Schema) -> pa.Schema:
        hidden = [pa.field(SEQUENCE, pa.int64()), pa.field(BUCKET, pa.uint8())]
        about = {"format": STATE_FORMAT, "bucket_hash": BUCKET_HASH_VERSION, "table": self.name}
        return pa.schema([*schema.arrow, *hidden], {METADATA_KEY: json.dumps(about)})

    def _check(self, dump: pa.Table | pa.RecordBatch) -> None:
        about = json.loads((dump.schema.metadata or {}).get(METADATA_KEY, b"{}"))
        wanted = {"format": STATE_FORMAT, "bucket_hash": BUCKET_HASH_VERSION}
        for what, number in wanted.items():
            hint = "restore it with the version that wrote it, or start the job without its state"
            check_number(about.get(what), number, f"state of table '{self.name}'", what, hint)
        if not dump.schema.equals(self._arrow(Schema((*self.keys, *self.values)))):
            raise ServiceError(
                f"state of table '{self.name}' has other columns than its operator",
                detail=f"stored: {', '.join(f'{f.name} {f.type}' for f in dump.schema)}",
                hint="start the job without its state",
            )
