"""Deduplication on row time that keeps the first row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, Schema
from planner.logical import Rank
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import NO_TICK, Context, Output, Rest, expiry
from sqlengine.operators.late_rows import BEHIND, LateGate
from sqlengine.operators.ranks.top_n import NUMBER, TOUCHED
from sqlengine.state.columns import milliseconds
from sqlengine.state.keys import batch_keys
from sqlengine.state.table import KeyedTable

# The row time of a key's row; NULL once it was emitted, after which the key emits nothing more.
_TIME = "#time"


class FirstRowOperator:
    """Emits for each key the row with the least row time, of equal ones the first to arrive.

    As Flink's StreamExecDeduplicate on row time, first row. The row is emitted once the watermark
    reaches its time; rows behind the watermark are dropped (`late_rows`), so that it is never
    retracted. State: table `rows`, key -> `#time` (ms), the other columns, `#touched` with a TTL.
    Timers: `#time`.
    """

    def __init__(self, node: Rank) -> None:
        self._node = node
        self._late = LateGate(node, reason=BEHIND)
        self._time = node.order[0].column
        self._rest = tuple(n for n in node.input.schema.names if n not in node.partition)

    def open(self, context: Context) -> None:
        self._late.open(context)
        schema = self._node.input.schema
        rest = (Column(c.name, c.type.with_nullable(True)) for c in schema.select(self._rest))
        touched = (Column(TOUCHED, NUMBER),) if self._node.ttl_ms else ()
        values = Schema((Column(_TIME, BIGINT), *touched, *rest))
        self._table: KeyedTable = context.table(
            "rows", schema.select(self._node.partition), values, self._node.partition
        )

    def process(self, port: int, batch: Batch) -> Output:
        if self._node.ttl_ms:
            self._table.remove(self._table.due(TOUCHED, batch.proctime - self._node.ttl_ms))
        output: Output = []
        reached = self._store(batch, output) if batch.num_rows else np.empty(0, np.int64)
        due = self._table.due(_TIME, batch.watermark)
        if not len(due):
            return [*output, (0, batch.tick(self._node.schema))]
        return [*output, (0, self._fire(batch, self._table.in_order(due, _TIME), reached))]

    def rest(self) -> Rest:
        first = self._table.earliest(_TIME)
        watermark = NO_TICK.watermark if first is None else first
        return Rest(watermark, expiry(self._table, TOUCHED, self._node.ttl_ms).proctime)

    def close(self) -> None: ...

    def _store(self, batch: Batch, output: Output) -> IntArray:
        """Stores the first rows; returns the slots of those whose time equals the watermark at
        their arrival.

        In Flink these are emitted with the next watermark, so they follow the present one.
        """
        times, valid = milliseconds(batch.column(self._time))
        good = valid & (times >= batch.watermarks())
        if not good.all():
            self._late.drop(batch, np.flatnonzero(~good), output)
            batch, times = batch.take(np.flatnonzero(good)), times[good]
        table = self._table
        slots, is_new = table.slots_for(batch_keys(batch, self._node.partition), batch.num_rows)
        rows = _earliest(slots, times)
        at = slots[rows]
        # A new slot has no time yet; one whose time is NULL has emitted its row, and takes no
        # other.
        new = np.isin(at, slots[is_new])
        not_emitted = table.columns[_TIME + "?"][at].astype(np.bool_)
        better = rows[
            new | (not_emitted & (times[rows] < table.columns[_TIME][at].astype(np.int64)))
        ]
        index = pa.array(better)
        table.write(slots[better], {n: batch.column(n).take(index) for n in self._rest})
        table.write(slots[better], {_TIME: times[better]})
        self._touch(batch, slots[better])
        reached: IntArray = slots[better[times[better] == batch.watermarks()[better]]]
        return reached

    def _touch(self, batch: Batch, slots: IntArray) -> None:
        if self._node.ttl_ms:
            self._table.columns[TOUCHED][slots] = batch.proctime
        self._table.mark(slots)

    def _fire(self, batch: Batch, slots: IntArray, reached: IntArray) -> Batch:
        table = self._table
        # One millisecond later: that places these rows behind the watermark that equals their time.
        instants = table.columns[_TIME][slots].astype(np.int64) + np.isin(slots, reached)
        in_order = np.argsort(instants, kind="stable")
        slots, instants = slots[in_order], instants[in_order]
        columns = {n: table.array(n, slots) for n in self._node.schema.names}
        # The key stays, without its row, so that later rows of the key are recognised.
        table.write(
            slots, {n: pa.nulls(len(slots), c.type) for n, c in columns.items() if n in self._rest}
        )
        table.write(slots, {_TIME: pa.nulls(len(slots), pa.int64())})
        self._touch(batch, slots)
        tick = batch.tick(self._node.schema)
        return replace(
            tick,
            columns=tuple(columns.values()),
            num_rows=len(slots),
            row_watermarks=batch.watermarks_before(instants),
        )


def _earliest(slots: IntArray, times: IntArray) -> IntArray:
    """Returns the row with the least time of each slot, of equal ones the first."""
    ordered = np.lexsort([times, slots])
    first = np.ones(len(ordered), np.bool_)
    first[1:] = slots[ordered][1:] != slots[ordered][:-1]
    rows: IntArray = ordered[first]
    return rows
