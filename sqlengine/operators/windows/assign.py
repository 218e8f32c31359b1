"""Assigns windows to rows: the window table-valued functions TUMBLE, HOP, CUMULATE (FLIP-145)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import Schema
from planner.logical import AlignedWindow, WindowAssign
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import NO_TICK, Context, Rest, Stream
from sqlengine.operators.bounded import repeated
from sqlengine.operators.windows.times import WindowClock, windows_of
from sqlengine.state.columns import milliseconds


class WindowAssignOperator:
    """Appends the window columns to each row, once for each of its windows: HOP latest first,
    CUMULATE shortest first, in slices of few rows.

    As Flink's StreamExecWindowTableFunction. Stateless. Rows with NULL as their time are dropped
    (`null_time_rows`). Windows over TIMESTAMP_LTZ are aligned in the session time zone: their
    bounds are local times there, their window_time is an instant. On processing time, the time is
    that of the batch.
    """

    def __init__(self, node: WindowAssign) -> None:
        self._node = node
        self._clock = WindowClock(node.schema.type(node.window.time_column), node.window.zone)

    def open(self, context: Context) -> None:
        self._counters = context.counters

    def process(self, port: int, batch: Batch) -> Stream:
        batch, times = timed(batch, self._node.window.time_column, self._clock, self._counters)
        window = windows_of(self._node.window, batch)
        slices = window.slice_ends(self._clock.local(times))
        if self._node.sliced:
            return [(0, self._with_windows(batch, window.slice_starts(slices), slices))]
        if not window.may_overlap or not batch.num_rows:
            return [(0, self._with_windows(batch, window.starts(slices), slices))]
        return self._in_all_windows(batch, window, slices)

    def rest(self) -> Rest:
        return NO_TICK

    def close(self) -> None: ...

    def _in_all_windows(self, batch: Batch, windows: AlignedWindow, slices: IntArray) -> Stream:
        for part, rows, nth in repeated(batch, windows.window_counts(slices)):
            window = windows.at(rows)
            ends = window.window_ends(slices[rows], nth)
            yield 0, self._with_windows(part, window.starts(ends), ends)

    def _with_windows(self, batch: Batch, starts: IntArray, ends: IntArray) -> Batch:
        schema = self._schema(batch)
        added = zip(self._node.names, (starts, ends, self._clock.times(ends)), strict=True)
        columns = [timestamps(values, schema.type(name).arrow) for name, values in added]
        return batch.with_columns(schema, [*batch.columns, *columns])

    def _schema(self, batch: Batch) -> Schema:
        return Schema((*batch.schema.columns, *self._node.schema.select(self._node.names).columns))


def timed(
    batch: Batch, column: str, clock: WindowClock, counters: dict[str, int]
) -> tuple[Batch, IntArray]:
    """Returns the rows that have a time, and their times (ms); counts the others."""
    if clock.proctime:
        return batch, np.full(batch.num_rows, batch.proctime, np.int64)
    times, valid = milliseconds(batch.column(column))
    if valid.all():
        return batch, times
    counters["null_time_rows"] += int((~valid).sum())
    return replace(batch.take(np.flatnonzero(valid)), watermark=batch.watermark), times[valid]


def timestamps(milliseconds: IntArray, kind: pa.DataType) -> pa.Array:
    """Returns times in ms as a column of `kind`."""
    return pa.array(milliseconds).view(pa.timestamp("ms", kind.tz))
