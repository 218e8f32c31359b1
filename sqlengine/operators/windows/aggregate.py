"""Aggregates over windows that do not share rows (TUMBLE): one row per key and window."""

from __future__ import annotations

import numpy as np

from parser.types import BIGINT, Column, Schema, timestamp
from planner.logical import WindowAggregate
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.aggregates.accumulators import Accumulators
from sqlengine.operators.base import EVERY_TICK, Context, Output, Rest, Stream
from sqlengine.operators.bounded import SLICE_ROWS, in_slices
from sqlengine.operators.changelog.row_kinds import retractions
from sqlengine.operators.firing_steps import FiringSteps
from sqlengine.operators.late_rows import LateGate
from sqlengine.operators.windows.local_buffer import Arrived
from sqlengine.operators.windows.reassign import WindowReassigner
from sqlengine.operators.windows.results import Fired, rows_of
from sqlengine.operators.windows.times import clock_below, is_aligned, window_below
from sqlengine.operators.windows.two_phases import buffer_of
from sqlengine.state.columns import BoolArray, distinct, milliseconds
from sqlengine.state.keys import batch_keys
from sqlengine.state.table import KeyedTable

# A window is identified by its end in local time, and by its start where its size varies. `#rows`
# counts rows of changelogs. SQL columns of these tables have no '#' in their names.
_END, _START, _FIRES, _ROWS = "#end", "#start", "#fires", "#rows"
_BOUND = timestamp(3).with_nullable(False)
_NUMBER = BIGINT.with_nullable(False)


class WindowAggregateOperator:
    """Aggregates one window for each row; Flink's StreamExecWindowAggregate, or
    StreamExecGroupWindowAggregate.

    A row whose window had fired before it arrived is late, dropped and counted (`late_rows`). A
    window fires when the watermark reaches its last millisecond, or, on processing time, when that
    has passed. A row for which a user's aggregate fails leaves by the error port, and is skipped by
    the calls after it.

    The output (all +I) is ordered by the end of the window, then by the arrival of the key; the
    watermark before each row is less than the window's end. State: table `windows`, window and key
    -> `#fires`, accumulators. Timers: `#fires`.
    """

    def __init__(self, node: WindowAggregate) -> None:
        self._node = node
        self._start, self._end, _ = node.window_columns
        self._clock = clock_below(node.input)
        self._reassigner = WindowReassigner(node)
        self._aligned = is_aligned(node.input)
        self._retracts = bool(node.input.changes)
        self._late = LateGate(node)
        self._accumulators = Accumulators(node.aggregates, retract=self._retracts)
        self._buffer = buffer_of(node, self._accumulators, _FIRES, window_below(node.input))
        self.steps = FiringSteps(proctime=self._clock.proctime)

    def open(self, context: Context) -> None:
        self._late.open(context)
        keys = [Column(k, self._node.input.schema.type(k)) for k in self._node.keys]
        start, end = Column(_START, _BOUND), Column(_END, _BOUND)
        numbers = [Column(n, _NUMBER) for n in (_FIRES, *((_ROWS,) if self._retracts else ()))]
        bounds, rest = ([end], [start]) if self._aligned else ([end, start], [])
        values = Schema((*rest, *numbers, *self._accumulators.columns))
        self._table: KeyedTable = context.table(
            "windows", Schema((*bounds, *keys)), values, self._node.keys
        )
        self._accumulators.attach(self._table, context.counters)
        self._buffer.open(context, self._table)
        self.steps.open((self._table, _FIRES))

    def process(self, port: int, batch: Batch) -> Stream:
        output: Output = []
        batch = self.steps.begin(batch)
        if batch.num_rows:
            self._add(self._reassigner.reassign(batch), output)
            yield from output
        # After the rows, before the windows: what is buffered must be in the accumulators of a
        # window that fires now.
        self._buffer.advance_to(self._clock.now(batch))
        yield from self.steps.close(self._fire(batch), batch, self._node.schema)

    def timer(self) -> int | None:
        return self._clock.timer(lambda: self._table.earliest(_FIRES))

    def rest(self) -> Rest:
        # What is buffered may be flushed by any watermark.
        if self._accumulators.buffered:
            return EVERY_TICK
        return self._clock.rest(self._table.earliest(_FIRES))

    def close(self) -> None: ...

    def _add(self, batch: Batch, output: Output) -> None:
        fires = self._clock.fires(milliseconds(batch.column(self._end))[0])
        before = self._clock.before(batch)
        in_time = fires > before
        arrived = Arrived(fires, before, np.flatnonzero(in_time))
        if not in_time.all():
            self._late.drop(batch, np.flatnonzero(~in_time), output)
            batch, fires = batch.take(arrived.in_time), fires[arrived.in_time]
        bounds = (self._end,) if self._aligned else (self._end, self._start)
        keys = batch_keys(batch, (*bounds, *self._node.keys))
        slots, is_new = self._table.slots_for(keys, batch.num_rows)
        self._begin(batch, slots, is_new, fires)
        retracts = retractions(batch) if self._retracts else None
        self._buffer.change(batch, slots, retracts, arrived, output)
        if self._retracts:
            rows_of_slots = self._table.columns[_ROWS]
            np.add.at(rows_of_slots, slots, 1 if retracts is None else np.where(retracts, -1, 1))
        self._table.mark(distinct(slots))

    def _begin(self, batch: Batch, slots: IntArray, is_new: BoolArray, fires: IntArray) -> None:
        columns = self._table.columns
        new = slots[is_new]
        if self._aligned:
            columns[_START][new] = milliseconds(batch.column(self._start))[0][is_new]
        columns[_FIRES][new] = fires[is_new]

    def _fire(self, batch: Batch) -> Stream:
        due = self._table.due(_FIRES, self._clock.now(batch))
        if not len(due):
            return
        slots = self._table.in_order(due, _FIRES, _END)
        while len(slots) and self.steps.goes_on():
            count = self.steps.spend(0, 1, min(SLICE_ROWS, len(slots)))
            yield from self._fire_at(batch, slots[:count])
            slots = slots[count:]

    def _fire_at(self, batch: Batch, due: IntArray) -> Stream:
        """Emits the windows at these slots, and removes them."""
        columns, output = self._table.columns, list[tuple[int, Batch]]()
        # A window whose rows were all retracted has no result.
        slots = due[columns[_ROWS].view(np.int64)[due] > 0] if self._retracts else due
        starts, ends, fires = (columns[n][slots].astype(np.int64) for n in (_START, _END, _FIRES))
        self._buffer.flush(slots)
        keys = [self._table.array(k, slots) for k in self._node.keys]
        fired = Fired(keys, self._accumulators.results(slots), starts, ends, fires)
        rows = rows_of(self._node, self._clock, batch, fired, self._accumulators, output)
        # Removed in the same step as emitted: a checkpoint between batches has a window either open
        # or gone.
        self._table.remove(due)
        yield from output
        yield from ((0, part) for part in in_slices(rows))
