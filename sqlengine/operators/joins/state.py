"""What a join holds of one of its sides: rows by join key, with how many rows of the other side
match each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, INT, Column, Schema
from planner.logical import Join
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import Context
from sqlengine.operators.joins.rows import MatchedPiece, keys_of, match_in_pieces
from sqlengine.state.columns import BoolArray
from sqlengine.state.rows import COUNT, RowsTable

# How many rows of the other side match a row, and when it was written last (ms of processing time).
_MATCHES, _TOUCHED = "#matches", "#touched"
# The identity of a row that is the only one of its key.
_ONLY = Column("#only", INT.with_nullable(False))
_NUMBER = BIGINT.with_nullable(False)


@dataclass(frozen=True)
class SideLayout:
    """How one side's rows are told apart. `unique`: a row replaces the one of the same identity;
    otherwise rows that are taken back are found by all that they hold, and rows that never are need
    no identity."""

    key: Schema
    identity: Schema
    values: Schema
    unique: bool

    @classmethod
    def of(cls, node: Join, port: int) -> SideLayout:
        source = node.inputs[port]
        key, unique = node.keys(port), node.row_key(port)
        rest = tuple(n for n in source.schema.names if n not in key)
        names: tuple[str, ...] = ()
        if unique is not None:
            names = tuple(n for n in rest if n in unique)
        elif source.changes:
            names = rest
        identity = source.schema.select(names)
        if not names and (unique is not None or source.changes):
            identity = Schema((_ONLY,))
        # A key may be joined to two columns of the other side: it is stored once for each.
        keys = Schema(tuple(Column(f"{n}@{i}", source.schema.type(n)) for i, n in enumerate(key)))
        values = source.schema.select(tuple(n for n in rest if n not in names))
        return cls(keys, identity, values, unique is not None)


class JoinSide:
    """`counted`: the number of matches of each row is kept. Rows whose key has a NULL that equals
    nothing are not held: they never match."""

    def __init__(self, node: Join, port: int) -> None:
        self._name = ("left", "right")[port]
        self._form = SideLayout.of(node, port)
        self._keys = node.keys(port)
        self._strict = [i for i, e in enumerate(node.equalities) if not e.null_safe]
        self._ttl_ms = node.ttl_of(port)
        self.counted = node.kind.keeps(port) or (node.kind.is_semi and port == 0)
        self.schema = node.inputs[port].schema

    def open(self, context: Context) -> None:
        form = self._form
        extra = [
            Column(n, _NUMBER)
            for n, on in ((_MATCHES, self.counted), (_TOUCHED, self._ttl_ms))
            if on
        ]
        values = Schema((*form.values, *extra))
        self.rows = RowsTable(context, self._name, form.key, form.identity, values, form.key.names)

    def expire(self, proctime: int) -> None:
        """Forgets rows that nobody has written for too long."""
        if self._ttl_ms:
            self.rows.drop(self.rows.table.due(_TOUCHED, proctime - self._ttl_ms))

    def matches(self, batch: Batch, keys: tuple[str, ...]) -> Iterator[MatchedPiece]:
        """Pairs of a row of the other side's batch and a slot of this side, in order of the
        rows."""
        return match_in_pieces(batch, keys, self._strict, self.rows)

    def counts(self, slots: IntArray) -> IntArray:
        """How often each row is there."""
        counts: IntArray = self.rows.table.columns[COUNT][slots].view(np.int64)
        return counts

    def column(self, name: str, slots: IntArray) -> pa.Array:
        stored = f"{name}@{self._keys.index(name)}" if name in self._keys else name
        return self.rows.table.array(stored, slots)

    def matched(self, slots: IntArray, change: IntArray, proctime: int) -> IntArray:
        """Takes in, in order, that each of these rows has one match more or less (`change` 1 or
        -1). Returns how many it had before."""
        order = np.argsort(slots, kind="stable")
        steps = change[order]
        sums = np.cumsum(steps) - steps
        first = np.flatnonzero(np.diff(slots[order], prepend=-1))
        starts = np.repeat(sums[first], np.diff(np.append(first, len(slots))))
        held = self.rows.table.columns[_MATCHES].view(np.int64)
        before = np.empty(len(slots), np.int64)
        before[order] = held[slots[order]] + sums - starts
        np.add.at(held, slots, change)
        self._mark(np.unique(slots), proctime)
        return before

    def take_in(self, batch: Batch, back: BoolArray | None, matches: IntArray) -> None:
        """Adds the rows of a batch, or takes them back; `matches` are those of the other side."""
        keys, rows = keys_of(batch, self._keys, self._strict)
        if len(rows) < batch.num_rows:
            batch, matches, back = (
                batch.take(rows),
                matches[rows],
                None if back is None else back[rows],
            )
        if not batch.num_rows:
            return
        if back is None:
            self._put(batch, keys, matches)
            return
        adds, takes = np.flatnonzero(~back), np.flatnonzero(back)
        put = self._put(*_part(batch, keys, adds), matches[adds])
        if self._form.unique:
            self._take_last(batch, keys, (adds, put), takes)
        elif not self._form.identity.names:
            self._take_unforeseen(*_part(batch, keys, takes))
        else:
            gone, own = _part(batch, keys, takes)
            slots = np.unique(self.rows.take(own, self._identity(gone), len(takes)))
            slots = slots[slots >= 0]
            self.rows.drop(slots[self.rows.table.columns[COUNT][slots] == 0])

    def _put(self, batch: Batch, keys: list[pa.Array], matches: IntArray) -> IntArray:
        values = [batch.column(n) for n in self._form.values.names]
        if self.counted:
            values.append(pa.array(matches))
        if self._ttl_ms:
            values.append(pa.array(np.full(batch.num_rows, batch.proctime)))
        slots, _ = self.rows.put(keys, self._identity(batch), values, batch.num_rows)
        if self._form.unique:
            self.rows.table.columns[COUNT][slots] = 1
        return slots

    def _take_last(
        self, batch: Batch, keys: list[pa.Array], put: tuple[IntArray, IntArray], takes: IntArray
    ) -> None:
        """Of each row that is unique, what was said last holds."""
        gone, own = _part(batch, keys, takes)
        found = self.rows.find(own, self._identity(gone), len(takes))
        slots = np.concatenate([put[1], found])
        said = np.concatenate([put[0], takes])
        order = np.lexsort((said, slots))
        last = order[np.diff(slots[order], append=-2) != 0]
        last = last[(slots[last] >= 0) & (last >= len(put[0]))]
        self.rows.drop(slots[last])

    def _take_unforeseen(self, batch: Batch, keys: list[pa.Array]) -> None:
        """Takes back rows of an input that was to give none back: what a source says of itself may
        be wrong."""
        rows, slots = self.rows.matches(keys, batch.num_rows)
        names = self._form.values.names
        wanted = (
            list(zip(*(batch.column(n).to_pylist() for n in names), strict=True))
            or [()] * batch.num_rows
        )
        held = list(zip(*(self.column(n, slots).to_pylist() for n in names), strict=True)) or [
            ()
        ] * len(slots)
        gone: dict[int, int] = {}
        for row, slot, values in zip(rows.tolist(), slots.tolist(), held, strict=True):
            if row not in gone and wanted[row] == values and slot not in gone.values():
                gone[row] = slot
        self.rows.drop(np.fromiter(gone.values(), np.int64, len(gone)))

    def _identity(self, batch: Batch) -> list[pa.Array]:
        if self._form.identity.names == (_ONLY.name,):
            return [pa.array(np.zeros(batch.num_rows, np.int32))]
        return [batch.column(n) for n in self._form.identity.names]

    def _mark(self, slots: IntArray, proctime: int) -> None:
        if self._ttl_ms:
            self.rows.table.columns[_TOUCHED][slots] = proctime
        self.rows.table.mark(slots)


def _part(batch: Batch, keys: list[pa.Array], rows: IntArray) -> tuple[Batch, list[pa.Array]]:
    index = pa.array(rows)
    return batch.take(rows), [k.take(index) for k in keys]
