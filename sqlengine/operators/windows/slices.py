"""Aggregates over windows that share rows (HOP, CUMULATE): each row is accumulated once, in its
slice.

A slice is the part of time between two neighbouring window bounds. The result of a window is merged
from its slices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, Schema, timestamp
from planner.logical import WindowAggregate
from sqlengine.batch import MIN_WATERMARK, Batch, IntArray, concat
from sqlengine.operators.aggregates.accumulators import Accumulators
from sqlengine.operators.base import Context, Output
from sqlengine.operators.changelog.row_kinds import retractions
from sqlengine.operators.late_rows import LateGate
from sqlengine.operators.windows.local_buffer import Arrived, LocalBuffer
from sqlengine.operators.windows.reassign import WindowReassigner
from sqlengine.operators.windows.results import Fired, rows_of
from sqlengine.operators.windows.times import clock_below
from sqlengine.state.chains import KeyChains
from sqlengine.state.columns import BoolArray, milliseconds
from sqlengine.state.table import KeyedTable
from udf.vector import Vector

# A slice is identified by its end. `#window` is the end of the first window that contains it and
# has not fired, `#fires` the instant (ms) at which that one fires. `#rows` counts rows of
# changelogs.
_END, _WINDOW, _FIRES, _ROWS = "#end", "#window", "#fires", "#rows"
_NUMBER = BIGINT.with_nullable(False)


@dataclass(frozen=True)
class _Rows:
    """Rows with their slices, and the first of their windows that have not fired."""

    batch: Batch
    slices: IntArray
    windows: IntArray
    fires: IntArray

    def part(self, start: int, end: int) -> _Rows:
        return _Rows(
            self.batch.slice(start, end - start),
            self.slices[start:end],
            self.windows[start:end],
            self.fires[start:end],
        )


class SlicedAggregateOperator:
    """Aggregates HOP and CUMULATE windows, as Flink's SlicingWindowOperator
    (StreamExecWindowAggregate).

    A row counts for those of its windows that had not fired before it arrived; if all of them had,
    it is late, dropped and counted (`late_rows`). The slices of CUMULATE are merged into one base
    slice once they have been part of a fired window. The output (all +I) is ordered by the end of
    the window, then by the arrival of the key.

    State: table `slices`, slice end and key -> `#window`, `#fires`, accumulators. Timers: `#fires`,
    on the watermark or the processing time.
    """

    def __init__(self, node: WindowAggregate, owner: str = "") -> None:
        assert node.shared is not None
        self._node, self._window = node, node.shared
        self._start, self._end, _ = node.window_columns
        self._clock = clock_below(node.input)
        self._reassigner = WindowReassigner(node)
        self._retracts = bool(node.input.changes)
        self._late = LateGate(node, owner)
        self._accumulators = Accumulators(node.aggregates, owner, retract=self._retracts)
        self._buffer = LocalBuffer(self._accumulators, _FIRES, node.shared)

    def open(self, context: Context) -> None:
        self._late.open(context)
        keys = [Column(k, self._node.input.schema.type(k)) for k in self._node.keys]
        end = Column(_END, timestamp(3).with_nullable(False))
        numbers = [
            Column(n, _NUMBER) for n in (_WINDOW, _FIRES, *((_ROWS,) if self._retracts else ()))
        ]
        values = Schema((*numbers, *self._accumulators.columns))
        self._table: KeyedTable = context.table(
            "slices", Schema((end, *keys)), values, self._node.keys
        )
        self._accumulators.attach(self._table, context.counters)
        self._buffer.open(context, self._table)
        self._chains = KeyChains(self._table, self._node.keys)

    def process(self, port: int, batch: Batch) -> Output:
        output: Output = []
        self._chains.refresh()
        if batch.num_rows:
            self._accumulate(self._reassigner.reassign(batch), output)
        self._fire(batch, self._clock.now(batch), output)
        return [*output, (0, batch.tick(self._node.schema))]

    def timer(self) -> int | None:
        return self._clock.timer(lambda: self._table.earliest(_FIRES))

    def close(self) -> None: ...

    # ---- rows in ---------------------------------------------------------------------------------

    def _accumulate(self, batch: Batch, output: Output) -> None:
        """Accumulates the rows; windows that fired before a row which is behind them are emitted
        before that row is accumulated."""
        before = self._clock.before(batch)
        slices = milliseconds(batch.column(self._end))[0]
        windows = self._window.first_ends(slices)
        fires = self._clock.fires(windows)
        behind = fires <= before
        rows = _Rows(batch, slices, windows, fires)
        # The common case, without any late row: one accumulation for the whole batch.
        if not behind.any() and not self._window.has_gaps:
            self._add(rows, output)
            return
        rows, over, behind, before = self._in_time(rows, behind, before, output)
        start = 0
        for cut in _cuts(over, behind, before):
            self._add(rows.part(start, cut), output)
            # With the watermark as it was before this row: a window that ended before it must not
            # contain it.
            self._fire(replace(batch, watermark=int(before[cut])), int(before[cut]), output)
            start = cut
        self._add(rows.part(start, rows.batch.num_rows), output)

    def _in_time(
        self, rows: _Rows, behind: BoolArray, before: IntArray, output: Output
    ) -> tuple[_Rows, IntArray, BoolArray, IntArray]:
        """Drops late rows; returns the others, with the first window of each that has not fired.

        Beside them: when the window before that one fired, whether it is one of theirs, and the
        watermark before each row.
        """
        windows, fires, last = (
            rows.windows.copy(),
            rows.fires.copy(),
            self._window.last_ends(rows.slices),
        )
        late = behind.copy()
        # A row behind its first window still counts for later ones: step by step, until one has not
        # fired or none is left.
        while late.any():
            windows[late] = self._window.next_ends(windows[late])
            fires[late] = self._clock.fires(windows[late])
            late = (fires <= before) & (windows <= last)
        keep = np.flatnonzero(windows <= last)
        self._late.drop(rows.batch, np.flatnonzero(behind & (windows > last)), output)
        slices = rows.slices
        if self._window.shares_start:
            # The row's slice may have been merged into the base when its window fired.
            slices = np.where(behind, self._base(slices), slices)
        kept = _Rows(rows.batch.take(keep), slices[keep], windows[keep], fires[keep])
        return (
            kept,
            self._clock.fires(self._window.previous_ends(kept.windows)),
            behind[keep],
            before[keep],
        )

    def _base(self, ends: IntArray) -> IntArray:
        """Returns the base slice of windows that share a start (CUMULATE).

        It is their first slice, into which the slices of fired windows are merged.
        """
        return self._window.slice_ends(self._window.starts(ends))

    def _add(self, rows: _Rows, output: Output) -> None:
        if not rows.batch.num_rows:
            return
        keys = [rows.batch.column(k) for k in self._node.keys]
        ends = pa.array(rows.slices).view(pa.timestamp("ms"))
        slots, is_new = self._table.slots_for([ends, *keys], rows.batch.num_rows)
        new, at = slots[is_new], np.flatnonzero(is_new)
        self._table.columns[_WINDOW][new] = rows.windows[at]
        self._table.columns[_FIRES][new] = rows.fires[at]
        self._chains.add(new, [k.take(pa.array(at)) for k in keys])
        retracts = retractions(rows.batch) if self._retracts else None
        arrived = Arrived(
            rows.fires, self._clock.before(rows.batch), np.arange(rows.batch.num_rows)
        )
        self._buffer.change(rows.batch, slots, retracts, arrived, output)
        if self._retracts:
            np.add.at(
                self._table.columns[_ROWS],
                slots,
                1 if retracts is None else np.where(retracts, -1, 1),
            )
        self._table.mark(np.unique(slots))

    # ---- windows out -----------------------------------------------------------------------------

    def _fire(self, batch: Batch, upto: int, output: Output) -> None:
        """Fires one window end after the other; the slices of a window are due at the same instant.

        The output is one batch: the watermark after its last row is that of the input batch.
        """
        fired_rows: list[Batch] = []
        self._buffer.advance_to(upto)
        while len(due := self._table.due(_FIRES, upto)):
            self._buffer.flush(due)
            # After a jump of time several windows are due: the earliest end is fired, and its
            # slices are then scheduled for their next window, which may be due, too.
            windows = self._table.columns[_WINDOW][due].astype(np.int64)
            end = int(windows.min())
            slots = self._table.in_order(due[windows == end], _END)
            if self._window.shares_start:
                slots = self._into_base(slots, end)
            fired = (
                self._cumulated(slots, end)
                if self._window.shares_start
                else self._hopped(slots, end)
            )
            if len(fired.ends):
                fired_rows.append(
                    rows_of(self._node, self._clock, batch, fired, self._accumulators, output)
                )
            # Progress: each round moves every slice of `end` to a later window, or removes it.
            self._advance_slices(slots, end)
        if fired_rows:
            output.append((0, concat(fired_rows)))

    def _hopped(self, slots: IntArray, end: int) -> Fired:
        """Merges the slices of each key, latest or earliest first."""
        groups, first = self._by_arrival(slots)
        ends = self._table.columns[_END][slots].astype(np.int64)
        order = np.lexsort((ends if self._node.earliest_first else -ends, groups))
        slots, groups = slots[order], groups[order]
        if self._retracts:
            # Of a changelog, groups whose rows were all retracted have no result.
            has_rows = np.bincount(groups, self._table.columns[_ROWS][slots].astype(np.float64)) > 0
            numbers = np.cumsum(has_rows) - 1
            slots, groups, first = (
                slots[has_rows[groups]],
                numbers[groups[has_rows[groups]]],
                first[has_rows],
            )
        return self._fired(
            first,
            end,
            self._accumulators.merged(slots, groups, latest_first=not self._node.earliest_first),
        )

    def _by_arrival(self, slots: IntArray) -> tuple[IntArray, IntArray]:
        """Numbers the keys of the slots in order of arrival; returns also the first slot of each
        key."""
        ordered = self._table.in_order(slots)
        _, first = np.unique(self._chains.of(ordered), return_index=True)
        first = ordered[np.sort(first)]
        numbers = np.empty(int(self._chains.of(slots).max(initial=0)) + 1, np.int64)
        numbers[self._chains.of(first)] = np.arange(len(first))
        return numbers[self._chains.of(slots)], first

    def _cumulated(self, slots: IntArray, end: int) -> Fired:
        if self._retracts:
            slots = slots[self._table.columns[_ROWS].view(np.int64)[slots] > 0]
        slots = self._table.in_order(slots)
        return self._fired(slots, end, self._accumulators.results(slots))

    def _into_base(self, slots: IntArray, end: int) -> IntArray:
        """Merges the slices that end now into the base slice, key by key; returns the slots of the
        base."""
        base = int(self._base(np.array([end]))[0])
        fresh = slots[self._table.columns[_END][slots] != base]
        if not len(fresh):
            return slots
        keys = [self._table.array(k, fresh) for k in self._node.keys]
        ends = pa.array(np.full(len(fresh), base)).view(pa.timestamp("ms"))
        targets, is_new = self._table.slots_for([ends, *keys], len(fresh))
        columns = self._table.columns
        # A base slice that did not exist takes the schedule of the slice merged into it: it is due
        # now.
        for name in (_WINDOW, _FIRES):
            columns[name][targets[is_new]] = columns[name][fresh[is_new]]
        self._chains.add(targets[is_new], [k.filter(pa.array(is_new)) for k in keys])
        self._accumulators.merge(targets, fresh)
        if self._retracts:
            counts = columns[_ROWS].view(np.int64)
            counts[targets] += counts[fresh]
        self._table.mark(targets)
        # `slots_for` may have made base slices that were not due before: they belong to this
        # window, too.
        kept = np.union1d(slots[columns[_END][slots] == base], targets)
        self._remove(fresh)
        return kept

    def _fired(self, slots: IntArray, end: int, results: list[Vector]) -> Fired:
        ends = np.full(len(slots), end, np.int64)
        return Fired(
            [self._table.array(k, slots) for k in self._node.keys],
            results,
            self._window.starts(ends),
            ends,
            self._clock.fires(ends),
        )

    def _advance_slices(self, slots: IntArray, end: int) -> None:
        """Schedules the slices of a fired window for their next one; removes those for which it was
        the last."""
        columns = self._table.columns
        following = int(self._window.next_ends(np.array([end]))[0])
        has_next = following <= self._window.last_ends(columns[_END][slots].astype(np.int64))
        remaining = slots[has_next]
        columns[_WINDOW][remaining] = following
        columns[_FIRES][remaining] = self._clock.fires(np.array([following]))[0]
        self._table.mark(remaining)
        self._remove(slots[~has_next])

    def _remove(self, slots: IntArray) -> None:
        self._chains.remove(slots)
        self._table.remove(slots)


def _cuts(over: IntArray, behind: BoolArray, before: IntArray) -> Iterator[int]:
    """Yields the rows before which windows must be emitted: those behind a window that has not been
    emitted yet.

    `over` is the instant at which the window before a row's first one fired.
    """
    passed = MIN_WATERMARK
    for row in np.flatnonzero(behind).tolist():
        if over[row] > passed:
            passed = int(before[row])
            yield row
