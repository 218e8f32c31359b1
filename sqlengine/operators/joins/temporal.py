"""Temporal joins: FOR SYSTEM_TIME AS OF a row time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, BOOLEAN, INT, Column, Schema
from planner.logical import TemporalJoin
from planner.rewrite import conjunction
from sqlengine.batch import MAX_WATERMARK, Batch, IntArray
from sqlengine.operators.base import Context, Output, Stream
from sqlengine.operators.bounded import SLICE_ROWS
from sqlengine.operators.changelog.row_kinds import DELETE, UPDATE_BEFORE, kinds_of, plain
from sqlengine.operators.joins.rows import (
    OutputRows,
    PairCondition,
    assemble,
    match_key_ranges,
    null_slots,
)
from sqlengine.operators.ports import PortTimes
from sqlengine.state.columns import distinct, milliseconds
from sqlengine.state.rows import RowsTable

_TIME, _KIND, _REACHED, _GONE, _UNTIL = "#time", "#kind", "#reached", "#gone", "#until"
_NUMBER = BIGINT.with_nullable(False)
_NEVER, _FOR_EVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class _Versions:
    """The versioned table (right side): by key, its rows with the time from which each is valid.

    State: table `versions`, key and `#time` (ms) -> the other columns, `#gone` for a deletion,
    `#until` (ms), the time of the next version.
    """

    def __init__(self, node: TemporalJoin) -> None:
        self.schema = node.right.schema
        self._keys = node.keys(1)
        self._time = node.right_time

    def open(self, context: Context) -> None:
        key = Schema(
            tuple(Column(f"{n}@{i}", self.schema.type(n)) for i, n in enumerate(self._keys))
        )
        self._rest = tuple(n for n in self.schema.names if n not in self._keys)
        own = (Column(_GONE, BOOLEAN.with_nullable(False)), Column(_UNTIL, _NUMBER))
        values = Schema((*self.schema.select(self._rest), *own))
        identity = Schema((Column(_TIME, _NUMBER),))
        self.rows = RowsTable(context, "versions", key, identity, values, key.names, order_by=_TIME)

    def column(self, name: str, slots: IntArray) -> pa.Array:
        stored = f"{name}@{self._keys.index(name)}" if name in self._keys else name
        return self.rows.table.array(stored, slots)

    def put(self, batch: Batch) -> None:
        """Adds versions; one replaces that of the same time. -U is skipped: the old row is a
        version already."""
        kinds = kinds_of(batch)
        batch = batch if batch.kinds is None else batch.take(np.flatnonzero(kinds != UPDATE_BEFORE))
        times, _ = milliseconds(batch.column(self._time))
        values = [batch.column(n) for n in self._rest]
        deleted = pa.array(kinds_of(batch) == DELETE)
        keys = [batch.column(k) for k in self._keys]
        until = pa.array(np.full(batch.num_rows, _FOR_EVER))
        slots, _ = self.rows.put(keys, [pa.array(times)], [*values, deleted, until], batch.num_rows)
        self._set_until(distinct(slots))

    def _set_until(self, slots: IntArray) -> None:
        """Sets the end of validity of new versions and of those before them."""
        table, (before, behind) = self.rows.table, self.rows.beside(slots)
        until, times = table.columns[_UNTIL], table.columns[_TIME]
        # A new version ends at its successor, and ends its predecessor.
        ends = behind >= 0
        until[slots[ends]] = times[behind[ends]]
        follows = before >= 0
        until[before[follows]] = times[slots[follows]]
        table.mark(np.union1d(slots, before[follows]))

    def find(self, keys: list[pa.Array], times: IntArray, reached: IntArray) -> IntArray:
        """Returns the slot of the version valid at each time; -1 where there was none.

        Also -1 where it is not known any more: a later version was valid already when the row came.
        """
        parts = match_key_ranges(keys, len(times), self.rows)
        chosen = [
            self._latest(times[a:b], reached[a:b], rows, slots) for a, b, rows, slots in parts
        ]
        return np.concatenate(chosen) if chosen else np.empty(0, np.int64)

    def _latest(
        self, times: IntArray, reached: IntArray, rows: IntArray, slots: IntArray
    ) -> IntArray:
        """Chooses, for each row, the latest of its key's versions that is valid at its time."""
        since = self.rows.table.columns[_TIME][slots].astype(np.int64, copy=False)
        result = np.full(len(times), -1)
        candidates = since <= np.maximum(times, reached)[rows]
        rows, slots, since = rows[candidates], slots[candidates], since[candidates]
        # `base` is the latest version that the watermark had passed when the row came. Older ones
        # may be removed already, so they do not count, whether they are or not: results must not
        # depend on when state is cleaned up.
        base = np.full(len(times), _NEVER)
        reached_before = since <= reached[rows]
        np.maximum.at(base, rows[reached_before], since[reached_before])
        fits = (since <= times[rows]) & (since >= base[rows])
        # Pairs are in the order of version times: of several values NumPy keeps the last.
        result[rows[fits]] = slots[fits]
        deleted = (
            self.rows.table.columns[_GONE][np.maximum(result, 0)].astype(np.bool_)
            if len(result)
            else result
        )
        # A deletion is a version, too: it hides the older ones, and itself is none.
        return np.where((result >= 0) & ~deleted, result, -1)

    def expire(self, watermark: int) -> None:
        """Removes versions that no row in time can ask for: all but the latest that the watermark
        has passed."""
        self.rows.drop(self.rows.table.due(_UNTIL, watermark))


class TemporalJoinOperator:
    """Joins left rows (input 0) to the version of the right table (input 1) valid at their row
    time.

    As Flink's TemporalRowTimeJoinOperator. Left rows wait until the watermark of both sides has
    passed their time, and are emitted in the order of their times. A late version applies to rows
    that still wait. -U of the right side is ignored. As in Flink a key with NULL has versions like
    any other.

    State: `_Versions`; table `waiting`, key -> left rows with `#time`, `#reached` (the watermark at
    their arrival) and `#kind`. Timers: `#time` of waiting rows.
    """

    def __init__(self, node: TemporalJoin) -> None:
        self._node = node
        self._versions = _Versions(node)
        self._keys = node.keys(0)
        residual = node.conditions[1]
        self._residual = PairCondition(node, conjunction(residual)) if residual else None

    def open(self, context: Context) -> None:
        self._times = PortTimes(context, 2)
        self._versions.open(context)
        schema = self._node.left.schema
        key = Schema(tuple(Column(f"{n}@{i}", schema.type(n)) for i, n in enumerate(self._keys)))
        own = [
            Column(_TIME, _NUMBER),
            Column(_REACHED, _NUMBER),
            Column(_KIND, INT.with_nullable(False)),
        ]
        self._waiting = RowsTable(
            context, "waiting", key, Schema(()), Schema((*schema, *own)), key.names
        )
        if self._residual is not None:
            self._residual.open(context)

    def process(self, port: int, batch: Batch) -> Stream:
        batch = self._times.advance(port, batch)
        if batch.num_rows:
            before, reached = batch.since, batch.watermarks()
            if port == 0:
                self._buffer(batch, np.maximum(reached, before))
            else:
                # An upstream operator may set the watermark after its rows only.
                known = np.full(batch.num_rows, before) if batch.row_watermarks is None else reached
                yield from self._add_versions(batch, known)
        yield from self._emit(batch, batch.watermark)
        # Only after the emission: the rows emitted just now may need versions that are removed
        # here.
        self._versions.expire(batch.watermark)
        yield 0, batch.tick(self._node.schema)

    def close(self) -> None: ...

    def _buffer(self, batch: Batch, reached: IntArray) -> None:
        times, _ = milliseconds(batch.column(self._node.left_time))
        keys = [batch.column(k) for k in self._keys]
        own = [pa.array(times), pa.array(reached), pa.array(kinds_of(batch), pa.int32())]
        self._waiting.put(keys, [], [*batch.columns, *own], batch.num_rows)

    def _add_versions(self, batch: Batch, reached: IntArray) -> Stream:
        """Adds versions; before a late one, emits the rows that were due before it arrived."""
        times, _ = milliseconds(batch.column(self._node.right_time))
        late = np.flatnonzero(times <= reached)
        start = 0
        for row in late.tolist():
            # The late version applies only to rows that still wait after the watermark before it.
            self._versions.put(batch.slice(start, row - start))
            yield from self._emit(batch, int(reached[row]))
            start = row
        self._versions.put(batch.slice(start, batch.num_rows - start))

    def _emit(self, batch: Batch, watermark: int) -> Stream:
        """Emits the rows whose time the watermark has passed, each with its version."""
        table = self._waiting.table
        due = table.due(_TIME, watermark)
        if len(due):
            due = table.in_order(due, _TIME)
        for start in range(0, len(due), SLICE_ROWS):
            yield from self._emit_rows(batch, watermark, due[start : start + SLICE_ROWS])

    def _emit_rows(self, batch: Batch, watermark: int, due: IntArray) -> Output:
        table, output = self._waiting.table, list[tuple[int, Batch]]()
        schema = self._node.left.schema
        left = replace(batch, watermark=watermark).result(
            schema, [table.array(n, due) for n in schema.names], len(due)
        )
        kinds, times = (
            table.columns[_KIND][due].astype(np.int8),
            table.columns[_TIME][due].view(np.int64),
        )
        reached = table.columns[_REACHED][due].view(np.int64)
        slots = self._versions.find([left.column(k) for k in self._keys], times, reached)
        rows = np.flatnonzero(slots >= 0)
        if self._residual is not None and len(rows):
            rows = rows[self._residual.holds(0, left, rows, self._versions, slots[rows], output)]
        outputs = [OutputRows(rows, 1, rows, slots[rows], kinds[rows])]
        if self._node.kind.keeps(0):
            unmatched = np.setdiff1d(np.arange(len(due)), rows)
            outputs.append(
                OutputRows(unmatched, 1, unmatched, null_slots(unmatched), kinds[unmatched])
            )
        columns, by, kinds = assemble(0, left, self._versions, outputs)
        self._waiting.drop(due)
        if len(by):
            result = left.result(self._node.schema, columns, len(by))
            # A late row is emitted with the next watermark after the one that it came behind.
            before = batch.watermarks_before(
                np.maximum(times, np.minimum(reached, MAX_WATERMARK - 1) + 1)
            )[by]
            result = replace(result, kinds=plain(kinds), row_watermarks=before)
            # Behind the last row is the watermark before it: more rows may follow.
            output.append((0, replace(result, watermark=int(before.max()))))
        return output
