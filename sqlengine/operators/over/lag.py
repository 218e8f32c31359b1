"""LAG as an aggregate, for folds over ordered rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import BIGINT, DataType
from udf.aggregates.accumulators import Accumulator, Slots, to_arrow_column, to_numpy
from udf.arrays.arrays import valid
from udf.vector import BoolArray

_ROWS, _NUMBER = "rows", BIGINT.with_nullable(False)


@dataclass(frozen=True)
class Lag:
    """Keeps the last `offset` + 1 values, NULL included, latest first; its result is the oldest.

    With `has_default` its input is each value with the default of its row. The default is the
    result where there are too few rows, or where the result may not be NULL.
    """

    result_type: DataType
    offset: int
    has_default: bool = False
    retractable: bool = False

    @property
    def accumulators(self) -> tuple[tuple[str, DataType], ...]:
        kept = tuple((str(i), self.result_type.plain) for i in range(self.offset + 1))
        return (
            (*kept, ("default", self.result_type.plain), (_ROWS, _NUMBER))
            if self.has_default
            else kept
        )

    def update(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> None:
        assert values is not None
        if self.has_default:
            self._take_defaults(acc, slots, values.field(1))
            values = values.field(0)
        present = valid(values, len(values))
        for slot, value, is_present in zip(slots.tolist(), to_numpy(values), present, strict=True):
            # A shift register: from the oldest on, so that no value is overwritten before it moved.
            for i in range(self.offset, 0, -1):
                acc[f"{i}"][slot], acc[f"{i}?"][slot] = (
                    acc[f"{i - 1}"][slot],
                    acc[f"{i - 1}?"][slot],
                )
            acc["0"][slot], acc["0?"][slot] = value, is_present

    def retract(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> None:
        raise NotImplementedError("LAG is recomputed from the retracted row on")

    def merge(self, acc: Accumulator, slots: Slots, other: Accumulator, others: Slots) -> None:
        raise NotImplementedError("LAG is not mergeable")

    def result(self, acc: Accumulator, slots: Slots) -> pa.Array:
        oldest = self._column(acc, str(self.offset), slots)
        if not self.has_default:
            return oldest
        default = self._column(acc, "default", slots)
        if not self.result_type.nullable:
            return pc.coalesce(oldest, default)
        return pc.if_else(pa.array(acc[_ROWS][slots] > self.offset), oldest, default)

    def _column(self, acc: Accumulator, name: str, slots: Slots) -> pa.Array:
        return to_arrow_column(
            acc[name][slots], acc[name + "?"][slots].astype(bool), self.result_type
        )

    def _take_defaults(self, acc: Accumulator, slots: Slots, defaults: pa.Array) -> None:
        """Stores the default of the last row, and counts rows up to `offset` + 1.

        More rows make no difference to later results, so equal states stay equal.
        """
        defaults = defaults.cast(self.result_type.arrow)
        present = valid(defaults, len(defaults))
        acc["default"][slots], acc["default?"][slots] = to_numpy(defaults), present
        np.add.at(acc[_ROWS], slots, 1)
        np.minimum(acc[_ROWS], self.offset + 1, out=acc[_ROWS])
