"""Top-N over updating rows whose sort key only moves up, as Flink's UpdatableTopNFunction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from planner.logical import Rank
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import Context
from sqlengine.operators.changelog.row_kinds import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    differ,
    first_seen,
    retractions,
)
from sqlengine.operators.ranks.ordering import codes_of, sort_keys, sorting
from sqlengine.operators.ranks.top_n import RankChange, RankChanges, TopNOperator, select_rows
from sqlengine.state.columns import distinct
from sqlengine.state.keys import KeyColumn, batch_keys, encode
from sqlengine.state.rows import COUNT


@dataclass(frozen=True)
class _Shown:
    """The visible rows of some partitions, in order.

    By partition, the number of each key's row; and all columns, by number.
    """

    places: dict[int, dict[bytes, int]]
    columns: list[pa.Array]

    @property
    def count(self) -> int:
        return sum(map(len, self.places.values()))

    def renumbered(self, groups: IntArray, known: IntArray) -> _Shown:
        """Returns the rows by the new numbers of their partitions, `groups`, where these had the
        numbers `known`: one whose rows have all been put anew has another."""
        pairs = dict(zip(groups.tolist(), known.tolist(), strict=True)).items()
        return replace(self, places={g: self.places[k] for g, k in pairs if k >= 0})


# A rank, its row before the change, and its row after it (numbers of rows; None: no row).
_Transition: TypeAlias = tuple[int, int | None, int | None]


class UpdatingRankOperator(TopNOperator):
    """Emits for each batch and partition what the last row of each key in it changes; Flink's
    UpdatableTopNFunction.

    -U and +U for a visible row with new values, or for each rank whose row changed; else -D for
    rows that leave the wanted ranks, +I for those that enter. A row whose sort key stays the same
    keeps its place before equal rows that arrived later.

    Input: upserts by a key within the partition. State: table `rows`, partition and row key -> rows
    in order, no more than are visible, unless a row may fall (its sort key was NULL).
    """

    def __init__(self, node: Rank) -> None:
        super().__init__(node)
        self._key = node.row_key
        self._rest = tuple(n for n in self._names if n not in node.partition and n not in self._key)

    def open(self, context: Context) -> None:
        schema = self._node.input.schema
        by = sorting(self._node.order)
        self._rows = self._table(context, schema.select(self._key), schema.select(self._rest), by)

    def _change(self, batch: Batch) -> Batch | None:
        batch = self._last_of_each_key(batch)
        if not batch.num_rows:
            return None
        partition = batch_keys(batch, self._node.partition)
        known = self._rows.groups(partition, batch.num_rows)
        before = self._shown(distinct(known[known >= 0]))
        self._upsert(batch, partition)
        groups = self._rows.groups(partition, batch.num_rows)
        before = before.renumbered(groups, known)
        touched = first_seen(groups)
        after = self._shown(touched)
        changes = self._differences(
            touched.tolist(), before, after, self._single_keys(batch, groups)
        )
        result = self._emit(batch, before, after, changes) if changes else None
        # Sort keys only move up: a row that falls behind the last rank never returns by itself, and
        # a new version of it brings all its columns.
        if not self._node.may_fall:
            beyond = [s for g in touched.tolist() for s in self._rows.beyond(g, self._node.end)]
            self._rows.drop(np.array(beyond, np.int64))
        return result

    def _single_keys(self, batch: Batch, groups: IntArray) -> dict[int, bytes]:
        """Returns the keys of rows that are the only ones of their partition in the batch."""
        _, which, counts = np.unique(groups, return_index=True, return_counts=True)
        rows = which[counts == 1]
        index = pa.array(rows)
        keys = self._encoded([batch.column(n).take(index) for n in self._key], len(rows))
        return dict(zip(groups[rows].tolist(), keys, strict=True))

    def _last_of_each_key(self, batch: Batch) -> Batch:
        """Returns the last row of each key; -U rows are not needed."""
        retracts = retractions(batch)
        rows = np.arange(batch.num_rows) if retracts is None else np.flatnonzero(~retracts)
        if len(rows) > 1:
            key = [
                batch.column(n).take(pa.array(rows)) for n in (*self._node.partition, *self._key)
            ]
            # `np.unique` finds the first occurrence: on the reversed rows that is the last one.
            last = len(rows) - 1 - np.unique(codes_of(key, len(rows))[::-1], return_index=True)[1]
            rows = rows[np.sort(last)]
        return select_rows(batch, rows)

    def _upsert(self, batch: Batch, partition: list[KeyColumn]) -> None:
        """Writes rows over those of their key; those whose sort key changed move behind their
        equals."""
        key = [batch.column(n) for n in self._key]
        slots = self._rows.find(partition, key, batch.num_rows)
        keys = sort_keys(
            self._node.order, [batch.column(k.column) for k in self._node.order], batch.num_rows
        )
        moved = [
            s
            for s, k in zip(slots.tolist(), keys, strict=True)
            if s >= 0 and self._rows.sort_key(s) != k
        ]
        # A row that is dropped and put again has a new arrival number, which puts it behind its
        # equals.
        self._rows.drop(np.array(moved, np.int64))
        values = [batch.column(n) for n in self._rest]
        put, _ = self._put(batch, partition, key, values, batch.num_rows)
        # `put` counts a row put again under its identity as a second one.
        self._rows.table.columns[COUNT][put] = 1

    def _shown(self, groups: IntArray) -> _Shown:
        visible = [self._rows.first(g, self._node.end) for g in groups.tolist()]
        slots = np.array([s for first in visible for s in first], np.int64)
        columns = self._rows.arrays(self._names, slots)
        keys = iter(self._encoded(self._rows.arrays(self._key, slots), len(slots)))
        numbers = iter(range(len(slots)))
        places = {
            g: {next(keys): next(numbers) for _ in first}
            for g, first in zip(groups.tolist(), visible, strict=True)
        }
        return _Shown(places, columns)

    def _encoded(self, key: list[pa.Array], count: int) -> list[bytes]:
        return encode([c.type for c in self._rows.identity], key, count)

    def _differences(
        self, groups: list[int], before: _Shown, after: _Shown, single: dict[int, bytes]
    ) -> list[RankChange]:
        """Returns the changes of each partition; rows of `after` are numbered behind those of
        `before`.

        `single`: by partition, the key with a new row, where it is the only one.
        """
        match = self._by_rank if self._node.by_rank else self._by_key
        sides = _sides(groups, before, after)
        transitions = [match(old, new) for old, new in sides]
        updated = _updated_pairs(transitions, before, after)
        changes: list[RankChange] = []
        for group, part, (old, new) in zip(groups, transitions, sides, strict=True):
            key = single.get(group)
            # As in Flink a single row is emitted even if it equals the row that it replaces.
            stays = key is not None and key in old and key in new
            alone = {(old[key], new[key])} if key is not None and stays else set()
            found = _changes(part, updated | alone)
            if key is not None and self._node.by_rank:
                found = _in_flink_order(found, old, new, key)
            changes += found
        return changes

    def _by_rank(self, old: dict[bytes, int], new: dict[bytes, int]) -> list[_Transition]:
        """Pairs the rows of each wanted rank."""
        start, end = self._node.start, self._node.end
        pairs = zip_longest(
            list(old.values())[start - 1 : end], list(new.values())[start - 1 : end]
        )
        return [(start + i, a, b) for i, (a, b) in enumerate(pairs)]

    def _by_key(self, old: dict[bytes, int], new: dict[bytes, int]) -> list[_Transition]:
        """Pairs the rows of each key: first those that leave, last those that enter."""
        leaving: list[_Transition] = [(0, n, None) for k, n in old.items() if k not in new]
        kept: list[_Transition] = [(0, n, new[k]) for k, n in old.items() if k in new]
        return [*leaving, *kept, *((0, None, n) for k, n in new.items() if k not in old)]

    def _emit(
        self, batch: Batch, before: _Shown, after: _Shown, changes: list[RankChange]
    ) -> Batch:
        rows = pa.array([t[0] for t in changes], pa.int64())
        columns = [
            pa.concat_arrays([a, b]).take(rows)
            for a, b in zip(before.columns, after.columns, strict=True)
        ]
        return self._result(batch, columns, RankChanges.of(changes))


def _sides(
    groups: list[int], before: _Shown, after: _Shown
) -> list[tuple[dict[bytes, int], dict[bytes, int]]]:
    """Returns for each partition the numbers of its visible rows by key, before and after."""
    # One numbering for both sides: the columns of `after` are appended to those of `before`.
    count = before.count
    return [
        (before.places.get(g, {}), {k: n + count for k, n in after.places[g].items()})
        for g in groups
    ]


def _updated_pairs(
    transitions: list[list[_Transition]], before: _Shown, after: _Shown
) -> set[tuple[int, int]]:
    """Returns the pairs of an old and a new row that differ in any column."""
    pairs = [(a, b) for part in transitions for _, a, b in part if a is not None and b is not None]
    old = pa.array([a for a, _ in pairs], pa.int64())
    new = pa.array([b - before.count for _, b in pairs], pa.int64())
    differs = differ(
        [c.take(old) for c in before.columns], [c.take(new) for c in after.columns], len(pairs)
    )
    return {
        pair for pair, differs_here in zip(pairs, differs.tolist(), strict=True) if differs_here
    }


def _changes(transitions: list[_Transition], updated: set[tuple[int, int]]) -> list[RankChange]:
    changes: list[RankChange] = []
    for rank, a, b in transitions:
        if a is None and b is not None:
            changes.append((b, INSERT, rank))
        elif a is not None and b is None:
            changes.append((a, DELETE, rank))
        elif a is not None and b is not None and (a, b) in updated:
            changes += [(a, UPDATE_BEFORE, rank), (b, UPDATE_AFTER, rank)]
    return changes


def _in_flink_order(
    changes: list[RankChange], old: dict[bytes, int], new: dict[bytes, int], key: bytes
) -> list[RankChange]:
    """Orders changes by rank as Flink emits them, where `key` alone has a new row.

    If the row rises, its -U follows that of the row whose rank it takes. If it falls, each other
    row is retracted before it is emitted one rank higher.
    """
    if key not in old or key not in new or len(changes) < 3:
        return changes
    at = next((i for i, c in enumerate(changes) if c[0] == old[key] and c[1] == UPDATE_BEFORE), -1)
    if at > 0:
        rest = changes[:at] + changes[at + 1 :]
        first = 1 if changes[0][1] == UPDATE_BEFORE and changes[1][0] == new[key] else 0
        return [*rest[:first], changes[at], *rest[first:]]
    # A falling row: the changes are -U a, +U b, -U b, +U c, … Each other row's -U and +U exchange
    # places.
    pairs = zip(changes[2::2], changes[1::2], strict=False)
    others = [c for minus, plus in pairs for c in (minus, plus)]
    return [changes[0], *others, changes[-1]] if at == 0 else changes
