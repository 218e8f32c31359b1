"""The state of one side of a regular join: rows by join key, with the number of their matches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, INT, Column, Schema
from planner.logical import Join
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import Context, Rest, expiry
from sqlengine.operators.joins.rows import MatchedPiece, keys_of, match_in_pieces
from sqlengine.state.columns import BoolArray, Values, distinct
from sqlengine.state.keys import KeyColumn
from sqlengine.state.rows import COUNT, RowsTable

# The number of matching rows on the other side, and the processing time (ms) of the last write.
_MATCHES, _TOUCHED = "#matches", "#touched"
# The identity of a row that is the only one of its key.
_ONLY = Column("#only", INT.with_nullable(False))
_NUMBER = BIGINT.with_nullable(False)


@dataclass(frozen=True)
class SideLayout:
    """The identity of the rows of one side (Flink's JoinInputSideSpec).

    `unique`: a row replaces the stored one of the same identity (the
    side has a unique key). Otherwise rows with retractions are identified by all their columns, and
    rows of an insert-only input need no identity.
    """

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
        # The join key is the whole identity. Without any, RowsTable would number the rows, and
        # store equal ones apart.
        if not names and (unique is not None or source.changes):
            identity = Schema((_ONLY,))
        # A key may be joined to two columns of the other side: it is stored once for each.
        keys = Schema(tuple(Column(f"{n}@{i}", source.schema.type(n)) for i, n in enumerate(key)))
        values = source.schema.select(tuple(n for n in rest if n not in names))
        return cls(keys, identity, values, unique is not None)


class JoinSide:
    """The stored rows of one side of a join; Flink's JoinRecordStateView and
    OuterJoinRecordStateView.

    State: table `left` or `right`, join key and identity -> the other columns, multiplicity,
    `#matches` where `counted`, `#touched` with a TTL. `counted`: each row has the number of its
    matches, as an outer side needs it (numOfAssociations in Flink). Rows with NULL in a key column
    that matches nothing are not stored.
    """

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
        """Removes rows that were not written within the TTL."""
        if self._ttl_ms:
            self.rows.drop(self.rows.table.due(_TOUCHED, proctime - self._ttl_ms))

    def rest(self) -> Rest:
        """Returns which tick is the first that removes a row."""
        return expiry(self.rows.table, _TOUCHED, self._ttl_ms)

    def matches(self, batch: Batch, keys: tuple[str, ...]) -> Iterator[MatchedPiece]:
        """Yields the pairs of a row of the other side's batch and a slot of this side, in the order
        of the rows."""
        return match_in_pieces(batch, keys, self._strict, self.rows)

    def counts(self, slots: IntArray) -> IntArray:
        """Returns the multiplicity of each row."""
        counts: IntArray = self.rows.table.columns[COUNT][slots].view(np.int64)
        return counts

    def column(self, name: str, slots: IntArray) -> pa.Array:
        stored = f"{name}@{self._keys.index(name)}" if name in self._keys else name
        return self.rows.table.array(stored, slots)

    def update_matches(self, slots: IntArray, change: IntArray, proctime: int) -> IntArray:
        """Adds `change` (1 or -1) to the match count of each slot, in order; returns the count
        before each change."""
        # A slot may occur several times, each with the count that the earlier changes left: sorted
        # by slot, that is a running sum within each run of equal slots, minus the sum at its start.
        order = np.argsort(slots, kind="stable")
        steps = change[order]
        sums = np.cumsum(steps) - steps
        first = np.flatnonzero(np.diff(slots[order], prepend=-1))
        starts = np.repeat(sums[first], np.diff(np.append(first, len(slots))))
        match_counts = self.rows.table.columns[_MATCHES].view(np.int64)
        before = np.empty(len(slots), np.int64)
        before[order] = match_counts[slots[order]] + sums - starts
        np.add.at(match_counts, slots, change)
        self._mark(distinct(slots), proctime)
        return before

    def take_in(self, batch: Batch, retracts: BoolArray | None, matches: IntArray) -> None:
        """Adds the rows of a batch, or retracts them; `matches` are their matches on the other
        side."""
        keys, rows = keys_of(batch, self._keys, self._strict)
        if len(rows) < batch.num_rows:
            batch, matches, retracts = (
                batch.take(rows),
                matches[rows],
                None if retracts is None else retracts[rows],
            )
        if not batch.num_rows:
            return
        if retracts is None:
            self._put(batch, keys, matches)
            return
        adds, takes = np.flatnonzero(~retracts), np.flatnonzero(retracts)
        # Additions first: a row that the batch adds and then retracts must be found by the
        # retraction.
        put = self._put(*_part(batch, keys, adds), matches[adds])
        if self._form.unique:
            self._take_last(batch, keys, (adds, put), takes)
        elif not self._form.identity.names:
            self._take_unforeseen(*_part(batch, keys, takes))
        else:
            retracted, retracted_keys = _part(batch, keys, takes)
            slots = distinct(self.rows.take(retracted_keys, self._identity(retracted), len(takes)))
            slots = slots[slots >= 0]
            # Equal rows share a slot: it goes only with the last of them.
            self.rows.drop(slots[self.rows.table.columns[COUNT][slots] == 0])

    def _put(self, batch: Batch, keys: list[KeyColumn], matches: IntArray) -> IntArray:
        values: list[Values] = [batch.column(n) for n in self._form.values.names]
        if self.counted:
            values.append(matches)
        if self._ttl_ms:
            values.append(np.full(batch.num_rows, batch.proctime))
        slots, _ = self.rows.put(keys, self._identity(batch), values, batch.num_rows)
        if self._form.unique:
            # `put` counts a second addition of the identity as a copy; with a unique key it
            # replaces the row.
            self.rows.table.columns[COUNT][slots] = 1
        return slots

    def _take_last(
        self, batch: Batch, keys: list[KeyColumn], put: tuple[IntArray, IntArray], takes: IntArray
    ) -> None:
        """Retracts rows of a unique key, unless the batch added a row of that identity
        after them."""
        retracted, retracted_keys = _part(batch, keys, takes)
        stored = self.rows.find(retracted_keys, self._identity(retracted), len(takes))
        slots = np.concatenate([put[1], stored])
        rows = np.concatenate([put[0], takes])
        order = np.lexsort((rows, slots))
        # `put` has written all additions of the batch already. Only where the last row of an
        # identity is a retraction, the row has to go.
        last = order[np.diff(slots[order], append=-2) != 0]
        last = last[(slots[last] >= 0) & (last >= len(put[0]))]
        self.rows.drop(slots[last])

    def _take_unforeseen(self, batch: Batch, keys: list[KeyColumn]) -> None:
        """Retracts rows of an input that was planned as insert-only, since a source may declare a
        wrong changelog mode."""
        rows, slots = self.rows.matches(keys, batch.num_rows)
        names = self._form.values.names
        wanted = (
            list(zip(*(batch.column(n).to_pylist() for n in names), strict=True))
            or [()] * batch.num_rows
        )
        stored = list(zip(*(self.column(n, slots).to_pylist() for n in names), strict=True)) or [
            ()
        ] * len(slots)
        removed: dict[int, int] = {}
        for row, slot, values in zip(rows.tolist(), slots.tolist(), stored, strict=True):
            # One stored row for each retraction, and none twice.
            if row not in removed and wanted[row] == values and slot not in removed.values():
                removed[row] = slot
        self.rows.drop(np.fromiter(removed.values(), np.int64, len(removed)))

    def _identity(self, batch: Batch) -> list[pa.Array]:
        if self._form.identity.names == (_ONLY.name,):
            return [pa.array(np.zeros(batch.num_rows, np.int32))]
        return [batch.column(n) for n in self._form.identity.names]

    def _mark(self, slots: IntArray, proctime: int) -> None:
        if self._ttl_ms:
            self.rows.table.columns[_TOUCHED][slots] = proctime
        self.rows.table.mark(slots)


def _part(batch: Batch, keys: list[KeyColumn], rows: IntArray) -> tuple[Batch, list[KeyColumn]]:
    return batch.take(rows), [k.take(rows) for k in keys]
