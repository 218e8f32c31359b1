"""Windows with early and late results: `table.exec.emit.early-fire`, `late-fire`,
`allow-lateness`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, Schema, timestamp
from planner.logical import EmittingAggregate
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.aggregates.accumulators import Accumulators
from sqlengine.operators.base import Context, Output, Stream
from sqlengine.operators.bounded import SLICE_ROWS
from sqlengine.operators.changelog.row_kinds import (
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Kinds,
    differ,
    first_seen,
    plain,
)
from sqlengine.operators.late_rows import LateGate
from sqlengine.operators.windows.assign import timestamps
from sqlengine.operators.windows.reassign import WindowReassigner
from sqlengine.operators.windows.times import clock_below
from sqlengine.state.columns import distinct, milliseconds
from sqlengine.state.table import KeyedTable

# `#fires`: the instant (ms) at which the window fires; `#told`: 1 once a result was emitted;
# `#timer`: the processing time (ms) of the next early or late result; `#clears`: the instant (ms)
# from which on rows of the window are late.
_END, _START, _FIRES, _TOLD, _TIMER, _CLEARS = (
    "#end",
    "#start",
    "#fires",
    "#told",
    "#timer",
    "#clears",
)
_NUMBER = BIGINT.with_nullable(False)
_NEVER: Final = 2**62


class EmittingAggregateOperator:
    """Emits results of windows before they fire, and updates after late rows; Flink's
    WindowEmitStrategy.

    The first result of a window and key is +I, further ones that differ are -U and +U. When the
    window fires, its result is emitted if it has changed. State: table `windows`, window end and
    key -> `#fires`, `#told`, `#timer`, `#clears`, the emitted result (`told#<n>`) and accumulators.
    Timers: `#timer` on the processing time, `#fires` and `#clears`. Rows after `#clears` are late.
    """

    def __init__(self, node: EmittingAggregate) -> None:
        self._node = node
        self._start, self._end, _ = node.window_columns
        self._clock = clock_below(node.input)
        self._reassigner = WindowReassigner(node)
        self._late = LateGate(node)
        self._accumulators = Accumulators(node.aggregates)

    def open(self, context: Context) -> None:
        self._late.open(context)
        keys = [Column(k, self._node.input.schema.type(k)) for k in self._node.keys]
        numbers = [Column(n, _NUMBER) for n in (_START, _FIRES, _TOLD, _TIMER, _CLEARS)]
        emitted = [
            Column(f"told#{i}", c.type.with_nullable(True))
            for i, c in enumerate(self._node.aggregates)
        ]
        values = Schema((*numbers, *emitted, *self._accumulators.columns))
        identity = Schema((Column(_END, timestamp(3).with_nullable(False)), *keys))
        self._table: KeyedTable = context.table("windows", identity, values, self._node.keys)
        self._emitted = [c.name for c in emitted]
        self._accumulators.attach(self._table, context.counters)

    def process(self, port: int, batch: Batch) -> Stream:
        output: Output = []
        touched = (
            self._add(self._reassigner.reassign(batch), output)
            if batch.num_rows
            else np.empty(0, np.int64)
        )
        table, now = self._table, self._clock.now(batch)
        timed, over = table.due(_TIMER, batch.proctime), table.due(_FIRES, now)
        slots = np.concatenate(
            [touched, table.in_order(np.setdiff1d(np.union1d(timed, over), touched), _FIRES, _END)]
        )
        yield from output
        results = 0
        for start in range(0, len(slots), SLICE_ROWS):
            result = self._emit(batch, slots[start : start + SLICE_ROWS])
            if result is not None:
                results += 1
                yield 0, result
        # Emitted just now, by whichever trigger: an early result that is still planned has nothing
        # new.
        table.columns[_TIMER][slots] = _NEVER
        table.columns[_FIRES][over] = _NEVER
        table.mark(np.union1d(slots, over))
        # Last: a window that fires and clears in one step is emitted before it is removed.
        table.remove(table.due(_CLEARS, now))
        if not results:
            yield 0, batch.tick(self._node.schema)

    def timer(self) -> int | None:
        waiting = (
            self._table.earliest(_TIMER),
            self._clock.timer(lambda: self._table.earliest(_FIRES)),
        )
        return min((time for time in waiting if time is not None and time < _NEVER), default=None)

    def close(self) -> None: ...

    def _add(self, batch: Batch, output: Output) -> IntArray:
        """Accumulates rows that are not late; returns the slots to emit at once."""
        fires = self._clock.fires(milliseconds(batch.column(self._end))[0])
        before = self._clock.before(batch)
        # A row behind its window's end still counts within the allowed lateness: it is late for the
        # result, not for the state.
        in_time = fires + self._node.lateness_ms > before
        rows = np.flatnonzero(in_time)
        self._late.drop(batch, np.flatnonzero(~in_time), output)
        batch, fires, late = batch.take(rows), fires[rows], (fires <= before)[rows]
        keys = [batch.column(n) for n in (self._end, *self._node.keys)]
        slots, is_new = self._table.slots_for(keys, batch.num_rows)
        columns, new = self._table.columns, slots[is_new]
        columns[_START][new] = milliseconds(batch.column(self._start))[0][is_new]
        # A window that a late row opens has its end behind it: only `late_ms` emits it.
        columns[_FIRES][new] = np.where(late, _NEVER, fires)[is_new]
        columns[_CLEARS][new] = fires[is_new] + self._node.lateness_ms
        columns[_TIMER][new] = _NEVER
        self._accumulators.change(batch, slots, None, output)
        at_once = np.zeros(len(slots), np.bool_)
        for which, delay in ((~late, self._node.early_ms), (late, self._node.late_ms)):
            if delay is None:
                continue
            if delay == 0:
                at_once |= which
            else:
                columns[_TIMER][slots[which]] = np.minimum(
                    columns[_TIMER][slots[which]], batch.proctime + delay
                )
        self._table.mark(distinct(slots))
        return first_seen(slots[at_once])

    def _emit(self, batch: Batch, slots: IntArray) -> Batch | None:
        table, count = self._table, len(slots)
        vectors = self._accumulators.results(slots)
        new = [v.array(count) for v in vectors]
        old = [table.array(n, slots) for n in self._emitted]
        was_emitted = table.columns[_TOLD][slots].astype(np.bool_)
        # An update without a difference would be noise for every operator below.
        changed = ~was_emitted | differ(old, new, count)
        which = np.repeat(np.arange(count), np.where(changed, np.where(was_emitted, 2, 1), 0))
        if not len(which):
            return None
        after = np.append(which[1:] != which[:-1], True)
        kinds = np.where(
            was_emitted[which], np.where(after, UPDATE_AFTER, UPDATE_BEFORE), INSERT
        ).astype(np.int8)
        chosen = pa.array(np.where(after, which + count, which))
        values = [
            pa.concat_arrays([a, b.cast(a.type)]).take(chosen)
            for a, b in zip(old, new, strict=True)
        ]
        table.columns[_TOLD][slots] = 1
        table.write(slots, dict(zip(self._emitted, new, strict=True)))
        return self._rows(batch, slots[which], values, kinds)

    def _rows(self, batch: Batch, slots: IntArray, values: list[pa.Array], kinds: Kinds) -> Batch:
        schema, columns = self._node.schema, self._table.columns
        ends = columns[_END][slots].astype(np.int64)
        bounds = (columns[_START][slots].astype(np.int64), ends, self._clock.times(ends))
        window = [
            timestamps(b, schema.type(n).arrow)
            for b, n in zip(bounds, self._node.window_columns, strict=True)
        ]
        keys = [self._table.array(k, slots) for k in self._node.keys]
        columns_of_result = (*keys, *values, *window)
        return replace(
            batch.tick(schema), columns=columns_of_result, num_rows=len(slots), kinds=plain(kinds)
        )
