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
from planner.logical import AlignedWindow, WindowAggregate
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK, Batch, IntArray
from sqlengine.operators.aggregates.accumulators import Accumulators
from sqlengine.operators.base import EVERY_TICK, Context, Output, Rest, Stream
from sqlengine.operators.bounded import Slices, drained, rows_at_once
from sqlengine.operators.changelog.row_kinds import retractions
from sqlengine.operators.firing_steps import FiringSteps
from sqlengine.operators.late_rows import LateGate
from sqlengine.operators.windows.equal_windows import due_windows, equal_windows
from sqlengine.operators.windows.local_buffer import Arrived
from sqlengine.operators.windows.reassign import WindowReassigner
from sqlengine.operators.windows.results import Fired, repeated, rows_of
from sqlengine.operators.windows.times import (
    clock_below,
    length_columns,
    windows_at,
    windows_of,
)
from sqlengine.operators.windows.two_phases import buffer_of
from sqlengine.state.chains import KeyChains, distinct_keys
from sqlengine.state.columns import BoolArray, distinct, milliseconds, to_numpy
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

    def __init__(self, node: WindowAggregate) -> None:
        assert node.shared is not None
        self._node, self._window = node, node.shared
        self._start, self._end, _ = node.window_columns
        self._clock = clock_below(node.input)
        self._reassigner = WindowReassigner(node)
        self._retracts = bool(node.input.changes)
        self._late = LateGate(node)
        self._accumulators = Accumulators(node.aggregates, retract=self._retracts)
        self._buffer = buffer_of(node, self._accumulators, _FIRES, node.shared)
        self.steps = FiringSteps(proctime=self._clock.proctime)

    def open(self, context: Context) -> None:
        self._late.open(context)
        self._check_step = context.check_step
        keys = [Column(k, self._node.input.schema.type(k)) for k in self._node.keys]
        end = Column(_END, timestamp(3).with_nullable(False))
        numbers = [
            Column(n, _NUMBER) for n in (_WINDOW, _FIRES, *((_ROWS,) if self._retracts else ()))
        ]
        lengths = length_columns(self._window)
        self._lengths = tuple(c.name for c in lengths)
        values = Schema((*numbers, *lengths, *self._accumulators.columns))
        self._table: KeyedTable = context.table(
            "slices", Schema((end, *keys)), values, self._node.keys
        )
        self._accumulators.attach(self._table, context.counters)
        self._buffer.open(context, self._table)
        self._chains = KeyChains(self._table, self._node.keys)
        self.steps.open((self._table, _FIRES))

    def process(self, port: int, batch: Batch) -> Stream:
        self._chains.refresh()
        batch = self.steps.begin(batch)
        if batch.num_rows:
            yield from self._accumulate(self._reassigner.reassign(batch))
        fired = self._fire(batch, self._clock.now(batch))
        yield from self.steps.close(fired, batch, self._node.schema)

    def timer(self) -> int | None:
        return self._clock.timer(lambda: self._table.earliest(_FIRES))

    def rest(self) -> Rest:
        # What is buffered may be flushed by any watermark.
        if self._accumulators.buffered:
            return EVERY_TICK
        return self._clock.rest(self._table.earliest(_FIRES))

    def close(self) -> None: ...

    # ---- rows in ---------------------------------------------------------------------------------

    def _accumulate(self, batch: Batch) -> Stream:
        """Accumulates the rows; windows that fired before a row which is behind them are emitted
        before that row is accumulated."""
        output: Output = []
        before = self._clock.before(batch)
        slices = milliseconds(batch.column(self._end))[0]
        window = windows_of(self._window, batch)
        windows = window.first_ends(slices)
        fires = self._clock.fires(windows)
        behind = fires <= before
        rows = _Rows(batch, slices, windows, fires)
        # The common case, without any late row: one accumulation for the whole batch.
        if not behind.any() and not window.has_gaps:
            self._add(rows, output)
            yield from output
            return
        rows, over, behind, before = self._in_time(rows, behind, before, output)
        if behind.any():
            behind &= self._joins_fired(rows)
        start = 0
        for cut in _cuts(over, behind, before):
            self._add(rows.part(start, cut), output)
            yield from drained(output)
            # With the watermark as it was before this row: a window that ended before it must not
            # contain it. However many windows that are, they are all fired now.
            reached = int(before[cut])
            for port, fired in self._fire(replace(batch, watermark=reached), reached, whole=True):
                yield port, fired if port else self.steps.emitted(fired)
            start = cut
        self._add(rows.part(start, rows.batch.num_rows), output)
        yield from output

    def _joins_fired(self, rows: _Rows) -> BoolArray:
        """Returns True for rows whose slice holds rows of earlier windows, too: these have fired
        before the row, and must be emitted before it is accumulated."""
        count = rows.batch.num_rows
        if self._window.shares_start:  # the base slice holds all rows so far
            return np.ones(count, np.bool_)
        keys = [rows.batch.column(k) for k in self._node.keys]
        identity = [pa.array(rows.slices).view(pa.timestamp("ms")), *keys]
        slots, _ = self._table.slots_for(identity, count, insert=False)
        earliest = np.full(count, MAX_WATERMARK)
        known = slots >= 0
        earliest[known] = self._table.columns[_WINDOW][slots[known]]
        # Rows of this batch are accumulated together: the first of a slice has its first window.
        codes, firsts = distinct_keys([c.type for c in self._table.keys], identity, count)
        earliest = np.minimum(earliest, rows.windows[firsts][codes])
        joins: BoolArray = earliest < rows.windows
        return joins

    def _in_time(
        self, rows: _Rows, behind: BoolArray, before: IntArray, output: Output
    ) -> tuple[_Rows, IntArray, BoolArray, IntArray]:
        """Drops late rows; returns the others, with the first window of each that has not fired.

        Beside them: when the window before that one fired, whether it is one of theirs, and the
        watermark before each row.
        """
        window = windows_of(self._window, rows.batch)
        last = window.last_ends(rows.slices)
        windows = self._first_unfired(window, rows.windows, last, before)
        keep = np.flatnonzero(windows <= last)
        self._late.drop(rows.batch, np.flatnonzero(behind & (windows > last)), output)
        slices = rows.slices
        if self._window.shares_start:
            # The row's slice may have been merged into the base when its window fired.
            slices = np.where(behind, _base(window, slices), slices)
        fires = self._clock.fires(windows[keep])
        kept = _Rows(rows.batch.take(keep), slices[keep], windows[keep], fires)
        return (
            kept,
            self._clock.fires(window.at(keep).previous_ends(kept.windows)),
            behind[keep],
            before[keep],
        )

    def _first_unfired(
        self, window: AlignedWindow, windows: IntArray, last: IntArray, before: IntArray
    ) -> IntArray:
        """Returns for each row the first of its `windows` that had not fired before it, or one
        behind the `last` of them."""
        # A window of a row may be long and its slide short: by bisection, not one after the other.
        low, high = np.zeros(len(windows), np.int64), np.zeros(len(windows), np.int64)
        at = np.flatnonzero(self._clock.fires(windows) <= before)
        high[at] = 1
        while len(at):
            # Doubled until it is enough; `low` is the last place that was not.
            ends = window.at(at).next_ends(windows[at], high[at])
            at = at[(self._clock.fires(ends) <= before[at]) & (ends <= last[at])]
            low[at], high[at] = high[at], 2 * high[at]
        at = np.flatnonzero(high - low > 1)
        while len(at):
            middle = (low[at] + high[at]) // 2
            ends = window.at(at).next_ends(windows[at], middle)
            over = (self._clock.fires(ends) <= before[at]) & (ends <= last[at])
            low[at[over]], high[at[~over]] = middle[over], middle[~over]
            at = at[high[at] - low[at] > 1]
        return window.next_ends(windows, high)

    def _add(self, rows: _Rows, output: Output) -> None:
        if not rows.batch.num_rows:
            return
        keys = [rows.batch.column(k) for k in self._node.keys]
        ends = pa.array(rows.slices).view(pa.timestamp("ms"))
        slots, is_new = self._table.slots_for([ends, *keys], rows.batch.num_rows)
        new, at = slots[is_new], np.flatnonzero(is_new)
        self._table.columns[_WINDOW][new] = rows.windows[at]
        self._table.columns[_FIRES][new] = rows.fires[at]
        for name in self._lengths:
            values, _ = to_numpy(rows.batch.schema.type(name), rows.batch.column(name))
            self._table.columns[name][new] = values[at]
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
        self._table.mark(distinct(slots))

    # ---- windows out -----------------------------------------------------------------------------

    def _fire(self, batch: Batch, upto: int, *, whole: bool = False) -> Stream:
        """Fires the windows that are due, in the order of their ends; with `whole` all of them,
        whatever the step costs.

        Windows between two bounds of slices hold the same slices: they are fired together. The
        slices of a window are due at the same instant."""
        slices = Slices()
        self._buffer.advance_to(upto)
        while len(due := self._table.due(_FIRES, upto)) and (whole or self.steps.goes_on()):
            self._buffer.flush(due)
            self._check_step()
            fired = self._fire_next(due, upto)
            if not len(fired.ends):
                continue
            output: Output = []
            rows = rows_of(self._node, self._clock, batch, fired, self._accumulators, output)
            yield from output
            yield from ((0, full) for full in slices.add(rows))
        yield from ((0, rest) for rest in slices.take())

    def _fire_next(self, due: IntArray, upto: int) -> Fired:
        """Fires the first window that is due, and those behind it that hold the same slices, as
        many as make a slice of rows."""
        # After a jump of time several windows are due: the earliest end is fired, and its slices
        # are then scheduled for their next window, which may be due, too.
        windows = self._table.columns[_WINDOW][due].astype(np.int64)
        end = int(windows.min())
        slots = self._table.in_order(due[windows == end], _END)
        if self._window.shares_start:
            slots = self._into_base(slots, end)
            fired, of_rows = self._cumulated(slots, end)
        else:
            fired, of_rows = self._hopped(slots, end)
        following = windows[windows > end].min(initial=MAX_WATERMARK)
        if self._is_alone(slots, end, int(following), upto):  # the common case
            self.steps.spend(len(slots), len(fired.ends))
            self._advance_slices(slots, np.full(len(slots), end))
            return fired
        return self._fire_equal(fired, of_rows, slots, (end, int(following), upto))

    def _is_alone(self, slots: IntArray, end: int, following: int, upto: int) -> bool:
        """True if the next windows of all these slices are not due, or behind another one."""
        some = slots if self._lengths else slots[:1]
        window = windows_at(self._window, self._table, some)
        second = window.next_ends(np.full(len(some), end))
        return bool(((second >= following) | (self._clock.fires(second) > upto)).all())

    def _fire_equal(
        self, fired: Fired, of_rows: IntArray, slots: IntArray, ends: tuple[int, int, int]
    ) -> Fired:
        """Returns the rows of the windows that are due and hold the same slices as the first ones,
        whose rows are `fired`, for the slots `of_rows`. `ends`: that of these, of the next window
        with others, and the instant up to which windows are due."""
        end, following, upto = ends
        slices = self._table.columns[_END][slots].astype(np.int64)
        window, window_of_rows = (
            windows_at(self._window, self._table, some) for some in (slots, of_rows)
        )
        equal = equal_windows(window, slots, slices, end, following)
        equal = due_windows(equal, self._clock, upto)
        all_ends, rows = equal.all_ends, len(fired.ends)
        all_ends = all_ends[: max(1, rows_at_once(fired.columns, rows) // max(1, rows))]
        count = self.steps.spend(len(slots), rows, len(all_ends))
        equal = equal.up_to(int(all_ends[count - 1]))
        # Progress: each round moves every slice of `end` to a later window, or removes it.
        self._advance_slices(slots, equal.last_ends)
        places, at = equal.repeated(of_rows)
        return Fired(
            [k.take(pa.array(places)) for k in fired.keys],
            [repeated(v, rows, places) for v in fired.results],
            window_of_rows.at(places).starts(at),
            at,
            self._clock.fires(at),
        )

    def _hopped(self, slots: IntArray, end: int) -> tuple[Fired, IntArray]:
        """Merges the slices of each key, latest or earliest first; returns also a slot of each
        key."""
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

    def _cumulated(self, slots: IntArray, end: int) -> tuple[Fired, IntArray]:
        if self._retracts:
            slots = slots[self._table.columns[_ROWS].view(np.int64)[slots] > 0]
        slots = self._table.in_order(slots)
        return self._fired(slots, end, self._accumulators.results(slots))

    def _into_base(self, slots: IntArray, end: int) -> IntArray:
        """Merges the slices that end now into the base slice, key by key; returns the slots of the
        base."""
        window = windows_at(self._window, self._table, slots)
        base = _base(window, np.full(len(slots), end))
        is_base = self._table.columns[_END][slots] == base
        if is_base.all():
            return slots
        fresh, kept = slots[~is_base], slots[is_base]
        keys = [self._table.array(k, fresh) for k in self._node.keys]
        ends = pa.array(base[~is_base]).view(pa.timestamp("ms"))
        targets, is_new = self._table.slots_for([ends, *keys], len(fresh))
        columns = self._table.columns
        # A base slice that did not exist takes the schedule of the slice merged into it: it is due
        # now.
        for name in (_WINDOW, _FIRES, *self._lengths):
            columns[name][targets[is_new]] = columns[name][fresh[is_new]]
        self._chains.add(targets[is_new], [k.filter(pa.array(is_new)) for k in keys])
        self._accumulators.merge(targets, fresh)
        if self._retracts:
            counts = columns[_ROWS].view(np.int64)
            counts[targets] += counts[fresh]
        self._table.mark(targets)
        # `slots_for` may have made base slices that were not due before: they belong to this
        # window, too.
        kept = np.union1d(kept, targets)
        self._remove(fresh)
        return kept

    def _fired(self, slots: IntArray, end: int, results: list[Vector]) -> tuple[Fired, IntArray]:
        ends = np.full(len(slots), end, np.int64)
        fired = Fired(
            [self._table.array(k, slots) for k in self._node.keys],
            results,
            windows_at(self._window, self._table, slots).starts(ends),
            ends,
            self._clock.fires(ends),
        )
        return fired, slots

    def _advance_slices(self, slots: IntArray, ends: IntArray) -> None:
        """Schedules the slices of fired windows with these ends for their next ones; removes those
        for which it was the last."""
        columns = self._table.columns
        window = windows_at(self._window, self._table, slots)
        following = window.next_ends(ends)
        has_next = following <= window.last_ends(columns[_END][slots].astype(np.int64))
        remaining = slots[has_next]
        columns[_WINDOW][remaining] = following[has_next]
        columns[_FIRES][remaining] = self._clock.fires(following[has_next])
        self._table.mark(remaining)
        self._remove(slots[~has_next])

    def _remove(self, slots: IntArray) -> None:
        self._chains.remove(slots)
        self._table.remove(slots)


def _base(windows: AlignedWindow, ends: IntArray) -> IntArray:
    """Returns the base slices of windows that share a start (CUMULATE), or of slices: the first
    slices, into which those of fired windows are merged."""
    return windows.slice_ends(windows.starts(ends))


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
