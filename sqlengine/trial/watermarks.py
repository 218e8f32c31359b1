"""Finds rows that make others late: without them a rule would take what it has dropped."""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.catalog import Table
from sqlengine.batch import Batch, IntArray
from sqlengine.expressions import evaluate

NO_TIME: Final = -(2**63)


def event_times(table: Table, rows: Batch) -> IntArray | None:
    """Returns the time by which each row moves the watermark (ms); None for a table without one."""
    if table.watermark is None:
        return None
    name = table.watermark.column
    computed = dict(table.computed)
    if name in computed:
        column = evaluate(computed[name], rows).array(rows.num_rows)
    else:
        column = rows.column(name)
    times = column.cast("timestamp[ms]", safe=False).cast("int64").fill_null(NO_TIME)
    return np.asarray(times, np.int64)


def with_leaders(chosen: IntArray, times: IntArray) -> IntArray:
    """Returns the numbers of the chosen rows together with those that were ahead of them in time
    when they came, the first of those that were furthest.

    >>> with_leaders(np.array([0, 3]), np.array([5, 9, 9, 7])).tolist()
    [0, 1, 3]
    """
    reached = np.maximum.accumulate(times) if len(times) else times
    behind = chosen[chosen > 0]
    late = behind[times[behind] < reached[behind - 1]]
    leaders = np.searchsorted(reached, reached[late - 1], side="left")
    return np.union1d(chosen, leaders)
