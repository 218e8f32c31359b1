"""OVER aggregation of bounded input: any order, and frames that extend beyond the current row."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal, localcontext

import numpy as np
import pyarrow as pa

from parser.types import Schema
from planner.logical import Over, OverCall
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK, Batch
from sqlengine.operators.base import Context, Stream
from sqlengine.operators.bounded import in_slices
from sqlengine.operators.over.frames import (
    NUMBERING,
    SHARES,
    Ordered,
    aggregate,
    in_order,
    lag_or_lead,
    last_rows,
    number,
    relative_position,
)
from sqlengine.operators.ranks.ordering import codes
from sqlengine.state.columns import BoolArray, IntArray, milliseconds, validity
from sqlengine.state.rows import RowsTable
from udf.numbers.decimals import EXACT

# Whole or floating numbers, or Decimal objects.
NumberArray = np.ndarray[tuple[int], np.dtype[np.int64 | np.float32 | np.float64 | np.object_]]


class OverAtEndOperator:
    """Stores all rows, and emits them at the end of input, by partition and in order.

    As Flink's BatchExecOverAggregate. State: table `rows`, partition -> rows. No late rows.
    """

    def __init__(self, node: Over) -> None:
        self._node = node
        self._names = node.input.schema.names

    def open(self, context: Context) -> None:
        schema, by = self._node.input.schema, self._node.partition
        rest = schema.select(tuple(n for n in self._names if n not in by))
        self._rows = RowsTable(context, "rows", schema.select(by), Schema(()), rest, by)
        self._rest = rest.names

    def process(self, port: int, batch: Batch) -> Stream:
        if batch.num_rows:
            key = [batch.column(n) for n in self._node.partition]
            self._rows.put(key, [], [batch.column(n) for n in self._rest], batch.num_rows)
        if batch.watermark < MAX_WATERMARK or not len(self._rows):
            return [(0, batch.tick(self._node.schema))]
        return ((0, part) for part in in_slices(self._emit(batch)))

    def close(self) -> None: ...

    def _emit(self, batch: Batch) -> Batch:
        slots = self._rows.table.in_order(self._rows.table.live())
        groups = _renumber(
            self._rows.groups(self._rows.arrays(self._node.partition, slots), len(slots))
        )
        keys = self._rows.arrays([k.column for k in self._node.order], slots)
        by = [codes(k, c) for k, c in zip(self._node.order, keys, strict=True)]
        # lexsort takes its least significant key first: group, then the order columns, then the
        # arrival.
        at = np.lexsort([np.arange(len(slots)), *reversed(by), groups])
        rows = in_order(groups[at], [b[at] for b in by])
        low, high = self._frames(rows, [k.take(pa.array(at)) for k in keys])
        columns = dict(zip(self._names, self._rows.arrays(self._names, slots[at]), strict=True))
        values = [
            _value(c, rows, (low, high), [columns[a] for a in c.arguments])
            for c in self._node.calls
        ]
        self._rows.clear()
        tick = batch.tick(self._node.schema)
        # All rows come before any watermark: what reads them must not take one of them for late.
        before = np.full(len(at), MIN_WATERMARK)
        return replace(
            tick, columns=(*columns.values(), *values), num_rows=len(at), row_watermarks=before
        )

    def _frames(self, rows: Ordered, keys: list[pa.Array]) -> tuple[IntArray, IntArray]:
        """Returns the first and the last row of each row's frame."""
        frame, first, last = self._node.frame, rows.partition, last_rows(rows)
        at = np.arange(len(rows))
        if frame.is_rows:
            low = first if frame.preceding is None else at - frame.preceding
            high = last if frame.following is None else at + frame.following
        elif frame.preceding in (None, 0) and frame.following in (None, 0):
            low = first if frame.preceding is None else rows.first_peer
            high = last if frame.following is None else rows.last_peer
        else:
            low, high = self._ranges(rows, keys[0])
        # A frame that lies outside the partition becomes empty: its `high` is its `low` - 1.
        low = np.clip(low, first, last + 1)
        return low, np.clip(high, low - 1, last)

    def _ranges(self, rows: Ordered, key: pa.Array) -> tuple[IntArray, IntArray]:
        """Returns RANGE frames with offsets; the frame of a row with NULL are the rows with
        NULL."""
        scale = self._node.frame.scale
        values, valid = _numbers(key, scale)
        # Negated values ascend, so that one search serves both directions.
        values = -values if self._node.order[0].descending else values
        frame, ends = self._node.frame, last_rows(rows)
        low, high = rows.first_peer.copy(), rows.last_peer.copy()
        # Rows with NULL keep the frame of their peers; the others are searched among themselves,
        # and NULLs lie together at one end of the partition, so that `some` is one range.
        for start in np.unique(rows.partition).tolist():
            some = start + np.flatnonzero(valid[start : ends[start] + 1])
            if len(some):
                part, first = values[some], int(some[0])
                low[some] = first + _places(part, -(frame.preceding or 0), scale, bisect_left)
                high[some] = first + _places(part, frame.following or 0, scale, bisect_right) - 1
        return (
            rows.partition if frame.preceding is None else low,
            ends if frame.following is None else high,
        )


def _numbers(column: pa.Array, scale: int) -> tuple[NumberArray, BoolArray]:
    """Returns values as numbers, and True where they are not NULL.

    Times in ms; integers and DECIMAL in units of 10 to the power of -`scale`, as Python integers
    where they need be.
    """
    kind, valid = column.type, validity(column)
    if pa.types.is_temporal(kind):
        return milliseconds(column.cast(pa.timestamp("ms")) if pa.types.is_date(kind) else column)
    if pa.types.is_floating(kind) or (pa.types.is_integer(kind) and not scale):
        return column.fill_null(0).to_numpy(zero_copy_only=False), valid
    return np.array(
        [Decimal(v or 0).scaleb(scale, EXACT) for v in column.to_pylist()], object
    ), valid


def _places(values: NumberArray, distance: int, scale: int, find: Callable[..., int]) -> IntArray:
    """Returns the place of each value plus `distance` in the ordered `values`.

    `find` is `bisect_left` or `bisect_right`. For floating-point numbers differences are compared,
    since sums are rounded in another way.
    """
    by = distance / 10**scale if values.dtype.kind == "f" else distance
    if values.dtype.kind != "f" or not np.isfinite(values).all():
        with localcontext(EXACT):
            return np.searchsorted(values, values + by, "left" if find is bisect_left else "right")
    limit = np.float64(by)
    return np.array(
        [find(values, limit, key=lambda v, current=current: v - current) for current in values]
    )


def _renumber(groups: IntArray) -> IntArray:
    """Numbers the groups in order of first occurrence."""
    _, first, which = np.unique(groups, return_index=True, return_inverse=True)
    numbers: IntArray = np.argsort(np.argsort(first))[which]
    return numbers


def _value(
    call: OverCall, rows: Ordered, frame: tuple[IntArray, IntArray], values: list[pa.Array]
) -> pa.Array:
    if call.function in NUMBERING:
        values_of_call = number(call.function, rows)
    elif call.function in SHARES:
        values_of_call = relative_position(call, rows, frame[1] - frame[0] + 1)
    elif call.function in ("LAG", "LEAD"):
        values_of_call = lag_or_lead(call, rows, values)
    else:
        values_of_call = aggregate(call, values[0] if values else None, *frame)
    return values_of_call.cast(call.type.arrow)
