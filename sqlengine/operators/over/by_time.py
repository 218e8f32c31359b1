"""OVER aggregation ordered by a time attribute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import chain

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, Schema
from planner.graph.family_members import number_columns
from planner.logical import Over
from sqlengine.batch import MAX_WATERMARK, Batch
from sqlengine.operators.base import NO_TICK, Context, Output, Rest, Stream, expiry
from sqlengine.operators.firing_steps import FiringSteps
from sqlengine.operators.late_rows import BEHIND, LateGate
from sqlengine.operators.over.alerts import AlertCalls
from sqlengine.operators.over.frames import (
    NUMBERING,
    Ordered,
    aggregate,
    in_order,
    lag_or_lead,
    lag_reach,
    offsets,
)
from sqlengine.operators.over.key_cleanup import KeyCleanup
from sqlengine.operators.over.running_sums import RunningSums
from sqlengine.operators.over.totals import Totals
from sqlengine.state.columns import IntArray, distinct, milliseconds
from sqlengine.state.keys import KeyColumn, batch_keys
from sqlengine.state.rows import RowsTable
from sqlengine.state.table import KeyedTable

# The time of a row (ms), the watermark with which it is emitted (a late row: with the next one),
# and the time of the last row of a key that was emitted.
_TIME, _DUE, _LEFT = "#time", "#due", "#left"
_MS = BIGINT.with_nullable(False)


# As in Flink: with a bounded frame, rows up to the beginning of 1970 are late.
_NONE_EMITTED = 0


@dataclass(frozen=True)
class _Rows:
    """Rows to emit, in order of time and arrival.

    All columns by name, its key, the time of each row, the slot of its key, and the watermark with
    which it is emitted: its time, or the next watermark if that was behind at its arrival.
    """

    columns: dict[str, pa.Array]
    key: list[KeyColumn]
    times: IntArray
    keys: IntArray
    due: IntArray


class OverOperator:
    """Computes OVER calls of rows ordered by time.

    On row time, rows wait until the watermark has passed them. With an unbounded frame a row behind
    the watermark is late and dropped (`late_rows`); with a bounded one, a row that arrives after a
    row of its key with its time or a later one was emitted. On processing time rows are emitted at
    once. As Flink's OverAggregate with RowTimeRowsBoundedPrecedingFunction,
    RowTimeRangeBoundedPrecedingFunction, RowTimeRowsUnboundedPrecedingFunction,
    RowTimeRangeUnboundedPrecedingFunction, and the ProcTime functions of these names.

    State: table `keys`, partition -> `#left` (ms), accumulators of unbounded frames, those of
    `AlertCalls` and `KeyCleanup`;
    table `waiting`, partition -> rows not yet emitted; table `frame`, partition -> emitted rows
    that bounded frames and LAG still need. Timers: `#due` of waiting rows.
    """

    def __init__(self, node: Over) -> None:
        self._node = node
        self._late = LateGate(node, reason=BEHIND)
        time = node.order[0].column
        self._time = time
        self._by_event = node.input.schema.type(time).is_rowtime
        self._bounded = node.frame.preceding is not None
        # On processing time each row is its own peer, except in bounded RANGE frames.
        self._peers = not node.frame.is_rows and (self._by_event or self._bounded)
        self._lags = [c for c in node.calls if c.function == "LAG"]
        self._framed = [
            c for c in node.calls if self._bounded and c.function not in ("LAG", *NUMBERING)
        ]
        needed = [a for c in node.calls for a in c.arguments]
        needed += [] if node.frame.preceding_in is None else [node.frame.preceding_in]
        self._arguments = tuple(dict.fromkeys(needed))
        self._sums = RunningSums(self._framed)
        self._alerts = AlertCalls(node.calls)
        others = [*self._lags, *self._framed, *self._alerts.calls]
        self._totals = Totals([c for c in node.calls if c not in others])
        # As in Flink, keys without a bounded frame are forgotten by the clock.
        self._ttl_ms = 0 if self._by_event or self._framed or self._lags else node.ttl_ms
        self._cleans_up = (
            self._by_event and self._bounded and not node.frame.is_rows and not self._lags
        )
        self._cleanup = KeyCleanup(time, _LEFT)
        # What the rows of a key have in common.
        self._of_key = tuple(n for n in (*node.partition, node.frame.preceding_in) if n is not None)
        self.steps = FiringSteps(proctime=not self._by_event)

    def open(self, context: Context) -> None:
        self._late.open(context)
        schema, by = self._node.input.schema, self._node.partition
        key = schema.select(by)
        own = [Column(_LEFT, BIGINT), *(KeyCleanup.columns if self._cleans_up else [])]
        self._keys: KeyedTable = context.table(
            "keys",
            key,
            Schema((*own, *self._totals.columns, *self._sums.columns, *self._alerts.columns)),
            by,
        )
        self._alerts.attach(self._keys, context.counters)
        self._totals.attach(self._keys)
        self._sums.attach(self._keys)
        time = Column(_TIME, _MS)
        if self._by_event:
            rest = schema.select(tuple(n for n in schema.names if n not in by))
            self._waiting = RowsTable(
                context,
                "waiting",
                key,
                Schema(()),
                Schema((time, Column(_DUE, _MS), *rest)),
                by,
                _TIME,
            )
            self.steps.open((self._waiting.table, _DUE))
        if self._framed or self._lags:
            seen = dict.fromkeys(a for c in (*self._framed, *self._lags) for a in c.arguments)
            read = schema.select(tuple(n for n in seen if n not in by))
            self._frame = RowsTable(
                context, "frame", key, Schema(()), Schema((time, *read)), by, _TIME
            )
        if self._cleans_up:
            self._cleanup.open(context, key)
            self._cleanup.attach(self._keys, self._frame, _TIME)

    def process(self, port: int, batch: Batch) -> Stream:
        if not self._by_event:
            if self._ttl_ms:
                self._keys.remove(self._keys.due(_LEFT, batch.proctime - self._ttl_ms))
            rows = self._at_once(batch)
            return [(0, batch.tick(self._node.schema) if rows is None else self._emit(batch, rows))]
        steps = self.steps.before(batch, self._node.input.schema)
        return chain.from_iterable(map(self._step, steps))

    def _step(self, batch: Batch) -> Stream:
        batch = self.steps.begin(batch)
        yield from self.steps.close(self._results(batch), batch, self._node.schema)

    def _results(self, batch: Batch) -> Stream:
        """Stores the rows of a batch, and emits those that are due."""
        stored = 0
        # Each piece begins with a late row: timers that fired before it change whether it is
        # dropped.
        for piece in self._cleanup.pieces(batch) if self._cleans_up else (batch,):
            output: Output = []
            if piece.num_rows:
                self._store(piece, output)
            yield from output
            stored += piece.num_rows
            while (rows := self._due_rows(piece)) is not None:
                yield 0, self._emit(piece, rows)
                # Whether a row is late depends on what was fired before it: only behind the last
                # one may rows be left to a later step; and not where a key was removed meanwhile.
                is_last = stored == batch.num_rows and self._cleanup.is_settled
                if is_last or not self.steps.begins_again():
                    break
            if not self._cleanup.is_settled:
                self._cleanup.settle()

    def rest(self) -> Rest:
        if not self._by_event:
            return expiry(self._keys, _LEFT, self._ttl_ms)
        due = [self._waiting.table.earliest(_DUE)]
        if self._cleans_up:
            due.append(self._cleanup.earliest())
        return Rest(min((at for at in due if at is not None), default=NO_TICK.watermark))

    def close(self) -> None: ...

    # ---- which rows ------------------------------------------------------------------------------

    def _at_once(self, batch: Batch) -> _Rows | None:
        if not batch.num_rows:
            return None
        columns = {n: batch.column(n) for n in self._node.input.schema.names}
        key = batch_keys(batch, self._node.partition)
        slots, _ = self._keys.slots_for(key, batch.num_rows)
        times = np.full(batch.num_rows, batch.proctime, np.int64)
        return _Rows(columns, key, times, slots, times)

    def _due_rows(self, batch: Batch) -> _Rows | None:
        """Takes the rows that are due, as far as the step has room; None without any."""
        table = self._waiting.table
        slots = table.due(_DUE, batch.watermark, self.steps.most)
        if not len(slots):
            return None
        due = table.columns[_DUE][slots].astype(np.int64)
        slots = slots[due <= self.steps.room(np.sort(due), batch.watermark)]
        slots = self._in_firing_order(batch, slots)
        names = self._node.input.schema.names
        columns = dict(zip(names, self._waiting.arrays(names, slots), strict=True))
        times = self._waiting.table.columns[_TIME][slots].astype(np.int64)
        due = self._waiting.table.columns[_DUE][slots].astype(np.int64)
        key = self._waiting.table.key_columns(slots, self._node.partition)
        self._waiting.drop(slots)
        # With an unbounded frame a key has no slot before its first row is emitted.
        keys, _ = self._keys.slots_for(key, len(slots))
        return _Rows(columns, key, times, keys, due)

    def _in_firing_order(self, batch: Batch, slots: IntArray) -> IntArray:
        """Sorts rows by the watermark that fires them, then by time and arrival."""
        slots = self._waiting.table.in_order(slots, _TIME)
        before = batch.watermarks_before(self._waiting.table.columns[_DUE][slots].astype(np.int64))
        ordered: IntArray = slots[np.argsort(before, kind="stable")]
        return ordered

    def _store(self, batch: Batch, output: Output) -> None:
        times, valid = milliseconds(batch.column(self._time))
        key = batch_keys(batch, self._node.partition)
        if self._bounded:
            good = valid & self._in_time(key, times, batch)
        else:
            good = valid & (times > batch.watermarks())
        if not good.all():
            self._late.drop(batch, np.flatnonzero(~good), output)
            kept = np.flatnonzero(good)
            batch, key, times = batch.take(kept), [k.take(kept) for k in key], times[kept]
        # The first three value columns are not the input's: the two of `own`, and the multiplicity.
        names = self._waiting.table.values.names[3:]
        # A row at or behind the watermark waits for the next one.
        due = np.maximum(times, np.minimum(batch.watermarks(), MAX_WATERMARK - 1) + 1)
        values = [times, due, *(batch.column(n) for n in names)]
        self._waiting.put(key, [], values, batch.num_rows)

    def _in_time(
        self, key: Sequence[KeyColumn], times: IntArray, batch: Batch
    ) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Returns True for rows that are not late: no row of their key with their time or a later
        one was emitted, as if each row were a batch."""
        slots, _ = self._keys.slots_for(key, len(times))
        emitted: dict[int, int] = {}
        # By key, the rows of this batch that wait: a heap of what emits each, and its time.
        arrived: dict[int, list[tuple[int, int]]] = {}
        last_emitted, has_emitted = self._keys.columns[_LEFT], self._keys.columns[_LEFT + "?"]
        groups = self._waiting.groups(key, len(times)).tolist()
        good = np.ones(len(times), np.bool_)
        for i, (slot, time, watermark) in enumerate(
            zip(slots.tolist(), times.tolist(), batch.watermarks().tolist(), strict=True)
        ):
            # The time of the key's last emitted row, when this row arrives: the one stored, or a
            # waiting row that the watermark before this row emits, or one of this batch that it
            # emits.
            before = emitted.get(
                slot, int(last_emitted[slot]) if has_emitted[slot] else _NONE_EMITTED
            )
            advanced = groups[i] >= 0 and watermark > batch.since
            waiting = self._waiting.last_until(groups[i], watermark) if advanced else None
            before = before if waiting is None else max(before, waiting)
            # Watermarks never fall, so each row is taken out once.
            rows = arrived.setdefault(slot, [])
            while rows and rows[0][0] <= watermark:
                before = max(before, heappop(rows)[1])
            emitted[slot] = before
            # Here, not by the watermark: a row behind the watermark is still in time as long as its
            # key has emitted nothing at its time or later.
            good[i] = time > emitted[slot]
            if good[i]:
                heappush(rows, (max(time, watermark + 1), time))
        if self._cleans_up:
            reach = self._reach(batch.column, batch.num_rows)
            self._cleanup.extend(slots[good], times[good], batch.watermarks()[good], reach[good])
        return good

    # ---- what they have --------------------------------------------------------------------------

    def _emit(self, batch: Batch, rows: _Rows) -> Batch:
        # Calls work key by key; `inverse` puts the values back into the order of the output.
        by_key = np.argsort(rows.keys, kind="stable")
        inverse = np.empty(len(by_key), np.int64)
        inverse[by_key] = np.arange(len(by_key))
        keys, times = rows.keys[by_key], rows.times[by_key]
        index = pa.array(by_key)
        columns = {n: rows.columns[n].take(index) for n in self._arguments}
        ordered = in_order(keys, [times] if self._peers else [np.arange(len(keys))])
        values_of = self._totals.after(keys, columns, ordered) | self._alerts.after(keys, columns)
        if self._framed or self._lags:
            key = [k.take(by_key) for k in rows.key]
            values_of |= self._bounded_values(key, keys, times, columns)
        self._note_emitted(keys, times)
        member = number_columns(self._node.partition)[:1]
        numbers = rows.columns[member[0]].take(index).to_numpy() if member else None
        self._alerts.count(values_of, numbers)
        at = pa.array(inverse)
        values = [values_of[c.name].cast(c.type.arrow).take(at) for c in self._node.calls]
        tick = batch.tick(self._node.schema)
        before = batch.watermarks_before(rows.due) if self._by_event else None
        return replace(
            tick,
            columns=(*rows.columns.values(), *values),
            num_rows=len(keys),
            row_watermarks=before,
        )

    def _note_emitted(self, keys: IntArray, times: IntArray) -> None:
        # Rows are sorted by key, then time: the last row of each run of keys has the key's latest
        # time.
        last = np.append(np.flatnonzero(keys[1:] != keys[:-1]), len(keys) - 1)
        self._keys.write(keys[last], {_LEFT: times[last]})
        self._keys.mark(keys[last])

    def _bounded_values(
        self,
        key: Sequence[KeyColumn],
        keys: IntArray,
        times: IntArray,
        columns: dict[str, pa.Array],
    ) -> dict[str, pa.Array]:
        """Computes calls over the stored rows and the new ones, which are sorted by key,
        then time."""
        frame, count = self._frame, len(keys)
        firsts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        of, stored = frame.matches([k.take(firsts) for k in key], len(firsts))
        names = frame.table.values.names[2:]
        stored_columns = dict(zip(names, frame.arrays(names, stored), strict=True))
        # Stored rows were emitted before the new ones: put first, a stable sort by key keeps each
        # key in the order of time.
        all_keys = np.concatenate([keys[firsts][of], keys])
        at = np.argsort(all_keys, kind="stable")
        all_times = np.concatenate([frame.table.columns[_TIME][stored].astype(np.int64), times])[at]
        index = pa.array(at)
        all_columns = {
            n: pa.concat_arrays([stored_columns[n], columns[n]]).take(index) for n in names
        }
        all_columns |= {
            n: columns[n].take(pa.array(np.concatenate([firsts[of], np.arange(count)])[at]))
            for n in self._of_key
            if n in self._arguments
        }
        rows = in_order(all_keys[at], [all_times] if self._peers else [np.arange(len(at))])
        new = np.flatnonzero(at >= len(stored))
        values_of = self._framed_values(keys, rows, all_times, all_columns, new)
        lasts = np.flatnonzero(np.append(np.diff(rows.partition) != 0, True))
        looks_back = np.zeros(len(lasts), np.int64)
        for call in self._lags:
            values = [all_columns[a] for a in call.arguments]
            reachable = None if call.constants else lag_reach(offsets(values), rows)
            # Flink's LAG counts back from the last row of the same time.
            values_of[call.name] = lag_or_lead(call, rows, values, rows.last_peer, reachable).take(
                pa.array(new)
            )
            needed = call.constants[0] if reachable is None else reachable[lasts]
            looks_back = np.maximum(looks_back, needed)
        # Stored after the values are computed: the new rows were in `all_columns` already.
        slots, _ = frame.put(key, [], [times, *(columns[n] for n in names)], count)
        reach = self._reach(columns.__getitem__, count)[firsts]
        self._trim(frame.groups_of(slots[firsts]), looks_back, reach)
        return values_of

    def _reach(self, column: Callable[[str], pa.Array], count: int) -> IntArray:
        """Returns how far back the frame of each row begins: rows, or ms."""
        if self._node.frame.preceding_in is None:
            return np.broadcast_to(np.int64(self._node.frame.preceding or 0), count)
        reach: IntArray = column(self._node.frame.preceding_in).to_numpy()
        return reach

    def _framed_values(
        self,
        keys: IntArray,
        rows: Ordered,
        times: IntArray,
        columns: dict[str, pa.Array],
        new: IntArray,
    ) -> dict[str, pa.Array]:
        if not self._framed:
            return {}
        reach = self._reach(columns.__getitem__, len(rows))
        at = np.arange(len(rows))
        if self._node.frame.is_rows:
            low, high = np.maximum(at - reach, rows.partition), at
        else:
            low, high = _since(rows, times, reach), rows.last_peer
        others = [c for c in self._framed if c not in self._sums.calls]
        values = ((c, columns[c.arguments[0]] if c.arguments else None) for c in others)
        values_of = {c.name: aggregate(c, v, low[new], high[new], moves=True) for c, v in values}
        anew = None if self._cleanup.is_settled else self._cleanup.begins_anew(keys, times[new])
        return values_of | self._sums.after(keys, rows, (low, high), new, columns, anew)

    def _trim(self, groups: IntArray, looks_back: IntArray, reach: IntArray) -> None:
        """Removes the rows of these keys that no frame needs any more; `looks_back`: how far LAG
        does from the last row of each key, `reach`: how far its frames do."""
        frame, is_rows = self._frame, self._node.frame.is_rows
        if self._framed and is_rows:
            # A running sum subtracts the row that leaves the frame, so that it needs one row more.
            looks_back = np.maximum(looks_back, reach + bool(self._sums.calls))
        unneeded = []
        of_groups = zip(groups.tolist(), looks_back.tolist(), reach.tolist(), strict=True)
        for group, rows, reached in of_groups:
            slots = frame.slots(group)
            old = slots[: max(len(slots) - rows, 0)]
            # A RANGE frame needs rows by time, LAG by number: the row goes when neither needs it.
            if self._framed and not is_rows:
                times = frame.table.columns[_TIME][old].astype(np.int64)
                last = int(frame.table.columns[_TIME][slots[-1]])
                old = old[times < last - reached]
            unneeded.append(old)
        frame.drop(np.concatenate(unneeded))


def _since(rows: Ordered, times: IntArray, reach: IntArray) -> IntArray:
    """Returns for each row the first row of its partition that is at most `reach` ms older, which
    is equal in a partition; times ascend there."""
    low = np.empty(len(rows), np.int64)
    starts = distinct(rows.partition)
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(rows)], strict=True):
        part = times[start:end]
        low[start:end] = start + np.searchsorted(part, part - reach[start], "left")
    return low
