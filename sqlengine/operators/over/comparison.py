"""OVER values of rows before and after a change, put together from parts."""

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
    """The change of a batch to the rows of a table: their slots, ascending, and the difference of
    their multiplicities.

    Rows whose multiplicity fell to 0 still have their place.
    """

    slots: IntArray
    more: IntArray

    def before(self, slots: IntArray, now: IntArray) -> IntArray:
        """Returns the multiplicities before the change, given those after it."""
        if not len(self.slots):
            return now
        # A slot behind the last changed one would be out of bounds: clipped, it just does not
        # compare equal.
        at = np.minimum(np.searchsorted(self.slots, slots), len(self.slots) - 1)
        counts: IntArray = now - np.where(self.slots[at] == slots, self.more[at], 0)
        return counts


@dataclass(frozen=True)
class Rows:
    """Rows of some runs.

    For each one the number of its run, its place among the rows of its key, its slot, and its
    multiplicity before and after the change.
    """

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
class ComparedRows:
    """Rows in order, and the columns of `Folds` before and after, with each row as often as its
    multiplicity."""

    rows: Rows
    old: list[pa.Array]
    new: list[pa.Array]


def concat_rows(parts: Sequence[Rows]) -> Rows:
    """Concatenates the rows of the parts."""
    of, place, slots, was, now = (
        np.concatenate([getattr(p, n) for p in parts])
        for n in ("of", "place", "slots", "was", "now")
    )
    return Rows(of, place, slots, was, now)


def by_run(parts: Sequence[tuple[IntArray, list[pa.Array]]]) -> list[pa.Array]:
    """Returns columns sorted by run; each part has rows of some runs, with the runs' numbers."""
    at = pa.array(np.argsort(np.concatenate([of for of, _ in parts]), kind="stable"))
    return [
        pa.concat_arrays(columns).take(at) for columns in zip(*(c for _, c in parts), strict=True)
    ]


def merge_compared(parts: Sequence[ComparedRows]) -> ComparedRows:
    """Returns the rows of all parts, in the order of their runs and places."""
    rows = concat_rows([p.rows for p in parts])
    order = np.lexsort([rows.place, rows.of])
    sides = []
    for counts, columns in (rows.was, [p.old for p in parts]), (rows.now, [p.new for p in parts]):
        at = pa.array(expand_places(np.cumsum(counts) - counts, counts, order))
        sides.append([pa.concat_arrays(c).take(at) for c in zip(*columns, strict=True)])
    return ComparedRows(rows.take(order), *sides)


def expand_places(starts: IntArray, counts: IntArray, order: IntArray) -> IntArray:
    """Returns the places `starts[i]` to `starts[i] + counts[i]` (exclusive) for each i of
    `order`."""
    starts, counts = starts[order], counts[order]
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(starts, counts) + within


@dataclass(frozen=True)
class Peers:
    """The index of the first and of the last row of each row's run of equals in the order."""

    first: IntArray
    last: IntArray


def peers_of(rows: Rows, keys: Sequence[bytes]) -> Peers:
    """Finds peers; `keys` are equal for rows of a key that are equal in the order."""
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
    emitted: BoolArray,
) -> list[pa.Array]:
    """Returns columns of the rows in `emitted`, each row as often as counted: its own value, or a
    shared one of its last peer.

    The columns begin with a row for the beginning of each run, which applies to peers before the
    run.
    """
    of = np.repeat(np.arange(len(rows)), counts)
    chosen = emitted[of]
    # Each run has one extra row at its beginning: a row of run n is shifted by n + 1.
    own = (rows.of[of] + 1 + np.arange(len(of)))[chosen]
    ends = (rows.of + np.cumsum(counts)[last])[of][chosen]
    return [c.take(pa.array(ends if s else own)) for c, s in zip(columns, shared, strict=True)]
