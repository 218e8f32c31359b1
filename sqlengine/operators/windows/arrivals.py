"""Windows of processing time in parts: a row counts when it comes to where it is counted."""

from __future__ import annotations

import numpy as np

from planner.logical import AlignedWindow, WindowAggregate
from sqlengine.batch import Batch
from sqlengine.operators.windows.assign import timestamps
from sqlengine.operators.windows.times import clock_below, window_below
from sqlengine.state.columns import milliseconds


class Arrivals:
    """The rows of an aggregate of windows, on their way into it.

    Windows are given to rows before these go to the part that counts them. By the time they come
    there a window of processing time may be over, and its result told: then they count in the
    window that they would have got there, since by processing time no row is late and no window has
    two results."""

    def __init__(self, node: WindowAggregate) -> None:
        self._start, self._end, _ = node.window_columns
        self._sliced = node.shared is not None
        self._window = window_below(node.input)
        self._clock = clock_below(node.input)

    def now(self, batch: Batch) -> Batch:
        """The rows, in windows that are not over."""
        window = self._window
        if not isinstance(window, AlignedWindow) or not self._clock.proctime or not batch.num_rows:
            return batch
        ends = milliseconds(batch.column(self._end))[0]
        now = int(self._clock.local(np.array([batch.proctime]))[0])
        over = ends <= now
        if not over.any():
            return batch
        if self._sliced:
            ends = np.where(over, window.slice_ends(np.full(len(ends), now)), ends)
            starts = window.slice_starts(ends)
        else:
            ends = np.where(over, window.later_ends(ends, now), ends)
            starts = window.starts(ends)
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name, bounds in ((self._start, starts), (self._end, ends)):
            if name in columns:
                columns[name] = timestamps(bounds, batch.schema.type(name).arrow)
        return batch.with_columns(batch.schema, [*columns.values()])
