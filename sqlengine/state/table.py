"""Keyed state: one row per key, with what checkpoints and timers need.

A table holds the rows of all buckets that its operator owns, ordered by the arrival of their keys.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from parser.errors import ServiceError
from parser.types import Schema
from sqlengine.state.columns import IntArray, Values, blank, longer, storage
from sqlengine.state.keys import BUCKET_HASH_VERSION, KeyColumn
from sqlengine.state.slot_table import SlotTable
from sqlengine.state.timers import Timers
from sqlengine.system.format_numbers import check_number

STATE_FORMAT: Final = 1
METADATA_KEY: Final = b"sqlengine.state"
# A row's arrival number and its bucket: hidden columns of a dump. Together they identify the row in
# its table.
SEQUENCE: Final = "#sequence"
BUCKET: Final = "#bucket"

# The size of objects is estimated from a sample of rows, plus what each takes in Python (bytes).
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


class KeyedTable(SlotTable):
    """Maps key columns to one row of value columns, with checkpoints and timers.

    Operators write value columns in place and then call `mark` for the slots. `changes` returns
    what a checkpoint has to store; `due` finds the rows whose time has come.
    """

    def __init__(
        self, name: str, keys: Schema, values: Schema, exchange: Sequence[str] | None = ()
    ) -> None:
        super().__init__(name, keys, values, exchange)
        self.version = 0
        self.writes = 0  # rows put or removed so far, counted each time
        self.generation = 0  # how often rows were loaded or dropped from outside the operator
        self._modified = np.zeros(len(self._alive), np.int64)
        self._reported = 0  # rows of higher arrival numbers were never part of `changes`
        self._removed: list[tuple[int, pa.RecordBatch]] = []
        self._timers: dict[str, Timers] = {}

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
        fixed = (
            self._alive,
            self._indexed,
            self._hash,
            self._sequence,
            self._bucket,
            self._modified,
        )
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

    def write(self, slots: IntArray, columns: Mapping[str, Values]) -> None:
        """Writes value columns by name; of rows with one slot, the last one wins. The caller has to
        call `mark` afterwards."""
        for name, array in columns.items():
            self._write(self._by_name[name], slots, array)

    def blank(self, slots: IntArray, columns: Sequence[str]) -> None:
        """Forgets values of rows that nobody reads any more: they are those of new rows. The caller
        has to call `mark`, before or afterwards."""
        for column in map(self._by_name.__getitem__, columns):
            self.columns[column.name][slots] = blank(column.type, 1)
            if column.type.nullable:
                self._valid(column.name)[slots] = False

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
        indexed = slots if self._all_indexed else slots[self._indexed[slots]]
        self._index.remove(self._hash[indexed], indexed)
        self._alive[slots] = False
        self._live -= len(slots)
        self._free = np.concatenate([self._free, slots])
        for column in (*self.keys, *self.values):
            if storage(column.type).kind == "O":  # frees the objects
                self.columns[column.name][slots] = blank(column.type, 1)

    def due(self, column: str, upto: int, most: int | None = None) -> IntArray:
        """Returns the slots whose value in `column` is at most `upto`, in no order; NULL is never
        due. With `most`, only those of the least values, and at least so many where there are.

        `column` is a date, time or integer, `upto` in its unit. Costs next to nothing where no row
        is due.
        """
        timers, wanted = self._timed(column), most
        while True:
            taken, reached = timers.take(upto, wanted)
            if not len(taken) and reached >= upto:
                return taken
            slots = self._schedule(column, taken)
            slots = slots[self.columns[column][slots].astype(np.int64, copy=False) <= reached]
            if most is None or wanted is None or reached >= upto or len(slots) >= most:
                return slots
            wanted *= 2  # rows that are gone, or have later values now, were among them

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
            self._schedule(column, timers.take(end - 1)[0])
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

    def absorb(self, rows: pa.Table, buckets: IntArray | None = None) -> IntArray:
        """Adds rows of key and value columns, in their order: they arrive now, in these `buckets`
        where their keys do not say it. Returns their slots. ServiceError for a key that is
        there."""
        found = np.empty(0, np.int64)
        for batch in rows.combine_chunks().to_batches():
            keys = [batch.column(name) for name in self.keys.names]
            found, is_new = self.slots_for(keys, batch.num_rows, buckets=buckets)
            if not is_new.all():
                raise ServiceError(f"state of table '{self.name}' was loaded twice")
            for column in self.values:
                self._write(column, found, batch.column(column.name))
            self.mark(found)
        self.generation += 1
        return found

    def rows_at(self, slots: IntArray) -> pa.RecordBatch:
        """Returns the rows at these slots in order of arrival, with the hidden columns."""
        return self._rows(self.in_order(slots))

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

    def _touch(self, slots: IntArray) -> None:
        self.version += 1
        self.writes += len(slots)
        self._modified[slots] = self.version

    def _timed(self, column: str) -> Timers:
        if column not in self._timers:
            self._timers[column] = Timers()
            self._schedule(column, self.live())
        return self._timers[column]

    def _schedule(self, name: str, slots: IntArray) -> IntArray:
        """Files the slots in the timers of a column under their present values; returns those that
        exist and are not NULL."""
        slots = self._present(name, slots)
        self._timers[name].put(slots, self.columns[name][slots].astype(np.int64, copy=False))
        return slots

    def _present(self, name: str, slots: IntArray) -> IntArray:
        """Returns the slots that exist and are not NULL in the column."""
        slots = slots[self._alive[slots]]
        return slots[self._valid(name)[slots]] if name + "?" in self.columns else slots

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

    def _register(
        self, keys: Sequence[KeyColumn], slots: IntArray, first: IntArray, buckets: IntArray | None
    ) -> None:
        """Marks the inserted rows as changed, too."""
        if len(first) == 0:
            return
        super()._register(keys, slots, first, buckets)
        new = slots[first]
        self._touch(new)
        # Timers over value columns follow with `mark`, when the operator has written the values.
        for name in self._timers.keys() & set(self.keys.names):
            self._schedule(name, new)

    def _grow(self, size: int) -> None:
        super()._grow(size)
        if len(self._modified) < len(self._alive):
            self._modified = longer(self._modified, len(self._alive) - len(self._modified))
