"""Rows of partitions in order, with their values before and after a change, put together from
parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from sqlengine.batch import IntArray
from sqlengine.state.columns import BoolArray


@dataclass(frozen=True)
class Change:
    """What a batch does to the rows of a table: their slots, rising, and how much more often each
    is there now. Those that are there no more still have their place."""

    slots: IntArray
    more: IntArray

    def before(self, slots: IntArray, now: IntArray) -> IntArray:
        """How often rows were there that are there `now` times."""
        if not len(self.slots):
            return now
        at = np.minimum(np.searchsorted(self.slots, slots), len(self.slots) - 1)
        found: IntArray = now - np.where(self.slots[at] == slots, self.more[at], 0)
        return found


@dataclass(frozen=True)
class Rows:
    """Rows of some runs: the number of the run, the place among the rows of its key; their slots,
    and how often each was and is there."""

    of: IntArray
    place: IntArray
    slots: IntArray
    was: IntArray
    now: IntArray

    def __len__(self) -> int:
        return len(self.of)

    def take(self, at: IntArray) -> Rows:
        return Rows(self.of[at], self.place[at], self.slots[at], self.was[at], self.now[at])


@dataclass(frozen=True)
class Compared:
    """Rows in order, and the columns of `Folds` before and after, with each row as often as it was
    and is there."""

    rows: Rows
    old: list[pa.Array]
    new: list[pa.Array]


def stacked(parts: Sequence[Rows]) -> Rows:
    """The rows of the parts, one part after the other."""
    of, place, slots, was, now = (
        np.concatenate([getattr(p, n) for p in parts])
        for n in ("of", "place", "slots", "was", "now")
    )
    return Rows(of, place, slots, was, now)


def in_runs(parts: Sequence[tuple[IntArray, list[pa.Array]]]) -> list[pa.Array]:
    """Columns, run by run; each part has rows of some runs, with their numbers."""
    at = pa.array(np.argsort(np.concatenate([of for of, _ in parts]), kind="stable"))
    return [
        pa.concat_arrays(columns).take(at) for columns in zip(*(c for _, c in parts), strict=True)
    ]


def joined(parts: Sequence[Compared]) -> Compared:
    """The rows of all parts, in the order of their runs and places."""
    rows = stacked([p.rows for p in parts])
    order = np.lexsort([rows.place, rows.of])
    sides = []
    for counts, columns in (rows.was, [p.old for p in parts]), (rows.now, [p.new for p in parts]):
        at = pa.array(repeated(np.cumsum(counts) - counts, counts, order))
        sides.append([pa.concat_arrays(c).take(at) for c in zip(*columns, strict=True)])
    return Compared(rows.take(order), *sides)


def repeated(starts: IntArray, counts: IntArray, order: IntArray) -> IntArray:
    """The places `starts[i]` to `starts[i] + counts[i]` (excluded) for each i of `order`."""
    starts, counts = starts[order], counts[order]
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(starts, counts) + within


@dataclass(frozen=True)
class Peers:
    """For each row the index of the first and of the last one of its run that is equal to it in the
    order."""

    first: IntArray
    last: IntArray


def peers_of(rows: Rows, keys: Sequence[bytes]) -> Peers:
    """`keys`: equal for rows of a key that are equal in the order."""
    begins = np.ones(len(rows), np.bool_)
    begins[1:] = rows.of[1:] != rows.of[:-1]
    begins[1:] |= np.fromiter((a != b for a, b in pairwise(keys)), np.bool_, len(rows) - 1)
    starts = np.flatnonzero(begins)
    group = np.cumsum(begins) - 1
    return Peers(starts[group], np.append(starts[1:], len(rows))[group] - 1)


def values(
    columns: Sequence[pa.Array],
    shared: Sequence[bool],
    rows: Rows,
    counts: IntArray,
    last: IntArray,
    told: BoolArray,
) -> list[pa.Array]:
    """Of the rows `told`, each as often as it is counted: its own values, or where they are shared
    those of its last peer. The columns have a row for the beginning of each run, which holds for
    peers that stand before it."""
    of = np.repeat(np.arange(len(rows)), counts)
    chosen = told[of]
    own = (rows.of[of] + 1 + np.arange(len(of)))[chosen]
    ends = (rows.of + np.cumsum(counts)[last])[of][chosen]
    return [c.take(pa.array(ends if s else own)) for c, s in zip(columns, shared, strict=True)]
