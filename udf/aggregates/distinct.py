"""DISTINCT: an aggregate in which every value counts once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parser.types import DataType
from udf.aggregates.accumulators import Accumulator, Aggregate, Slots
from udf.aggregates.sorted_multiset import (
    counted,
    entries,
    kept_type,
    restored,
    shares,
    stored_type,
)
from udf.vector import BoolArray, Errors, Vector

# The column of the values that have come, with their numbers.
SEEN = "seen"


@dataclass(frozen=True)
class Distinct:
    """A DISTINCT aggregate: `inner` sees each value when it comes first, and again when its last
    copy is retracted."""

    inner: Aggregate
    argument: DataType

    @property
    def retractable(self) -> bool:
        return self.inner.retractable

    @property
    def result_type(self) -> DataType:
        return self.inner.result_type

    @property
    def accumulators(self) -> tuple[tuple[str, DataType], ...]:
        return (*self.inner.accumulators, (SEEN, kept_type(self.argument)))

    def update(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> Errors | None:
        return self.inner.update(acc, slots, values, self._changed(acc, slots, values, selected, 1))

    def retract(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> Errors | None:
        return self.inner.retract(
            acc, slots, values, self._changed(acc, slots, values, selected, -1)
        )

    def _changed(
        self,
        acc: Accumulator,
        slots: Slots,
        values: pa.Array | None,
        selected: BoolArray,
        sign: int,
    ) -> BoolArray:
        """The rows by which a value comes or goes."""
        if values is None:
            raise ValueError("DISTINCT has an argument")
        changed = np.zeros(len(slots), np.bool_)
        for slot, value, row, count in shares(slots, values, selected):
            before, after = counted(acc, SEEN, slot).add(value, sign * count)
            # The first row of a share stands for all: the value comes or goes once, however many
            # rows there are.
            changed[row] = (before > 0) != (after > 0)
        return changed

    def merge(
        self, acc: Accumulator, slots: Slots, other: Accumulator, others: Slots
    ) -> Errors | None:
        come: list[tuple[int, object]] = []
        gone: list[tuple[int, object]] = []
        for slot, at in zip(slots.tolist(), others.tolist(), strict=True):
            for value, number in entries(other[SEEN][at]):
                before, after = counted(acc, SEEN, slot).add(value, number)
                # Counts may cross zero in either direction, for the other may hold retractions
                # only.
                if (before > 0) != (after > 0):
                    (come if after > 0 else gone).append((slot, value))
        errors = self.inner.update(acc, *self._rows(come))
        if gone:
            self.inner.retract(acc, *self._rows(gone))
        return errors

    def add(self, acc: Accumulator, pairs: list[tuple[int, object]]) -> Errors | None:
        """Adds values to slots, in this order."""
        return self.update(acc, *self._rows(pairs))

    def _rows(self, pairs: list[tuple[int, object]]) -> tuple[Slots, pa.Array, BoolArray]:
        stored = pa.array([value for _, value in pairs], stored_type(self.argument).arrow)
        slots = np.array([slot for slot, _ in pairs], np.int64)
        return slots, restored(stored, self.argument), np.ones(len(pairs), np.bool_)

    def result(self, acc: Accumulator, slots: Slots) -> pa.Array | Vector:
        return self.inner.result(acc, slots)
