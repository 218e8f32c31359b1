"""A secondary index in memory over some of the key columns of a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from parser.types import DataType
from sqlengine.state.columns import BoolArray, IntArray, distinct
from sqlengine.state.index import HashIndex, Same
from sqlengine.state.keys import Key, KeyColumn, hash_rows, key_column
from sqlengine.state.table import KeyedTable

_NONE = -1


class KeyChains:
    """Groups the rows of `table` by the key columns `names`, as linked lists of slots.

    A group has a number while it has rows; the numbers are local to this process, and no result may
    depend on them. Whoever adds or removes rows calls `add` or `remove`; `refresh` notices rows
    that were loaded or dropped from outside.
    """

    def __init__(self, table: KeyedTable, names: Sequence[str]) -> None:
        self._table = table
        self._types = [table.keys.type(n) for n in names]
        self._names = tuple(names)
        self._index = HashIndex()
        self._generation = 0
        self._group: IntArray  # by row
        self._next: IntArray  # by row, the next of its group
        self._head: IntArray  # by group
        self._first: IntArray  # by group, a row that holds the key
        self._hash: npt.NDArray[np.uint64]  # by group
        self._free: IntArray
        self._count = 0
        self._load()

    def refresh(self) -> None:
        """Rebuilds the index if the table was loaded from outside; call it first in each step."""
        if self._generation != self._table.generation:
            self._load()

    def groups(self, keys: Sequence[Key], num_rows: int) -> IntArray:
        """Returns the group of each row's key, -1 where the key has no rows."""
        columns = self._columns(keys)
        return self._index.find(hash_rows(columns, num_rows), self._same(columns))[0]

    def of(self, slots: IntArray) -> IntArray:
        """Returns the group of each row of the table."""
        groups: IntArray = self._group[slots]
        return groups

    def members(self, groups: IntArray) -> tuple[IntArray, IntArray]:
        """Returns all pairs of one of the `groups` (its index in the argument) and a row of it, in
        no order."""
        which, slots = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        at = np.flatnonzero(groups >= 0)
        current = self._head[groups[at]]
        # All lists are followed in step: as many iterations as the longest list has rows.
        while len(at):
            which.append(at)
            slots.append(current)
            following = self._next[current]
            more = following != _NONE
            at, current = at[more], following[more]
        return np.concatenate(which), np.concatenate(slots)

    def add(self, slots: IntArray, keys: Sequence[Key]) -> None:
        """Adds rows that have come into the table, each once, with their keys."""
        if not len(slots):
            return
        columns = self._columns(keys)
        hashes = hash_rows(columns, len(slots))
        groups, _ = self._index.find(
            hashes, self._same(columns), lambda rows: self._begin(slots[rows], hashes[rows])
        )
        missing = len(self._table.arrivals) - len(self._group)
        if missing > 0:
            self._group, self._next = (
                np.pad(self._group, (0, missing)),
                np.pad(self._next, (0, missing)),
            )
        self._group[slots] = groups
        self._link(slots, groups)

    def remove(self, slots: IntArray) -> None:
        """Removes rows that are about to leave the table, each once."""
        if not len(slots):
            return
        groups = distinct(self._group[slots])
        _, members = self.members(groups)
        leaving = np.zeros(len(self._group), np.bool_)
        leaving[slots] = True
        # A singly linked list cannot drop a row by itself: the groups concerned are linked anew
        # from the rows that stay.
        kept = members[~leaving[members]]
        self._head[groups] = _NONE
        self._link(kept, self._group[kept])
        empty = groups[self._head[groups] == _NONE]
        self._index.remove(self._hash[empty], empty)
        self._free = np.concatenate([self._free, empty])
        full = groups[self._head[groups] != _NONE]
        self._first[full] = self._head[full]

    def _load(self) -> None:
        self._generation = self._table.generation
        self._index = HashIndex()
        self._group, self._next, self._head, self._first, self._free = (
            np.empty(0, np.int64) for _ in range(5)
        )
        self._hash = np.empty(0, np.uint64)
        self._count = 0
        live = self._table.live()
        self.add(live, self._table.key_columns(live, self._names))

    def _begin(self, slots: IntArray, hashes: npt.NDArray[np.uint64]) -> IntArray:
        """Allocates groups."""
        reused = min(len(self._free), len(slots))
        fresh = len(slots) - reused
        groups = np.concatenate(
            [self._free[len(self._free) - reused :], np.arange(self._count, self._count + fresh)]
        )
        self._free = self._free[: len(self._free) - reused]
        self._count += fresh
        if self._count > len(self._head):
            more = max(self._count, 2 * len(self._head)) - len(self._head)
            self._head, self._first = np.pad(self._head, (0, more)), np.pad(self._first, (0, more))
            self._hash = np.pad(self._hash, (0, more))
        self._head[groups] = _NONE
        self._first[groups] = slots
        self._hash[groups] = hashes
        return groups

    def _link(self, slots: IntArray, groups: IntArray) -> None:
        """Prepends rows to the lists of their groups."""
        if not len(slots):
            return
        order = np.argsort(groups, kind="stable")
        slots, groups = slots[order], groups[order]
        first = np.ones(len(slots), np.bool_)
        first[1:] = groups[1:] != groups[:-1]
        last = np.roll(first, -1)
        # Sorted by group, each row points to the one after it; the last of each group is then
        # redirected to the group's former head.
        self._next[slots[:-1]] = slots[1:]
        self._next[slots[last]] = self._head[groups[last]]
        self._head[groups[first]] = slots[first]

    def _columns(self, keys: Sequence[Key]) -> list[KeyColumn]:
        return [key_column(t, k) for t, k in zip(self._types, keys, strict=True)]

    def _same(self, columns: Sequence[KeyColumn]) -> Same:
        """Returns a function that compares the keys of rows with those of groups."""

        def same(rows: IntArray, groups: IntArray) -> BoolArray:
            slots, stored = self._first[groups], self._table.columns
            result = np.ones(len(rows), np.bool_)
            for name, column in zip(self._names, columns, strict=True):
                result &= column.same(
                    rows,
                    stored[name][slots],
                    stored[name + "?"][slots].astype(np.bool_, copy=False),
                )
            return result

        return same


def distinct_keys(
    types: Sequence[DataType], keys: Sequence[Key], num_rows: int
) -> tuple[IntArray, IntArray]:
    """Numbers the distinct keys in order of arrival: returns each row's number, and the first row
    of each key."""
    columns = [key_column(t, k) for t, k in zip(types, keys, strict=True)]

    def same(rows: IntArray, firsts: IntArray) -> BoolArray:
        result = np.ones(len(rows), np.bool_)
        for column in columns:
            result &= column.same(rows, column.values[firsts], column.valid[firsts])
        return result

    first_of, is_first = HashIndex().find(hash_rows(columns, num_rows), same, lambda rows: rows)
    firsts = np.flatnonzero(is_first)
    return np.searchsorted(firsts, first_of), firsts
