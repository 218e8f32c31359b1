"""The rows that an interval join keeps of one input."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, BOOLEAN, Column, Schema
from planner.logical import IntervalJoin
from sqlengine.batch import MIN_WATERMARK, Batch, IntArray
from sqlengine.operators.base import Context
from sqlengine.state.columns import BoolArray
from sqlengine.state.keys import batch_keys
from sqlengine.state.rows import ARRIVAL, RowsTable

# A row's time, the time of its removal (both ms), and whether it has had a match.
TIME, DUE, MET = "#time", "#due", "#met"
_NUMBER = BIGINT.with_nullable(False)
# The `#time` of a row that has not been joined yet, whose `#due` is the watermark before it.
_UNJOINED: Final = MIN_WATERMARK


class IntervalRows:
    """The rows of one side: those that can still be matched, and those that have come behind rows
    which are due, and wait until these are removed.

    State: table `left` or `right`, join key -> rows with `#time`, `#due`, `#met`.
    """

    def __init__(self, node: IntervalJoin, port: int) -> None:
        self.schema = node.inputs[port].schema
        self.time_column = (node.left_time, node.right_time)[port]
        self.held_ms = node.held_ms(port)
        self.keys = node.keys(port)
        self._name = ("left", "right")[port]

    def open(self, context: Context) -> None:
        key = Schema(
            tuple(Column(f"{n}@{i}", self.schema.type(n)) for i, n in enumerate(self.keys))
        )
        self._rest = tuple(n for n in self.schema.names if n not in self.keys)
        own = [
            Column(TIME, _NUMBER),
            Column(DUE, _NUMBER),
            Column(MET, BOOLEAN.with_nullable(False)),
        ]
        values = Schema((*self.schema.select(self._rest), *own))
        self.rows = RowsTable(context, self._name, key, Schema(()), values, key.names)

    def column(self, name: str, slots: IntArray) -> pa.Array:
        stored = f"{name}@{self.keys.index(name)}" if name in self.keys else name
        return self.rows.table.array(stored, slots)

    def numbers(self, name: str, slots: IntArray) -> IntArray:
        values: IntArray = self.rows.table.columns[name][slots].astype(np.int64, copy=False)
        return values

    def put(self, batch: Batch, times: IntArray, due: IntArray, met: BoolArray) -> None:
        """Stores joined rows."""
        keys = batch_keys(batch, self.keys)
        values = [batch.column(n) for n in self._rest]
        self.rows.put(keys, [], [*values, times, due, met], batch.num_rows)

    def meet(self, slots: IntArray) -> None:
        """Notes that rows have had a match."""
        self.rows.table.columns[MET][slots] = True
        self.rows.table.mark(slots)

    def due(self, upto: int, most: int | None) -> IntArray:
        """Returns the rows that are due at `upto` (ms), in the order of their times; with `most`
        those that are due first, and at least so many."""
        return self.rows.table.in_order(self.rows.table.due(DUE, upto, most), TIME)

    def unmatched(self, slots: IntArray) -> BoolArray:
        """Returns which of these rows have had no match."""
        return ~self.rows.table.columns[MET][slots].astype(np.bool_, copy=False)

    # ---- rows that wait --------------------------------------------------------------------------

    def wait(self, batch: Batch, number: int) -> None:
        """Stores rows that are not joined yet, with arrival numbers from `number` on."""
        count = batch.num_rows
        self.rows.number_from(number)
        self.put(batch, np.full(count, _UNJOINED), batch.watermarks(), np.zeros(count, np.bool_))

    def waits(self, slots: IntArray) -> BoolArray:
        """Returns which of these rows are not joined yet."""
        waits: BoolArray = self.numbers(TIME, slots) == _UNJOINED
        return waits

    def arrivals(self, slots: IntArray) -> IntArray:
        """Returns the arrival numbers of rows."""
        return self.numbers(ARRIVAL, slots)

    def take(self, slots: IntArray, batch: Batch) -> Batch:
        """Removes rows that wait. Returns them with the watermarks before them, and with the seed
        and processing time of a later batch."""
        before = self.numbers(DUE, slots)
        columns = [self.column(n, slots) for n in self.schema.names]
        rows = batch.result(self.schema, columns, len(slots))
        self.rows.drop(slots)
        since, watermark = int(before[0]), int(before[-1])
        return replace(rows, row_watermarks=before, since=since, watermark=watermark)
