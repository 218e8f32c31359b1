"""Aggregate functions over a keyed table: what they keep per key, and how rows change it, all in NumPy columns.

An accumulator is one array per column, indexed by slot: int64, float64, bool or object by the column's type, and for a
nullable column a bool array `name + '?'` that is True where the value is not NULL. New slots are zero and not valid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.errors import PlanError
from parser.types import BIGINT, DataType, Root, decimal
from udf.arrays import valid
from udf.decimals import EXACT, fit
from udf.vector import BoolArray

Slots: TypeAlias = npt.NDArray[np.int64]
Column: TypeAlias = npt.NDArray[np.generic]
Accumulator: TypeAlias = dict[str, Column]


class Aggregate(Protocol):
    """An aggregate function bound to its arguments' types.

    `accumulators` names the columns that it keeps per key, with their types. `update` adds rows: row i counts where
    `selected[i]` (FILTER, errors) and goes to `slots[i]`, which may repeat. `retract` takes rows back; only where
    `retractable`. `merge` adds the accumulators of `other` at `others` to those at `slots` (distinct). `result` gives
    one value per slot."""

    result_type: DataType
    accumulators: tuple[tuple[str, DataType], ...]
    retractable: bool

    def update(self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray) -> None: ...

    def retract(self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray) -> None: ...

    def merge(self, acc: Accumulator, slots: Slots, other: Accumulator, others: Slots) -> None: ...

    def result(self, acc: Accumulator, slots: Slots) -> pa.Array: ...


def numpy_type(t: DataType) -> npt.DTypeLike:
    """The element type of an accumulator column: int64 for integers, dates and times, float64, bool, else object."""
    kind = t.arrow
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        return np.int64
    if pa.types.is_floating(kind):
        return np.float64
    return np.bool_ if pa.types.is_boolean(kind) else np.object_


def empty_accumulator(aggregate: Aggregate, capacity: int) -> Accumulator:
    """Columns for `capacity` slots, as a keyed table makes them."""
    acc: Accumulator = {}
    for name, t in aggregate.accumulators:
        acc[name] = np.zeros(capacity, numpy_type(t)) if numpy_type(t) is not np.object_ else np.full(capacity, None)
        if t.nullable:
            acc[name + "?"] = np.zeros(capacity, np.bool_)
    return acc


def to_numpy(values: pa.Array) -> Column:
    """Values as accumulators hold them; what stands for NULL is 0, False or None."""
    kind = values.type
    if pa.types.is_temporal(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if pa.types.is_boolean(kind):
        return np.asarray(values.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        wide = np.float64 if pa.types.is_floating(values.type) else np.int64
        filled = values.fill_null(0) if values.null_count else values
        return np.asarray(filled.to_numpy(zero_copy_only=False), wide)
    result = np.empty(len(values), np.object_)
    result[:] = values.to_pylist()
    return result


def to_arrow_column(column: Column, present: BoolArray, t: DataType) -> pa.Array:
    """Accumulator values as a column of type `t`, NULL where not `present`; integers wrap to the type's width."""
    kind = t.arrow
    if column.dtype == np.object_:
        return pa.array([v if p else None for v, p in zip(column.tolist(), present.tolist(), strict=True)], kind)
    if pa.types.is_temporal(kind):
        storage = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(column.astype(storage.to_pandas_dtype()), storage, mask=~present).view(kind)
    with np.errstate(over="ignore"):
        return pa.array(column.astype(kind.to_pandas_dtype()), kind, mask=~present)


def _rows(values: pa.Array, slots: Slots, selected: BoolArray) -> tuple[Slots, pa.Array]:
    """The rows that count and are not NULL."""
    keep = selected & valid(values, len(values))
    return (slots, values) if keep.all() else (slots[keep], values.filter(pa.array(keep)))


@dataclass(frozen=True)
class Count:
    """COUNT(*) and COUNT(value): rows, or rows where the value is not NULL."""

    result_type: DataType = BIGINT.with_nullable(False)
    retractable: bool = True

    @property
    def accumulators(self) -> tuple[tuple[str, DataType], ...]:
        return (("count", BIGINT.with_nullable(False)),)

    def update(self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray) -> None:
        np.add.at(acc["count"], self._counted(slots, values, selected), 1)

    def retract(self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray) -> None:
        np.subtract.at(acc["count"], self._counted(slots, values, selected), 1)

    def _counted(self, slots: Slots, values: pa.Array | None, selected: BoolArray) -> Slots:
        return slots[selected if values is None else selected & valid(values, len(values))]

    def merge(self, acc: Accumulator, slots: Slots, other: Accumulator, others: Slots) -> None:
        acc["count"][slots] += other["count"][others]

    def result(self, acc: Accumulator, slots: Slots) -> pa.Array:
        return pa.array(acc["count"][slots], pa.int64())


@dataclass(frozen=True)
class Sum:
    """SUM and AVG: the sum of what is not NULL, how many there were; NULL if none. Integer sums wrap around in the
    width of the argument for SUM, in BIGINT for AVG, and averages of them are cut to integers."""

    result_type: DataType
    sum_type: DataType
    average: bool
    retractable: bool = True

    @property
    def accumulators(self) -> tuple[tuple[str, DataType], ...]:
        return (("sum", self.sum_type), ("count", BIGINT.with_nullable(False)))

    def update(self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray) -> None:
        self._change(acc, slots, values, selected, 1)

    def retract(self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray) -> None:
        self._change(acc, slots, values, selected, -1)

    def _change(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray, sign: int
    ) -> None:
        if values is None:
            raise ValueError("SUM and AVG have an argument")
        slots, values = _rows(values, slots, selected)
        added = to_numpy(values)
        if added.dtype == np.object_:
            _add_decimals(acc, slots, added, sign)
        else:
            np.add.at(acc["sum"], slots, added if sign > 0 else -added)
        np.add.at(acc["count"], slots, sign)
        acc["sum?"][slots] = acc["count"][slots] != 0

    def merge(self, acc: Accumulator, slots: Slots, other: Accumulator, others: Slots) -> None:
        added = other["sum"][others]
        if added.dtype == np.object_:
            present = other["sum?"][others].astype(np.bool_)
            _add_decimals(acc, slots[present], added[present], 1)
        else:
            acc["sum"][slots] += added
        acc["count"][slots] += other["count"][others]
        acc["sum?"][slots] = acc["count"][slots] != 0

    def result(self, acc: Accumulator, slots: Slots) -> pa.Array:
        sums, counts = acc["sum"][slots], acc["count"][slots].astype(np.int64)
        present = counts != 0
        if sums.dtype == np.object_:
            rows = zip(sums.tolist(), counts.tolist(), strict=True)
            return pa.array([self._decimal(s, c) if c else None for s, c in rows], self.result_type.arrow)
        if self.average:
            with np.errstate(all="ignore"):
                divisor = np.where(present, counts, 1)
                sums = sums / divisor if sums.dtype == np.float64 else _quotient(sums.astype(np.int64), divisor)
        return to_arrow_column(sums, present, self.result_type)

    def _decimal(self, total: Decimal, count: int) -> Decimal | None:
        return fit(EXACT.divide(total, Decimal(count)) if self.average else total, self.result_type)


def _quotient(numbers: Slots, divisor: Slots) -> Slots:
    return np.sign(numbers) * np.sign(divisor) * (np.abs(numbers) // np.abs(divisor))


def _add_decimals(acc: Accumulator, slots: Slots, values: Column, sign: int) -> None:
    total = acc["sum"]
    for slot, value in zip(slots.tolist(), values.tolist(), strict=True):
        total[slot] = EXACT.add(total[slot] or Decimal(0), value if sign > 0 else -value)


@dataclass(frozen=True)
class Extreme:
    """MIN and MAX of what is not NULL; NULL if there is nothing. What is retracted may have been the extreme: a caller
    that retracts keeps all values."""

    result_type: DataType
    greatest: bool
    retractable: bool = False

    @property
    def accumulators(self) -> tuple[tuple[str, DataType], ...]:
        return (("value", self.result_type),)

    def update(self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray) -> None:
        if values is None:
            raise ValueError("MIN and MAX have an argument")
        slots, values = _rows(values, slots, selected)
        self._offer(acc, slots, to_numpy(values))

    def retract(self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray) -> None:
        raise NotImplementedError("MIN and MAX keep no rows to retract from")

    def merge(self, acc: Accumulator, slots: Slots, other: Accumulator, others: Slots) -> None:
        present = other["value?"][others].astype(np.bool_)
        self._offer(acc, slots[present], other["value"][others][present])

    def _offer(self, acc: Accumulator, slots: Slots, values: Column) -> None:
        held, present = acc["value"], acc["value?"]
        if held.dtype == np.object_:
            self._offer_objects(held, present, slots, values)
            return
        fresh = ~present[slots].astype(np.bool_)
        held[slots[fresh]] = values[fresh]  # any first value will do: the extreme is taken over all below
        choose: np.ufunc = np.maximum if self.greatest else np.minimum
        choose.at(held, slots, values)
        present[slots] = True

    def _offer_objects(self, held: Column, present: Column, slots: Slots, values: Column) -> None:
        key = _text_order if self.result_type.is_string else _natural_order
        for slot, value in zip(slots.tolist(), values.tolist(), strict=True):
            if not present[slot] or (key(value) > key(held[slot])) is self.greatest and value != held[slot]:
                held[slot] = value
                present[slot] = True

    def result(self, acc: Accumulator, slots: Slots) -> pa.Array:
        return to_arrow_column(acc["value"][slots], acc["value?"][slots].astype(np.bool_), self.result_type)


def _text_order(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _natural_order(value: object) -> object:
    return value


Factory: TypeAlias = Callable[[Sequence[DataType]], Aggregate]


def _count(types: Sequence[DataType]) -> Aggregate:
    return Count()


def _sum(types: Sequence[DataType]) -> Aggregate:
    t = _one_number("SUM", types)
    result = decimal(38, t.scale) if t.root is Root.DECIMAL else t
    return Sum(result, result, average=False)


def _avg(types: Sequence[DataType]) -> Aggregate:
    t = _one_number("AVG", types)
    if t.root is Root.DECIMAL:
        return Sum(_average_type(t), decimal(38, t.scale), average=True)
    return Sum(t, BIGINT if t.is_integer else DataType(Root.DOUBLE), average=True)


def _average_type(t: DataType) -> DataType:
    return decimal(38, max(6, t.scale))


def _one_number(name: str, types: Sequence[DataType]) -> DataType:
    if len(types) != 1 or not types[0].is_numeric:
        raise _refusal(name, types, "a number expected")
    return types[0].plain


def _extreme(name: str, *, greatest: bool) -> Factory:
    def bind(types: Sequence[DataType]) -> Aggregate:
        if len(types) != 1 or types[0].children or types[0].root is Root.NULL:
            raise _refusal(name, types, "one value that can be ordered expected")
        return Extreme(types[0].plain, greatest)

    return bind


def _refusal(name: str, types: Sequence[DataType], detail: str) -> PlanError:
    return PlanError(f"cannot apply '{name}' to arguments ({', '.join(map(str, types))})", detail=detail)


_AGGREGATES: dict[str, Factory] = {
    "COUNT": _count,
    "SUM": _sum,
    "AVG": _avg,
    "MIN": _extreme("MIN", greatest=False),
    "MAX": _extreme("MAX", greatest=True),
}


def aggregate_names() -> list[str]:
    return sorted(_AGGREGATES)


def is_aggregate(name: str) -> bool:
    return name in _AGGREGATES


def bind_aggregate(name: str, types: Sequence[DataType], *, grouped: bool = True) -> Aggregate:
    """The aggregate `name` (upper case) for arguments of these types; no argument is COUNT(*). PlanError for types that
    it does not take. Without GROUP BY (`grouped` False) SUM and the others are NULL over no rows, whatever the type."""
    return _AGGREGATES[name](types)
