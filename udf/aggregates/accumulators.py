"""The contract of aggregate functions, and the columns of their accumulators.

An accumulator is one NumPy array per column, indexed by slot (one per key): int64, float64, bool or
object by the column's type, and for a nullable column a bool array `name + '?'` that is True where
the value is not NULL. New slots are zero and not valid."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.types import DataType
from udf.arrays.arrays import valid
from udf.vector import BoolArray, Errors, Vector

Slots: TypeAlias = npt.NDArray[np.int64]
# int64, float64, bool or object elements, by `numpy_type`.
Column: TypeAlias = npt.NDArray[Any]
Accumulator: TypeAlias = dict[str, Column]


class Aggregate(Protocol):
    """An aggregate function bound to its arguments' types.

    `accumulators` names the columns that it keeps per key, with their types. `update` adds rows:
    row i counts where `selected[i]` (FILTER, errors) and goes to `slots[i]`, which may repeat.
    `retract` takes rows back; only where `retractable`. Of equal rows the first is taken back, so
    that a batch may give its updates first and then all that it takes back. But for variances a row
    may even be taken back before it comes. `merge` adds the accumulators of `other` at `others` to
    those at `slots` (distinct). `result` gives one value per slot. An aggregate of a user may fail:
    for a row, a pair or a slot, which then counts for nothing."""

    @property
    def result_type(self) -> DataType: ...

    @property
    def accumulators(self) -> tuple[tuple[str, DataType], ...]: ...

    @property
    def retractable(self) -> bool: ...

    def update(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> Errors | None: ...

    def retract(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> Errors | None: ...

    def merge(
        self, acc: Accumulator, slots: Slots, other: Accumulator, others: Slots
    ) -> Errors | None: ...

    def result(self, acc: Accumulator, slots: Slots) -> pa.Array | Vector: ...


class RetractableAggregate(ABC):
    """An aggregate that takes a row back as it counts it, with the other sign."""

    def update(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> None:
        self._change(acc, slots, values, selected, 1)

    def retract(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> None:
        self._change(acc, slots, values, selected, -1)

    @abstractmethod
    def _change(
        self,
        acc: Accumulator,
        slots: Slots,
        values: pa.Array | None,
        selected: BoolArray,
        sign: int,
    ) -> None:
        """Counts the selected rows `sign` times."""


def numpy_type(t: DataType) -> npt.DTypeLike:
    """The element type of an accumulator column: int64 for integers, dates and times, float64,
    bool, else object."""
    kind = t.arrow
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        return np.int64
    if pa.types.is_floating(kind):
        return np.float64
    return np.bool_ if pa.types.is_boolean(kind) else np.object_


def to_numpy(values: pa.Array) -> Column:
    """Values as accumulators hold them; what stands for NULL is 0, False or None."""
    kind = values.type
    if pa.types.is_temporal(kind):
        # The same bits as an integer: no conversion, and no loss of the unit.
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if pa.types.is_boolean(kind):
        return np.asarray(values.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        wide = np.float64 if pa.types.is_floating(values.type) else np.int64
        filled = values.fill_null(0) if values.null_count else values
        return np.asarray(filled.to_numpy(zero_copy_only=False), wide)
    # Assigned by slice: np.array() would make a matrix of values that are lists.
    result = np.empty(len(values), np.object_)
    result[:] = values.to_pylist()
    return result


def to_arrow_column(column: Column, present: BoolArray, t: DataType) -> pa.Array:
    """Accumulator values as a column of type `t`, NULL where not `present`; integers wrap to the
    type's width."""
    kind = t.arrow
    if column.dtype == np.object_:
        return pa.array(
            [v if p else None for v, p in zip(column.tolist(), present.tolist(), strict=True)], kind
        )
    if pa.types.is_temporal(kind):
        storage = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(column.astype(storage.to_pandas_dtype()), storage, mask=~present).view(kind)
    # astype cuts the high bits, as Java's narrowing does.
    with np.errstate(over="ignore"):
        return pa.array(column.astype(kind.to_pandas_dtype()), kind, mask=~present)


def empty_accumulator(columns: tuple[tuple[str, DataType], ...], capacity: int) -> Accumulator:
    """Columns for `capacity` slots, as a keyed table makes them."""
    acc: Accumulator = {}
    for name, t in columns:
        acc[name] = (
            np.zeros(capacity, numpy_type(t))
            if numpy_type(t) is not np.object_
            else np.full(capacity, None)
        )
        if t.nullable:
            acc[name + "?"] = np.zeros(capacity, np.bool_)
    return acc


def quotient(numbers: Slots, divisor: Slots) -> Slots:
    """Integers divided and cut towards zero, as in Java."""
    floor = numbers // divisor  # rounds down
    # One up where the floor went below the truncated quotient: negative and not exact.
    cut: Slots = floor + ((floor < 0) & (floor * divisor != numbers))
    return cut


def rows_that_count(values: pa.Array, slots: Slots, selected: BoolArray) -> tuple[Slots, pa.Array]:
    """The rows that count and are not NULL."""
    keep = selected & valid(values, len(values))
    return (slots, values) if keep.all() else (slots[keep], values.filter(pa.array(keep)))
