"""Top-N, deduplication and LIMIT: maintains the rows of each partition within a range of ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from parser.types import Column, Schema
from planner.logical import Rank
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import Context, Output, Rest
from sqlengine.operators.changelog.row_kinds import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    first_seen,
    retractions,
)
from sqlengine.operators.ranks.ordering import order, sort_keys, sorting
from sqlengine.operators.ranks.rank_ends import RankEnds
from sqlengine.operators.ranks.top_n import (
    NUMBER,
    RankChange,
    RankChanges,
    TopNOperator,
    select_rows,
)
from sqlengine.state.chains import distinct_keys
from sqlengine.state.columns import BoolArray, distinct
from sqlengine.state.equal_rows import EqualRows
from sqlengine.state.keys import KeyColumn, batch_keys
from sqlengine.state.rows import COUNT, RowsTable

# Compares groups, by the last wanted rank of each, with what was visible of them before.
_Compare: TypeAlias = Callable[[IntArray, Mapping[int, int]], RankChanges]

# The identity of rows that consist of the partition key alone: they are all equal.
_SAME = Schema((Column("#same", NUMBER),))


class RankOperator(TopNOperator):
    """Emits for each batch and partition what its rows changed together.

    -D for rows that leave the wanted ranks and +I for those that enter; with the rank in the output
    (`by_rank`), -U and +U for each rank whose row changed. As Flink's StreamExecRank with
    AppendOnlyTopNFunction for insert-only input, of which only the first `end` rows of each
    partition are kept, and RetractableTopNFunction for changelogs, of which all rows are; also
    StreamExecDeduplicate and StreamExecSortLimit. A retraction of an unknown row is dropped
    (`rows_without_key`).

    State: table `rows`, partition and identity -> rows in order; `RankEnds`. A deduplication that
    keeps the first row to arrive emits it at once and never again: of the row its key alone stays.
    """

    def __init__(self, node: Rank) -> None:
        super().__init__(node)
        self._rest = tuple(n for n in self._names if n not in node.partition)
        self._insert_only = not node.input.changes
        self._last_first = node.deduplicates and node.order[0].descending
        self._only_first = node.end == 1 and node.end_column is None
        # By processing time rows are in the order of their arrival.
        kinds = [node.input.schema.type(k.column) for k in node.order]
        by_arrival = node.deduplicates and kinds[0].is_proctime
        self._keys = () if by_arrival else node.order
        self._keys_alone = by_arrival and not self._last_first

    def open(self, context: Context) -> None:
        self._counters = context.counters
        schema = self._node.input.schema
        rest, nothing = schema.select(self._rest), Schema(())
        identity, values = (
            (nothing, rest) if self._insert_only else (rest if self._rest else _SAME, nothing)
        )
        # Without an upsert key, equal rows each have their own place in the order.
        form = (
            EqualRows
            if self._node.input.changes and not self._node.input.upsert_keys
            else RowsTable
        )
        by = sorting(self._keys, self._last_first) if self._keys or self._last_first else None
        self._rows = self._table(context, identity, values, by, form)
        self._ends = RankEnds(context, self._node)

    def process(self, port: int, batch: Batch) -> Output:
        self._ends.forget(batch.proctime)
        return super().process(port, batch)

    def rest(self) -> Rest:
        return Rest(proctime=min(super().rest().proctime, self._ends.rest().proctime))

    def _change(self, batch: Batch) -> Batch | None:
        ends, key = self._ends.of(batch), batch_keys(batch, self._node.partition)
        known = self._rows.groups(key, batch.num_rows)
        sort_keys: list[bytes] | None = None
        if self._insert_only:
            rows, sort_keys = self._contenders(batch, key, known, ends)
            if len(rows) < batch.num_rows:
                batch, key = select_rows(batch, rows), [k.take(rows) for k in key]
                known, ends = known[rows], ends[rows]
        # The slots of the visible rows before and after the change are compared. A retracted row
        # stays in its slot until the comparison is done, so that its columns can be emitted.
        compare = self._from_first(known) if self._only_first else self._from_visible(known, ends)
        retracted, groups = self._apply(batch, key, sort_keys)
        end_of = dict(zip(groups.tolist(), ends.tolist(), strict=True))
        touched = first_seen(groups[groups >= 0])
        changes = compare(touched, end_of)
        result = self._emit(batch, changes) if len(changes) else None
        if self._keys_alone:
            self._rows.table.blank(changes.rows, self._rest)
        self._rows.drop(retracted if not self._insert_only else self._beyond(touched, end_of))
        return result

    def _from_visible(self, known: IntArray, ends: IntArray) -> _Compare:
        """Returns a function that compares what is visible of these groups now with what is so when
        it is called."""
        end_of = dict(zip(known.tolist(), ends.tolist(), strict=True))
        before = {g: self._rows.first(g, end) for g, end in end_of.items() if g >= 0}

        def compare(groups: IntArray, end_of: Mapping[int, int]) -> RankChanges:
            pairs = ((before.get(g, []), self._rows.first(g, end_of[g])) for g in groups.tolist())
            return RankChanges.of([c for old, new in pairs for c in self._difference(old, new)])

        return compare

    def _from_first(self, known: IntArray) -> _Compare:
        """Does the same where only the first row of a group is visible."""
        known = distinct(known[known >= 0])
        firsts = self._rows.firsts(known)

        def compare(groups: IntArray, end_of: Mapping[int, int]) -> RankChanges:
            size = 1 + max(known.max(initial=0), groups.max(initial=0))
            before = np.full(size, -1, np.int64)
            before[known] = firsts
            return self._changes_of_first(before[groups], self._rows.firsts(groups))

        return compare

    def _changes_of_first(self, old: IntArray, new: IntArray) -> RankChanges:
        """Returns the changes of groups from an old row to a new one, -1 where there is none."""
        update, there = (old >= 0) & (new >= 0), np.column_stack((old, new)).ravel()
        kinds = np.tile(np.array([DELETE, INSERT]), len(old))
        if self._node.by_rank:
            kinds = np.where(
                np.repeat(update, 2),
                np.tile(np.array([UPDATE_BEFORE, UPDATE_AFTER]), len(old)),
                kinds,
            )
        changed = np.repeat(old != new, 2) & (there >= 0)
        rows: IntArray = there[changed]
        return RankChanges(rows, kinds[changed], np.ones(len(rows), np.int64))

    def _contenders(
        self, batch: Batch, key: Sequence[KeyColumn], groups: IntArray, ends: IntArray
    ) -> tuple[IntArray, list[bytes]]:
        """Drops rows that cannot have a wanted rank: enough rows of their partition are before
        them, in the state or in the batch. Returns the sort keys of the others, too."""
        rows = self._first_in_batch(batch, key, ends)
        columns = [batch.column(k.column) for k in self._keys]
        if len(rows) < batch.num_rows:
            index = pa.array(rows)
            columns, groups, ends = [c.take(index) for c in columns], groups[rows], ends[rows]
        keys = sort_keys(self._keys, columns, len(rows))
        enters = [
            self._is_contender(*row)
            for row in zip(groups.tolist(), keys, ends.tolist(), strict=True)
        ]
        contenders: IntArray = rows[np.array(enters, np.bool_)]
        return contenders, [k for k, enters_ in zip(keys, enters, strict=True) if enters_]

    def _first_in_batch(self, batch: Batch, key: Sequence[KeyColumn], ends: IntArray) -> IntArray:
        """Drops rows before which the batch has enough of their partition."""
        rows, most = np.arange(batch.num_rows), int(ends.min()) if len(ends) else 0
        if len(rows) <= most:
            return rows
        partition, _ = distinct_keys([c.type for c in self._rows.key], key, batch.num_rows)
        if np.bincount(partition).max() <= most:
            return rows
        columns = [batch.column(k.column) for k in self._keys]
        at = order(self._keys, columns, partition, -rows if self._last_first else rows)
        starts = np.flatnonzero(np.append(True, np.diff(partition[at]) != 0))
        place = rows - np.repeat(starts, np.diff(np.append(starts, len(rows))))
        return np.sort(at[place < ends[at]])

    def _is_contender(self, group: int, key: bytes, end: int) -> bool:
        """True if the row's place is among the first `end` of its group."""
        if group < 0 or self._rows.size(group) < end:
            return True
        # Rows with equal sort keys keep their order of arrival: the stored one wins, unless the
        # last row is wanted.
        worst = self._rows.key_at(group, end - 1)
        return key < worst or (self._last_first and key == worst)

    def _apply(
        self, batch: Batch, key: list[KeyColumn], sort_keys: list[bytes] | None
    ) -> tuple[IntArray, IntArray]:
        """Writes the rows to the state; returns the slots whose count fell to 0, which still hold
        their rows, and the group of each row."""
        rest = [batch.column(n) for n in self._rest]
        if self._insert_only:
            slots, _ = self._put(batch, key, [], rest, batch.num_rows, sort_keys)
            return np.empty(0, np.int64), self._rows.groups_of(slots)
        removed = self._retract(batch, key, rest)
        return removed, self._rows.groups(key, batch.num_rows)

    def _retract(self, batch: Batch, key: list[KeyColumn], rest: list[pa.Array]) -> IntArray:
        """Writes rows of a changelog; returns the slots whose count fell to 0."""
        rest = rest or [pa.array(np.zeros(batch.num_rows, np.int64))]
        retracts = retractions(batch)
        added = np.ones(batch.num_rows, np.bool_) if retracts is None else ~retracts
        if added.any():
            own = [k.take(np.flatnonzero(added)) for k in key]
            self._put(batch, own, _filter(rest, added), [], int(added.sum()))
        if retracts is None:
            return np.empty(0, np.int64)
        own = [k.take(np.flatnonzero(retracts)) for k in key]
        slots = self._rows.take(own, _filter(rest, retracts), int(retracts.sum()))
        self._counters["rows_without_key"] += int((slots < 0).sum())
        slots = distinct(slots[slots >= 0])
        removed: IntArray = slots[self._rows.table.columns[COUNT][slots] == 0]
        return removed

    def _difference(self, before: list[int], after: list[int]) -> list[RankChange]:
        first = self._node.start - 1
        old, new = before[first:], after[first:]
        if old == new:
            return []
        if self._node.by_rank:
            return self._by_rank(old, new)
        if self._insert_only:  # each row has a slot of its own
            was, now = set(old), set(new)
            gone = [(s, DELETE, 0) for s in old if s not in now]
            return gone + [(s, INSERT, 0) for s in new if s not in was]
        # A slot may occur several times, once for each of equal rows.
        kept = Counter(old) & Counter(new)
        removed = [(s, DELETE, 0) for s in _without(old, kept)]
        return removed + [(s, INSERT, 0) for s in _without(new, kept)]

    def _by_rank(self, old: list[int], new: list[int]) -> list[RankChange]:
        changes: list[RankChange] = []
        for i in range(max(len(old), len(new))):
            rank = self._node.start + i
            if i >= len(old):
                changes.append((new[i], INSERT, rank))
            elif i >= len(new):
                changes.append((old[i], DELETE, rank))
            elif old[i] != new[i]:
                changes += [(old[i], UPDATE_BEFORE, rank), (new[i], UPDATE_AFTER, rank)]
        return changes

    def _emit(self, batch: Batch, changes: RankChanges) -> Batch:
        return self._result(batch, self._rows.arrays(self._names, changes.rows), changes)

    def _beyond(self, groups: IntArray, end_of: Mapping[int, int]) -> IntArray:
        """Returns the rows after the last wanted rank: insert-only input never makes them visible
        again."""
        wanted = ((g, end_of[g]) for g in groups.tolist() if self._rows.size(g) > end_of[g])
        return np.array([s for g, end in wanted for s in self._rows.beyond(g, end)], np.int64)


def _filter(columns: list[pa.Array], rows: BoolArray) -> list[pa.Array]:
    mask = pa.array(rows)
    return [c.filter(mask) for c in columns]


def _without(slots: list[int], some: Counter[int]) -> list[int]:
    """Removes `some` from the slots, each as often as it is counted."""
    remaining, others = Counter(some), []
    for slot in slots:
        if remaining[slot]:
            remaining[slot] -= 1
        else:
            others.append(slot)
    return others
