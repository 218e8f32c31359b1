"""One row per key and window, once the window is over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, Root, Schema, timestamp
from planner.logical import LogicalPlan, WindowAggregate, WindowAssign
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.accumulating import Accumulators
from sqlengine.operators.base import ERROR_PORT, Context, Output
from sqlengine.operators.zones import timer_instants
from sqlengine.state.columns import BoolArray, milliseconds
from sqlengine.state.table import KeyedTable
from udf.vector import merge_errors

# A window is known by its end as the clocks of its zone show it. Names with '#' cannot clash with SQL columns' here.
_END, _START, _TIME, _FIRES = "#end", "#start", "#time", "#fires"
_INSTANT = BIGINT.with_nullable(False)


class WindowAggregateOperator:
    """Adds each row to the accumulators of its window and key, unless the window was over before the row came: such
    rows are late, dropped and counted (`late_rows`). A window is over when the watermark reaches its last millisecond.

    A row for which an aggregate of a user fails leaves by the error port and counts for no other that comes behind that.

    Its rows (all +I) are ordered by the end of the window, then by the arrival of the key; before each of them the
    watermark had not reached the window's end. Every call also passes on the time."""

    def __init__(self, node: WindowAggregate, owner: str = "") -> None:
        self._node = node
        self._start, self._end, self._time = node.window_columns
        is_instant = node.input.schema.type(self._time).root is Root.TIMESTAMP_LTZ
        self._zone = _zone(node.input) if is_instant else "UTC"
        self._accumulators = Accumulators(node.aggregates, owner)

    def open(self, context: Context) -> None:
        self._counters = context.counters
        keys = [Column(k, self._node.input.schema.type(k)) for k in self._node.keys]
        end = Column(_END, timestamp(3).with_nullable(False))
        values = [*(Column(name, _INSTANT) for name in (_START, _TIME, _FIRES)), *self._accumulators.columns]
        self._table: KeyedTable = context.table("windows", Schema((end, *keys)), Schema(tuple(values)), self._node.keys)
        self._accumulators.attach(self._table, context.counters)

    def process(self, port: int, batch: Batch) -> Output:
        output: Output = []
        if batch.num_rows:
            self._add(batch, output)
        due = self._table.due(_FIRES, batch.watermark)
        if len(due) == 0:
            return [*output, (0, batch.tick(self._node.schema))]
        slots = self._table.in_order(due, _FIRES, _END)
        output.append((0, self._fire(batch, slots, output)))
        self._table.remove(slots)
        return output

    def close(self) -> None: ...

    def _add(self, batch: Batch, output: Output) -> None:
        fires = self._timers(batch)
        in_time = fires > batch.watermarks()
        if not in_time.all():
            rows = np.flatnonzero(in_time)
            self._counters["late_rows"] += batch.num_rows - len(rows)
            batch, fires = batch.take(rows), fires[rows]
        slots, is_new = self._table.slots_for(
            [batch.column(self._end), *(batch.column(k) for k in self._node.keys)], batch.num_rows
        )
        self._begin(batch, slots, is_new, fires)
        self._accumulators.change(batch, slots, None, output)
        self._table.mark(np.unique(slots))

    def _timers(self, batch: Batch) -> IntArray:
        """The instant at which each row's window is over."""
        if self._zone == "UTC":
            return milliseconds(batch.column(self._time))[0]
        ends, window = np.unique(milliseconds(batch.column(self._end))[0], return_inverse=True)
        return timer_instants(ends - 1, self._zone)[window]

    def _begin(self, batch: Batch, slots: IntArray, is_new: BoolArray, fires: IntArray) -> None:
        columns = self._table.columns
        new = slots[is_new]
        columns[_START][new] = milliseconds(batch.column(self._start))[0][is_new]
        columns[_TIME][new] = milliseconds(batch.column(self._time))[0][is_new]
        columns[_FIRES][new] = fires[is_new]

    def _fire(self, batch: Batch, slots: IntArray, output: Output) -> Batch:
        table = self._table
        end, *keys = table.key_arrays(slots)
        vectors = self._accumulators.results(slots)
        results = [v.values for v in vectors]
        schema = self._node.schema
        bounds = [pa.array(table.columns[_START][slots]), end, pa.array(table.columns[_TIME][slots])]
        window = [b.cast(schema.type(n).arrow) for b, n in zip(bounds, self._node.window_columns, strict=True)]
        fired = replace(
            batch.tick(schema),
            columns=(*keys, *results, *window),
            num_rows=len(slots),
            row_watermarks=table.columns[_FIRES][slots].astype(np.int64) - 1,
        )
        errors = merge_errors([v.errors for v in vectors])
        if errors is None:
            return fired
        call = next(c for c, v in zip(self._node.aggregates, vectors, strict=True) if v.errors is not None)
        output.append((ERROR_PORT, self._accumulators.failed(fired, call, errors)))
        return replace(fired.take(np.flatnonzero(~errors.mask)), watermark=batch.watermark)


def _zone(plan: LogicalPlan) -> str:
    """The time zone of the windows that come from `plan`."""
    while not isinstance(plan, WindowAssign):
        plan = plan.inputs[0]
    return plan.window.zone
