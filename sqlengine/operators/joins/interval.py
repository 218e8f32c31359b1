"""Interval joins: the row times of two rows are within an interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, BOOLEAN, Column, Schema
from planner.logical import IntervalJoin
from planner.rewrite import conjunction
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK, Batch, IntArray, concat
from sqlengine.operators.base import Context, Output, Stream
from sqlengine.operators.interleave import interleave_late_rows
from sqlengine.operators.joins.rows import (
    MatchedPiece,
    OutputRows,
    PairCondition,
    assemble,
    keys_of,
    match_in_pieces,
    null_slots,
)
from sqlengine.operators.ports import PortTimes
from sqlengine.state.columns import BoolArray, distinct, milliseconds
from sqlengine.state.rows import RowsTable

# A row's time, the time of its removal (both ms), and whether it has had a match.
_TIME, _DUE, _MET = "#time", "#due", "#met"
_NUMBER = BIGINT.with_nullable(False)


class _Side:
    """The stored rows of one side.

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
            Column(_TIME, _NUMBER),
            Column(_DUE, _NUMBER),
            Column(_MET, BOOLEAN.with_nullable(False)),
        ]
        values = Schema((*self.schema.select(self._rest), *own))
        self.rows = RowsTable(context, self._name, key, Schema(()), values, key.names)

    def column(self, name: str, slots: IntArray) -> pa.Array:
        stored = f"{name}@{self.keys.index(name)}" if name in self.keys else name
        return self.rows.table.array(stored, slots)

    def numbers(self, name: str, slots: IntArray) -> IntArray:
        values: IntArray = self.rows.table.columns[name][slots].astype(np.int64, copy=False)
        return values

    def put(
        self, batch: Batch, keys: list[pa.Array], times: IntArray, due: IntArray, met: BoolArray
    ) -> None:
        values = [batch.column(n) for n in self._rest]
        self.rows.put(keys, [], [*values, *map(pa.array, (times, due, met))], batch.num_rows)


class IntervalJoinOperator:
    """Joins rows whose times differ by an interval, as Flink's RowTimeIntervalJoin and
    ProcTimeIntervalJoin.

    An arriving row, late or not, joins the stored rows of the other side. It is stored until the
    watermark (or the clock) is so far past its time that no row in time can match it, and half an
    interval longer, as in Flink. An unmatched row of an outer side is emitted with NULLs when it is
    removed. The emitted watermark is delayed by the longest time that such a row can wait.

    State: tables `left` and `right` (`_Side`), and `PortTimes`. Timers: `#due` of each row.

    `aligned` inputs come from one source, batch for batch: they are interleaved where rows are
    late.
    """

    def __init__(self, node: IntervalJoin, *, aligned: bool = False) -> None:
        self._node = node
        self._aligned = aligned
        self._sides = (_Side(node, 0), _Side(node, 1))
        self._strict = [i for i, e in enumerate(node.equalities) if not e.null_safe]
        residual = node.conditions[1]
        self._residual = PairCondition(node, conjunction(residual)) if residual else None

    def open(self, context: Context) -> None:
        self._times = PortTimes(context, 2)
        for side in self._sides:
            side.open(context)
        if self._residual is not None:
            self._residual.open(context)

    def process(self, port: int, batch: Batch) -> Stream:
        for piece in match_in_pieces(
            batch, self._sides[port].keys, self._strict, self._sides[1 - port].rows
        ):
            yield from self._process(port, piece)

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

    def _late(self, port: int, batch: Batch) -> BoolArray:
        times, _ = milliseconds(batch.column(self._sides[port].time_column))
        return times <= batch.watermarks()

    def _process(self, port: int, piece: MatchedPiece) -> Output:
        batch = self._times.advance(port, piece.batch)
        output: Output = []
        # The rows join before anything expires; `_in_interval` leaves out what would have expired
        # earlier.
        joined = [self._join(port, replace(piece, batch=batch), output)] if batch.num_rows else []
        joined += [b for side in (0, 1) if (b := self._expire(side, batch)) is not None]
        result = concat([*joined, self._result(batch, (), 0)])
        if joined and not self._node.proctime:
            # Padded rows that expired before a row of this batch are emitted before its results.
            result = result.take(np.argsort(result.watermarks(), kind="stable"))
        return [*output, (0, result)]

    def close(self) -> None: ...

    def _result(
        self,
        batch: Batch,
        columns: Sequence[pa.Array],
        num_rows: int,
        row_watermarks: IntArray | None = None,
    ) -> Batch:
        """Returns output rows with a delayed watermark: rows that still wait for a match may be
        emitted behind it."""
        watermark, since = (int(t) for t in self._delayed(np.array([batch.watermark, batch.since])))
        result = batch.result(
            self._node.schema, columns or batch.tick(self._node.schema).columns, num_rows
        )
        before = None if row_watermarks is None else self._delayed(row_watermarks)
        return replace(result, watermark=watermark, row_watermarks=before, since=since)

    def _delayed(self, watermarks: IntArray) -> IntArray:
        # The two ends of the scale are no times: the beginning and the end of input pass undelayed.
        moves = (
            (watermarks != MIN_WATERMARK)
            & (watermarks != MAX_WATERMARK)
            & (not self._node.proctime)
        )
        return np.where(moves, watermarks - np.where(moves, self._node.delay_ms, 0), watermarks)

    def _join(self, port: int, piece: MatchedPiece, output: Output) -> Batch:
        batch, this, other = piece.batch, self._sides[port], self._sides[1 - port]
        clock = batch.watermarks()
        if self._node.proctime:
            clock = times = np.full(batch.num_rows, batch.proctime)
        else:
            times, _ = milliseconds(batch.column(this.time_column))
        rows, slots = self._in_interval(port, piece, times, clock)
        if self._residual is not None and len(rows):
            holds = self._residual.holds(port, batch, rows, other, slots, output)
            rows, slots = rows[holds], slots[holds]
        met = np.zeros(batch.num_rows, np.bool_)
        met[rows] = True
        matched_slots = distinct(slots)
        # A stored row that has had any match is never padded.
        other.rows.table.columns[_MET][matched_slots] = True
        other.rows.table.mark(matched_slots)
        stored = self._store(port, batch, times, clock, met)
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
        before = batch.row_watermarks
        return self._result(batch, columns, len(by), None if before is None else before[by])

    def _in_interval(
        self, port: int, piece: MatchedPiece, times: IntArray, clock: IntArray
    ) -> tuple[IntArray, IntArray]:
        """Filters the pairs to those within the interval whose stored row was not yet removed when
        the other arrived."""
        other, rows, slots = self._sides[1 - port], piece.rows, piece.slots
        apart = times[rows] - other.numbers(_TIME, slots)
        # The bounds of the interval are for left time minus right time.
        if port == 1:
            apart = -apart
        near = (apart >= self._node.lower_ms) & (apart <= self._node.upper_ms)
        # A row may still be stored though it was due: it is removed at the end of a batch, but must
        # not match rows that arrived after its removal in Flink.
        near &= other.numbers(_DUE, slots) > clock[rows]
        return rows[near], slots[near]

    def _store(
        self, port: int, batch: Batch, times: IntArray, clock: IntArray, met: BoolArray
    ) -> BoolArray:
        """Stores the rows that can still be matched; returns which ones."""
        this = self._sides[port]
        last = times + this.held_ms
        stored = clock < last if this.held_ms or not self._node.proctime else clock <= last
        if not self._node.kind.keeps(port):  # a NULL key matches nothing, and is never emitted
            _, numbers = keys_of(batch, this.keys, self._strict)
            stored &= np.isin(np.arange(batch.num_rows), numbers)
        chosen = np.flatnonzero(stored)
        if len(chosen):
            rows = batch.take(chosen)
            # Flink registers cleanup timers half an interval late, to have fewer of them; unmatched
            # rows of an outer side are emitted only then, so the delay shows.
            due = last[chosen] + self._node.patience_ms
            this.put(rows, [rows.column(k) for k in this.keys], times[chosen], due, met[chosen])
        return stored

    def _expire(self, port: int, batch: Batch) -> Batch | None:
        """Removes rows that can no longer be matched; returns the unmatched ones of an outer side,
        padded."""
        side = self._sides[port]
        due = side.rows.table.due(_DUE, batch.proctime if self._node.proctime else batch.watermark)
        if not len(due):
            return None
        due = side.rows.table.in_order(due, _TIME)
        unmatched = due[~side.rows.table.columns[_MET][due].astype(np.bool_, copy=False)]
        padded = None
        if self._node.kind.keeps(port) and len(unmatched):
            count = len(unmatched)
            nulls = [pa.nulls(count, c.type.arrow) for c in self._sides[1 - port].schema]
            columns_of_side = [side.column(n, unmatched) for n in side.schema.names]
            columns = (*columns_of_side, *nulls) if port == 0 else (*nulls, *columns_of_side)
            watermarks = batch.watermarks_before(side.numbers(_DUE, unmatched))
            padded = self._result(
                batch, columns, count, None if self._node.proctime else watermarks
            )
        side.rows.drop(due)
        return padded
