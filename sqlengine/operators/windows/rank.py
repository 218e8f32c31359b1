"""The first rows of each window and partition, once the window is over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from planner.logical import WindowRank
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import Context, Output
from sqlengine.operators.late_rows import LateGate
from sqlengine.operators.ranks.ordering import order
from sqlengine.operators.windows.rows import WindowRows
from sqlengine.operators.windows.times import clock_below
from sqlengine.state.chains import distinct_keys

# Rows that can be among the first no more are dropped when there are so many, and twice as many as
# after the last time.
_SMALLEST = 4096


class WindowRankOperator:
    """Its rows (all +I) are ordered by the end of the window, then by the arrival of the partition,
    then by rank. Of rows that are equal in the order the first counts; of the last one by time, the
    last."""

    def __init__(self, node: WindowRank, owner: str = "") -> None:
        self._node = node
        self._clock = clock_below(node.input)
        self._rows = WindowRows(
            node.input.schema, node.partition, node.bounds[1], self._clock, LateGate(node, owner)
        )
        self._last_first = node.deduplicates and node.order[0].descending
        self._bound = _SMALLEST

    def open(self, context: Context) -> None:
        self._rows.open(context, "rows")

    def process(self, port: int, batch: Batch) -> Output:
        output: Output = []
        if batch.num_rows:
            self._rows.add(batch, self._clock.before(batch), output)
        due = self._rows.due(self._clock.now(batch))
        if len(due):
            return [*output, (0, self._fire(batch, due))]
        self._prune()
        return [*output, (0, batch.tick(self._node.schema))]

    def timer(self) -> int | None:
        return self._clock.timer(self._rows.earliest)

    def close(self) -> None: ...

    def _fire(self, batch: Batch, due: IntArray) -> Batch:
        slots, ranks = self._ranked(due)
        wanted = (ranks >= self._node.start) & (ranks <= self._node.end)
        slots, ranks = slots[wanted], ranks[wanted]
        schema = self._node.schema
        columns = [self._rows.column(n, slots) for n in self._node.input.schema.names]
        if self._node.rank_name is not None:
            columns.append(pa.array(ranks))
        fired = batch.result(schema, columns, len(slots))
        if not self._clock.proctime:
            fired = replace(fired, row_watermarks=batch.watermarks_before(self._rows.fires(slots)))
        self._rows.table.remove(due)
        return fired

    def _ranked(self, slots: IntArray) -> tuple[IntArray, IntArray]:
        """The slots, which are in order, by partition and then by rank; and the ranks."""
        schema, partition = self._node.input.schema, self._node.partition
        keys = [self._rows.column(n, slots) for n in partition]
        codes, firsts = distinct_keys([schema.type(n) for n in partition], keys, len(slots))
        arrivals = np.arange(len(slots))
        columns = [self._rows.column(k.column, slots) for k in self._node.order]
        at = order(self._node.order, columns, codes, -arrivals if self._last_first else arrivals)
        starts = np.searchsorted(codes[at], np.arange(len(firsts)))
        return slots[at], np.arange(len(at)) - starts[codes[at]] + 1

    def _prune(self) -> None:
        table = self._rows.table
        if len(table) < self._bound:
            return
        slots, ranks = self._ranked(table.in_order(table.live()))
        table.remove(slots[ranks > self._node.end])
        self._bound = max(_SMALLEST, 2 * len(table))
