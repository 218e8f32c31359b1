"""Keyed state: one row per key, in columns.

A table holds all buckets that its operator owns. Slots are an affair of memory: a slot is used
again after its row was removed, and no result may depend on its number. The order of rows is that
of their keys' arrival."""

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
    """What happened to a table since a version: first forget the keys of `removed`, then store
    `puts` (both with the hidden columns). `version` is the next question's `since`."""

    puts: pa.RecordBatch
    removed: pa.RecordBatch
    version: int


class KeyedTable:
    """Key columns -> a row of value columns.

    `columns` has one array per key and value column, indexed by slot, in the NumPy type that
    `storage` gives for its type; beside a key column and a nullable value column `x` the bool array
    `x?` is True where the value is not NULL. New rows have 0, 0.0, False or None, NULL where
    nullable. Operators write value columns in place and then `mark` the slots. The arrays are
    replaced when the table grows: fetch them after `slots_for`.

    `exchange` are the key columns whose hash is a row's bucket. Without any all rows are in bucket
    0; None: they belong to no bucket (`everywhere`), and each instance of the operator has them
    all."""

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
        """Its columns in words: what another table must have in common with it to hold its rows."""
        keys, values = (
            ", ".join(f"{c.name} {c.type}" for c in schema) for schema in (self.keys, self.values)
        )
        return (
            f"{keys} -> {values} by"
            f" {'everybody' if self.everywhere else ', '.join(self.exchange) or 'nothing'}"
        )

    @property
    def bytes(self) -> int:
        """What its arrays take in memory; text, lists and the like estimated from some of the
        rows."""
        fixed = (self._alive, self._hash, self._sequence, self._bucket, self._modified)
        total = sum(a.nbytes for a in (*self.columns.values(), *fixed)) + self._index.nbytes
        some = self.live()[:: max(1, len(self) // _SAMPLE)]
        for column in (*self.keys, *self.values):
            if len(some) and self.columns[column.name].dtype.kind == "O":
                array = self._column(column, some)
                total += (array.nbytes // len(some) + _OBJECT) * len(self)
        return total

    def head(self, limit: int) -> pa.RecordBatch:
        """The rows of the keys that came first, in their order, with the hidden columns."""
        return self._rows(self.in_order(self.live())[:limit])

    def copy(self) -> KeyedTable:
        """Another table of the same rows."""
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
        """The slot of each row's key, and True at the first row of each key that was inserted. Keys
        are arrays by the key schema. Without `insert`, -1 for keys that are not there. `buckets`:
        those of the rows, where the columns of the exchange are not among the keys."""
        columns = [key_column(c.type, k) for c, k in zip(self.keys, keys, strict=True)]
        hashes = hash_rows(columns, num_rows)

        def same(rows: IntArray, slots: IntArray) -> BoolArray:
            result = np.ones(len(rows), np.bool_)
            for name, column in zip(self.keys.names, columns, strict=True):
                result &= column.same(rows, self.columns[name][slots], self._valid(name)[slots])
            return result

        def create(rows: IntArray) -> IntArray:
            return self._create(columns, hashes, rows)

        slots, is_new = self._index.find(hashes, same, create if insert else None)
        if insert:
            self._register(keys, slots, np.flatnonzero(is_new), buckets)
        return slots, is_new

    def key_arrays(self, slots: IntArray) -> list[pa.Array]:
        """The keys at `slots`, an array per key column."""
        return [self._column(c, slots) for c in self.keys]

    @property
    def arrivals(self) -> IntArray:
        """By slot, the arrival number of its key."""
        return self._sequence

    def identities(self, slots: IntArray) -> tuple[IntArray, IntArray]:
        """A number that each of the rows keeps as long as it is there, wherever it is loaded, and
        its bucket: what rows of another table name it by."""
        buckets = self._bucket[slots].astype(np.int64)
        return self._sequence[slots] * 256 + buckets, buckets

    def array(self, name: str, slots: IntArray) -> pa.Array:
        """A key or value column at `slots`."""
        schema = self.keys if name in self.keys else self.values
        return self._column(Column(name, schema.type(name)), slots)

    def write(self, slots: IntArray, columns: Mapping[str, pa.Array]) -> None:
        """Writes value columns by name; of a slot that is named twice the last row stays. `mark` is
        still to come."""
        for name, array in columns.items():
            self._write(Column(name, self.values.type(name)), slots, array)

    def mark(self, slots: IntArray) -> None:
        """Says that value columns at `slots` were written."""
        self._touch(slots)
        for name in self._timers:
            self._schedule(name, slots)

    def remove(self, slots: IntArray) -> None:
        """Removes rows, each named once. Their slots may be used again by the next `slots_for`."""
        if len(slots) == 0:
            return
        self.version += 1
        self.writes += len(slots)
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
        """The slots of all rows, in no order."""
        return np.flatnonzero(self._alive[: self._high])

    def in_order(self, slots: IntArray, *by: str) -> IntArray:
        """`slots` sorted by NOT NULL columns, then by the arrival of the keys. Keys that arrived
        elsewhere (`load`) may have one arrival number in several buckets; then the bucket
        decides."""
        arrival: list[SlotColumn] = [self._bucket[slots], self._sequence[slots]]
        return slots[np.lexsort([*arrival, *(self.columns[b][slots] for b in reversed(by))])]

    def due(self, column: str, upto: int) -> IntArray:
        """The slots whose value in `column`, a date, time or integer, is not NULL and at most
        `upto` (in the unit of the column's type), in no order. Costs next to nothing when there are
        none."""
        timers = self._timed(column)
        slots = self._schedule(column, timers.take(upto))
        return slots[self.columns[column][slots].astype(np.int64, copy=False) <= upto]

    def earliest(self, column: str) -> int | None:
        """The least value of a column that `due` could be asked for; None where no row has one."""
        timers = self._timed(column)
        while (end := timers.first_end()) is not None:
            times = self.columns[column][self._present(column, timers.first())].astype(
                np.int64, copy=False
            )
            if (least := int(times.min(initial=end))) < end:
                return least
            self._schedule(
                column, timers.take(end - 1)
            )  # all have gone or moved on to later buckets
        return None

    def changes(self, since: int) -> TableDelta:
        """Copies the rows put and the keys removed after version `since`; 0 is the beginning, and
        after a recovery `version` is what the store holds. What was removed up to `since` is
        forgotten: one reader only."""
        put = np.flatnonzero(self._alive[: self._high] & (self._modified[: self._high] > since))
        self._removed = [entry for entry in self._removed if entry[0] > since]
        self._reported = self._next_sequence
        empty = self._records(self.keys, put[:0])
        removed = pa.Table.from_batches(
            [b for _, b in self._removed], empty.schema
        ).combine_chunks()
        return TableDelta(self._rows(put), (removed.to_batches() or [empty])[0], self.version)

    def dump(self, buckets: Collection[int] | None = None) -> pa.Table:
        """All rows, or those of `buckets`, in order of arrival, with the hidden columns and a
        description of the table in the schema's metadata. Equal tables give equal dumps, whatever
        their slots."""
        return pa.Table.from_batches([self._rows(self.in_order(self._of(buckets)))])

    def load(self, dump: pa.Table | pa.RecordBatch) -> None:
        """Adds the rows of a dump, whose buckets must have none here, with their arrival numbers.
        ServiceError if it is not a dump of a table such as this one."""
        self._check(dump)
        batches = dump.to_batches() if isinstance(dump, pa.Table) else [dump]
        for batch in batches:
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
        """Removes all rows of `buckets`: another instance has them now."""
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
        """Slots for the keys of `rows`, written."""
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
        for name in self._timers.keys() & set(
            self.keys.names
        ):  # value columns are still to be written
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
        """Puts the slots into the index of the column by their values of now; those that are there
        and not NULL."""
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
