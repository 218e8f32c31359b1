"""The truth of every leaf in every row of a block, as one flat array small enough for the CPU's
caches.

Only leaves that are TRUE (or in error) somewhere have a column, and only slots that occur have a
line. Column 0 of a line stands for all other leaves of its variable. The line of NULL is UNKNOWN
throughout."""

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
    """The leaves of compiled rules.

    `variable_of[leaf]` is the number of its variable; leaves of a variable are adjacent, and the
    last number stands for leaf 0 and the opaque ones. `column` is scratch space, all zero between
    blocks."""

    variable_of: npt.NDArray[np.int32]
    num_variables: int
    column: npt.NDArray[np.int32]


@dataclass
class Block:
    """`truths[lines[variable * rows + row] + leaves.column[leaf]]` is the truth of a leaf in a row,
    where `variable` is that of the leaf."""

    leaves: Leaves
    rows: int
    truths: Truths
    lines: npt.NDArray[np.int64]
    touched: Index
    has_errors: bool

    def values(self, leaves: Ints, rows: Ints) -> Truths:
        """The truth of `leaves[i]` in `rows[i]`."""
        known = self.leaves
        # One gather for all pairs: variable and row choose the line, the leaf its column in it.
        at = self.lines[known.variable_of[leaves] * np.int64(self.rows) + rows]
        at += known.column[leaves]
        values: Truths = self.truths[at]
        return values

    def column(self, variable: int, column: int) -> Truths:
        """The truth of one leaf in all rows."""
        return self.truths[self.lines[variable * self.rows : (variable + 1) * self.rows] + column]

    def add_opaque(self, leaves: Index) -> None:
        """Makes room for opaque leaves, FALSE at first."""
        width = len(leaves) + 1
        first = len(self.truths)
        # The new lines stand behind all others, one for each row, as opaque leaves differ by row.
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
    """The layout of a block's array: `line_starts` of the slots in use, which of them each element
    of `slots` is (`lines_of`), the `columns` of the leaves that are `touched`, and the (slot, leaf)
    pairs themselves."""

    slots: npt.NDArray[np.int32]
    lines_of: Ints
    has_null: bool
    line_starts: Ints
    cells: int
    touched: Index
    columns: Ints
    pairs: tuple[Ints, Ints, Truths]


def plan_block(slots: npt.NDArray[np.int32], store: SlotStore, leaves: Leaves) -> Layout:
    """Plans the block of `slots[variable, row]`.

    Cheap, so that the caller can split a block that is too large."""
    used, lines_of = _used(slots, len(store))
    starts, counts = store.leaf_lists(used)
    places = spread(starts, counts)
    true_leaves = store.leaves.array[places]
    # A leaf's column counts from 1 among the touched leaves of its variable, which are adjacent
    # because leaves are numbered by variable. Column 0 is all that are not touched.
    touched = _distinct(true_leaves, len(leaves.variable_of))
    owners = leaves.variable_of[touched]
    # searchsorted of the sorted owners in themselves gives where each variable's leaves begin.
    columns = np.arange(1, len(touched) + 1) - np.searchsorted(owners, owners)
    widths = np.bincount(owners, minlength=leaves.num_variables) + 1
    # NULL_SLOT and EMPTY_SLOT belong to no variable (-1): their lines fit the widest.
    owner = store.variable_of.array[used]
    line_widths = np.where(owner < 0, widths.max(initial=1), widths[owner] if len(widths) else 1)
    # Lines differ in width, so a line's start is the sum of the widths before it.
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
    # One cell more than the lines need.
    flat[starts + leaves.column[true_leaves]] = truths
    if layout.has_null:
        # NULL_SLOT is 0 and the slots ascend: if it occurs, its line is the first.
        flat[: layout.line_starts[1] if len(layout.line_starts) > 1 else layout.cells] = UNKNOWN
    slots, rows = layout.slots, layout.slots.shape[1]
    # The last variable holds leaf 0 and opaque leaves: its lines start at the extra cell, FALSE.
    lines = np.full((leaves.num_variables + 1) * rows, layout.cells, np.int64)
    lines[: slots.size] = layout.line_starts[layout.lines_of].ravel()
    return Block(
        leaves, rows, flat, lines, layout.touched, may_have_errors and bool((truths == ERROR).any())
    )


def _used(slots: npt.NDArray[np.int32], known: int) -> tuple[Ints, Ints]:
    """The slots that occur, ascending, and for each place of `slots` which of them it is."""
    # np.unique sorts: good for a few slots; marking costs as much as there are slots in the store.
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
