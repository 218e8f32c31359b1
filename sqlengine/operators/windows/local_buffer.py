"""The time at which buffered values within a window enter its results (`udf.aggregates.buffered`).

Flink collects such values in the local aggregate before the exchange, and in the global one behind
it; where results depend on when these buffers are flushed, this file reproduces it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, INT, Schema
from planner.logical import Window
from sqlengine.batch import MIN_WATERMARK, Batch, IntArray
from sqlengine.operators.aggregates.accumulators import Accumulators
from sqlengine.operators.base import Context, Output
from sqlengine.state.columns import BoolArray
from sqlengine.state.table import KeyedTable

_NEVER = np.iinfo(np.int64).max
_NUMBER = BIGINT.with_nullable(False)
_KEY = Schema.of(id=INT)
# The end of the first window with values buffered before the exchange, and behind it; and the last
# watermark (all ms).
_VALUES = Schema.of(sent=_NUMBER, taken=_NUMBER, passed=_NUMBER)


@dataclass(frozen=True)
class Arrived:
    """All rows of a batch: when the window of each fires, the watermark before it, and the numbers
    of rows in time."""

    fires: IntArray
    before: IntArray
    in_time: IntArray


class LocalBuffer:
    """Accumulates rows through the two buffers of Flink's local and global window aggregates.

    When the watermark passes an end of `window`, each operator flushes its whole buffer if it has
    rows of a window that has ended (before the exchange these may be late rows). State: table
    `buffer`, one row, of no bucket.
    """

    def __init__(self, accumulators: Accumulators, fires: str, window: Window) -> None:
        self._accumulators, self._fires, self._window = accumulators, fires, window

    def open(self, context: Context, table: KeyedTable) -> None:
        self._table = table
        if self._accumulators.buffered:
            self._times: KeyedTable = context.table("buffer", _KEY, _VALUES, None)
            slots, is_new = self._times.slots_for([pa.array([0], pa.int32())], 1)
            self._slot = int(slots[0])
            if is_new[0]:
                self._write(sent=_NEVER, taken=_NEVER, passed=MIN_WATERMARK)

    def change(
        self, batch: Batch, slots: IntArray, back: BoolArray | None, rows: Arrived, output: Output
    ) -> None:
        """Accumulates `batch`, which are the rows in time."""
        if not self._accumulators.buffered:
            self._accumulators.change(batch, slots, back, output)
            return
        times = np.maximum.accumulate(np.concatenate([[self._read("passed")], rows.before]))
        # The rows before which the watermark passes a window end: the operators check there whether
        # to flush.
        checks = np.flatnonzero(np.diff(self._window.slice_numbers(times + 1)))
        start = 0
        for end in (*checks.tolist(), len(rows.before)):
            first, last = np.searchsorted(rows.in_time, [start, end]).tolist()
            if last > first:
                self._accumulators.change(
                    batch.slice(first, last - first), slots[first:last], None, output
                )
            self._write(sent=int(rows.fires[start:end].min(initial=self._read("sent"))))
            if end < len(rows.before):
                self.advance_to(int(rows.before[end]))
            start = end

    def advance_to(self, now: int) -> None:
        """Flushes the buffers as they are at the watermark `now`."""
        if not self._accumulators.buffered or now <= self._read("passed"):
            return
        times = np.array([self._read("passed"), now])
        before, after = self._window.slice_numbers(times + 1).tolist()
        self._write(passed=now)
        checks = after > before
        # First the buffer before the exchange, then the one behind it: what the first hands on may
        # belong to a window that the second flushes in the same step.
        if checks and self._read("sent") <= now:
            sent = self._flush_stage(0, self._table.live())
            fires = self._table.columns[self._fires][sent].astype(np.int64)
            self._write(sent=_NEVER, taken=int(fires.min(initial=self._read("taken"))))
        if checks and self._read("taken") <= now:
            self._flush_stage(1, self._table.live())
            self._write(taken=_NEVER)

    def flush(self, slots: IntArray) -> None:
        """Flushes the values buffered at slots whose results are needed now, since their windows
        fire by another clock."""
        for stage in (0, 1) if self._accumulators.buffered else ():
            self._flush_stage(stage, slots)

    def _flush_stage(self, stage: int, among: IntArray) -> IntArray:
        slots: IntArray = among[self._accumulators.has_pending(among, stage)]
        self._accumulators.hand_on(slots, stage)
        self._table.mark(slots)
        return slots

    def _read(self, name: str) -> int:
        return int(self._times.columns[name][self._slot])

    def _write(self, **values: int) -> None:
        for name, value in values.items():
            self._times.columns[name][self._slot] = value
        self._times.mark(np.array([self._slot]))
