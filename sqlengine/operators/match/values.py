"""The values of a match that conditions and measures read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeAlias

import numpy as np

from parser.types import Root
from planner.logical import PatternItem, PatternValue
from sqlengine.operators.match.conditions import RowError, arrow_values, python_values
from udf.aggregates.accumulators import Aggregate, empty_accumulator
from udf.aggregates.registry import bind_aggregate
from udf.vector import Vector

# The number of rows that each item has taken.
Counts: TypeAlias = tuple[int, ...]


class Spans:
    """The rows of some variables within a match, as numbers counted from its first row."""

    def __init__(self, items: Sequence[PatternItem], variables: Sequence[str]) -> None:
        self.items = [
            i for i, item in enumerate(items) if item.variable in variables and not item.absent
        ]

    def first(self, counts: Counts, offset: int) -> int | None:
        """Returns the row `offset` after the first of these rows; None if there are too few."""
        for item in self.items:
            if offset < counts[item]:
                return sum(counts[:item]) + offset
            offset -= counts[item]
        return None

    def last(self, counts: Counts, offset: int) -> int | None:
        """Returns the row `offset` before the last of these rows; None if there are too few."""
        for item in reversed(self.items):
            if offset < counts[item]:
                return sum(counts[: item + 1]) - 1 - offset
            offset -= counts[item]
        return None

    def rows(self, counts: Counts) -> Iterator[int]:
        """Iterates over these rows."""
        for item in self.items:
            start = sum(counts[:item])
            yield from range(start, start + counts[item])

    def size(self, counts: Counts) -> int:
        """Returns the number of these rows."""
        return sum(counts[i] for i in self.items)


def bound_aggregate(value: PatternValue) -> Aggregate:
    return bind_aggregate(
        value.function, () if value.argument_type is None else (value.argument_type,)
    )


class Past(Protocol):
    """The context of a condition: a partial match, and the current row, which `item` would take."""

    counts: Counts
    item: int

    def stored(self, number: int, column: int) -> object:
        """Returns a value of a row of the match."""

    def current(self, column: int) -> object:
        """Returns a value of the current row."""


Reader: TypeAlias = Callable[[Past], object]


def reader(value: PatternValue, items: Sequence[PatternItem], columns: Sequence[str]) -> Reader:
    """Returns a function that reads the value in a condition; `columns` are the columns stored for
    conditions."""
    spans = Spans(items, value.variables)
    everything = set(value.variables) >= {i.variable for i in items if not i.absent}
    own = {i for i, item in enumerate(items) if everything or item.variable in value.variables}
    column = -1 if value.column is None else columns.index(value.column)
    if value.function == "LAST":
        return _last(spans, own, column, value.offset)
    if value.function == "FIRST":
        return _first(spans, own, column, value.offset)
    return _aggregate(spans, own, column, value)


def _last(spans: Spans, own: set[int], column: int, offset: int) -> Reader:
    def read(past: Past) -> object:
        back = offset
        if past.item in own:
            if not back:
                return past.current(column)
            back -= 1
        number = spans.last(past.counts, back)
        return None if number is None else past.stored(number, column)

    return read


def _first(spans: Spans, own: set[int], column: int, offset: int) -> Reader:
    def read(past: Past) -> object:
        number = spans.first(past.counts, offset)
        if number is not None:
            return past.stored(number, column)
        return (
            past.current(column) if past.item in own and spans.size(past.counts) == offset else None
        )

    return read


def _aggregate(spans: Spans, own: set[int], column: int, value: PatternValue) -> Reader:
    compute = _computed(value)

    def read(past: Past) -> object:
        if column < 0:
            return spans.size(past.counts) + (past.item in own)
        items = [past.stored(n, column) for n in spans.rows(past.counts)]
        if past.item in own:
            items.append(past.current(column))
        return compute(items)

    return read


_FOLDS: dict[str, Callable[[list[int]], int]] = {"SUM": sum, "MIN": min, "MAX": max}
_WHOLE = {Root.TINYINT: 8, Root.SMALLINT: 16, Root.INT: 32, Root.BIGINT: 64}


def _computed(value: PatternValue) -> Callable[[list[object]], object]:
    """Returns the aggregate over Python values: simple ones are computed here, others by their
    accumulators."""
    if value.function == "COUNT":
        return lambda items: len(items) - items.count(None)
    bits = _WHOLE.get(value.type.root)
    argument = value.argument_type
    if (
        bits is not None
        and argument is not None
        and argument.is_integer
        and value.function in _FOLDS
    ):
        fold = _FOLDS[value.function]
        half, mask = 1 << (bits - 1), (1 << bits) - 1

        def compute(items: list[object]) -> object:
            present = [v for v in items if isinstance(v, int)]
            return ((fold(present) + half) & mask) - half if present else None

        return compute
    return _accumulated(value)


def _accumulated(value: PatternValue) -> Callable[[list[object]], object]:
    bound = bound_aggregate(value)
    kind = value.argument_type
    assert kind is not None

    def compute(items: list[object]) -> object:
        accumulator = empty_accumulator(bound.accumulators, 1)
        count = len(items)
        slots = np.zeros(count, np.int64)
        errors = bound.update(
            accumulator, slots, arrow_values(kind, items), np.ones(count, np.bool_)
        )
        if errors is not None:
            raise RowError(errors.reason(int(np.flatnonzero(errors.mask)[0])))
        result = bound.result(accumulator, np.zeros(1, np.int64))
        vector = result if isinstance(result, Vector) else Vector(result)
        if vector.errors is not None and vector.errors.mask[0]:
            raise RowError(vector.errors.reason(0))
        return python_values(value.type, vector.array(1))[0]

    return compute
