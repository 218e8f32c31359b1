"""Sums of floating numbers over frames that move: as in Flink what leaves a frame is taken off the
sum and what comes is added to it, so that errors of rounding, and a NaN, stay in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from parser.types import DOUBLE, Column, Root
from planner.logical import OverCall
from sqlengine.batch import IntArray
from sqlengine.operators.over.frames import Ordered
from sqlengine.state.columns import SlotColumn, validity
from sqlengine.state.table import KeyedTable

_SUM = DOUBLE.with_nullable(False)


class RunningSums:
    """Those of `calls` that are such sums. The sum of a key's last frame is a column of the table
    of keys. Of a frame of rows the one before its first must still be there."""

    def __init__(self, calls: Sequence[OverCall]) -> None:
        self.calls = [
            c for c in calls if c.function == "SUM" and c.type.root in (Root.FLOAT, Root.DOUBLE)
        ]

    @property
    def columns(self) -> list[Column]:
        return [Column(_name(i), _SUM) for i in range(len(self.calls))]

    def attach(self, table: KeyedTable) -> None:
        self._table = table

    def after(
        self,
        keys: IntArray,
        rows: Ordered,
        frames: tuple[IntArray, IntArray],
        new: IntArray,
        columns: dict[str, pa.Array],
    ) -> dict[str, pa.Array]:
        """The values by call. `rows` are those kept and those that come, with the frame of each;
        `new` are the latter, and `keys` their slots. Marking is still to come."""
        found = {}
        low, high = frames
        for i, call in enumerate(self.calls):
            values = columns[call.arguments[0]]
            counts = np.concatenate([[0], np.cumsum(validity(values))])
            numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
            with np.errstate(all="ignore"):
                sums = list(
                    self._sums(
                        self._table.columns[_name(i)], keys, rows.partition, frames, new, numbers
                    )
                )
            there = counts[high[new] + 1] > counts[low[new]]
            found[call.name] = pa.array(np.asarray(sums, numbers.dtype), mask=~there)
        return found

    def _sums(
        self,
        held: SlotColumn,
        keys: IntArray,
        starts: IntArray,
        frames: tuple[IntArray, IntArray],
        new: IntArray,
        numbers: np.ndarray[tuple[int], np.dtype[np.floating]],
    ) -> Iterator[float]:
        """Step by step, in the width of the numbers."""
        low, high = frames
        last, total, left, come = -1, numbers.dtype.type(0), 0, 0
        for slot, at in zip(keys.tolist(), new.tolist(), strict=True):
            if slot != last:
                last, total, come = slot, numbers.dtype.type(held[slot]), at
                left = int(low[at - 1]) if at > starts[at] else at
            while left < low[at]:
                total, left = total - numbers[left], left + 1
            while come <= high[at]:
                total, come = total + numbers[come], come + 1
            held[slot] = total
            yield float(total)


def _name(i: int) -> str:
    return f"sum#{i}"
