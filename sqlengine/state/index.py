"""An open-addressing hash index from 64-bit hashes to slots, which works on whole batches."""

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
# And below: `_CLAIMED - cell` stands for the slot of a new key, which is not known yet.
_CLAIMED = -3
_SMALLEST = 64
# So few rows are looked for one after the other: in step it takes as long for one as for them all.
FEW = 128


class HashIndex:
    """Maps keys to slots by linear probing; at least half of the cells are free.

    The index stores hashes only: the callback `same` compares the keys on every hit, so that
    different keys with equal hashes are kept apart.
    """

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
        """Returns the slot of each row, and True at rows that created theirs: the first row of each
        new key.

        Without `create`, rows whose key is absent have slot -1.

        All rows probe in step. Where several rows meet at a free cell, the first claims it, and the
        others compare with the key that it put there. Rows with equal keys have equal hashes, so
        they visit the same cells until one of them is placed.
        """
        if create is not None:
            self._reserve(len(hashes))
        if len(hashes) <= FEW:
            return self._find_few(hashes, same, create)
        slots = np.full(len(hashes), -1, np.int64)
        is_new = np.zeros(len(hashes), np.bool_)
        self._probe(np.arange(len(hashes)), (slots, is_new), hashes, same, create)
        return slots, is_new

    def _probe(
        self,
        rows: SlotArray,
        found: tuple[SlotArray, BoolArray],
        hashes: HashArray,
        same: Same,
        create: Create | None,
    ) -> None:
        """Looks for these of the rows, and writes what `find` returns into `found`."""
        slots, is_new = found
        cells = self._first_cells(hashes[rows])
        while len(rows):
            # A cell of a removed key (_GONE) is not free: the key looked for may lie behind it.
            free = self._slots[cells] == _FREE
            if create is not None and free.any():
                first = self._claim(rows[free], cells[free], hashes, create)
                is_new[first] = True
                # The winners find their own key in the comparison below. The losers of a cell
                # compare with the winner's key: they hit it or go on to the next cell.
                free[:] = False
            stored = self._slots[cells]
            hit = (stored >= 0) & (self._hashes[cells] == hashes[rows])
            at = np.flatnonzero(hit)
            hit[at] = same(rows[at], stored[at])
            slots[rows[hit]] = stored[hit]
            remain = ~(hit | free)
            rows, cells = rows[remain], self._next(cells[remain])

    def _find_few(
        self, hashes: HashArray, same: Same, create: Create | None
    ) -> tuple[SlotArray, BoolArray]:
        """Looks for few rows as `find` does for many: one after the other by their hashes alone,
        then it compares the keys of all. Those of equal hashes and other keys probe on."""
        found, claimed = self._by_hash(hashes, create is not None)
        slots = np.array(found, np.int64)
        is_new = np.zeros(len(slots), np.bool_)
        if claimed and create is not None:
            rows = np.array(list(claimed), np.int64)
            new, cells = create(rows), np.array(list(claimed.values()), np.int64)
            self._slots[cells], self._hashes[cells] = new, hashes[rows]
            is_new[rows] = True
            of_new = np.flatnonzero(slots <= _CLAIMED)
            slots[of_new] = self._slots[_CLAIMED - slots[of_new]]
        known = np.flatnonzero((slots >= 0) & ~is_new)
        if len(known):
            others = known[~same(known, slots[known])]
            if len(others):
                slots[others] = _FREE
                if create is not None:
                    self._reserve(len(others))
                self._probe(others, (slots, is_new), hashes, same, create)
        return slots, is_new

    def _by_hash(self, hashes: HashArray, create: bool) -> tuple[list[int], dict[int, int]]:
        """Returns what the cell with each row's hash holds; and where cells are to be created, by
        the first row of each new hash the cell that it has claimed."""
        slot_of, hash_of, mask = self._slots.item, self._hashes.item, len(self._slots) - 1
        found: list[int] = []
        claimed: dict[int, int] = {}
        for row, value in enumerate(hashes.tolist()):
            cell = value & mask
            while (slot := slot_of(cell)) != _FREE and (slot == _GONE or hash_of(cell) != value):
                cell = (cell + 1) & mask
            if create and slot == _FREE:
                claimed[row] = cell
                slot = self._slots[cell] = _CLAIMED - cell
                self._hashes[cell] = value
            found.append(slot)
        self._used += len(claimed)
        self._live += len(claimed)
        return found, claimed

    def put(self, hashes: HashArray, slots: SlotArray) -> None:
        """Adds slots of distinct keys that the index does not have."""
        self._reserve(len(slots))
        self._place(slots, hashes)
        self._used += len(slots)
        self._live += len(slots)

    def remove(self, hashes: HashArray, slots: SlotArray) -> None:
        """Removes slots that `find` returned, each given once; `hashes` are those of their keys."""
        if len(slots) <= FEW:
            self._remove_few(hashes, slots)
        else:
            remaining, cells = slots, self._first_cells(hashes)
            while len(remaining):
                hit = self._slots[cells] == remaining
                self._slots[cells[hit]] = _GONE
                remaining, cells = remaining[~hit], self._next(cells[~hit])
        self._live -= len(slots)
        # Tombstones make probing longer. An empty index needs none of them; otherwise the next
        # rehash drops them.
        if self._live == 0:
            self._slots[:] = _FREE
            self._used = 0

    def _remove_few(self, hashes: HashArray, slots: SlotArray) -> None:
        slot_of, mask = self._slots.item, len(self._slots) - 1
        for value, slot in zip(hashes.tolist(), slots.tolist(), strict=True):
            cell = value & mask
            while slot_of(cell) != slot:
                cell = (cell + 1) & mask
            self._slots[cell] = _GONE

    def _first_cells(self, hashes: HashArray) -> SlotArray:
        cells: SlotArray = (hashes & np.uint64(len(self._slots) - 1)).astype(np.int64)
        return cells

    def _next(self, cells: SlotArray) -> SlotArray:
        following: SlotArray = (cells + 1) & (len(self._slots) - 1)
        return following

    def _claim(
        self, rows: SlotArray, cells: SlotArray, hashes: HashArray, create: Create
    ) -> SlotArray:
        """Gives each of the free `cells` to the first of the `rows` that claim it; returns these
        rows."""
        # Of repeated indices NumPy keeps the last value written: written backwards, the first row.
        self._slots[cells[::-1]] = rows[::-1]
        won = self._slots[cells] == rows
        first: SlotArray = rows[won]
        cells = cells[won]
        self._slots[cells] = create(first)
        self._hashes[cells] = hashes[first]
        self._used += len(first)
        self._live += len(first)
        return first

    def _reserve(self, more: int) -> None:
        """Makes room for `more` new keys; rehashes without the tombstones where cells get short."""
        if 2 * (self._used + more) <= len(self._slots):
            return
        # With many tombstones and few keys the size stays, and the rehash alone makes room.
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
        """Inserts slots of distinct keys that the index does not have."""
        cells = self._first_cells(hashes)
        while len(slots):
            free = self._slots[cells] == _FREE
            self._slots[cells[free]] = slots[free]
            # As in `_claim`, one of several slots for a cell stays there; the others go on.
            placed = self._slots[cells] == slots
            self._hashes[cells[placed]] = hashes[placed]
            slots, hashes, cells = slots[~placed], hashes[~placed], self._next(cells[~placed])
