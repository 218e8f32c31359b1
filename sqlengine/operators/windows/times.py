"""The clock of windows: when they fire (ms, on whole columns)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from parser.types import BIGINT, Column, DataType, Root
from planner.logical import AlignedWindow, LogicalPlan, Window, windows_below
from sqlengine.batch import MIN_WATERMARK, Batch, IntArray
from sqlengine.operators.base import NO_TICK, Rest
from sqlengine.operators.zones import timer_instants, to_instants, to_local
from sqlengine.state.columns import to_numpy
from sqlengine.state.table import KeyedTable

W = TypeVar("W", bound=Window)


class WindowClock:
    """The time by which windows fire: the watermark, or the processing time.

    Window bounds over TIMESTAMP_LTZ are local times in `zone`. All times are in ms.
    """

    def __init__(self, kind: DataType, zone: str) -> None:
        self.proctime = kind.is_proctime
        self.zone = zone if kind.root is Root.TIMESTAMP_LTZ else "UTC"

    def now(self, batch: Batch) -> int:
        """Returns the last instant that has passed after the batch."""
        return batch.proctime - 1 if self.proctime else batch.watermark

    def timer(self, *earliest: Callable[[], int | None]) -> int | None:
        """Returns the processing time at which the first window fires; None on row time. `earliest`
        return the instants."""
        waiting = [ask() for ask in earliest] if self.proctime else []
        return min((fires + 1 for fires in waiting if fires is not None), default=None)

    def rest(self, earliest: int | None) -> Rest:
        """Returns which tick fires a window at the instant `earliest`, None for none."""
        if earliest is None:
            return NO_TICK
        return Rest(proctime=earliest + 1) if self.proctime else Rest(earliest)

    def before(self, batch: Batch) -> IntArray:
        """Returns the last instant that had passed before each row; on processing time no row is
        late."""
        if self.proctime:
            return np.full(batch.num_rows, MIN_WATERMARK, np.int64)
        return batch.watermarks()

    def local(self, instants: IntArray) -> IntArray:
        """Returns the local times of instants."""
        return to_local(instants, self.zone)

    def fires(self, ends: IntArray) -> IntArray:
        """Returns the instants at which windows with these ends fire."""
        if self.zone == "UTC":
            # A window [start, end) is complete when the watermark reaches its last millisecond.
            return ends - 1
        # Zone arithmetic is slow, and a batch has few distinct ends.
        distinct, which = np.unique(ends, return_inverse=True)
        return timer_instants(distinct - 1, self.zone)[which]

    def times(self, ends: IntArray) -> IntArray:
        """Returns the last instants of windows with these ends (window_time)."""
        return to_instants(ends - 1, self.zone)


def clock_below(plan: LogicalPlan) -> WindowClock:
    """Returns the clock of the windows below a node."""
    window, kind = windows_below(plan)
    return WindowClock(kind, window.zone)


def window_below(plan: LogicalPlan) -> Window:
    """Returns the window whose columns the rows of `plan` carry."""
    return windows_below(plan)[0]


def is_aligned(plan: LogicalPlan) -> bool:
    """True if their ends tell these windows apart."""
    return isinstance(window_below(plan), AlignedWindow)


def windows_of(window: W, batch: Batch) -> W:
    """Returns the windows of rows, which may have lengths of their own."""
    if not window.lengths_in:
        return window
    columns = [(batch.schema.type(n), batch.column(n)) for n in window.lengths_in]
    return window.of_rows([to_numpy(*column)[0].astype(np.int64) for column in columns])


def windows_at(window: W, table: KeyedTable, slots: IntArray) -> W:
    """Returns the windows of rows of a table that keeps their lengths (`length_columns`)."""
    if not window.lengths_in:
        return window
    return window.of_rows([table.columns[n][slots].astype(np.int64) for n in window.lengths_in])


def length_columns(window: Window) -> tuple[Column, ...]:
    """Returns the columns of a table for the lengths of the windows of its rows."""
    return tuple(Column(name, BIGINT.with_nullable(False)) for name in window.lengths_in)
