"""Session windows: aggregation (StreamExecGroupWindowAggregate), and the SESSION window
function."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, Schema
from planner.logical import Session, SessionAssign, WindowAggregate
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.aggregates.accumulators import Accumulators
from sqlengine.operators.base import Context, Output, Rest, Stream
from sqlengine.operators.bounded import SLICE_ROWS, in_slices
from sqlengine.operators.changelog.row_kinds import retractions
from sqlengine.operators.firing_steps import FiringSteps
from sqlengine.operators.late_rows import LateGate
from sqlengine.operators.windows.assign import timed, timestamps
from sqlengine.operators.windows.results import Fired, rows_of
from sqlengine.operators.windows.sessions import END, FIRES, NUMBER, START, Assigned, Sessions
from sqlengine.operators.windows.times import WindowClock, windows_of
from sqlengine.state.keys import KeyColumn, batch_keys
from sqlengine.state.rows import RowsTable

_ROWS, _KIND = "#rows", "#kind"
# The sessions whose rows are emitted together.
_SESSIONS = 1 << 12
# Aggregates whose value depends on the order in which sessions were merged. (Sums of FLOAT and
# DOUBLE do so in their last digits only; these are merged in any order, which is faster.)
_LISTS = frozenset({"LISTAGG", "ARRAY_AGG", "JSON_ARRAYAGG", "JSON_OBJECTAGG"})
_NUMBER = BIGINT.with_nullable(False)


class SessionAggregateOperator:
    """Aggregates session windows; the accumulators of sessions that touch are merged.

    As Flink's WindowOperator with a MergingWindowAssigner. A row whose session had ended before it
    arrived is late, dropped and counted (`late_rows`). Rows with NULL as their time are dropped
    (`null_time_rows`). The output (all +I) is ordered by the end of the session, then by its
    arrival. State: `Sessions` with the accumulators. Timers: `#fires`.
    """

    def __init__(self, node: WindowAggregate) -> None:
        assert node.session is not None
        self._node, self._window = node, node.session
        self._clock = WindowClock(
            node.input.schema.type(node.session.time_column), node.session.zone
        )
        self._retracts = bool(node.input.changes)
        self.steps = FiringSteps(proctime=self._clock.proctime)
        self._late = LateGate(node)
        self._accumulators = Accumulators(node.aggregates, retract=self._retracts)
        self._ordered = any(call.function.partition(" ")[0] in _LISTS for call in node.aggregates)

    def open(self, context: Context) -> None:
        self._counters = context.counters
        self._late.open(context)
        keys = self._node.input.schema.select(self._node.keys)
        values = [
            *((Column(_ROWS, _NUMBER),) if self._retracts else ()),
            *self._accumulators.columns,
        ]
        self._sessions = Sessions(context, keys, values, self._clock)
        self._table = self._sessions.table
        self._accumulators.attach(self._table, context.counters)
        self.steps.open((self._table, FIRES))

    def process(self, port: int, batch: Batch) -> Stream:
        output: Output = []
        self._sessions.refresh()
        batch = self.steps.begin(batch)
        if batch.num_rows:
            self._add(batch, output)
            yield from output
        yield from self.steps.close(self._fire(batch), batch, self._node.schema)

    def timer(self) -> int | None:
        return self._clock.timer(lambda: self._sessions.table.earliest(FIRES))

    def rest(self) -> Rest:
        return self._clock.rest(self._table.earliest(FIRES))

    def close(self) -> None: ...

    def _add(self, batch: Batch, output: Output) -> None:
        batch, times = timed(batch, self._window.time_column, self._clock, self._counters)
        keys = batch_keys(batch, self._node.keys)
        pieces = whole = [(0, batch.num_rows)]
        if self._ordered and batch.num_rows > 1:
            pieces = self._sessions.pieces(keys, times, _gaps(self._window, batch))
        for start, stop in pieces:
            rows = batch if pieces == whole else batch.take(np.arange(start, stop))
            self._add_timed(rows, times[start:stop], output)

    def _add_timed(self, batch: Batch, times: IntArray, output: Output) -> None:
        keys = batch_keys(batch, self._node.keys)
        before, gaps = self._clock.before(batch), _gaps(self._window, batch)
        assigned = self._sessions.assign(keys, times, before, gaps)
        # The rows are accumulated after the merges, into the session that remains.
        for slots, others in assigned.merges:
            if self._ordered:
                # Merging appends the others' values. Where those come first in Flink, the two are
                # exchanged before.
                first = np.isin(others, assigned.ahead)
                self._accumulators.swap(slots[first], others[first])
            self._accumulators.merge(slots, others)
            if self._retracts:
                counts = self._table.columns[_ROWS].view(np.int64)
                counts[slots] += counts[others]
            self._sessions.remove(others)
        self._late.drop(batch, np.setdiff1d(np.arange(batch.num_rows), assigned.rows), output)
        if len(assigned.rows) < batch.num_rows:
            batch = batch.take(assigned.rows)
        retracts = retractions(batch) if self._retracts else None
        self._accumulators.change(batch, assigned.slots, retracts, output)
        if self._retracts:
            np.add.at(
                self._table.columns[_ROWS],
                assigned.slots,
                1 if retracts is None else np.where(retracts, -1, 1),
            )

    def _fire(self, batch: Batch) -> Stream:
        due = self._sessions.due(self._clock.now(batch))
        while len(due) and self.steps.goes_on():
            count = self.steps.spend(0, 1, min(SLICE_ROWS, len(due)))
            output, slots = list[tuple[int, Batch]](), due[:count]
            rows = self._results(batch, slots, output)
            self._sessions.remove(slots)
            due = due[count:]
            yield from output
            yield from ((0, part) for part in in_slices(rows))

    def _results(self, batch: Batch, slots: IntArray, output: Output) -> Batch:
        columns = self._table.columns
        if self._retracts:
            slots = slots[columns[_ROWS].view(np.int64)[slots] > 0]
        starts, ends, fires = (columns[n][slots].astype(np.int64) for n in (START, END, FIRES))
        keys = [self._table.array(k, slots) for k in self._node.keys]
        fired = Fired(keys, self._accumulators.results(slots), starts, ends, fires)
        return rows_of(self._node, self._clock, batch, fired, self._accumulators, output)


class SessionAssignOperator:
    """Buffers rows until their session ends, and emits them with its bounds, in order of arrival.

    As Flink's StreamExecWindowTableFunction with SESSION. Late rows are dropped (`late_rows`).
    State: `Sessions`; table `rows`, key and session number -> rows. Timers: `#fires`.
    """

    def __init__(self, node: SessionAssign) -> None:
        self._node = node
        self._late = LateGate(node)
        self._clock = WindowClock(node.schema.type(node.window.time_column), node.window.zone)
        self.steps = FiringSteps(proctime=self._clock.proctime)

    def open(self, context: Context) -> None:
        self._counters = context.counters
        self._late.open(context)
        source = self._node.input.schema
        keys = source.select(self._node.window.keys)
        self._sessions = Sessions(context, keys, (), self._clock)
        self._rows = RowsTable(
            context,
            "rows",
            Schema((*(Column(f"#{c.name}", c.type) for c in keys), Column(NUMBER, _NUMBER))),
            Schema(()),
            Schema((*source.columns, Column(_KIND, _NUMBER))),
            tuple(f"#{n}" for n in keys.names),
        )
        self.steps.open((self._sessions.table, FIRES))

    def process(self, port: int, batch: Batch) -> Stream:
        output: Output = []
        self._sessions.refresh()
        batch = self.steps.begin(batch)
        if batch.num_rows:
            self._buffer(batch, output)
            yield from output
        yield from self.steps.close(self._fire(batch), batch, self._node.schema)

    def timer(self) -> int | None:
        return self._clock.timer(lambda: self._sessions.table.earliest(FIRES))

    def close(self) -> None: ...

    def _buffer(self, batch: Batch, output: Output) -> None:
        batch, times = timed(batch, self._node.window.time_column, self._clock, self._counters)
        keys = batch_keys(batch, self._node.window.keys)
        before, gaps = self._clock.before(batch), _gaps(self._node.window, batch)
        assigned = self._sessions.assign(keys, times, before, gaps)
        self._late.drop(batch, np.setdiff1d(np.arange(batch.num_rows), assigned.rows), output)
        self._move_rows(assigned)
        rows = batch.take(assigned.rows)
        kinds = (
            np.zeros(rows.num_rows, np.int64) if rows.kinds is None else rows.kinds.astype(np.int64)
        )
        values = [rows.column(n) for n in self._node.input.schema.names]
        self._rows.put(self._keys(assigned.slots), [], [*values, pa.array(kinds)], rows.num_rows)

    def _keys(self, slots: IntArray) -> list[KeyColumn]:
        return self._sessions.table.key_columns(slots, (*self._node.window.keys, NUMBER))

    def _move_rows(self, assigned: Assigned) -> None:
        """Moves the rows of merged sessions to the session that they were merged into."""
        names = (*self._node.input.schema.names, _KIND)
        for slots, others in assigned.merges:
            # Rows carry the number of their session: they are written again under that of the one
            # which remains.
            index, row_slots = self._rows.matches(self._keys(others), len(others))
            values = self._rows.arrays(names, row_slots)
            self._rows.drop(row_slots)
            self._rows.put(self._keys(slots[index]), [], values, len(row_slots))
            self._sessions.remove(others)

    def _fire(self, batch: Batch) -> Stream:
        due = self._sessions.due(self._clock.now(batch))
        # As many rows as belong to these sessions: a session is emitted as a whole.
        while len(due) and self.steps.goes_on():
            count = self.steps.spend(0, 1, min(_SESSIONS, len(due)))
            slots, due = due[:count], due[count:]
            rows = self._take_rows(batch, slots)
            self.steps.spend(rows.num_rows, 0)
            self._sessions.remove(slots)
            yield from ((0, part) for part in in_slices(rows))

    def _take_rows(self, batch: Batch, due: IntArray) -> Batch:
        index, row_slots = self._rows.matches(self._keys(due), len(due))
        columns, names = self._sessions.table.columns, self._node.input.schema.names
        starts, ends, fires = (columns[n][due[index]].astype(np.int64) for n in (START, END, FIRES))
        *values, kinds = self._rows.arrays((*names, _KIND), row_slots)
        schema = self._node.schema
        bounds = (starts, ends, self._clock.times(ends))
        window = [
            timestamps(b, schema.type(n).arrow)
            for b, n in zip(bounds, self._node.names, strict=True)
        ]
        self._rows.drop(row_slots)
        kind = kinds.to_numpy().astype(np.int8)
        return replace(
            batch.tick(schema),
            columns=(*values, *window),
            num_rows=len(row_slots),
            kinds=kind if kind.any() else None,
            row_watermarks=None if self._clock.proctime else batch.watermarks_before(fires),
        )


def _gaps(window: Session, batch: Batch) -> IntArray:
    """Returns the gap (ms) behind each row."""
    return np.broadcast_to(windows_of(window, batch).gap_ms, batch.num_rows)
