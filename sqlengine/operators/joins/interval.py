"""Interval joins: the row times of two rows are within an interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from planner.logical import IntervalJoin, JoinKind
from planner.rewrite import conjunction
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK, Batch, IntArray, concat, replaced
from sqlengine.operators.base import NO_TICK, Context, Output, Rest, Stream
from sqlengine.operators.bounded import SLICE_ROWS, drained
from sqlengine.operators.firing_steps import FiringSteps
from sqlengine.operators.interleave import interleave_late_rows
from sqlengine.operators.joins.interval_rows import DUE, TIME, IntervalRows
from sqlengine.operators.joins.rows import (
    MatchedPiece,
    OutputRows,
    PairCondition,
    assemble,
    match_in_pieces,
    null_slots,
)
from sqlengine.operators.ports import PortTimes
from sqlengine.state.columns import BoolArray, distinct, milliseconds, validity
from sqlengine.state.rows import RowsTable

# Rows of which nothing comes are removed so many ms later at most, many at a time.
_SLACK_MS: Final = 1_000


@dataclass
class _Room:
    """The rows that a step may remove: all whose turn is before the watermark `last`, and `more` of
    those at it; these are at most so many in `all`, None for any number."""

    last: int
    more: int
    all: int | None


class IntervalJoinOperator:
    """Joins rows whose times differ by an interval, as Flink's RowTimeIntervalJoin and
    ProcTimeIntervalJoin.

    An arriving row, late or not, joins the stored rows of the other side. It is stored until the
    watermark (or the clock) is so far past its time that no row in time can match it, and half an
    interval longer, as in Flink. An unmatched row of an outer side is emitted with NULLs when it is
    removed. The emitted watermark is delayed by the longest time that such a row can wait.

    Rows are removed in steps. On row time each has its turn, which is the watermark before the one
    that makes it due, and arriving rows of an outer join wait for those whose turn is before
    theirs: results come in the order of their watermarks.

    State: tables `left` and `right` (`IntervalRows`), and `PortTimes`. Timers: `#due` of each row.

    `aligned` inputs come from one source, batch for batch: they are interleaved where rows are
    late.
    """

    def __init__(self, node: IntervalJoin, *, aligned: bool = False) -> None:
        self._node = node
        self._aligned = aligned
        self._sides = (IntervalRows(node, 0), IntervalRows(node, 1))
        self._strict = [i for i, e in enumerate(node.equalities) if not e.null_safe]
        residual = node.conditions[1]
        self._residual = PairCondition(node, conjunction(residual)) if residual else None
        # Rows that are removed without a trace, or by the clock, need not be so before others join.
        self._in_turn = node.kind is not JoinKind.INNER and not node.proctime
        # Nor at once where nothing comes of it: many go together, with half as much more state.
        inner = node.kind is JoinKind.INNER
        self._slack_ms = min(node.delay_ms // 2, _SLACK_MS) if inner else 0
        self._first_due = MAX_WATERMARK
        self._generations = (-1, -1)
        self.steps = FiringSteps(proctime=False, holds=self._in_turn)

    def open(self, context: Context) -> None:
        self._times = PortTimes(context, 2)
        for side in self._sides:
            side.open(context)
        if self._residual is not None:
            self._residual.open(context)
        self.steps.open(*((side.rows.table, DUE) for side in self._sides))

    def process(self, port: int, batch: Batch) -> Stream:
        if not self.steps.resumed:
            batch = self._times.advance(port, batch)
        batch = self.steps.begin(batch)
        fired = self._join_in_turn(port, batch) if self._in_turn else self._join_now(port, batch)
        for to, rows in self.steps.close(fired, batch, self._node.schema):
            yield to, rows if to else self._delayed(rows)

    def process_many(self, parts: Sequence[tuple[int, Batch]]) -> Stream:
        """Processes the batches in turn; the parts of one source batch in the order of the
        source."""
        if self._aligned and [port for port, _ in parts] == [0, 1]:
            batches = [batch for _, batch in parts]
            parts = list(
                interleave_late_rows(batches, [self._late(port, batch) for port, batch in parts])
            )
        for port, batch in parts:
            yield from self.process(port, batch)

    def rest(self) -> Rest:
        first = self._earliest()
        if first == MAX_WATERMARK:
            return NO_TICK
        first += self._slack_ms
        return Rest(proctime=first) if self._node.proctime else Rest(first)

    @property
    def untold(self) -> list[int]:
        return self._times.untold

    def close(self) -> None: ...

    def _late(self, port: int, batch: Batch) -> BoolArray:
        times, _ = milliseconds(batch.column(self._sides[port].time_column))
        return times <= batch.watermarks()

    def _delayed(self, rows: Batch) -> Batch:
        """Delays the watermarks of results: rows that still wait for a match may be emitted behind
        them."""
        if self._node.proctime:
            return rows
        watermark, since = self._later(np.array([rows.watermark, rows.since])).tolist()
        before = None if rows.row_watermarks is None else self._later(rows.row_watermarks)
        return replaced(rows, watermark=watermark, since=since, row_watermarks=before)

    def _later(self, watermarks: IntArray) -> IntArray:
        # The two ends of the scale are no times: the beginning and the end of input pass undelayed.
        moves = (watermarks != MIN_WATERMARK) & (watermarks != MAX_WATERMARK)
        return np.where(moves, watermarks - np.where(moves, self._node.delay_ms, 0), watermarks)

    # ---- turns -----------------------------------------------------------------------------------

    def _join_now(self, port: int, batch: Batch) -> Stream:
        """Joins the rows of a batch, then removes stored ones."""
        clock, room = self._clock(batch), None
        if self._earliest_at_least() <= clock - self._slack_ms:
            room, _ = self._room(batch)
        output: Output = []
        for piece in match_in_pieces(batch, *self._matched_by(port)):
            joined = self._join(port, piece, output)
            yield from drained(output)
            if joined is not None and joined.num_rows:
                yield 0, joined
        if room is not None:
            yield from ((0, rows) for rows in self._expire(batch, clock, room))
            self._first_due = self._earliest()

    def _join_in_turn(self, port: int, batch: Batch) -> Stream:
        """Joins arriving rows and removes stored ones, each in its turn, as far as there is
        room."""
        room, waiting = self._room(batch)
        runs = self._take_waiting(batch, waiting)
        come = int(np.searchsorted(batch.watermarks(), room.last, "right"))
        now = batch
        if come < batch.num_rows:
            number = max(side.rows.next_arrival for side in self._sides)
            self._sides[port].wait(batch.slice(come, batch.num_rows - come), number)
            now = batch.slice(0, come)
        output: Output = []
        for of, run in (*runs, (port, now)):
            for piece in match_in_pieces(run, *self._matched_by(of)):
                joined = self._join(of, piece, output)
                yield from drained(output)
                # The rows join before anything expires; `_in_interval` leaves out what has expired
                # before them.
                expired = self._expire(batch, piece.batch.watermark, room)
                yield from ((0, rows) for rows in _merged(joined, expired))

    def _matched_by(self, port: int) -> tuple[tuple[str, ...], Sequence[int], RowsTable]:
        return self._sides[port].keys, self._strict, self._sides[1 - port].rows

    def _clock(self, batch: Batch) -> int:
        return batch.proctime if self._node.proctime else batch.watermark

    def _earliest(self) -> int:
        """Returns when the first row is to be removed; the end of time for none."""
        due = (side.rows.table.earliest(DUE) for side in self._sides)
        return min((instant for instant in due if instant is not None), default=MAX_WATERMARK)

    def _earliest_at_least(self) -> int:
        """Returns an instant before which no row is to be removed."""
        left, right = (side.rows.table.generation for side in self._sides)
        if (left, right) != self._generations:  # rows were loaded from outside
            self._generations, self._first_due = (left, right), self._earliest()
        return self._first_due

    def _turns(self, port: int, slots: IntArray, batch: Batch) -> IntArray:
        """Returns the turns of stored rows, all the same where there is no order."""
        side = self._sides[port]
        if not self._in_turn or not len(slots):
            return np.zeros(len(slots), np.int64)
        due = side.numbers(DUE, slots)
        return np.where(side.waits(slots), due, batch.watermarks_before(due))

    def _room(self, batch: Batch) -> tuple[_Room, list[IntArray]]:
        """Returns what the step may remove, and the rows of each side that wait no more."""
        most = self.steps.most
        due = [side.rows.table.due(DUE, self._clock(batch), most) for side in self._sides]
        turns = [self._turns(port, slots, batch) for port, slots in enumerate(due)]
        waits = [side.waits(slots) for side, slots in zip(self._sides, due, strict=True)]
        last = self.steps.room(
            np.sort(np.concatenate(turns)), batch.watermark if self._in_turn else 1
        )
        come = [slots[w & (t <= last)] for slots, w, t in zip(due, waits, turns, strict=True)]
        if most is None:
            return _Room(last, 0, None), come
        earlier = sum(
            int(((t < last) | (w & (t == last))).sum()) for t, w in zip(turns, waits, strict=True)
        )
        # Rows that join in this step may be due in it, too.
        new = batch.num_rows + sum(map(len, come))
        return _Room(last, max(0, most - 1 - earlier), most + new), come

    def _take_waiting(self, batch: Batch, waiting: Sequence[IntArray]) -> list[tuple[int, Batch]]:
        """Takes rows that wait out of the state, in the order of their arrival: by port."""
        slots = np.concatenate(waiting)
        of = np.repeat([0, 1], [len(w) for w in waiting])
        arrivals = [s.arrivals(w) for s, w in zip(self._sides, waiting, strict=True)]
        order = np.argsort(np.concatenate(arrivals))
        slots, of = slots[order], of[order]
        ends = np.flatnonzero(np.diff(of, append=-1)) + 1
        starts = np.append(0, ends)[:-1]
        return [
            (int(of[start]), self._sides[of[start]].take(slots[start:end], batch))
            for start, end in zip(starts, ends, strict=True)
        ]

    # ---- rows that arrive ------------------------------------------------------------------------

    def _join(self, port: int, piece: MatchedPiece, output: Output) -> Batch | None:
        """Joins the rows of a piece, and stores them. None where nothing comes out."""
        batch, this, other = piece.batch, self._sides[port], self._sides[1 - port]
        clock = batch.watermarks()
        if self._node.proctime:
            clock = times = np.full(batch.num_rows, batch.proctime)
        else:
            times, _ = milliseconds(batch.column(this.time_column))
        rows, slots = piece.rows, piece.slots
        if len(rows):
            rows, slots = self._in_interval(port, piece, times, clock)
        if self._residual is not None and len(rows):
            holds = self._residual.holds(port, batch, rows, other, slots, output)
            rows, slots = rows[holds], slots[holds]
        met = np.zeros(batch.num_rows, np.bool_)
        met[rows] = True
        if self._node.kind.keeps(1 - port):
            # A stored row that has had any match is never padded.
            other.meet(distinct(slots))
        stored = self._store(port, batch, times, clock, met)
        if not len(rows) and not self._node.kind.keeps(port):
            return None
        outputs = [OutputRows(rows, 1, rows, slots, np.zeros(len(rows), np.int8))]
        if self._node.kind.keeps(port):
            # A row that nothing can match any more is padded at once; a stored one when it expires.
            unmatched = np.flatnonzero(~met & ~stored)
            outputs.append(
                OutputRows(
                    unmatched,
                    1,
                    unmatched,
                    null_slots(unmatched),
                    np.zeros(len(unmatched), np.int8),
                )
            )
        columns, by, _ = assemble(port, batch, other, outputs)
        result = batch.result(self._node.schema, columns, len(by))
        return replaced(result, row_watermarks=batch.watermarks()[by])

    def _in_interval(
        self, port: int, piece: MatchedPiece, times: IntArray, clock: IntArray
    ) -> tuple[IntArray, IntArray]:
        """Filters the pairs to those within the interval whose stored row was not yet removed when
        the other arrived."""
        other, rows, slots = self._sides[1 - port], piece.rows, piece.slots
        apart = times[rows] - other.numbers(TIME, slots)
        # The bounds of the interval are for left time minus right time.
        if port == 1:
            apart = -apart
        near = (apart >= self._node.lower_ms) & (apart <= self._node.upper_ms)
        # A row may still be stored though it was due: it is removed at the end of a batch or in a
        # later step, but must not match rows that arrived after its removal in Flink.
        near &= (other.numbers(DUE, slots) > clock[rows]) & ~other.waits(slots)
        return rows[near], slots[near]

    def _store(
        self, port: int, batch: Batch, times: IntArray, clock: IntArray, met: BoolArray
    ) -> BoolArray:
        """Stores the rows that can still be matched; returns which ones."""
        this = self._sides[port]
        last = times + this.held_ms
        stored = clock < last if this.held_ms or not self._node.proctime else clock <= last
        if not self._node.kind.keeps(port):  # a NULL key matches nothing, and is never emitted
            strict = (batch.column(this.keys[i]) for i in self._strict)
            for key in strict:
                if key.null_count:
                    stored &= validity(key)
        chosen = np.flatnonzero(stored)
        if len(chosen):
            rows = batch if len(chosen) == batch.num_rows else batch.take(chosen)
            # Flink registers cleanup timers half an interval late, to have fewer of them; unmatched
            # rows of an outer side are emitted only then, so the delay shows.
            due = last[chosen] + self._node.patience_ms
            self._first_due = min(self._first_due, int(due.min()))
            this.put(rows, times[chosen], due, met[chosen])
        return stored

    # ---- rows that expire ------------------------------------------------------------------------

    def _expire(self, batch: Batch, upto: int, room: _Room) -> Iterator[Batch]:
        """Removes rows that are due at `upto` (ms) and can no longer be matched, in their turns, as
        far as there is room. Yields the unmatched ones of outer sides, padded."""
        slots, of, turns = self._due(batch, upto, room.all)
        earlier = int(np.searchsorted(turns, room.last))
        count = min(int(np.searchsorted(turns, room.last, "right")), earlier + room.more)
        for start in range(0, count, SLICE_ROWS):
            part = slice(start, min(start + SLICE_ROWS, count))
            yield from self._unmatched(batch, slots[part], of[part], turns[part])
        for port, side in enumerate(self._sides):
            side.rows.drop(slots[:count][of[:count] == port])

    def _due(
        self, batch: Batch, upto: int, most: int | None
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Returns the first rows that are due, with their ports and turns. Those of one turn are in
        the order of the ports, of their times and of their arrival."""
        due = [side.due(upto, most) for side in self._sides]
        due = [d[~side.waits(d)] for side, d in zip(self._sides, due, strict=True)]
        of = np.repeat([0, 1], [len(d) for d in due])
        slots = np.concatenate(due)
        turns = np.concatenate([self._turns(port, d, batch) for port, d in enumerate(due)])
        first = np.argsort(turns, kind="stable")[:most]
        return slots[first], of[first], turns[first]

    def _unmatched(
        self, batch: Batch, slots: IntArray, of: IntArray, turns: IntArray
    ) -> Iterator[Batch]:
        """Yields the unmatched rows of outer sides among these, padded."""
        padded: list[Batch] = []
        for port, side in enumerate(self._sides):
            mine = np.flatnonzero(of == port)
            mine = mine[side.unmatched(slots[mine])] if self._node.kind.keeps(port) else mine[:0]
            if len(mine):
                before = turns[mine] if self._in_turn else None
                rows = self._padded(port, batch, slots[mine])
                padded.append(replaced(rows, row_watermarks=before))
        if len(padded) == 2 and self._in_turn:
            both = concat(padded)
            padded = [both.take(np.argsort(both.watermarks(), kind="stable"))]
        yield from padded

    def _padded(self, port: int, batch: Batch, slots: IntArray) -> Batch:
        side, other = self._sides[port], self._sides[1 - port]
        nulls = [pa.nulls(len(slots), c.type.arrow) for c in other.schema]
        columns = [side.column(n, slots) for n in side.schema.names]
        columns = [*columns, *nulls] if port == 0 else [*nulls, *columns]
        return batch.result(self._node.schema, columns, len(slots))


def _merged(joined: Batch | None, expired: Iterator[Batch]) -> Iterator[Batch]:
    """Yields results in the order of the watermarks before them, and of one watermark those of
    joined rows first."""
    for rows in expired:
        if joined is not None and joined.num_rows:
            before, end = joined.watermarks(), rows.watermarks()[-1]
            count = int(np.searchsorted(before, end, "right"))
            rows = concat([joined.slice(0, count), rows])
            rows = rows.take(np.argsort(rows.watermarks(), kind="stable"))
            joined = joined.slice(count, joined.num_rows - count)
        yield rows
    if joined is not None and joined.num_rows:
        yield joined
