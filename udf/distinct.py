"""DISTINCT: an aggregate in which every value counts once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, DataType, array
from udf.accumulators import Accumulator, Slots
from udf.vector import BoolArray

if TYPE_CHECKING:
    from udf.aggregates import Aggregate


def stored_type(t: DataType) -> DataType:
    """The type in which state holds values of `t`: dates and times as integers, in their Arrow unit."""
    return BIGINT if pa.types.is_temporal(t.arrow) else t.plain


def storable(values: pa.Array) -> pa.Array:
    """Values as state holds them."""
    if not pa.types.is_temporal(values.type):
        return values
    return values.view(pa.int32() if values.type.bit_width == 32 else pa.int64()).cast(pa.int64())


def restored(values: pa.Array, t: DataType) -> pa.Array:
    """The reverse of `storable`."""
    if not pa.types.is_temporal(t.arrow):
        return values.cast(t.arrow)
    return values.cast(pa.int32() if t.arrow.bit_width == 32 else pa.int64()).view(t.arrow)


class _Seen(list[Any]):
    """A list that finds its values by hash; state holds it as a list, and it is made anew from one."""

    def __init__(self, values: Iterable[Any] = ()) -> None:
        super().__init__(values)
        self.keys = set(map(repr, self))

    def add(self, value: object) -> bool:
        """Whether the value is new."""
        key = repr(value)
        if key in self.keys:
            return False
        self.keys.add(key)
        self.append(value)
        return True


@dataclass(frozen=True)
class Distinct:
    """Every value counts once for the aggregate within."""

    inner: Aggregate
    argument: DataType
    retractable: bool = False

    @property
    def result_type(self) -> DataType:
        return self.inner.result_type

    @property
    def accumulators(self) -> tuple[tuple[str, DataType], ...]:
        return (*self.inner.accumulators, ("seen", array(stored_type(self.argument))))

    def update(self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray) -> None:
        if values is None:
            raise ValueError("DISTINCT has an argument")
        fresh = selected.copy()
        plain = storable(values).to_pylist()
        for i in np.flatnonzero(selected).tolist():
            fresh[i] = self._seen(acc, int(slots[i])).add(plain[i])
        self.inner.update(acc, slots, values, fresh)

    def _seen(self, acc: Accumulator, slot: int) -> _Seen:
        held = acc["seen"][slot]
        if not isinstance(held, _Seen):
            held = acc["seen"][slot] = _Seen(held or ())
            acc["seen?"][slot] = True
        return held

    def retract(self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray) -> None:
        raise NotImplementedError("aggregates of DISTINCT values keep no counts to retract from")

    def merge(self, acc: Accumulator, slots: Slots, other: Accumulator, others: Slots) -> None:
        pairs = [
            (slot, value)
            for slot, at in zip(slots.tolist(), others.tolist(), strict=True)
            for value in other["seen"][at] or ()
        ]
        held = pa.array([v for _, v in pairs], stored_type(self.argument).arrow)
        places = np.array([slot for slot, _ in pairs], np.int64)
        self.update(acc, places, restored(held, self.argument), np.ones(len(pairs), np.bool_))

    def result(self, acc: Accumulator, slots: Slots) -> pa.Array:
        found = self.inner.result(acc, slots)
        assert isinstance(found, pa.Array)
        return found
