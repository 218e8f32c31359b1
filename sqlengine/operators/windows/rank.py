"""Window Top-N and window deduplication."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from planner.logical import WindowRank
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import Context, Output, Stream
from sqlengine.operators.bounded import SLICE_ROWS, in_slices
from sqlengine.operators.firing_steps import FiringSteps
from sqlengine.operators.late_rows import LateGate
from sqlengine.operators.ranks.ordering import order
from sqlengine.operators.windows.rows import FIRES, WindowRows
from sqlengine.operators.windows.times import clock_below
from sqlengine.state.chains import distinct_keys

# Rows behind the last wanted rank are removed when there are so many rows, and twice as many as
# after the last removal.
_SMALLEST = 4096


class WindowRankOperator:
    """Emits the first rows of each window and partition when the window fires.

    As Flink's StreamExecWindowRank and StreamExecWindowDeduplicate. The output (all +I) is ordered
    by the end of the window, then by the arrival of the partition, then by rank. Of rows that are
    equal in the order, the first to arrive counts; when the last row by time is wanted, the last.
    Late rows are dropped. State: `WindowRows`. Timers: the end of the windows.
    """

    def __init__(self, node: WindowRank) -> None:
        self._node = node
        self._clock = clock_below(node.input)
        self._rows = WindowRows(
            node.input.schema, node.partition, node.bounds[1], self._clock, LateGate(node)
        )
        self._last_first = node.deduplicates and node.order[0].descending
        self._bound = _SMALLEST
        self.steps = FiringSteps(proctime=self._clock.proctime)

    def open(self, context: Context) -> None:
        self._rows.open(context, "rows")
        self.steps.open((self._rows.table, FIRES))

    def process(self, port: int, batch: Batch) -> Stream:
        output: Output = []
        batch = self.steps.begin(batch)
        if batch.num_rows:
            self._rows.add(batch, self._clock.before(batch), output)
        yield from output
        yield from self.steps.close(self._fire_due(batch), batch, self._node.schema)

    def timer(self) -> int | None:
        return self._clock.timer(self._rows.earliest)

    def close(self) -> None: ...

    def _fire_due(self, batch: Batch) -> Stream:
        """Fires the windows that are due, some at once, each as a whole."""
        due = self._rows.due(self._clock.now(batch))
        if not len(due):
            self._prune()
            return
        ends = np.append(np.flatnonzero(np.diff(self._rows.fires(due))) + 1, len(due))
        window = start = 0
        while window < len(ends) and self.steps.goes_on():
            most = max(window + 1, int(np.searchsorted(ends, start + SLICE_ROWS, "right")))
            rows = -(-(int(ends[most - 1]) - start) // (most - window))
            window += self.steps.spend(0, rows, most - window)
            end = int(ends[window - 1])
            yield from ((0, part) for part in in_slices(self._fire(batch, due[start:end])))
            start = end

    def _fire(self, batch: Batch, due: IntArray) -> Batch:
        slots, ranks = self._ranked(due)
        wanted = (ranks >= self._node.start) & (ranks <= self._ends(slots))
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
        """Returns the slots by partition, then by rank, and their ranks; the argument is in order
        of arrival."""
        schema, partition = self._node.input.schema, self._node.partition
        keys = [self._rows.column(n, slots) for n in partition]
        codes, firsts = distinct_keys([schema.type(n) for n in partition], keys, len(slots))
        arrivals = np.arange(len(slots))
        columns = [self._rows.column(k.column, slots) for k in self._node.order]
        at = order(self._node.order, columns, codes, -arrivals if self._last_first else arrivals)
        starts = np.searchsorted(codes[at], np.arange(len(firsts)))
        return slots[at], np.arange(len(at)) - starts[codes[at]] + 1

    def _ends(self, slots: IntArray) -> IntArray:
        """Returns the last wanted rank for each row."""
        if self._node.end_by is None:
            return np.broadcast_to(np.int64(self._node.end), len(slots))
        return self._rows.table.columns[self._node.end_by][slots].astype(np.int64)

    def _prune(self) -> None:
        table = self._rows.table
        if len(table) < self._bound:
            return
        slots, ranks = self._ranked(table.in_order(table.live()))
        table.remove(slots[ranks > self._ends(slots)])
        # Doubling spreads the cost of ranking all rows over the rows added since.
        self._bound = max(_SMALLEST, 2 * len(table))
