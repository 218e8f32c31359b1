"""DISTINCT values of windows in the order in which Flink has them: they are collected before the
exchange, handed on when a window is over, collected behind it again, and each time kept apart in a
hash table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from parser.types import DataType
from udf.aggregates.accumulators import Accumulator, Slots
from udf.aggregates.distinct import SEEN, Distinct
from udf.aggregates.sorted_multiset import Entry, counted, entries, kept_type, shares
from udf.java.hash_table import hash_of, in_table_order
from udf.vector import BoolArray, Errors, Vector

# Values before the exchange, and behind it.
_STAGES = ("sent", "taken")


@dataclass(frozen=True)
class Buffered:
    """A DISTINCT aggregate whose values pass two buffers first, as in Flink's windows.

    `hand_on` moves all values of one buffer into the next, and of the last into the aggregate, in
    the order of their hashes. Not retractable."""

    distinct: Distinct
    retractable: bool = False

    @property
    def result_type(self) -> DataType:
        return self.distinct.result_type

    @property
    def accumulators(self) -> tuple[tuple[str, DataType], ...]:
        return (
            *self.distinct.accumulators,
            *((stage, kept_type(self.distinct.argument)) for stage in _STAGES),
        )

    def update(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> Errors | None:
        if values is None:
            raise ValueError("DISTINCT has an argument")
        for slot, value, _, count in shares(slots, values, selected):
            counted(acc, _STAGES[0], slot).add(value, count)
        return None

    def retract(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> Errors | None:
        raise NotImplementedError("what is buffered is not taken back")

    def has_pending(self, acc: Accumulator, slots: Slots, stage: int) -> BoolArray:
        """True for each slot that has values in a stage, 0 or 1."""
        return np.array([bool(multiset) for multiset in acc[_STAGES[stage]][slots]], np.bool_)

    def hand_on(self, acc: Accumulator, slots: Slots, stage: int) -> None:
        """Takes the values at `slots` on from a stage."""
        name, pairs = _STAGES[stage], []
        for slot in slots.tolist():
            pairs += [(slot, value) for value in self._listed(entries(acc[name][slot]))]
            acc[name][slot], acc[name + "?"][slot] = None, False
        if stage == 1:
            self.distinct.add(acc, pairs)
        else:
            # Behind the exchange every value counts once, however often it was sent.
            for slot, value in pairs:
                counted(acc, _STAGES[1], slot).add(value, 1)

    def merge(
        self, acc: Accumulator, slots: Slots, other: Accumulator, others: Slots
    ) -> Errors | None:
        """Adds results: what is in a stage stays there."""
        pairs = zip(slots.tolist(), others.tolist(), strict=True)
        return self.distinct.add(
            acc, [(slot, v) for slot, at in pairs for v in self._listed(entries(other[SEEN][at]))]
        )

    def result(self, acc: Accumulator, slots: Slots) -> pa.Array | Vector:
        return self.distinct.result(acc, slots)

    def _listed(self, pending: Iterable[Entry]) -> list[Any]:
        return in_table_order([value for value, _ in pending], hash_of(self.distinct.argument))
