"""Keyed state: several rows per key, in an order.

The second of the two forms of state. A `KeyedTable` holds the rows, each identified by its key and
by columns that tell it from the key's other rows. An index in memory leads from a key to its rows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.types import BIGINT, Column, Schema
from sqlengine.state.columns import BoolArray, IntArray, Values, distinct, longer
from sqlengine.state.index import HashIndex, Same
from sqlengine.state.keys import Key, KeyColumn, hash_rows, key_column
from sqlengine.state.sort_keys import Sorting
from sqlengine.state.table import KeyedTable

# The multiplicity of a row: equal rows of a key are stored once.
COUNT = "#count"
# The arrival number, which identifies rows where no other column does.
ARRIVAL = "#arrival"

COUNTED = BIGINT.with_nullable(False)

# The bytes of an arrival number behind a sort key, and bytes behind those of all numbers.
_ARRIVAL_BYTES: Final = 8
_LAST_ARRIVAL: Final = b"\xff" * (_ARRIVAL_BYTES + 1)

# In lists up to this length a linear search for a slot is faster than a binary search by rank.
_SHORT = 256
# So many rows of a key are removed one by one; more in one pass over the list.
_FEW = 16


class _Rank(Protocol):
    """The rank of a row: the value that rows are sorted by, then the number of its arrival."""

    def __lt__(self, other: Any, /) -> bool: ...


class Tables(Protocol):
    """Gives an operator its tables; `operators.base.Context` implements it."""

    def table(
        self, name: str, keys: Schema, values: Schema, exchange: tuple[str, ...]
    ) -> KeyedTable: ...


class RowsTable:
    """Maps `key` columns to rows of `identity` and `values` columns, in order.

    The order is that of the column `order_by` (NOT NULL; its value never changes), then arrival; or
    that of several columns (`Sorting`). `identity` tells the rows of a key apart: columns that are
    unique within the key; all columns, where rows are retracted by value; none, where rows are
    never retracted: then each row gets an arrival number. Rows that are equal in key and identity
    are one row with a count, and the last `values` win.

    `table` holds the rows: operators read and write `table.columns` by slot, and call `table.mark`
    for what they wrote. A key with NULL is a key like others: a join leaves it out itself.
    """

    def __init__(
        self,
        context: Tables,
        name: str,
        key: Schema,
        identity: Schema,
        values: Schema,
        exchange: tuple[str, ...],
        order_by: str | Sorting | None = None,
    ) -> None:
        self.key = key
        self._numbered = not identity.names
        self.identity = Schema((Column(ARRIVAL, COUNTED),)) if self._numbered else identity
        counted = Schema((Column(COUNT, COUNTED), *values))
        self.table = context.table(name, Schema((*key, *self.identity)), counted, exchange)
        self._order_by = order_by
        self._load()

    def __len__(self) -> int:
        """The number of rows; equal rows count once."""
        return len(self.table)

    # ---- writing ---------------------------------------------------------------------------------

    def put(
        self,
        key: Sequence[Key],
        identity: Sequence[Key],
        values: Sequence[Values],
        num_rows: int,
        sort_keys: Sequence[bytes] | None = None,
    ) -> tuple[IntArray, BoolArray]:
        """Adds rows; returns their slots, and True where the row is new. `sort_keys` are those that
        `Sorting.keys` gives for them, where they are known."""
        self._check()
        if self._numbered:
            identity = [np.arange(self._next, self._next + num_rows)]
            self._next += num_rows
        keys = self._columns(key)
        if self._numbered:  # no other row has their numbers
            slots = self.table.append([*keys, *identity], num_rows)
            is_new = np.ones(num_rows, np.bool_)
        else:
            slots, is_new = self.table.slots_for([*keys, *identity], num_rows)
        all_new = bool(is_new.all())
        if all_new:
            self.table.columns[COUNT][slots] = 1
        else:
            np.add.at(self.table.columns[COUNT], slots, 1)
        self.table.write(slots, dict(zip(self.table.values.names[1:], values, strict=True)))
        self.table.mark(slots if all_new else distinct(slots))
        if all_new:
            self._index_rows(slots, keys, sort_keys)
        elif len(fresh := slots[is_new]):
            self.add_to_index(fresh)
        return slots, is_new

    def take(self, key: Sequence[Key], identity: Sequence[Key], num_rows: int) -> IntArray:
        """Retracts rows, each lowering one count; returns the slot of each, -1 where there is no
        such row.

        A slot whose count fell to 0 still holds its row until `drop` is called with it.
        """
        self._check()
        slots, _ = self.table.slots_for([*key, *identity], num_rows, insert=False)
        counts = self.table.columns[COUNT]
        for i, slot in enumerate(slots.tolist()):
            if slot >= 0 and counts[slot] > 0:
                counts[slot] -= 1
            else:
                slots[i] = -1
        self.table.mark(distinct(slots[slots >= 0]))
        return slots

    def drop(self, slots: IntArray) -> None:
        """Removes rows; each slot is given once."""
        self.remove_from_index(slots)
        self.table.remove(slots)

    def remove_from_index(self, slots: IntArray) -> None:
        """Removes rows from the index; they stay in the table."""
        self._check()
        empty: list[int] = []
        for group, gone in self._by_group(slots):
            members = self._members[group]
            self._take_out(members, gone)
            for slot in gone if self._ranks else ():
                del self._ranks[slot]
            if not members:
                empty.append(gone[-1])
            # The index compares keys with those of a row of the group, which must be one that
            # stays.
            elif self._first[group] in gone:
                self._first[group] = members[0]
        if empty:
            self._forget(np.array(empty))

    def _by_group(self, slots: IntArray) -> Iterator[tuple[int, list[int]]]:
        """Yields the groups of rows with the slots that each has among these."""
        of = self._group_of[slots]
        order = np.argsort(of, kind="stable")
        slots, of = slots[order], of[order]
        bounds = np.flatnonzero(np.append(True, of[1:] != of[:-1])).tolist() if len(of) else []
        for start, end in zip(bounds, [*bounds[1:], len(of)], strict=False):
            yield int(of[start]), slots[start:end].tolist()

    def _take_out(self, members: list[int], gone: list[int]) -> None:
        """Removes slots from the rows of a key: few one by one, many in one go."""
        if len(gone) == len(members):
            members.clear()
        elif len(gone) < _FEW:
            for slot in gone:
                del members[self._place(members, slot)]
        elif (some := set(gone)).issuperset(members[: len(gone)]):
            del members[: len(gone)]
        else:
            members[:] = [slot for slot in members if slot not in some]

    def clear(self) -> None:
        """Removes all rows."""
        self.table.remove(self.table.live())
        self._load()

    @property
    def next_arrival(self) -> int:
        """The arrival number of the next row, where no other column identifies rows."""
        self._check()
        return self._next

    def number_from(self, arrival: int) -> None:
        """Lets arrival numbers go on from this one, or from the next if that is greater: so the
        rows of two tables have one order."""
        self._next = max(self.next_arrival, arrival)

    # ---- reading ---------------------------------------------------------------------------------

    def find(self, key: Sequence[Key], identity: Sequence[Key], num_rows: int) -> IntArray:
        """Returns the slot of each row, -1 where it is absent."""
        self._check()
        return self.table.slots_for([*key, *identity], num_rows, insert=False)[0]

    def groups(self, key: Sequence[Key], num_rows: int) -> IntArray:
        """Returns the number of each row's key, -1 where the key has no rows; valid until the next
        `put` or `drop`."""
        self._check()
        columns = self._columns(key)
        return self._index.find(hash_rows(columns, num_rows), self._same(columns))[0]

    def groups_of(self, slots: IntArray) -> IntArray:
        """Returns the number of the key of each row, see `groups`."""
        groups: IntArray = self._group_of[slots]
        return groups

    def slots(self, group: int) -> IntArray:
        """Returns the slots of a key's rows, in order."""
        return np.array(self._members[group], np.int64)

    def each(self, group: int) -> Iterator[int]:
        """Iterates over the slots of a key's rows, in order; invalid once a row is added or
        removed."""
        return iter(self._members[group])

    def first(self, group: int, count: int) -> list[int]:
        """Returns the slots of a key's first rows in order, at most `count`; a slot occurs as often
        as its row's multiplicity."""
        members = self._members[group]
        if self._numbered:
            return members[:count]
        slots: list[int] = []
        counts = self.table.columns[COUNT]
        for slot in members:
            if len(slots) >= count:
                break
            slots += [slot] * int(counts[slot])
        return slots[:count]

    def firsts(self, groups: IntArray) -> IntArray:
        """Returns the slot of the first row of each key, -1 where it has none; see `first`."""
        members = map(self._members.__getitem__, groups.tolist())
        slots = np.fromiter((m[0] if m else -1 for m in members), np.int64, len(groups))
        if not self._numbered:  # some may be retracted, and not dropped yet
            gone = (slots >= 0) & (self.table.columns[COUNT][slots] == 0)
            for place in np.flatnonzero(gone).tolist():
                slots[place] = next(iter(self.first(int(groups[place]), 1)), -1)
        return slots

    def last_until(self, group: int, value: int) -> int | None:
        """Returns the greatest value of the order column among a key's rows that is at most
        `value`; None if there is none."""
        assert isinstance(self._order_by, str)
        members, column = self._members[group], self.table.columns[self._order_by]
        at = bisect_right(members, value, key=column.__getitem__)
        return int(column[members[at - 1]]) if at else None

    def beyond(self, group: int, count: int) -> list[int]:
        """Returns the slots of a key's rows after the first `count`."""
        return self._members[group][count:]

    def places(self, slots: IntArray) -> list[tuple[int, int]]:
        """Returns the group of each row, and its place in the group's order."""
        groups = self._group_of[slots].tolist()
        return [
            (g, self._place(self._members[g], s))
            for g, s in zip(groups, slots.tolist(), strict=True)
        ]

    def between(self, group: int, start: int, end: int) -> list[int]:
        """Returns the slots of a key's rows from place `start` to `end` (exclusive)."""
        return self._members[group][start:end]

    def back_from(self, group: int, place: int) -> Iterator[int]:
        """Iterates over the slots of a key's rows before a place, backwards."""
        members = self._members[group]
        return (members[p] for p in range(place - 1, -1, -1))

    def peers(self, group: int, place: int) -> tuple[int, int]:
        """Returns the places of the rows whose sort key equals that at `place`: the first, and one
        past the last."""
        members, rank = self._members[group], self._ranks.__getitem__
        key = self.key_at(group, place)
        first = bisect_left(members, key, 0, place, key=rank)
        return first, bisect_right(members, key + _LAST_ARRIVAL, place, key=rank)

    def key_at(self, group: int, place: int) -> bytes:
        """Returns the sort key of the row at this place in a key's order."""
        return self.sort_key(self._members[group][place])

    def sort_key(self, slot: int) -> bytes:
        """Returns the sort key of a row; of rows in the order of their arrival they are equal."""
        return self._ranks[slot][:-_ARRIVAL_BYTES] if self._ranks else b""

    def size(self, group: int) -> int:
        """Returns the number of a key's rows; equal rows count once."""
        return len(self._members[group])

    def beside(self, slots: IntArray) -> tuple[IntArray, IntArray]:
        """Returns the slots directly before and after each row in the order of its key; -1 where
        there is none."""
        before, behind = np.full(len(slots), -1), np.full(len(slots), -1)
        for i, (slot, group) in enumerate(
            zip(slots.tolist(), self._group_of[slots].tolist(), strict=True)
        ):
            members = self._members[group]
            place = self._place(members, slot)
            if place:
                before[i] = members[place - 1]
            if place + 1 < len(members):
                behind[i] = members[place + 1]
        return before, behind

    def matches(self, key: Sequence[Key], num_rows: int) -> tuple[IntArray, IntArray]:
        """Returns all pairs of one of the `num_rows` keys and a row of that key.

        Arrays of the key's number and the row's slot, in the order of the keys, then of the rows.
        """
        numbers, slots, _ = self.first_matches(key, num_rows, None)
        return numbers, slots

    def first_matches(
        self, key: Sequence[Key], num_rows: int, most: int | None
    ) -> tuple[IntArray, IntArray, int]:
        """Returns the pairs of the first keys, at most `most`, and how many keys are covered; never
        splits a key."""
        groups = self.groups(key, num_rows)
        if num_rows == 1:
            group = int(groups[0])
            found = np.array(self._members[group] if group >= 0 else (), np.int64)
            return np.zeros(len(found), np.int64), found, 1
        matched = np.flatnonzero(groups >= 0)
        lists = [self._members[g] for g in groups[matched].tolist()]
        counts = np.fromiter(map(len, lists), np.int64, len(lists))
        total, covered = int(counts.sum()), num_rows
        if most is not None and total > most:
            # At least one key with all its pairs, however many these are: else a join would never
            # get past it.
            fit = max(1, int(np.searchsorted(np.cumsum(counts), most, side="right")))
            covered = int(matched[fit]) if fit < len(matched) else num_rows
            matched, lists, counts = matched[:fit], lists[:fit], counts[:fit]
            total = int(counts.sum())
        slots = np.fromiter(chain.from_iterable(lists), np.int64, total)
        return np.repeat(matched, counts), slots, covered

    def arrays(self, names: Sequence[str], slots: IntArray) -> list[pa.Array]:
        """Returns columns of the rows at `slots`."""
        return [self._array(name, slots) for name in names]

    # ---- the index -------------------------------------------------------------------------------

    def _check(self) -> None:
        """Rebuilds the index if the table was loaded or dropped from outside."""
        if self._generation != self.table.generation:
            self._load()

    def _load(self) -> None:
        self._generation = self.table.generation
        self._index = HashIndex()
        self._members: list[list[int]] = []  # by group, the slots of its rows in order
        self._first: IntArray = np.empty(0, np.int64)  # by group, the slot of one of its rows
        self._hash = np.empty(0, np.uint64)  # by group, of its key
        self._free: list[int] = []
        self._group_of: IntArray = np.empty(0, np.int64)  # by slot
        # By slot, where rows are sorted: the sort key of the row, and its arrival.
        self._ranks: dict[int, bytes] = {}
        live = self.table.live()
        self._next = (
            1 + int(self.table.columns[ARRIVAL][live].max(initial=-1)) if self._numbered else 0
        )
        if len(live):
            self.add_to_index(self.table.in_order(live))

    def add_to_index(self, slots: IntArray) -> None:
        """Adds rows to the index; they are given in order of arrival."""
        self._index_rows(slots, self.table.key_columns(slots, self.key.names))

    def _index_rows(
        self,
        slots: IntArray,
        columns: Sequence[KeyColumn],
        sort_keys: Sequence[bytes] | None = None,
    ) -> None:
        """Adds rows with these keys to the index."""
        hashes = hash_rows(columns, len(slots))
        groups, _ = self._index.find(
            hashes, self._same(columns), lambda rows: self._begin(slots[rows], hashes[rows])
        )
        if len(self._group_of) < len(self.table.columns[COUNT]):
            missing = len(self.table.columns[COUNT]) - len(self._group_of)
            self._group_of = longer(self._group_of, missing)
        self._group_of[slots] = groups
        members = self._members
        if self._order_by is None:  # rows enter in order of arrival
            for group, slot in zip(groups.tolist(), slots.tolist(), strict=True):
                members[group].append(slot)
        else:
            self._sort_in(groups, slots, sort_keys)

    def _sort_in(
        self, groups: IntArray, slots: IntArray, sort_keys: Sequence[bytes] | None
    ) -> None:
        rank: Callable[[int], _Rank] = self._rank
        if isinstance(self._order_by, Sorting):
            ranks = self._encoded_ranks(slots, sort_keys)
            self._ranks.update(zip(slots.tolist(), ranks, strict=True))
            rank = self._ranks.__getitem__
        for group, slot in zip(groups.tolist(), slots.tolist(), strict=True):
            members = self._members[group]
            # Most rows come in order: they are appended without a search.
            if members and rank(slot) < rank(members[-1]):
                insort(members, slot, key=rank)
            else:
                members.append(slot)

    def _encoded_ranks(self, slots: IntArray, keys: Sequence[bytes] | None) -> Iterator[bytes]:
        """Yields what rows are sorted by. No sort key is the beginning of another, so their bytes
        can be followed by those of the arrival."""
        assert isinstance(self._order_by, Sorting)
        if keys is None:
            columns = [self._array(n, slots) for n in self._order_by.columns]
            keys = self._order_by.keys(columns, len(slots))
        arrivals = self.table.arrivals[slots].astype(np.uint64)
        arrivals = ~arrivals if self._order_by.latest_first else arrivals
        encoded = arrivals.astype(">u8").tobytes()
        size = _ARRIVAL_BYTES
        return (key + encoded[n * size : (n + 1) * size] for n, key in enumerate(keys))

    def _begin(self, slots: IntArray, hashes: npt.NDArray[np.uint64]) -> IntArray:
        """Allocates groups for the keys of these rows."""
        reused = [self._free.pop() for _ in range(min(len(self._free), len(slots)))]
        more = len(slots) - len(reused)
        start = len(self._members)
        self._members += [[] for _ in range(more)]
        if len(self._first) < len(self._members):
            size = max(len(self._members), 2 * len(self._first)) - len(self._first)
            self._first, self._hash = longer(self._first, size), longer(self._hash, size)
        groups = np.array([*reused, *range(start, start + more)], np.int64)
        self._first[groups], self._hash[groups] = slots, hashes
        return groups

    def _forget(self, slots: IntArray) -> None:
        """Frees groups without rows, whose last ones were at `slots`."""
        groups = self._group_of[slots]
        self._index.remove(self._hash[groups], groups)
        self._free += groups.tolist()

    def _place(self, members: list[int], slot: int) -> int:
        if len(members) <= _SHORT:
            return members.index(slot)
        return bisect_left(members, self._rank(slot), key=self._rank)

    def _rank(self, slot: int) -> _Rank:
        if isinstance(self._order_by, Sorting):
            return self._ranks[slot]
        order: object = 0 if self._order_by is None else self.table.columns[self._order_by][slot]
        return order, int(self.table.arrivals[slot])

    def _columns(self, key: Sequence[Key]) -> list[KeyColumn]:
        return [key_column(c.type, k) for c, k in zip(self.key, key, strict=True)]

    def _same(self, columns: Sequence[KeyColumn]) -> Same:
        """Returns a function that compares the keys of rows with those of groups."""

        def same(rows: IntArray, groups: IntArray) -> BoolArray:
            slots, stored = self._first[groups], self.table.columns
            result = np.ones(len(rows), np.bool_)
            for name, column in zip(self.key.names, columns, strict=True):
                result &= column.same(
                    rows,
                    stored[name][slots],
                    stored[name + "?"][slots].astype(np.bool_, copy=False),
                )
            return result

        return same

    def _array(self, name: str, slots: IntArray) -> pa.Array:
        return self.table.array(name, slots)
