"""Top-N, deduplication and LIMIT: the rows of each partition that have the wanted ranks, kept up to
date."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from parser.types import Column, Schema
from planner.logical import Rank
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import Context, Output
from sqlengine.operators.changelog.row_kinds import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    first_seen,
    takes_back,
)
from sqlengine.operators.ranks.base import NUMBER, Ranking, Told, only
from sqlengine.operators.ranks.ordering import codes_of, order, sort_keys, sorting
from sqlengine.operators.ranks.rank_ends import RankEnds
from sqlengine.state.columns import BoolArray
from sqlengine.state.equal_rows import EqualRows
from sqlengine.state.rows import COUNT, RowsTable

# What rows of a partition are told apart by that have no other columns: nothing, they are all
# equal.
_SAME = Schema((Column("#same", NUMBER),))


class RankOperator(Ranking):
    """For each batch and partition, what its rows change together: -D for rows that leave the
    wanted ranks, +I for those that enter; or (`by_rank`) -U and +U for each rank that has another
    row than before.

    Where rows only come, no more than the first `end` of each partition are kept; else all are.
    Rows that take back what is not there are dropped (`rows_without_key`)."""

    def __init__(self, node: Rank) -> None:
        super().__init__(node)
        self._rest = tuple(n for n in self._names if n not in node.partition)
        self._grows = not node.input.changes
        self._last_first = node.deduplicates and node.order[0].descending
        # By processing time rows are in the order of their arrival.
        kinds = [node.input.schema.type(k.column) for k in node.order]
        self._keys = () if node.deduplicates and kinds[0].is_proctime else node.order

    def open(self, context: Context) -> None:
        self._counters = context.counters
        schema = self._node.input.schema
        rest, nothing = schema.select(self._rest), Schema(())
        identity, values = (
            (nothing, rest) if self._grows else (rest if self._rest else _SAME, nothing)
        )
        # Where no key tells rows apart, equal ones are several, each with the place at which it
        # came.
        form = (
            EqualRows
            if self._node.input.changes and not self._node.input.upsert_keys
            else RowsTable
        )
        self._rows = self._table(
            context, identity, values, sorting(self._keys, self._last_first), form
        )
        self._ends = RankEnds(context, self._node)

    def process(self, port: int, batch: Batch) -> Output:
        self._ends.forget(batch.proctime)
        return super().process(port, batch)

    def _change(self, batch: Batch) -> Batch | None:
        ends = self._ends.of(batch)
        if self._grows:
            rows = self._contenders(batch, ends)
            batch, ends = only(batch, rows), ends[rows]
        key = [batch.column(n) for n in self._node.partition]
        known = dict(
            zip(self._rows.groups(key, batch.num_rows).tolist(), ends.tolist(), strict=True)
        )
        before = {g: self._rows.first(g, end) for g, end in known.items() if g >= 0}
        gone = self._apply(batch, key)
        groups = self._rows.groups(key, batch.num_rows)
        end_of = dict(zip(groups.tolist(), ends.tolist(), strict=True))
        touched = first_seen(groups[groups >= 0]).tolist()
        told = [
            t
            for g in touched
            for t in self._difference(before.get(g, []), self._rows.first(g, end_of[g]))
        ]
        result = self._tell(batch, told) if told else None
        self._rows.drop(gone if not self._grows else self._beyond(touched, end_of))
        return result

    def _contenders(self, batch: Batch, ends: IntArray) -> IntArray:
        """All rows but those before which their partition has enough, in the state or in the batch
        itself."""
        rows = np.arange(batch.num_rows)
        if batch.num_rows > ends.min(initial=0):
            partition = codes_of([batch.column(n) for n in self._node.partition], batch.num_rows)
            columns = [batch.column(k.column) for k in self._keys]
            at = order(self._keys, columns, partition, -rows if self._last_first else rows)
            starts = np.flatnonzero(np.append(True, np.diff(partition[at]) != 0))
            place = rows - np.repeat(starts, np.diff(np.append(starts, len(rows))))
            rows = np.sort(at[place < ends[at]])
            batch, ends = only(batch, rows), ends[rows]
        groups = self._rows.groups([batch.column(n) for n in self._node.partition], batch.num_rows)
        keys = sort_keys(self._keys, [batch.column(k.column) for k in self._keys], batch.num_rows)
        enters = [
            self._enters(*row) for row in zip(groups.tolist(), keys, ends.tolist(), strict=True)
        ]
        found: IntArray = rows[np.array(enters, np.bool_)]
        return found

    def _enters(self, group: int, key: bytes, end: int) -> bool:
        """Whether a row has its place among the first `end` of its group."""
        if group < 0 or self._rows.size(group) < end:
            return True
        worst = self._rows.key_at(group, end - 1)
        return key < worst or (self._last_first and key == worst)

    def _apply(self, batch: Batch, key: list[pa.Array]) -> IntArray:
        """Takes the rows into the state; the slots of those that are there no more, which still
        hold them."""
        rest = [batch.column(n) for n in self._rest]
        if self._grows:
            self._put(batch, key, [], rest, batch.num_rows)
            return np.empty(0, np.int64)
        rest = rest or [pa.array(np.zeros(batch.num_rows, np.int64))]
        back = takes_back(batch)
        come = np.ones(batch.num_rows, np.bool_) if back is None else ~back
        if come.any():
            self._put(batch, _chosen(key, come), _chosen(rest, come), [], int(come.sum()))
        if back is None:
            return np.empty(0, np.int64)
        slots = self._rows.take(_chosen(key, back), _chosen(rest, back), int(back.sum()))
        self._counters["rows_without_key"] += int((slots < 0).sum())
        slots = np.unique(slots[slots >= 0])
        gone: IntArray = slots[self._rows.table.columns[COUNT][slots] == 0]
        return gone

    def _difference(self, before: list[int], after: list[int]) -> list[Told]:
        first = self._node.start - 1
        old, new = before[first:], after[first:]
        if old == new:
            return []
        if self._node.by_rank:
            return self._by_rank(old, new)
        stays = Counter(old) & Counter(new)
        left = [(s, DELETE, 0) for s in _without(old, stays)]
        return left + [(s, INSERT, 0) for s in _without(new, stays)]

    def _by_rank(self, old: list[int], new: list[int]) -> list[Told]:
        told: list[Told] = []
        for i in range(max(len(old), len(new))):
            rank = self._node.start + i
            if i >= len(old):
                told.append((new[i], INSERT, rank))
            elif i >= len(new):
                told.append((old[i], DELETE, rank))
            elif old[i] != new[i]:
                told += [(old[i], UPDATE_BEFORE, rank), (new[i], UPDATE_AFTER, rank)]
        return told

    def _tell(self, batch: Batch, told: list[Told]) -> Batch:
        slots = np.fromiter((t[0] for t in told), np.int64, len(told))
        return self._result(batch, self._rows.arrays(self._names, slots), told)

    def _beyond(self, groups: list[int], end_of: dict[int, int]) -> IntArray:
        """Rows behind the last wanted rank, which no row that comes can bring back."""
        return np.array([s for g in groups for s in self._rows.beyond(g, end_of[g])], np.int64)


def _chosen(columns: list[pa.Array], rows: BoolArray) -> list[pa.Array]:
    mask = pa.array(rows)
    return [c.filter(mask) for c in columns]


def _without(slots: list[int], some: Counter[int]) -> list[int]:
    """The slots but for `some`, each as often as it is counted."""
    left, found = Counter(some), []
    for slot in slots:
        if left[slot]:
            left[slot] -= 1
        else:
            found.append(slot)
    return found
