"""Top-N over rows that are only updated and move up alone: no more than the rows that are shown are
kept, unless rows can fall from NULL."""

from __future__ import annotations

from dataclasses import dataclass
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
    takes_back,
)
from sqlengine.operators.ranks.base import Ranking, Told, only
from sqlengine.operators.ranks.ordering import codes_of, sort_keys, sorting
from sqlengine.state.keys import encode
from sqlengine.state.rows import COUNT


@dataclass(frozen=True)
class _Shown:
    """The first rows of some partitions, in order: by partition, where each of its keys is; all
    columns."""

    places: dict[int, dict[bytes, int]]
    columns: list[pa.Array]

    @property
    def count(self) -> int:
        return sum(map(len, self.places.values()))


# A rank, the row that is told by it, and the row that is told by it now.
_Line: TypeAlias = tuple[int, int | None, int | None]


class UpdatingRankOperator(Ranking):
    """For each batch and partition, what its rows change together, with the last row of each key:
    -U and +U for a row that stays and is another, or for each rank that has another row; else -D
    for rows that leave, +I for those that enter. A row whose place in the order stays the same
    stays before those that came to that place after it."""

    def __init__(self, node: Rank) -> None:
        super().__init__(node)
        self._key = node.row_key
        self._rest = tuple(n for n in self._names if n not in node.partition and n not in self._key)

    def open(self, context: Context) -> None:
        schema = self._node.input.schema
        by = sorting(self._node.order)
        self._rows = self._table(context, schema.select(self._key), schema.select(self._rest), by)

    def _change(self, batch: Batch) -> Batch | None:
        batch = self._latest(batch)
        if not batch.num_rows:
            return None
        partition = [batch.column(n) for n in self._node.partition]
        known = self._rows.groups(partition, batch.num_rows)
        before = self._shown(np.unique(known[known >= 0]))
        self._write(batch, partition)
        touched = first_seen(self._rows.groups(partition, batch.num_rows))
        after = self._shown(touched)
        only = (
            self._encoded([batch.column(n) for n in self._key], 1)[0]
            if batch.num_rows == 1
            else None
        )
        told = self._differences(touched.tolist(), before, after, only)
        result = self._tell(batch, before, after, told) if told else None
        if not self._node.may_fall:
            beyond = [s for g in touched.tolist() for s in self._rows.beyond(g, self._node.end)]
            self._rows.drop(np.array(beyond, np.int64))
        return result

    def _latest(self, batch: Batch) -> Batch:
        """The last row of each key; what a row was before is not asked."""
        back = takes_back(batch)
        rows = np.arange(batch.num_rows) if back is None else np.flatnonzero(~back)
        if len(rows) > 1:
            key = [
                batch.column(n).take(pa.array(rows)) for n in (*self._node.partition, *self._key)
            ]
            last = len(rows) - 1 - np.unique(codes_of(key, len(rows))[::-1], return_index=True)[1]
            rows = rows[np.sort(last)]
        return only(batch, rows)

    def _write(self, batch: Batch, partition: list[pa.Array]) -> None:
        """Writes rows in the place of those of their key; those that move in the order come behind
        their equals."""
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
        self._rows.drop(np.array(moved, np.int64))
        values = [batch.column(n) for n in self._rest]
        put, _ = self._put(batch, partition, key, values, batch.num_rows)
        self._rows.table.columns[COUNT][put] = 1

    def _shown(self, groups: IntArray) -> _Shown:
        held = [self._rows.first(g, self._node.end) for g in groups.tolist()]
        slots = np.array([s for first in held for s in first], np.int64)
        columns = self._rows.arrays(self._names, slots)
        keys = iter(self._encoded(self._rows.arrays(self._key, slots), len(slots)))
        numbers = iter(range(len(slots)))
        places = {
            g: {next(keys): next(numbers) for _ in first}
            for g, first in zip(groups.tolist(), held, strict=True)
        }
        return _Shown(places, columns)

    def _encoded(self, key: list[pa.Array], count: int) -> list[bytes]:
        return encode([c.type for c in self._rows.identity], key, count)

    def _differences(
        self, groups: list[int], before: _Shown, after: _Shown, key: bytes | None
    ) -> list[Told]:
        """What is told of each partition; rows of `after` are numbered behind those of `before`.
        `key`: the only one that has a new row."""
        count = before.count
        match = self._by_rank if self._node.by_rank else self._by_key
        sides = [
            (before.places.get(g, {}), {k: n + count for k, n in after.places[g].items()})
            for g in groups
        ]
        lines = [match(old, new) for old, new in sides]
        both = [(a, b) for part in lines for _, a, b in part if a is not None and b is not None]
        same = [
            pa.array([a for a, _ in both], pa.int64()),
            pa.array([b - count for _, b in both], pa.int64()),
        ]
        was, now = (
            [c.take(at) for c in side.columns]
            for side, at in zip((before, after), same, strict=True)
        )
        changed = {
            pair
            for pair, other in zip(both, differ(was, now, len(both)).tolist(), strict=True)
            if other
        }
        # As in Flink a row that comes alone is told, though it may be the one that was there.
        changed |= (
            {(old[key], new[key]) for old, new in sides if key in old and key in new}
            if key is not None
            else set()
        )
        parts = [_told(part, changed) for part in lines]
        if key is not None and self._node.by_rank:
            parts = [
                _moved(part, old, new, key) for part, (old, new) in zip(parts, sides, strict=True)
            ]
        return [t for part in parts for t in part]

    def _by_rank(self, old: dict[bytes, int], new: dict[bytes, int]) -> list[_Line]:
        """The row of each wanted rank."""
        start, end = self._node.start, self._node.end
        pairs = zip_longest(
            list(old.values())[start - 1 : end], list(new.values())[start - 1 : end]
        )
        return [(start + i, a, b) for i, (a, b) in enumerate(pairs)]

    def _by_key(self, old: dict[bytes, int], new: dict[bytes, int]) -> list[_Line]:
        """The row of each key, first of those that leave, last of those that enter."""
        left: list[_Line] = [(0, n, None) for k, n in old.items() if k not in new]
        stays: list[_Line] = [(0, n, new[k]) for k, n in old.items() if k in new]
        return [*left, *stays, *((0, None, n) for k, n in new.items() if k not in old)]

    def _tell(self, batch: Batch, before: _Shown, after: _Shown, told: list[Told]) -> Batch:
        rows = pa.array([t[0] for t in told], pa.int64())
        columns = [
            pa.concat_arrays([a, b]).take(rows)
            for a, b in zip(before.columns, after.columns, strict=True)
        ]
        return self._result(batch, columns, told)


def _told(lines: list[_Line], changed: set[tuple[int, int]]) -> list[Told]:
    told: list[Told] = []
    for rank, a, b in lines:
        if a is None and b is not None:
            told.append((b, INSERT, rank))
        elif a is not None and b is None:
            told.append((a, DELETE, rank))
        elif a is not None and b is not None and (a, b) in changed:
            told += [(a, UPDATE_BEFORE, rank), (b, UPDATE_AFTER, rank)]
    return told


def _moved(
    told: list[Told], old: dict[bytes, int], new: dict[bytes, int], key: bytes
) -> list[Told]:
    """Told by rank in Flink's order, where `key` alone has a new row: the -U of one that rises
    stands behind that of the row whose rank it takes; where one falls, each other row goes before
    it comes one rank higher."""
    if key not in old or key not in new or len(told) < 3:
        return told
    at = next((i for i, t in enumerate(told) if t[0] == old[key] and t[1] == UPDATE_BEFORE), -1)
    if at > 0:
        rest = told[:at] + told[at + 1 :]
        first = 1 if told[0][1] == UPDATE_BEFORE and told[1][0] == new[key] else 0
        return [*rest[:first], told[at], *rest[first:]]
    others = [t for minus, plus in zip(told[2::2], told[1::2], strict=False) for t in (minus, plus)]
    return [told[0], *others, told[-1]] if at == 0 else told
