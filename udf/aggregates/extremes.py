"""MIN and MAX."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parser.types import DataType, Root, TimeAttribute
from udf.aggregates.accumulators import (
    Accumulator,
    Aggregate,
    Column,
    Slots,
    rows_that_count,
    to_arrow_column,
    to_numpy,
)
from udf.aggregates.registry import Factory, define, refusal
from udf.aggregates.sorted_multiset import (
    Counted,
    Entry,
    SortedMultiset,
    change_counts,
    counted,
    kept_type,
    merge_counts,
    restored,
    stored_type,
)
from udf.vector import BoolArray


@dataclass(frozen=True)
class Extreme:
    """MIN and MAX of what is not NULL; NULL if there is nothing. As in Flink a NaN that comes first
    stays, and no other counts."""

    result_type: DataType
    greatest: bool
    retractable: bool = False

    @property
    def accumulators(self) -> tuple[tuple[str, DataType], ...]:
        return (("value", self.result_type.plain),)

    def update(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> None:
        if values is None:
            raise ValueError("MIN and MAX have an argument")
        slots, values = rows_that_count(values, slots, selected)
        self._offer(acc, slots, to_numpy(values))

    def retract(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> None:
        raise NotImplementedError("MIN and MAX were not bound to take rows back")

    def merge(self, acc: Accumulator, slots: Slots, other: Accumulator, others: Slots) -> None:
        present = other["value?"][others].astype(np.bool_)
        self._offer(acc, slots[present], other["value"][others][present])

    def _offer(self, acc: Accumulator, slots: Slots, values: Column) -> None:
        held, present = acc["value"], acc["value?"]
        if held.dtype == np.object_:
            self._offer_objects(held, present, slots, values)
            return
        # Slots without a value yet, from the last row to the first.
        fresh = np.flatnonzero(~present[slots].astype(np.bool_))[::-1]
        # Of several writes to one slot the last one stays: the first value.
        held[slots[fresh]] = values[fresh]
        present[slots] = True
        if held.dtype == np.float64:
            # A NaN that is held stays: nothing is offered to such slots.
            counts = ~np.isnan(held[slots])
            slots, values = slots[counts], values[counts]
            # fmax and fmin may give either zero, and the bits of -0.0 show in results.
            if (values == 0.0).any():
                self._offer_objects(held, present, slots, values)  # of two zeros the first stays
                return
        choose: np.ufunc = np.fmax if self.greatest else np.fmin
        # fmax and fmin skip NaN, as no comparison with it is true; `.at` applies repeated slots one
        # by one.
        choose.at(held, slots, values)

    def _offer_objects(self, held: Column, present: Column, slots: Slots, values: Column) -> None:
        for slot, value in zip(slots.tolist(), values.tolist(), strict=True):
            # The comparison is strict: of equal values the first stays.
            if present[slot] and not (value > held[slot] if self.greatest else value < held[slot]):
                continue
            held[slot], present[slot] = value, True

    def result(self, acc: Accumulator, slots: Slots) -> pa.Array:
        return to_arrow_column(
            acc["value"][slots], acc["value?"][slots].astype(np.bool_), self.result_type
        )


@dataclass(frozen=True)
class RetractableExtreme:
    """MIN and MAX where values are taken back: they keep all values with their numbers. NaN is the
    greatest, as in Flink."""

    result_type: DataType
    greatest: bool
    retractable: bool = True

    @property
    def accumulators(self) -> tuple[tuple[str, DataType], ...]:
        return (("values", kept_type(self.result_type)),)

    def update(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> None:
        change_counts(acc, "values", slots, values, selected, 1, self._ranked)

    def retract(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> None:
        change_counts(acc, "values", slots, values, selected, -1, self._ranked)

    def merge(self, acc: Accumulator, slots: Slots, other: Accumulator, others: Slots) -> None:
        merge_counts(acc, "values", slots, other, others, self._ranked)

    def result(self, acc: Accumulator, slots: Slots) -> pa.Array:
        best = [self._best(acc, slot) for slot in slots.tolist()]
        return restored(pa.array(best, stored_type(self.result_type).arrow), self.result_type)

    def _best(self, acc: Accumulator, slot: int) -> object:
        counts = counted(acc, "values", slot, self._ranked)
        assert isinstance(counts, SortedMultiset)
        return counts.best()

    def _ranked(self, ranked: Iterable[Entry]) -> Counted:
        return SortedMultiset(ranked, self.greatest)


def _extreme(name: str, *, greatest: bool) -> Factory:
    def bind(types: Sequence[DataType], retract: bool) -> Aggregate:
        if len(types) != 1 or types[0].children or types[0].is_binary or types[0].root is Root.NULL:
            raise refusal(name, types, "one value that can be ordered expected")
        t = types[0].as_attribute(TimeAttribute.NONE)
        return RetractableExtreme(t, greatest) if retract else Extreme(t, greatest)

    return bind


define(
    "MIN",
    factory=_extreme("MIN", greatest=False),
    doc="MIN(value): the smallest value that is not NULL.",
)
define(
    "MAX",
    factory=_extreme("MAX", greatest=True),
    doc="MAX(value): the greatest value that is not NULL.",
)
