"""COUNT, SUM and AVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, DataType, Root, TimeAttribute, decimal
from udf.aggregates.accumulators import (
    Accumulator,
    Aggregate,
    Column,
    RetractableAggregate,
    Slots,
    quotient,
    rows_that_count,
    to_arrow_column,
    to_numpy,
)
from udf.aggregates.registry import define, refusal
from udf.arrays.arrays import valid
from udf.numbers.decimals import EXACT, fit
from udf.vector import BoolArray, Vector

_BIGINT = BIGINT.with_nullable(False)


@dataclass(frozen=True)
class Count:
    """COUNT(*) and COUNT(value): rows, or rows where the value is not NULL."""

    result_type: DataType = _BIGINT
    retractable: bool = True

    @property
    def accumulators(self) -> tuple[tuple[str, DataType], ...]:
        return (("count", _BIGINT),)

    def update(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> None:
        np.add.at(acc["count"], self._counted(slots, values, selected), 1)

    def retract(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> None:
        np.subtract.at(acc["count"], self._counted(slots, values, selected), 1)

    def _counted(self, slots: Slots, values: pa.Array | None, selected: BoolArray) -> Slots:
        return slots[selected if values is None else selected & valid(values, len(values))]

    def merge(self, acc: Accumulator, slots: Slots, other: Accumulator, others: Slots) -> None:
        acc["count"][slots] += other["count"][others]

    def result(self, acc: Accumulator, slots: Slots) -> pa.Array:
        return pa.array(acc["count"][slots], pa.int64())


@dataclass(frozen=True)
class Sum(RetractableAggregate):
    """SUM and AVG: the sum of what is not NULL, how many there were; NULL if none. Integer sums
    wrap around in the width of the argument for SUM, in BIGINT for AVG, and averages of them are
    cut to integers. As in Flink SUM is its first value and what comes to that, so that a sum of
    -0.0 alone is -0.0; AVG, and SUM with OVER (`from_zero`), add to 0. `summed`: made of a SUM, in
    the type of the argument, and a COUNT."""

    result_type: DataType
    sum_type: DataType
    average: bool
    retractable: bool = True
    from_zero: bool = False
    summed: bool = False

    @property
    def accumulators(self) -> tuple[tuple[str, DataType], ...]:
        # Results wrap around, sums do not.
        sum_type = BIGINT if self.sum_type.is_integer else self.sum_type
        return (("sum", sum_type), ("count", _BIGINT))

    def _change(
        self,
        acc: Accumulator,
        slots: Slots,
        values: pa.Array | None,
        selected: BoolArray,
        sign: int,
    ) -> None:
        if values is None:
            raise ValueError("SUM and AVG have an argument")
        slots, values = rows_that_count(values, slots, selected)
        added = to_numpy(values)
        if added.dtype == np.object_:
            self._add_decimals(acc, slots, added, sign)
            return
        if sign > 0:
            self._begin(acc, slots)
        _add(acc["sum"], slots, added if sign > 0 else -added, self.sum_type)
        np.add.at(acc["count"], slots, sign)
        acc["sum?"][slots] = True

    def merge(self, acc: Accumulator, slots: Slots, other: Accumulator, others: Slots) -> None:
        if acc["sum"].dtype == np.object_:
            self._merge_decimals(acc, slots, other, others)
            return
        begun = other["sum?"][others].astype(np.bool_)
        slots, others = slots[begun], others[begun]
        self._begin(acc, slots)
        _add(acc["sum"], slots, other["sum"][others], self.sum_type)
        acc["count"][slots] += other["count"][others]
        acc["sum?"][slots] = True

    def _begin(self, acc: Accumulator, slots: Slots) -> None:
        """-0.0 is what changes no number that is added to it."""
        if not self.from_zero and acc["sum"].dtype.kind == "f":
            acc["sum"][slots[~acc["sum?"][slots].astype(np.bool_)]] = -0.0

    def _add_decimals(self, acc: Accumulator, slots: Slots, values: Column, sign: int) -> None:
        for slot, value in zip(slots.tolist(), values.tolist(), strict=True):
            self._add_decimal(acc, slot, value if sign > 0 else -value, sign)

    def _merge_decimals(
        self, acc: Accumulator, slots: Slots, other: Accumulator, others: Slots
    ) -> None:
        for slot, at in zip(slots.tolist(), others.tolist(), strict=True):
            if other["count"][at] or other["sum?"][at]:
                self._add_decimal(
                    acc,
                    slot,
                    other["sum"][at] if other["sum?"][at] else None,
                    int(other["count"][at]),
                )

    def _add_decimal(self, acc: Accumulator, slot: int, value: Decimal | None, count: int) -> None:
        """A sum that left 38 digits (a count without a sum) has no value until nothing is left in
        it."""
        before, acc["count"][slot] = acc["count"][slot], acc["count"][slot] + count
        lost = value is None or (before and not acc["sum?"][slot])
        total = (
            None
            if lost or value is None
            else fit(EXACT.add(acc["sum"][slot] or Decimal(0), value), self.sum_type)
        )
        acc["sum"][slot], acc["sum?"][slot] = total, total is not None

    def result(self, acc: Accumulator, slots: Slots) -> pa.Array:
        sums, counts = acc["sum"][slots], acc["count"][slots].astype(np.int64)
        present = counts != 0
        if sums.dtype == np.object_:
            rows = zip(sums.tolist(), counts.tolist(), strict=True)
            averages = [None if s is None or not c else self._decimal(s, c) for s, c in rows]
            return pa.array(averages, self.result_type.arrow)
        if self.average:
            with np.errstate(all="ignore"):
                sums = self._averages(sums, np.where(present, counts, 1))
        return to_arrow_column(sums, present, self.result_type)

    def parts(self, acc: Accumulator, slots: Slots) -> list[Vector]:
        """Returns the columns that the result is made from, besides its sum."""
        return [Vector(pa.array(acc["count"][slots], pa.int64()))] if self.summed else []

    def _averages(self, sums: Column, divisor: Slots) -> Column:
        if self.summed:
            sums = sums.astype(self.result_type.arrow.to_pandas_dtype())
        exact = sums.dtype.kind != "f"
        averages: Column = (
            quotient(sums.astype(np.int64), divisor) if exact else sums / divisor.astype(sums.dtype)
        )
        return averages

    def _decimal(self, total: Decimal, count: int) -> Decimal | None:
        return fit(EXACT.divide(total, Decimal(count)) if self.average else total, self.result_type)


def _add(sums: Column, slots: Slots, added: Column, kind: DataType) -> None:
    """Adds to the sums one by one; those of FLOAT are rounded at each step."""
    if kind.root is not Root.FLOAT:
        np.add.at(sums, slots, added)
        return
    distinct, places = np.unique(slots, return_inverse=True)
    narrow = sums[distinct].astype(np.float32)
    with np.errstate(all="ignore"):
        np.add.at(narrow, places, added.astype(np.float32))
    sums[distinct] = narrow


def _count(types: Sequence[DataType], retract: bool) -> Aggregate:
    if len(types) > 1:
        raise refusal("COUNT", types, "one value or * expected")
    return Count()


def _sum(types: Sequence[DataType], retract: bool) -> Aggregate:
    t = _one_number("SUM", types)
    result = decimal(38, t.scale).with_nullable(t.nullable) if t.root is Root.DECIMAL else t
    # Only what it gives is narrow.
    return Sum(result, BIGINT if t.is_integer else result.plain, average=False)


def _avg(types: Sequence[DataType], retract: bool) -> Aggregate:
    t = _one_number("AVG", types)
    if t.root is Root.DECIMAL:
        result = decimal(38, max(6, t.scale)).with_nullable(t.nullable)
        return Sum(result, decimal(38, t.scale), average=True, from_zero=True)
    return Sum(t, BIGINT if t.is_integer else DataType(Root.DOUBLE), average=True, from_zero=True)


def _sum_summed(types: Sequence[DataType], retract: bool) -> Aggregate:
    bound = _sum(types, retract)
    assert isinstance(bound, Sum)
    return replace(bound, from_zero=True, summed=True)


def _avg_summed(types: Sequence[DataType], retract: bool) -> Aggregate:
    bound = _avg(types, retract)
    assert isinstance(bound, Sum)
    sum_type = bound.result_type.plain if bound.result_type.root is Root.FLOAT else bound.sum_type
    return replace(bound, sum_type=sum_type, summed=True)


def _avg_divided(types: Sequence[DataType], retract: bool) -> Aggregate:
    bound = _avg_summed(types, retract)
    assert isinstance(bound, Sum)
    return replace(bound, from_zero=False)


def _one_number(name: str, types: Sequence[DataType]) -> DataType:
    if len(types) != 1 or not types[0].is_numeric:
        raise refusal(name, types, "a number expected")
    return types[0].as_attribute(TimeAttribute.NONE)


define(
    "COUNT",
    factory=_count,
    doc="COUNT(*), COUNT([DISTINCT] value): the number of rows, or of those whose value is not"
    " NULL.",
)
define(
    "SUM",
    factory=_sum,
    doc="SUM([DISTINCT] number): the sum of what is not NULL, in the type of the argument; NULL if"
    " there is nothing.",
)
define(
    "AVG",
    factory=_avg,
    doc="AVG([DISTINCT] number): the mean of what is not NULL; that of integers is cut to an"
    " integer.",
)
# Variants that `planner.passes.share_sums` puts into plans.
define("SUM SUMMED", factory=_sum_summed)
define("AVG SUMMED", factory=_avg_summed)
define("AVG DIVIDED", factory=_avg_divided)
