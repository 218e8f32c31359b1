"""Gives each row the window that it falls into."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import Root, Schema
from planner.logical import WindowAssign
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import Context, Output
from sqlengine.operators.zones import to_instants, to_local
from sqlengine.state.columns import milliseconds


class WindowAssignOperator:
    """Appends the window's columns to those that came. Rows without a time are in no window and dropped
    (`null_time_rows`). Windows of a TIMESTAMP_LTZ lie in the time of the window's zone: their bounds are what a clock
    there shows, their time is an instant."""

    def __init__(self, node: WindowAssign) -> None:
        self._node = node
        is_instant = node.schema.type(node.window.time_column).root is Root.TIMESTAMP_LTZ
        self._zone = node.window.zone if is_instant else "UTC"

    def open(self, context: Context) -> None:
        self._counters = context.counters

    def process(self, port: int, batch: Batch) -> Output:
        times, valid = milliseconds(batch.column(self._node.window.time_column))
        if not valid.all():
            self._counters["null_time_rows"] += int((~valid).sum())
            batch = replace(batch.take(np.flatnonzero(valid)), watermark=batch.watermark)
            times = times[valid]
        window = self._node.window
        local = to_local(times, self._zone)
        start = local - (local - window.offset_ms) % window.size_ms
        end = start + window.size_ms
        schema = self._schema(batch)
        added = zip(self._node.names, (start, end, to_instants(end - 1, self._zone)), strict=True)
        columns = [_timestamps(values, schema.type(name).arrow) for name, values in added]
        return [(0, batch.with_columns(schema, [*batch.columns, *columns]))]

    def close(self) -> None: ...

    def _schema(self, batch: Batch) -> Schema:
        return Schema((*batch.schema.columns, *self._node.schema.select(self._node.names).columns))


def _timestamps(milliseconds: IntArray, kind: pa.DataType) -> pa.Array:
    return pa.array(milliseconds).view(pa.timestamp("ms", kind.tz))
