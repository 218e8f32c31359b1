"""Processing-time windows behind a shuffle: rows count in the window of their arrival."""

from __future__ import annotations

import numpy as np

from planner.logical import AlignedWindow, WindowAggregate
from sqlengine.batch import Batch
from sqlengine.operators.windows.assign import timestamps
from sqlengine.operators.windows.times import clock_below, window_below
from sqlengine.state.columns import milliseconds


class WindowReassigner:
    """Reassigns rows of an aggregate whose processing-time window has fired already.

    Windows are assigned before the exchange. When a row arrives at the subtask that aggregates it,
    its window may have fired: the row then counts in the present window, since on processing time
    no row is late, and no window has two results.
    """

    def __init__(self, node: WindowAggregate) -> None:
        self._start, self._end, _ = node.window_columns
        self._sliced = node.shared is not None
        self._window = window_below(node.input)
        self._clock = clock_below(node.input)

    def reassign(self, batch: Batch) -> Batch:
        """Returns the rows, in windows that have not fired."""
        window = self._window
        if not isinstance(window, AlignedWindow) or not self._clock.proctime or not batch.num_rows:
            return batch
        if window.lengths_in:  # those of members of a family: there is no exchange
            return batch
        ends = milliseconds(batch.column(self._end))[0]
        now = int(self._clock.local(np.array([batch.proctime]))[0])
        fired = ends <= now
        if not fired.any():
            return batch
        if self._sliced:
            ends = np.where(fired, window.slice_ends(np.full(len(ends), now)), ends)
            starts = window.slice_starts(ends)
        else:
            ends = np.where(fired, window.later_ends(ends, now), ends)
            starts = window.starts(ends)
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name, bounds in ((self._start, starts), (self._end, ends)):
            if name in columns:
                columns[name] = timestamps(bounds, batch.schema.type(name).arrow)
        return batch.with_columns(batch.schema, [*columns.values()])
