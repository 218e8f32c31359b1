"""An open-addressing index from 64-bit hashes to slots, over whole batches at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

HashArray: TypeAlias = npt.NDArray[np.uint64]
SlotArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

# Do the keys of these rows equal those of these slots? Asked only where the hashes are equal.
Same: TypeAlias = Callable[[SlotArray, SlotArray], BoolArray]
# Gives a new slot to each of these rows, and writes the rows' keys there.
Create: TypeAlias = Callable[[SlotArray], SlotArray]

_FREE = -1
_GONE = -2
_SMALLEST = 64


class HashIndex:
    """Maps keys to slots by linear probing; at least half of the cells are free. It knows hashes
    only: `same` compares the keys themselves on every hit, so that equal hashes of different keys
    are kept apart."""

    def __init__(self) -> None:
        self._slots = np.full(_SMALLEST, _FREE, np.int64)
        self._hashes = np.zeros(_SMALLEST, np.uint64)
        self._used = 0  # cells that hold a slot or once did
        self._live = 0

    def __len__(self) -> int:
        return self._live

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes + self._hashes.nbytes

    def find(
        self, hashes: HashArray, same: Same, create: Create | None = None
    ) -> tuple[SlotArray, BoolArray]:
        """The slot of each row, and which rows created theirs: of several rows with one new key,
        the first. Without `create`, rows whose key is not there have slot -1.

        All rows probe in step. Where several meet at a free cell the first takes it, and the others
        compare with what it put there. Rows with one key have one hash, so they meet at the same
        cells until one of them is served."""
        if create is not None:
            self._reserve(len(hashes))
        slots = np.full(len(hashes), -1, np.int64)
        is_new = np.zeros(len(hashes), np.bool_)
        rows = np.arange(len(hashes))
        cells = self._first_cells(hashes)
        while len(rows):
            free = self._slots[cells] == _FREE
            if create is not None and free.any():
                first = self._claim(rows[free], cells[free], hashes, create)
                is_new[first] = True
                free[:] = False
            held = self._slots[cells]
            hit = (held >= 0) & (self._hashes[cells] == hashes[rows])
            at = np.flatnonzero(hit)
            hit[at] = same(rows[at], held[at])
            slots[rows[hit]] = held[hit]
            remain = ~(hit | free)
            rows, cells = rows[remain], self._next(cells[remain])
        return slots, is_new

    def remove(self, hashes: HashArray, slots: SlotArray) -> None:
        """Forgets slots that `find` gave, each once; `hashes` are those of their keys."""
        left, cells = slots, self._first_cells(hashes)
        while len(left):
            found = self._slots[cells] == left
            self._slots[cells[found]] = _GONE
            left, cells = left[~found], self._next(cells[~found])
        self._live -= len(slots)
        if self._live == 0:
            self._slots[:] = _FREE
            self._used = 0

    def _first_cells(self, hashes: HashArray) -> SlotArray:
        cells: SlotArray = (hashes & np.uint64(len(self._slots) - 1)).astype(np.int64)
        return cells

    def _next(self, cells: SlotArray) -> SlotArray:
        following: SlotArray = (cells + 1) & (len(self._slots) - 1)
        return following

    def _claim(
        self, rows: SlotArray, cells: SlotArray, hashes: HashArray, create: Create
    ) -> SlotArray:
        """Gives each of the free `cells` to the first of the `rows` that ask for it; returns those
        rows."""
        self._slots[cells[::-1]] = rows[
            ::-1
        ]  # of repeated indices the last written stays: the first row
        won = self._slots[cells] == rows
        first: SlotArray = rows[won]
        cells = cells[won]
        self._slots[cells] = create(first)
        self._hashes[cells] = hashes[first]
        self._used += len(first)
        self._live += len(first)
        return first

    def _reserve(self, more: int) -> None:
        """Makes room for so many new keys; clears away what removal left behind."""
        if 2 * (self._used + more) <= len(self._slots):
            return
        size = len(self._slots)
        while size < 4 * (self._live + more):
            size *= 2
        live = self._slots >= 0
        slots, hashes = self._slots[live], self._hashes[live]
        self._slots = np.full(size, _FREE, np.int64)
        self._hashes = np.zeros(size, np.uint64)
        self._used = self._live
        self._place(slots, hashes)

    def _place(self, slots: SlotArray, hashes: HashArray) -> None:
        """Puts slots of distinct keys into a table that has none of them."""
        cells = self._first_cells(hashes)
        while len(slots):
            free = self._slots[cells] == _FREE
            self._slots[cells[free]] = slots[free]
            placed = self._slots[cells] == slots
            self._hashes[cells[placed]] = hashes[placed]
            slots, hashes, cells = slots[~placed], hashes[~placed], self._next(cells[~placed])
