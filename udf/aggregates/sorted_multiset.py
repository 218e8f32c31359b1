"""Multisets of values as accumulators: counts per value, or all values in order.

Both retract values, also ones that have not come yet, and have one stored form: an array of (value,
count)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, INT, DataType, array, row
from udf.aggregates.accumulators import Accumulator, Column, Slots
from udf.arrays.arrays import valid
from udf.time.plain import as_plain, from_plain
from udf.vector import BoolArray

# A value, and how often it is there; below zero where it was taken back before it came.
Entry: TypeAlias = tuple[Any, int]
# One value of several rows of a slot: slot, the value, the first of the rows, how many.
Share: TypeAlias = tuple[int, Any, int, int]


def stored_type(t: DataType) -> DataType:
    """The type in which state holds values of `t`: dates and times as integers, in their Arrow
    unit."""
    if pa.types.is_temporal(t.arrow):
        return INT if t.arrow.bit_width == 32 else BIGINT
    if not t.children:
        return t.plain
    return DataType(t.root, children=tuple(map(stored_type, t.children)), names=t.names)


def storable(values: pa.Array) -> pa.Array:
    """Values as state holds them."""
    return as_plain(values)


def restored(values: pa.Array, t: DataType) -> pa.Array:
    """The reverse of `storable`."""
    return from_plain(values, t.arrow)


def kept_type(t: DataType) -> DataType:
    """The type of an accumulator column that holds values of `t`."""
    return array(row(("v", "n"), (stored_type(t), BIGINT)))


def entries(held: Any) -> Iterator[Entry]:
    """Yields the entries of a slot, which is empty, a multiset, or a multiset in its stored
    form."""
    if held is None:
        return iter(())
    return iter(held) if not isinstance(held, list) else ((e["v"], e["n"]) for e in held)


def shares(slots: Slots, values: pa.Array, selected: BoolArray) -> Iterator[Share]:
    """The selected rows, those of equal values of a slot together, in the order of the first of
    each."""
    rows = np.flatnonzero(selected)
    kept = storable(values).take(pa.array(rows))
    codes, distinct = _codes(kept)
    # Slot and value in one number, for one np.unique over both.
    pairs = slots[rows] * max(len(distinct), 1) + codes
    _, first, counts = np.unique(pairs, return_index=True, return_counts=True)
    # In the order in which the pairs came first, not in that of the numbers.
    for i in np.argsort(first).tolist():
        at = int(first[i])
        yield int(slots[rows[at]]), distinct[codes[at]], int(rows[at]), int(counts[i])


def _codes(values: pa.Array) -> tuple[Slots, Sequence[Any]]:
    if pa.types.is_nested(values.type) or pa.types.is_null(values.type):
        # Nested values are not encoded by Arrow: each counts as one of its own.
        return np.arange(len(values)), values.to_pylist()
    encoded = values.dictionary_encode("encode")
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


def key_of(value: Any) -> Any:
    """Equal for values that Java's `equals` finds equal: the zeros differ, and NaN is one value."""
    if isinstance(value, float):
        # 0.0 == -0.0, and NaN differs from itself in Python: their texts serve as keys.
        return value if value == value and value != 0 else repr(value)
    return repr(value) if isinstance(value, (list, dict, tuple)) else value


class Counted:
    """Values with their numbers, in the order in which they came."""

    __slots__ = ("_counts",)

    def __init__(self, held: Iterable[Entry] = ()) -> None:
        self._counts: dict[Any, Entry] = {}
        for value, number in held:
            self.add(value, number)

    def add(self, value: Any, number: int) -> tuple[int, int]:
        """Changes the value's number by `number`: what it was before, and what it is now."""
        key = key_of(value)
        # The number before may be below zero.
        before = self._counts.get(key, (None, 0))[1]
        after = before + number
        if after:
            self._counts[key] = value, after
        else:
            self._counts.pop(key, None)
        return before, after

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._counts.values())

    def __bool__(self) -> bool:
        return bool(self._counts)


class SortedMultiset(Counted):
    """Values with their numbers, and the least (or greatest) of those that are there."""

    __slots__ = ("_greatest", "_heap")

    def __init__(self, held: Iterable[Entry], greatest: bool) -> None:
        self._greatest = greatest
        self._heap: list[Any] = []
        super().__init__(held)

    def add(self, value: Any, number: int) -> tuple[int, int]:
        before, after = super().add(value, number)
        # Only a value that comes into being enters the heap; one that goes is dropped lazily in
        # `best`.
        if before <= 0 < after:
            heappush(self._heap, self._placed(value))
        # Values that left stand in the heap until they surface: it is rebuilt when they are more
        # than half, so that it stays linear in the live values.
        if len(self._heap) > 2 * len(self._counts) + 64:
            self._heap = [self._placed(v) for v, n in self if n > 0]
            heapify(self._heap)
        return before, after

    def best(self) -> Any:
        """Returns the best value; None if there is none."""
        while self._heap:
            value = self._heap[0].value
            if self._counts.get(key_of(value), (None, 0))[1] > 0:
                return value
            heappop(self._heap)
        return None

    def _placed(self, value: Any) -> _Rising:
        return _Falling(value) if self._greatest else _Rising(value)


def _order(value: Any) -> Any:
    """Returns a sort key that orders as Java does: NaN above all, -0.0 below 0.0."""
    if isinstance(value, float):
        # A tuple compares field by field; the third tells -0.0 (False) from 0.0 (True).
        return value != value, 0.0 if value != value else value, str(value) == "0.0"
    return value


class _Rising:
    __slots__ = ("order", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.order = _order(value)

    def __lt__(self, other: _Rising) -> bool:
        return bool(self.order < other.order)


class _Falling(_Rising):
    __slots__ = ()

    def __lt__(self, other: _Rising) -> bool:
        return bool(other.order < self.order)


class Ordered:
    """Values in the order in which they came; of equal ones the first is taken back."""

    __slots__ = ("_first", "_last", "_owed", "_places", "_values")

    def __init__(self, held: Iterable[Entry] = ()) -> None:
        self._values: dict[int, Any] = {}
        self._places: dict[Any, list[int]] = {}  # key -> where its values stand, in order
        self._owed = Counted()
        self._first, self._last = 0, -1  # no value stands before or behind
        self.extend(held)

    def extend(self, held: Iterable[Entry]) -> None:
        """Puts what another holds behind."""
        for value, number in held:
            # A negative number is a debt: values that were taken back before they came.
            for _ in range(abs(number)):
                self.add(value) if number > 0 else self.take(value)

    def add(self, value: Any) -> None:
        if self._owed and self._pay(value):
            return
        # Numbers only grow; gaps remain where values were taken back.
        self._last += 1
        self._values[self._last] = value
        self._places.setdefault(key_of(value), []).append(self._last)

    def take(self, value: Any) -> None:
        """Retracts a value. One that is not there cancels the next that comes."""
        key = key_of(value)
        places = self._places.get(key)
        if not places:
            # Debts, to be paid by the next equal value.
            self._owed.add(value, 1)
            return
        # The earliest of the equal values; linear in their number, which is small as a rule.
        del self._values[places.pop(0)]
        if not places:
            del self._places[key]

    def _pay(self, value: Any) -> bool:
        before, _ = self._owed.add(value, -1)
        if before <= 0:
            self._owed.add(value, 1)
        return before > 0

    def __bool__(self) -> bool:
        return bool(self._values)

    def first(self) -> Any:
        """Returns the value that came first of those left; None if there is none."""
        if not self._values:
            return None
        # The bounds only move over gaps, each once: amortised constant time.
        while self._first not in self._values:
            self._first += 1
        return self._values[self._first]

    def last(self) -> Any:
        """Returns the value that came last of those left; None if there is none."""
        if not self._values:
            return None
        while self._last not in self._values:
            self._last -= 1
        return self._values[self._last]

    def values(self) -> list[Any]:
        return list(self._values.values())

    def __iter__(self) -> Iterator[Entry]:
        yield from ((v, 1) for v in self._values.values())
        # Debts are stored as negative counts.
        yield from ((v, -n) for v, n in self._owed)


def ordered(acc: Accumulator, name: str, slot: int) -> Ordered:
    """The values of a slot, which are made when there are none."""
    held = acc[name][slot]
    if not isinstance(held, Ordered):
        held = acc[name][slot] = Ordered(entries(held))
        acc[name + "?"][slot] = True
    return held


def counted(
    acc: Accumulator, name: str, slot: int, make: Callable[[Iterable[Entry]], Counted] = Counted
) -> Counted:
    """The values of a slot with their numbers, which are made when there are none."""
    held = acc[name][slot]
    if not isinstance(held, Counted):
        held = acc[name][slot] = make(entries(held))
        acc[name + "?"][slot] = True
    return held


def change_counts(
    acc: Accumulator,
    name: str,
    slots: Slots,
    values: pa.Array | None,
    selected: BoolArray,
    sign: int,
    make: Callable[[Iterable[Entry]], Counted] = Counted,
) -> None:
    """Counts the values that are not NULL, or takes them back."""
    if values is None:
        raise ValueError("the aggregate has an argument")
    for slot, value, _, count in shares(slots, values, selected & valid(values, len(values))):
        counted(acc, name, slot, make).add(value, sign * count)


def merge_counts(
    acc: Accumulator,
    name: str,
    slots: Slots,
    other: Accumulator,
    others: Slots,
    make: Callable[[Iterable[Entry]], Counted] = Counted,
) -> None:
    """Adds the numbers of others."""
    for slot, at in zip(slots.tolist(), others.tolist(), strict=True):
        for value, number in entries(other[name][at]):
            counted(acc, name, slot, make).add(value, number)


def as_stored(column: Column) -> list[Any]:
    """A column of arrays, the holders among them in the form in which they are stored."""
    holders = (Counted, Ordered)
    return [
        [{"v": e, "n": n} for e, n in v] if isinstance(v, holders) else v for v in column.tolist()
    ]
