"""OVER in an order that is no time: a row may come between others, and changes what those behind it have."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Schema
from planner.logical import Over
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import Context, Output
from sqlengine.operators.changelog import (
    DELETE,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    differ,
    first_seen,
    kinds_of,
    plain,
    takes_back,
)
from sqlengine.operators.frames import NUMBERING, aggregate, in_order, number
from sqlengine.operators.ordering import codes
from sqlengine.state.columns import BoolArray
from sqlengine.state.rows import COUNT, RowsTable


@dataclass(frozen=True)
class _Result:
    """Rows of some partitions in order: their slots, each as often as the row is there, and a column for each call. Of a
    sum and a mean `counts` tell of how many values: with another number of them they are told anew, as Flink does, though
    they may be the same."""

    slots: IntArray
    columns: list[pa.Array]
    counts: list[pa.Array]


class OverSortedOperator:
    """For each batch and the partitions that it touches: -D for rows that are gone, then, in order, the rows that came with
    the kind with which they came, and -U and +U for the other rows whose values have changed. All rows are state."""

    def __init__(self, node: Over) -> None:
        self._node = node
        self._names = node.input.schema.names
        self._rest = tuple(n for n in self._names if n not in node.partition)
        self._grows = not node.input.changes

    def open(self, context: Context) -> None:
        self._counters = context.counters
        schema = self._node.input.schema
        rest, nothing = schema.select(self._rest), Schema(())
        identity, values = (nothing, rest) if self._grows else (rest, nothing)
        key = schema.select(self._node.partition)
        self._rows = RowsTable(context, "rows", key, identity, values, self._node.partition)

    def process(self, port: int, batch: Batch) -> Output:
        result = self._change(batch) if batch.num_rows else None
        return [(0, result or batch.tick(self._node.schema))]

    def close(self) -> None: ...

    def _change(self, batch: Batch) -> Batch | None:
        key = [batch.column(n) for n in self._node.partition]
        known = self._rows.groups(key, batch.num_rows)
        before = self._evaluated(first_seen(known[known >= 0]))
        came, gone = self._apply(batch, key)
        groups = self._rows.groups(key, batch.num_rows)
        after = self._evaluated(first_seen(groups[groups >= 0]))
        result = self._tell(batch, before, after, came)
        self._rows.drop(gone)
        return result

    def _apply(self, batch: Batch, key: list[pa.Array]) -> tuple[dict[int, np.int8], IntArray]:
        """Takes the rows into the state: the kinds of those that came by slot, and slots that nobody has any more."""
        rest = [batch.column(n) for n in self._rest]
        back, kinds = takes_back(batch), kinds_of(batch)
        nothing = np.empty(0, np.int64)
        if back is None:
            into = ([], rest) if self._grows else (rest, [])
            slots, _ = self._rows.put(key, *into, batch.num_rows)
            return dict(zip(slots.tolist(), kinds, strict=True)), nothing
        come = pa.array(~back)
        slots, _ = self._rows.put([c.filter(come) for c in key], [c.filter(come) for c in rest], [], int((~back).sum()))
        away = pa.array(back)
        taken = self._rows.take([c.filter(away) for c in key], [c.filter(away) for c in rest], int(back.sum()))
        self._counters["rows_without_key"] += int((taken < 0).sum())
        taken = np.unique(taken[taken >= 0])
        gone: IntArray = taken[self._rows.table.columns[COUNT][taken] == 0]
        return dict(zip(slots.tolist(), kinds[~back], strict=True)), gone

    def _evaluated(self, groups: IntArray) -> _Result:
        members = [self._rows.slots(g) for g in groups.tolist()]
        slots = np.concatenate([np.empty(0, np.int64), *members])
        of = np.repeat(np.arange(len(members)), [len(m) for m in members]).astype(np.int64)
        counts = self._rows.table.columns[COUNT][slots].astype(np.int64)
        slots, of = np.repeat(slots, counts), np.repeat(of, counts)
        order = self._rows.arrays([k.column for k in self._node.order], slots)
        by = [codes(k, c) for k, c in zip(self._node.order, order, strict=True)]
        at = np.lexsort([self._rows.table.arrivals[slots], *reversed(by), of])
        slots = slots[at]
        rows = in_order(of[at], [b[at] for b in by])
        high = np.arange(len(rows)) if self._node.frame.is_rows else rows.last_peer
        columns, counts = [], []
        for call in self._node.calls:
            if call.function in NUMBERING:
                columns.append(number(call.function, rows))
                continue
            values = self._rows.arrays(call.arguments, slots)[0] if call.arguments else None
            columns.append(aggregate(call, values, rows.partition, high).cast(call.type.arrow))
            if call.function in ("SUM", "AVG"):
                counts.append(aggregate(replace(call, function="COUNT", type=BIGINT), values, rows.partition, high))
        return _Result(slots, columns, counts)

    def _tell(self, batch: Batch, before: _Result, after: _Result, came: dict[int, np.int8]) -> Batch | None:
        """The rows that say what has changed. Equal rows are told apart by how many of them came before."""
        old, new = _numbered(before.slots), _numbered(after.slots)
        places = {key: i for i, key in enumerate(new)}
        there = {key: i for i, key in enumerate(old)}
        told: list[tuple[int, np.int8]] = [(i, DELETE) for i, key in enumerate(old) if key not in places]
        count = len(old)
        stay = [(there[key], i) for i, key in enumerate(new) if key in there]
        changed = dict(zip(stay, self._changed(before, after, stay).tolist(), strict=True))
        for now, key in enumerate(new):
            was = there.get(key)
            if was is None:
                told.append((count + now, came[key[0]]))
            elif changed[was, now]:
                told += [(was, UPDATE_BEFORE), (count + now, UPDATE_AFTER)]
        return self._rows_of(batch, before, after, told) if told else None

    def _changed(self, before: _Result, after: _Result, stay: list[tuple[int, int]]) -> BoolArray:
        was = pa.array([a for a, _ in stay], pa.int64())
        now = pa.array([b for _, b in stay], pa.int64())
        old = [c.take(was) for c in (*before.columns, *before.counts)]
        new = [c.take(now) for c in (*after.columns, *after.counts)]
        found: BoolArray = differ(old, new, len(stay))
        return found

    def _rows_of(self, batch: Batch, before: _Result, after: _Result, told: list[tuple[int, np.int8]]) -> Batch:
        which = np.array([i for i, _ in told], np.int64)
        kinds = np.array([k for _, k in told], np.int8)
        slots = np.concatenate([before.slots, after.slots])[which]
        index = pa.array(which)
        values = [pa.concat_arrays([a, b]).take(index) for a, b in zip(before.columns, after.columns, strict=True)]
        columns = (*self._rows.arrays(self._names, slots), *values)
        tick = batch.tick(self._node.schema)
        return replace(tick, columns=columns, num_rows=len(told), kinds=plain(kinds))


def _numbered(slots: IntArray) -> list[tuple[int, int]]:
    """Each slot with how many of it came before."""
    seen: dict[int, int] = {}
    found = []
    for slot in slots.tolist():
        seen[slot] = seen.get(slot, 0) + 1
        found.append((slot, seen[slot]))
    return found
