"""Sums of floating-point numbers over moving frames.

As in Flink, rows leaving a frame are subtracted from the sum and new ones are added, so that
rounding errors, and a NaN, stay in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from parser.types import DOUBLE, Column, Root
from planner.logical import OverCall
from sqlengine.batch import IntArray
from sqlengine.operators.over.frames import Ordered
from sqlengine.state.columns import BoolArray, SlotColumn, validity
from sqlengine.state.table import KeyedTable

_SUM = DOUBLE.with_nullable(False)


class RunningSums:
    """The calls among `calls` that are such sums.

    State: a column of the table of keys for each, the sum of the key's last frame. With ROWS
    frames, the row before the first of the last frame must still be stored.
    """

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
        anew: BoolArray | None,
    ) -> dict[str, pa.Array]:
        """Returns the values by call; the caller marks the slots.

        `rows` are stored and new rows, `frames` the frame of each; `new` are the new ones, `keys`
        their slots, and `anew` those at which the key is as if it had no rows before.
        """
        begins = [False] * len(new) if anew is None else anew.tolist()
        values_of = {}
        low, high = frames
        for i, call in enumerate(self.calls):
            values = columns[call.arguments[0]]
            counts = np.concatenate([[0], np.cumsum(validity(values))])
            numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
            with np.errstate(all="ignore"):
                sums = list(
                    self._sums(
                        self._table.columns[_name(i)],
                        zip(keys.tolist(), new.tolist(), begins, strict=True),
                        rows.partition,
                        frames,
                        numbers,
                    )
                )
            not_empty = counts[high[new] + 1] > counts[low[new]]
            values_of[call.name] = pa.array(np.asarray(sums, numbers.dtype), mask=~not_empty)
        return values_of

    def _sums(
        self,
        last_sums: SlotColumn,
        new: Iterable[tuple[int, int, bool]],
        starts: IntArray,
        frames: tuple[IntArray, IntArray],
        numbers: np.ndarray[tuple[int], np.dtype[np.floating]],
    ) -> Iterator[float]:
        """Yields the sum of each new row's frame, computed step by step in the precision of the
        type."""
        low, high = frames
        last, total, begin, end = -1, numbers.dtype.type(0), 0, 0
        for slot, at, anew in new:
            # A new key: its sum is that of its last frame, whose rows before the new one are still
            # stored.
            if slot != last:
                last, total, end = slot, numbers.dtype.type(last_sums[slot]), at
                begin = int(low[at - 1]) if at > starts[at] else at
            if anew:
                total, begin, end = numbers.dtype.type(0), at, at
            # The order of subtractions and additions is Flink's: first the rows that leave, then
            # the new ones.
            while begin < low[at]:
                total, begin = total - numbers[begin], begin + 1
            while end <= high[at]:
                total, end = total + numbers[end], end + 1
            last_sums[slot] = total
            yield float(total)


def _name(i: int) -> str:
    return f"sum#{i}"
