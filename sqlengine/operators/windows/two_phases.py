"""Windows in two phases: partial rows before the exchange, merged behind it.

As Flink's TwoStageOptimizedWindowAggregateRule plans it (`table.optimizer.agg-phase-strategy`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, Schema
from planner.logical import (
    ROWS,
    AlignedWindow,
    GlobalWindowAggregate,
    LocalWindowAggregate,
    Window,
    WindowAggregate,
)
from sqlengine.batch import MIN_WATERMARK, Batch, IntArray, joined_steps
from sqlengine.operators.aggregates.accumulators import Accumulators
from sqlengine.operators.aggregates.two_phases import merge_parts
from sqlengine.operators.base import Context, Output
from sqlengine.operators.windows.local_buffer import Arrived, LocalBuffer
from sqlengine.operators.windows.times import clock_below, window_below
from sqlengine.state.columns import BoolArray, distinct, milliseconds
from sqlengine.state.table import KeyedTable

_PASSED = "#passed"


class LocalWindowAggregateOperator:
    """Aggregates each batch to one partial row per key and window, as Flink's
    StreamExecLocalWindowAggregate.

    Rows in one partial row are all late behind the exchange, or none is: those that come before the
    watermark of their own shard has reached the first end of a window of theirs; and for each
    watermark that has, those before which it stood there. Other shards only hold it back, and for
    all of them alike. A partial row has the place, and the watermark, of its first row. Stateless
    between batches. Counters: `rows_before_exchange` and `rows_over_exchange`.
    """

    def __init__(self, node: LocalWindowAggregate) -> None:
        self._node = node
        self._end = node.whole.window_columns[1]
        self._clock = clock_below(node.input)
        window = window_below(node.input)
        assert isinstance(window, AlignedWindow)
        self._window = window

    def open(self, context: Context) -> None:
        self._counters = context.counters

    def process(self, port: int, batch: Batch) -> Output:
        if not batch.num_rows:
            tick = batch.tick(self._node.schema)
            return [(0, replace(tick, origin=batch.origin, steps=batch.steps))]
        output: Output = []
        accumulators = Accumulators(self._node.whole.aggregates)
        table, slots = self._table(batch)
        accumulators.attach(table, self._counters)
        accumulators.change(batch, slots, None, output)
        np.add.at(table.columns[ROWS], slots, 1)
        first = np.sort(np.unique(slots, return_index=True)[1])
        self._counters["rows_before_exchange"] += batch.num_rows
        self._counters["rows_over_exchange"] += len(first)
        return [*output, (0, self._result(batch, table, slots[first], first))]

    def _table(self, batch: Batch) -> tuple[KeyedTable, IntArray]:
        """Returns a table for this batch alone: it has no state, and numbers the keys as state
        tables do."""
        source, keys = self._node.input.schema, self._node.whole.keys
        passed = Column(_PASSED, BIGINT.with_nullable(False))
        by = Schema((Column(self._end, source.type(self._end)), passed, *source.select(keys)))
        table = KeyedTable("local", by, Schema(self._node.schema.columns[len(self._node.kept) :]))
        columns = [pa.array(self._passed(batch)), *(batch.column(k) for k in keys)]
        slots, _ = table.slots_for([batch.column(self._end), *columns], batch.num_rows)
        return table, slots

    def _passed(self, batch: Batch) -> IntArray:
        """Returns the watermark before each row where it has reached an end of its windows."""
        ends = milliseconds(batch.column(self._end))[0]
        if self._node.whole.shared is not None:
            ends = self._window.first_ends(ends)
        before = batch.watermarks()
        return np.where(before >= self._clock.fires(ends), before, MIN_WATERMARK)

    def _result(self, batch: Batch, table: KeyedTable, slots: IntArray, first: IntArray) -> Batch:
        schema, kept = self._node.schema, self._node.kept
        rows = batch.take(first, kept)
        parts = [table.array(c.name, slots) for c in schema.columns[len(kept) :]]
        before = None if batch.row_watermarks is None else distinct(batch.row_watermarks)
        return replace(
            rows.with_columns(schema, [*(rows.column(n) for n in kept), *parts]),
            steps=joined_steps([batch.steps, before]),
        )

    def close(self) -> None: ...


class MergeBuffer(LocalBuffer):
    """Merges partial rows, as Flink's StreamExecGlobalWindowAggregate. Their functions have no
    buffers."""

    def __init__(self, accumulators: Accumulators, fires: str, node: GlobalWindowAggregate) -> None:
        super().__init__(accumulators, fires, window_below(node.input))
        self._parts = node.local.parts

    def change(
        self, batch: Batch, slots: IntArray, back: BoolArray | None, rows: Arrived, output: Output
    ) -> None:
        merge_parts(self._accumulators, batch, self._parts, slots)


def buffer_of(
    node: WindowAggregate, accumulators: Accumulators, fires: str, window: Window
) -> LocalBuffer:
    """Returns what takes the rows of a window aggregate: one by one, or partial ones."""
    if isinstance(node, GlobalWindowAggregate):
        return MergeBuffer(accumulators, fires, node)
    return LocalBuffer(accumulators, fires, window)
