"""BITMAP_BUILD_AGG, BITMAP_AND_AGG, BITMAP_OR_AGG, BITMAP_XOR_AGG, and how many numbers their
bitmaps have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, BITMAP, DataType, Root
from udf.aggregates.accumulators import Accumulator, Aggregate, RetractableAggregate, Slots
from udf.aggregates.registry import Factory, define, refusal
from udf.aggregates.sorted_multiset import counted, entries, kept_type, merge_counts, shares
from udf.arrays.arrays import valid
from udf.numbers.bitmaps import read_bitmap, write_bitmap
from udf.vector import BoolArray

_COUNT = BIGINT.with_nullable(False)
_UNSIGNED = 1 << 32
# Whether a number that so many of so many bitmaps have is in the result.
Rule = Callable[[int, int], bool]


@dataclass(frozen=True)
class Bitmaps(RetractableAggregate):
    """An aggregate of bitmaps (or numbers, if `built`) that are not NULL: the numbers that `rule`
    admits, or how many there are. It counts each number, so that rows can be retracted. NULL if
    there are none."""

    built: bool
    rule: Rule
    cardinality: bool
    retractable: bool = True

    @property
    def result_type(self) -> DataType:
        return BIGINT if self.cardinality else BITMAP

    @property
    def accumulators(self) -> tuple[tuple[str, DataType], ...]:
        return (("values", kept_type(BIGINT)), ("count", _COUNT))

    def _change(
        self,
        acc: Accumulator,
        slots: Slots,
        values: pa.Array | None,
        selected: BoolArray,
        sign: int,
    ) -> None:
        if values is None:
            raise ValueError("an aggregate of bitmaps has an argument")
        keep = selected & valid(values, len(values))
        np.add.at(acc["count"], slots[keep], sign)
        for slot, value, _, count in shares(slots, values, keep):
            counts = counted(acc, "values", slot)
            for number in self._numbers(value):
                counts.add(number, sign * count)

    def _numbers(self, value: object) -> Iterable[int]:
        return (value % _UNSIGNED,) if isinstance(value, int) else read_bitmap(str(value))

    def merge(self, acc: Accumulator, slots: Slots, other: Accumulator, others: Slots) -> None:
        acc["count"][slots] += other["count"][others]
        merge_counts(acc, "values", slots, other, others)

    def result(self, acc: Accumulator, slots: Slots) -> pa.Array:
        results = [self._result(acc, slot) for slot in slots.tolist()]
        if self.cardinality:
            return pa.array([None if f is None else len(f) for f in results], pa.int64())
        return pa.array([None if f is None else write_bitmap(f) for f in results], pa.string())

    def _result(self, acc: Accumulator, slot: int) -> list[int] | None:
        total = int(acc["count"][slot])
        if not total:
            return None
        return [number for number, count in entries(acc["values"][slot]) if self.rule(count, total)]


def _factory(name: str, rule: Rule, *, cardinality: bool) -> Factory:
    built = name.startswith("BITMAP_BUILD")
    wanted = Root.INT if built else Root.BITMAP

    def bind(types: Sequence[DataType], retract: bool) -> Aggregate:
        if len(types) != 1 or types[0].root is not wanted:
            raise refusal(name, types, f"a value of type {wanted.value} expected")
        return Bitmaps(built, rule, cardinality)

    return bind


_RULES: dict[str, tuple[Rule, str]] = {
    "BITMAP_BUILD": (
        lambda count, total: count > 0,
        "(number): the numbers, which are INT and read as unsigned, as a BITMAP",
    ),
    "BITMAP_AND": (
        lambda count, total: count == total,
        "(bitmap): the numbers that all bitmaps have",
    ),
    "BITMAP_OR": (
        lambda count, total: count > 0,
        "(bitmap): the numbers that one of the bitmaps has",
    ),
    "BITMAP_XOR": (
        lambda count, total: count % 2 == 1,
        "(bitmap): the numbers that an odd number of the bitmaps have",
    ),
}
for _name, (_rule, _text) in _RULES.items():
    define(
        f"{_name}_AGG",
        factory=_factory(f"{_name}_AGG", _rule, cardinality=False),
        doc=f"{_name}_AGG{_text}; NULL if there is nothing.",
    )
    define(
        f"{_name}_CARDINALITY_AGG",
        factory=_factory(f"{_name}_CARDINALITY_AGG", _rule, cardinality=True),
        doc=(
            f"{_name}_CARDINALITY_AGG{_text.replace(': ', ': how many there are of ')}; NULL if"
            " there is nothing."
        ),
    )
