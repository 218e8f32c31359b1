"""LAG over rows in order, as what it has come to behind a row."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from parser.types import DataType
from udf.accumulators import Accumulator, Slots, to_arrow_column, to_numpy
from udf.arrays import valid
from udf.vector import BoolArray


@dataclass(frozen=True)
class Lag:
    """An aggregate that keeps the last `offset` + 1 values, NULL too, the latest first; its result is the oldest."""

    result_type: DataType
    offset: int
    retractable: bool = False

    @property
    def accumulators(self) -> tuple[tuple[str, DataType], ...]:
        return tuple((str(i), self.result_type.plain) for i in range(self.offset + 1))

    def update(self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray) -> None:
        assert values is not None
        present = valid(values, len(values))
        for slot, value, there in zip(slots.tolist(), to_numpy(values), present, strict=True):
            for i in range(self.offset, 0, -1):
                acc[f"{i}"][slot], acc[f"{i}?"][slot] = acc[f"{i - 1}"][slot], acc[f"{i - 1}?"][slot]
            acc["0"][slot], acc["0?"][slot] = value, there

    def retract(self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray) -> None:
        raise NotImplementedError("LAG is computed anew from the row that is taken back")

    def merge(self, acc: Accumulator, slots: Slots, other: Accumulator, others: Slots) -> None:
        raise NotImplementedError("LAG is not computed in parts")

    def result(self, acc: Accumulator, slots: Slots) -> pa.Array:
        oldest = str(self.offset)
        return to_arrow_column(acc[oldest][slots], acc[oldest + "?"][slots].astype(bool), self.result_type)
