"""The rows that MATCH_RECOGNIZE keeps: those that wait for the watermark, and those of matches that
are not whole."""

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
    """Rows of `schema` by `partition`. Those of matches have numbers within their key."""

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

    def take(self, batch: Batch) -> tuple[Batch, IntArray]:
        """The rows that are due, in the order in which they came, and which came too late."""
        given = batch.with_columns(self.schema, [batch.column(n) for n in self.schema.names])
        if not self._by_event:
            return given, np.empty(0, np.int64)
        times, valid = milliseconds(batch.column(self._time))
        good = valid & (times > batch.watermarks())
        now = good & (times <= batch.watermark)
        held = self._due(batch.watermark)
        wait = np.flatnonzero(good & ~now)
        ready = given if now.all() else given.take(np.flatnonzero(now))
        result = self._joined(ready, held) if len(held) else ready
        if len(wait):
            self._keep(given.take(wait))
        return result, np.flatnonzero(~good)

    def _due(self, watermark: int) -> IntArray:
        slots = self._waiting.due(self._time, watermark)
        found: IntArray = slots[np.argsort(self._waiting.columns[_ARRIVAL][slots], kind="stable")]
        return found

    def _joined(self, ready: Batch, held: IntArray) -> Batch:
        columns = [
            pa.concat_arrays([self._waiting.array(n, held), ready.column(n)])
            for n in self.schema.names
        ]
        self._waiting.remove(held)
        count = len(held) + ready.num_rows
        return replace(
            ready,
            columns=tuple(columns),
            num_rows=count,
            row_watermarks=None,
            kinds=None,
            offsets=None,
            memo={},
        )

    def _keep(self, rows: Batch) -> None:
        if self._generation != self._waiting.generation:
            self._generation = self._waiting.generation
            held = self._waiting.columns[_ARRIVAL][self._waiting.live()]
            self._next = 1 + int(held.max(initial=-1))
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
        """Keeps rows under their numbers; their slots."""
        return self._put(self._rows, rows, numbers)

    def find(self, key: Sequence[pa.Array], first: int, count: int) -> IntArray:
        """The slots of the rows `first` and on of one key."""
        numbers = pa.array(np.arange(first, first + count))
        same = pa.array(np.zeros(count, np.int64))
        return self._rows.slots_for([*(k.take(same) for k in key), numbers], count, insert=False)[0]

    def array(self, name: str, slots: IntArray) -> pa.Array:
        return self._rows.array(name, slots)

    def remove(self, slots: Sequence[int]) -> None:
        self._rows.remove(np.array(slots, np.int64))
