"""Top-N, deduplication and LIMIT: the rows of each partition that have the wanted ranks, kept up to date."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import Schema
from planner.logical import Rank
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import Context, Output
from sqlengine.operators.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, first_seen, plain, takes_back
from sqlengine.operators.ordering import codes_of, order
from sqlengine.state.columns import BoolArray
from sqlengine.state.rows import COUNT, RowsTable

# A row that comes or goes: its slot, its kind, its rank.
_Told = tuple[int, np.int8, int]


class RankOperator:
    """For each batch and partition, what its rows change together: -D for rows that leave the wanted ranks, +I for those
    that enter; or (`by_rank`) -U and +U for each rank that has another row than before.

    Where rows only come, no more than the first `end` of each partition are kept; else all are. Rows that take back what
    is not there are dropped (`rows_without_key`)."""

    def __init__(self, node: Rank) -> None:
        self._node = node
        self._names = node.input.schema.names
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
        identity, values = (nothing, rest) if self._grows else (rest, nothing)
        key = schema.select(self._node.partition)
        self._rows = RowsTable(context, "rows", key, identity, values, self._node.partition)

    def process(self, port: int, batch: Batch) -> Output:
        result = self._change(batch) if batch.num_rows else None
        return [(0, result or batch.tick(self._node.schema))]

    def close(self) -> None: ...

    def _change(self, batch: Batch) -> Batch | None:
        if self._grows and batch.num_rows > self._node.end:
            batch = self._contenders(batch)
        key = [batch.column(n) for n in self._node.partition]
        known = self._rows.groups(key, batch.num_rows)
        before = self._ranked(np.unique(known[known >= 0]))
        gone = self._apply(batch, key)
        groups = self._rows.groups(key, batch.num_rows)
        touched = first_seen(groups[groups >= 0])
        after = self._ranked(touched)
        told = [t for g in touched.tolist() for t in self._difference(before.get(g, []), after[g])]
        result = self._tell(batch, told) if told else None
        self._rows.drop(gone if not self._grows else self._beyond(after))
        return result

    def _contenders(self, batch: Batch) -> Batch:
        """Without the rows before which the batch itself has enough of their partition."""
        rows = np.arange(batch.num_rows)
        partition = codes_of([batch.column(n) for n in self._node.partition], batch.num_rows)
        columns = [batch.column(k.column) for k in self._keys]
        at = order(self._keys, columns, partition, -rows if self._last_first else rows)
        starts = np.flatnonzero(np.append(True, np.diff(partition[at]) != 0))
        place = rows - np.repeat(starts, np.diff(np.append(starts, len(rows))))
        chosen = at[place < self._node.end]
        return batch if len(chosen) == len(rows) else replace(batch.take(np.sort(chosen)), watermark=batch.watermark)

    def _apply(self, batch: Batch, key: list[pa.Array]) -> IntArray:
        """Takes the rows into the state; the slots of those that are there no more, which still hold them."""
        rest = [batch.column(n) for n in self._rest]
        if self._grows:
            self._rows.put(key, [], rest, batch.num_rows)
            return np.empty(0, np.int64)
        back = takes_back(batch)
        come = np.ones(batch.num_rows, np.bool_) if back is None else ~back
        if come.any():
            self._rows.put(_chosen(key, come), _chosen(rest, come), [], int(come.sum()))
        if back is None:
            return np.empty(0, np.int64)
        slots = self._rows.take(_chosen(key, back), _chosen(rest, back), int(back.sum()))
        self._counters["rows_without_key"] += int((slots < 0).sum())
        slots = np.unique(slots[slots >= 0])
        gone: IntArray = slots[self._rows.table.columns[COUNT][slots] == 0]
        return gone

    def _ranked(self, groups: IntArray) -> dict[int, list[int]]:
        """By partition, the slots of its rows in order, one as often as it is there; where rows are never taken back, all
        that are kept, else those up to the last wanted rank."""
        members = [self._rows.slots(g) for g in groups.tolist()]
        if not members:
            return {}
        slots = np.concatenate(members)
        of = np.repeat(np.arange(len(members)), [len(m) for m in members])
        counts = self._rows.table.columns[COUNT][slots].astype(np.int64)
        slots, of = np.repeat(slots, counts), np.repeat(of, counts)
        arrivals = self._rows.table.arrivals[slots]
        columns = self._rows.arrays([k.column for k in self._keys], slots)
        at = order(self._keys, columns, of, -arrivals if self._last_first else arrivals)
        ordered = slots[at].tolist()
        ends = np.searchsorted(of[at], np.arange(len(members) + 1)).tolist()
        return {g: ordered[a:b] for g, a, b in zip(groups.tolist(), ends[:-1], ends[1:], strict=True)}

    def _difference(self, before: list[int], after: list[int]) -> list[_Told]:
        first, last = self._node.start - 1, self._node.end
        old, new = before[first:last], after[first:last]
        if old == new:
            return []
        if self._node.by_rank:
            return self._by_rank(old, new)
        stays = Counter(old) & Counter(new)
        left = [(s, DELETE, 0) for s in _without(old, stays)]
        return left + [(s, INSERT, 0) for s in _without(new, stays)]

    def _by_rank(self, old: list[int], new: list[int]) -> list[_Told]:
        told: list[_Told] = []
        for i in range(max(len(old), len(new))):
            rank = self._node.start + i
            if i >= len(old):
                told.append((new[i], INSERT, rank))
            elif i >= len(new):
                told.append((old[i], DELETE, rank))
            elif old[i] != new[i]:
                told += [(old[i], UPDATE_BEFORE, rank), (new[i], UPDATE_AFTER, rank)]
        return told

    def _tell(self, batch: Batch, told: list[_Told]) -> Batch:
        slots = np.fromiter((t[0] for t in told), np.int64, len(told))
        kinds = np.fromiter((t[1] for t in told), np.int8, len(told))
        columns = self._rows.arrays(self._names, slots)
        if self._node.rank_name is not None:
            columns.append(pa.array([t[2] for t in told], pa.int64()))
        tick = batch.tick(self._node.schema)
        return replace(tick, columns=tuple(columns), num_rows=len(told), kinds=plain(kinds))

    def _beyond(self, ranked: dict[int, list[int]]) -> IntArray:
        """Rows behind the last wanted rank, which no row that comes can bring back."""
        slots = [s for held in ranked.values() for s in held[self._node.end :]]
        return np.array(slots, np.int64)


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
