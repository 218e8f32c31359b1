"""Periodic watermarks: `pipeline.auto-watermark-interval`."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, INT, Schema
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK, IntArray
from sqlengine.operators.base import Context
from sqlengine.state.table import KeyedTable

# As in Flink, no watermark is emitted until it is after the beginning of 1970.
BEGINNING: Final = 0

PACE: Final = "pace"  # the name of the table
_NUMBER = BIGINT.with_nullable(False)
_KEY = Schema.of(id=INT)
_VALUES = Schema.of(told=_NUMBER, reached=_NUMBER, since=_NUMBER)


class WatermarkPace:
    """Limits how often the watermark advances.

    As in Flink a watermark is emitted at once if it is more than the interval ahead of the last one
    emitted, and otherwise after the interval. State: table `pace`, one row: the watermark emitted
    (`told`), the watermark reached (ms), and the processing time (ms) since which it waits.
    """

    def __init__(self, context: Context, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._table: KeyedTable = context.table(PACE, _KEY, _VALUES, None)
        slots, is_new = self._table.slots_for([pa.array([0], pa.int32())], 1)
        self._slot = int(slots[0])
        if is_new[0]:
            self._write(BEGINNING, BEGINNING, 0)

    def advance(self, before: IntArray, after: int, now: int) -> tuple[int, IntArray, int]:
        """Takes the watermark before each row and after the last; returns those emitted before the
        batch, before each row, after the last."""
        emitted, reached, since = self._read()
        first = emitted
        if (due := self.timer()) is not None and due <= now:
            emitted = reached
        series = np.append(before, after)
        paced = np.empty_like(series)
        at = 0
        # The series ascends: each step covers the rows up to the next jump beyond the interval.
        while at < len(series):
            limit = min(emitted + self._interval_ms, MAX_WATERMARK)
            end = at + int(np.searchsorted(series[at:], limit, side="right"))
            paced[at:end] = emitted
            if end < len(series):
                emitted = int(series[end])
            at = end
        waited = reached > emitted == first
        self._write(emitted, max(reached, after), since if waited else now)
        paced[paced == BEGINNING] = MIN_WATERMARK
        return first if first > BEGINNING else MIN_WATERMARK, paced[:-1], int(paced[-1])

    @property
    def emitted(self) -> int:
        """The watermark (ms) that was emitted last."""
        emitted = self._read()[0]
        return emitted if emitted > BEGINNING else MIN_WATERMARK

    def timer(self) -> int | None:
        """Returns the processing time (ms) at which the waiting watermark is emitted; None where
        none waits."""
        emitted, reached, since = self._read()
        return since + self._interval_ms if reached > emitted else None

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
