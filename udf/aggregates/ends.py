"""FIRST_VALUE and LAST_VALUE, in the order in which rows come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parser.types import DataType
from udf.aggregates.accumulators import Accumulator, Aggregate, Slots, to_arrow_column, to_numpy
from udf.aggregates.collecting import Gather, one_value
from udf.aggregates.registry import Factory, define
from udf.aggregates.sorted_multiset import (
    ordered,
)
from udf.arrays.arrays import valid
from udf.vector import BoolArray


@dataclass(frozen=True)
class End:
    """FIRST_VALUE and LAST_VALUE of what is not NULL, in the order in which rows come."""

    result_type: DataType
    last: bool
    retractable: bool = False

    @property
    def accumulators(self) -> tuple[tuple[str, DataType], ...]:
        return (("value", self.result_type.plain),)

    def update(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> None:
        if values is None:
            raise ValueError("FIRST_VALUE and LAST_VALUE have an argument")
        keep = np.flatnonzero(selected & valid(values, len(values)))
        # Of several writes to one slot the last one stays.
        order = keep if self.last else keep[::-1]
        # FIRST_VALUE writes from the last row to the first, and only to slots that have no value
        # yet.
        order = order if self.last else order[~acc["value?"][slots[order]].astype(np.bool_)]
        values_in_order = to_numpy(values.take(pa.array(order)))
        acc["value"][slots[order]] = values_in_order
        acc["value?"][slots[order]] = True

    def retract(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> None:
        raise NotImplementedError("FIRST_VALUE and LAST_VALUE were not bound to take rows back")

    def merge(self, acc: Accumulator, slots: Slots, other: Accumulator, others: Slots) -> None:
        takes = other["value?"][others].astype(np.bool_)
        # The rows of `others` come behind those of `slots`.
        takes &= True if self.last else ~acc["value?"][slots].astype(np.bool_)
        acc["value"][slots[takes]] = other["value"][others[takes]]
        acc["value?"][slots[takes]] = True

    def result(self, acc: Accumulator, slots: Slots) -> pa.Array:
        return to_arrow_column(
            acc["value"][slots], acc["value?"][slots].astype(np.bool_), self.result_type
        )


@dataclass(frozen=True)
class RetractableEnd(Gather):
    """FIRST_VALUE and LAST_VALUE where values are taken back: of those that are left."""

    last: bool = False

    def _finished(self, acc: Accumulator, slot: int) -> object:
        values = ordered(acc, "values", slot)
        return values.last() if self.last else values.first()


def _end(name: str, *, last: bool) -> Factory:
    def bind(types: Sequence[DataType], retract: bool) -> Aggregate:
        t = one_value(name, types)
        return (
            RetractableEnd(t, t.plain, list, retractable=True, last=last)
            if retract
            else End(t, last)
        )

    return bind


define(
    "FIRST_VALUE",
    factory=_end("FIRST_VALUE", last=False),
    doc="FIRST_VALUE(value): the first value that is not NULL, in the order in which rows come.",
)
define(
    "LAST_VALUE",
    factory=_end("LAST_VALUE", last=True),
    doc="LAST_VALUE(value): the last value that is not NULL, in the order in which rows come.",
)
