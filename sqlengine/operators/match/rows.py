"""The row state of MATCH_RECOGNIZE: rows that wait for the watermark, and rows of partial
matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, Schema
from sqlengine.batch import Batch
from sqlengine.operators.base import Context
from sqlengine.state.columns import IntArray, milliseconds
from sqlengine.state.table import KeyedTable

_NUMBER = BIGINT.with_nullable(False)
_ARRIVAL, _ROW = "#arrival", "#row"


class RowStore:
    """Stores rows of `schema` by `partition`.

    State: table `waiting`, partition and `#arrival` -> row (row time only); table `rows`, partition
    and `#row`, a number within the key -> row of partial matches (Flink CEP: SharedBuffer).
    """

    def __init__(
        self, context: Context, schema: Schema, partition: Sequence[str], time: str, by_event: bool
    ) -> None:
        self.schema = schema
        self._partition = tuple(partition)
        self._time = time
        self._by_event = by_event
        self._rest = tuple(n for n in schema.names if n not in partition)
        keys, values = schema.select(self._partition).columns, schema.select(self._rest)
        if by_event:
            arriving = Schema((*keys, Column(_ARRIVAL, _NUMBER)))
            self._waiting: KeyedTable = context.table("waiting", arriving, values, self._partition)
            self._next, self._generation = 0, -1
        self._rows: KeyedTable = context.table(
            "rows", Schema((*keys, Column(_ROW, _NUMBER))), values, self._partition
        )

    # ---- rows that come --------------------------------------------------------------------------

    def timers(self) -> tuple[KeyedTable, str]:
        """The table of the rows that wait, and the column of their times."""
        return self._waiting, self._time

    def due_times(self, batch: Batch, most: int | None) -> IntArray:
        """Returns the times (ms) at which rows are due at the watermark of a batch, of those stored
        and those in it; with `most`, the earliest of the stored ones."""
        stored = self._waiting.due(self._time, batch.watermark, most)
        times, valid = milliseconds(batch.column(self._time))
        due = times[valid & (times > batch.watermarks()) & (times <= batch.watermark)]
        return np.concatenate([self._waiting.columns[self._time][stored].astype(np.int64), due])

    def take_due(self, batch: Batch, upto: int) -> tuple[Batch, IntArray]:
        """Returns the rows that are due at the watermark `upto`, in order of arrival, and the
        numbers of late rows; stores the others."""
        rows = batch.with_columns(self.schema, [batch.column(n) for n in self.schema.names])
        if not self._by_event:
            return rows, np.empty(0, np.int64)
        times, valid = milliseconds(batch.column(self._time))
        in_time = valid & (times > batch.watermarks())
        due = in_time & (times <= upto)
        stored = self._due_slots(upto)
        wait = np.flatnonzero(in_time & ~due)
        # Rows that are due at once never enter the state.
        ready = rows if due.all() else rows.take(np.flatnonzero(due))
        result = self._with_batch(ready, stored) if len(stored) else ready
        if len(wait):
            self._store(rows.take(wait))
        return result, np.flatnonzero(~in_time)

    def _due_slots(self, watermark: int) -> IntArray:
        slots = self._waiting.due(self._time, watermark)
        ordered: IntArray = slots[np.argsort(self._waiting.columns[_ARRIVAL][slots], kind="stable")]
        return ordered

    def _with_batch(self, ready: Batch, stored: IntArray) -> Batch:
        columns = [
            pa.concat_arrays([self._waiting.array(n, stored), ready.column(n)])
            for n in self.schema.names
        ]
        self._waiting.remove(stored)
        count = len(stored) + ready.num_rows
        return replace(
            ready,
            columns=tuple(columns),
            num_rows=count,
            row_watermarks=None,
            kinds=None,
            offsets=None,
            memo={},
        )

    def _store(self, rows: Batch) -> None:
        if self._generation != self._waiting.generation:
            self._generation = self._waiting.generation
            numbers_used = self._waiting.columns[_ARRIVAL][self._waiting.live()]
            self._next = 1 + int(numbers_used.max(initial=-1))
        numbers = np.arange(self._next, self._next + rows.num_rows)
        self._next += rows.num_rows
        self._put(self._waiting, rows, numbers)

    def _put(self, table: KeyedTable, rows: Batch, numbers: IntArray) -> IntArray:
        keys = [*(rows.column(k) for k in self._partition), pa.array(numbers)]
        slots, _ = table.slots_for(keys, rows.num_rows)
        table.write(slots, {n: rows.column(n) for n in self._rest})
        table.mark(slots)
        return slots

    # ---- rows of matches -------------------------------------------------------------------------

    def add(self, rows: Batch, numbers: IntArray) -> IntArray:
        """Stores rows under their numbers; returns their slots."""
        return self._put(self._rows, rows, numbers)

    def find(self, key: Sequence[pa.Array], first: int, count: int) -> IntArray:
        """Returns the slots of `count` rows of one key, from number `first` on."""
        numbers = pa.array(np.arange(first, first + count))
        same = pa.array(np.zeros(count, np.int64))
        return self._rows.slots_for([*(k.take(same) for k in key), numbers], count, insert=False)[0]

    def array(self, name: str, slots: IntArray) -> pa.Array:
        return self._rows.array(name, slots)

    def remove(self, slots: Sequence[int]) -> None:
        self._rows.remove(np.array(slots, np.int64))
