"""The truth of every leaf in every row of a block, as one flat array that is small enough to stay
in the caches.

Only leaves that are TRUE (or in error) somewhere have a column, and only values that occur have a
line; column 0 of a line is that of all other leaves. The line of NULL is UNKNOWN throughout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rules.cache import NULL_SLOT, SlotStore
from rules.logic import ERROR, UNKNOWN
from rules.ragged import Index, Ints, spread

Truths: TypeAlias = npt.NDArray[np.int8]
# Below so many items sorting is faster than marking them in an array over all that could occur.
_SORT = 512


@dataclass
class Leaves:
    """What a compiled set of rules knows of its leaves. `group` of each; groups have their leaves
    side by side, the last group holds leaf 0 and the opaque ones. `column` is scratch room, all
    zero between blocks."""

    group: npt.NDArray[np.int32]
    groups: int
    column: npt.NDArray[np.int32]


@dataclass
class Block:
    """`truths[lines[group * rows + row] + leaves.column[leaf]]` is the truth of a leaf of `group`
    in a row."""

    leaves: Leaves
    rows: int
    truths: Truths
    lines: npt.NDArray[np.int64]
    touched: Index
    has_errors: bool

    def values(self, leaves: Ints, rows: Ints) -> Truths:
        """The truth of `leaves[i]` in `rows[i]`."""
        known = self.leaves
        at = self.lines[known.group[leaves] * np.int64(self.rows) + rows]
        at += known.column[leaves]
        values: Truths = self.truths[at]
        return values

    def column(self, group: int, column: int) -> Truths:
        """The truth of one leaf in all rows."""
        return self.truths[self.lines[group * self.rows : (group + 1) * self.rows] + column]

    def add_opaque(self, leaves: Index) -> None:
        """Makes room for opaque leaves, FALSE at first."""
        width = len(leaves) + 1
        first = len(self.truths)
        self.truths = np.concatenate([self.truths, np.zeros(self.rows * width, np.int8)])
        self.lines[-self.rows :] = first + width * np.arange(self.rows)
        self.leaves.column[leaves] = np.arange(1, width)
        self.touched = np.concatenate([self.touched, leaves])

    def set_opaque(self, leaf: int, rows: Ints, truths: Truths) -> None:
        self.truths[self.lines[-self.rows :][rows] + self.leaves.column[leaf]] = truths

    def close(self) -> None:
        """Leaves the scratch room as it was."""
        self.leaves.column[self.touched] = 0


@dataclass(frozen=True)
class Layout:
    """Where everything will be in a block's array: `line_starts` of the slots in use, which of them
    each place of `slots` is (`lines_of`), the `columns` of the leaves that are `touched`, and the
    (slot, leaf) pairs themselves."""

    slots: npt.NDArray[np.int32]
    lines_of: Ints
    has_null: bool
    line_starts: Ints
    cells: int
    touched: Index
    columns: Ints
    pairs: tuple[Ints, Ints, Truths]


def plan_block(slots: npt.NDArray[np.int32], store: SlotStore, leaves: Leaves) -> Layout:
    """For `slots[group, row]`. Cheap besides the block itself, which may be too large."""
    used, lines_of = _used(slots, len(store))
    starts, counts = store.leaf_lists(used)
    places = spread(starts, counts)
    true_leaves = store.leaves.array[places]
    touched = _distinct(true_leaves, len(leaves.group))
    groups = leaves.group[touched]
    columns = np.arange(1, len(touched) + 1) - np.searchsorted(groups, groups)
    widths = np.bincount(groups, minlength=leaves.groups) + 1
    owner = store.group.array[used]
    line_widths = np.where(owner < 0, widths.max(initial=1), widths[owner] if len(widths) else 1)
    ends = line_widths.cumsum()
    line_starts = ends - line_widths
    truths: Truths = store.truths.array[places].astype(np.int8, copy=False)
    pairs = (line_starts.repeat(counts), true_leaves, truths)
    has_null = bool(len(used)) and int(used[0]) == NULL_SLOT
    return Layout(
        slots, lines_of, has_null, line_starts, int(line_widths.sum()), touched, columns, pairs
    )


def build_block(layout: Layout, leaves: Leaves, *, may_have_errors: bool) -> Block:
    """The caller closes the block before he builds the next."""
    leaves.column[layout.touched] = layout.columns
    starts, true_leaves, truths = layout.pairs
    flat = np.zeros(layout.cells + 1, np.int8)  # the last cell is leaf 0
    flat[starts + leaves.column[true_leaves]] = truths
    if layout.has_null:
        flat[: layout.line_starts[1] if len(layout.line_starts) > 1 else layout.cells] = UNKNOWN
    slots, rows = layout.slots, layout.slots.shape[1]
    lines = np.full((leaves.groups + 1) * rows, layout.cells, np.int64)
    lines[: slots.size] = layout.line_starts[layout.lines_of].ravel()
    return Block(
        leaves, rows, flat, lines, layout.touched, may_have_errors and bool((truths == ERROR).any())
    )


def _used(slots: npt.NDArray[np.int32], known: int) -> tuple[Ints, Ints]:
    """The slots that occur, ascending, and for each place of `slots` which of them it is."""
    if slots.size <= _SORT:
        used, inverse = np.unique(slots, return_inverse=True)
        return used, inverse.reshape(slots.shape)
    marks = np.zeros(known, np.bool_)
    marks[slots] = True
    marked = np.flatnonzero(marks)
    rank = np.empty(known, np.int32)
    rank[marked] = np.arange(len(marked))
    return marked, rank[slots]


def _distinct(leaves: Ints, known: int) -> Index:
    if len(leaves) <= _SORT:
        return np.unique(leaves).astype(np.intp)
    marks = np.zeros(known, np.bool_)
    marks[leaves] = True
    return np.flatnonzero(marks)
