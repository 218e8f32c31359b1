"""Watermarks that go on at intervals: `pipeline.auto-watermark-interval`."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, INT, Schema
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK, IntArray
from sqlengine.operators.base import Context
from sqlengine.state.table import KeyedTable

# As in Flink there is no watermark until it lies behind the beginning of 1970.
BEGINNING: Final = 0

PACE: Final = "pace"  # the name of the table
_NUMBER = BIGINT.with_nullable(False)
_KEY = Schema.of(id=INT)
_VALUES = Schema.of(told=_NUMBER, reached=_NUMBER, since=_NUMBER)


class WatermarkPace:
    """As in Flink a watermark goes on at once where it is more than the interval ahead of the one
    that went on before, and otherwise when it has waited for the interval. The state is one row:
    what was told, what was reached, and the processing time since which that waits."""

    def __init__(self, context: Context, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._table: KeyedTable = context.table(PACE, _KEY, _VALUES, None)
        slots, is_new = self._table.slots_for([pa.array([0], pa.int32())], 1)
        self._slot = int(slots[0])
        if is_new[0]:
            self._write(BEGINNING, BEGINNING, 0)

    def advance(self, before: IntArray, after: int, now: int) -> tuple[int, IntArray, int]:
        """Takes the watermark before each row, and after the last. Returns what was told before
        this, before each row, and after the last."""
        told, reached, since = self._read()
        first = told
        if (due := self.timer()) is not None and due <= now:
            told = reached
        series = np.append(before, after)
        paced = np.empty_like(series)
        at = 0
        while at < len(series):
            limit = min(told + self._interval_ms, MAX_WATERMARK)
            end = at + int(np.searchsorted(series[at:], limit, side="right"))
            paced[at:end] = told
            if end < len(series):
                told = int(series[end])
            at = end
        waited = reached > told == first
        self._write(told, max(reached, after), since if waited else now)
        paced[paced == BEGINNING] = MIN_WATERMARK
        return first if first > BEGINNING else MIN_WATERMARK, paced[:-1], int(paced[-1])

    def timer(self) -> int | None:
        """The processing time at which what waits goes on."""
        told, reached, since = self._read()
        return since + self._interval_ms if reached > told else None

    def _read(self) -> tuple[int, int, int]:
        columns = self._table.columns
        return (
            int(columns["told"][self._slot]),
            int(columns["reached"][self._slot]),
            int(columns["since"][self._slot]),
        )

    def _write(self, *values: int) -> None:
        for name, value in zip(_VALUES.names, values, strict=True):
            self._table.columns[name][self._slot] = value
        self._table.mark(np.array([self._slot]))
