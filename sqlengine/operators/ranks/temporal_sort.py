"""ORDER BY a time attribute, in streaming mode."""

from __future__ import annotations

from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import chain

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Schema
from planner.logical import TemporalSort
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK, Batch
from sqlengine.operators.base import Context, Output, Stream
from sqlengine.operators.firing_steps import FiringSteps
from sqlengine.operators.late_rows import BEHIND, LateGate
from sqlengine.operators.ranks.ordering import order
from sqlengine.state.columns import BoolArray, IntArray, milliseconds
from sqlengine.state.rows import RowsTable
from sqlengine.state.table import KeyedTable

_KEY = Schema.of(one=BIGINT)
_FIRED = Schema.of(fired=BIGINT.with_nullable(False))
_NONE: IntArray = np.empty(0, np.int64)


class TemporalSortOperator:
    """Emits rows in the order of their time, as Flink's RowTimeSortOperator and
    ProcTimeSortOperator.

    On row time, rows wait until the watermark has passed them. A row is dropped (`late_rows`) if a
    row of its time or later was emitted before. On processing time, rows are in order already, and
    are sorted by the other columns within a batch.

    State: table `rows`, number of arrival -> row; table `fired`, the time (ms) of the last row
    emitted. Timers: the row time.
    """

    def __init__(self, node: TemporalSort) -> None:
        self._node = node
        self._late = LateGate(node, reason=BEHIND)
        self._time = node.order[0].column
        self._by_event = node.input.schema.type(self._time).is_rowtime
        self.steps = FiringSteps(proctime=not self._by_event)

    def open(self, context: Context) -> None:
        self._late.open(context)
        if self._by_event:
            self._rows = RowsTable(context, "rows", Schema(()), Schema(()), self._node.schema, ())
            self._fired: KeyedTable = context.table("fired", _KEY, _FIRED, ())
            self.steps.open((self._rows.table, self._time))

    def process(self, port: int, batch: Batch) -> Stream:
        if not self._by_event:
            return [(0, self._sort_batch(batch))]
        return chain.from_iterable(map(self._step, self.steps.before(batch, self._node.schema)))

    def _step(self, batch: Batch) -> Stream:
        batch = self.steps.begin(batch)
        yield from self.steps.close(self._results(batch), batch, self._node.schema)

    def _results(self, batch: Batch) -> Stream:
        """Stores the rows of a batch, and emits those that are due."""
        output: Output = []
        behind = self._store(batch, output) if batch.num_rows else _NONE
        yield from output
        while len(slots := self._due(batch, behind)):
            yield 0, self._fire(batch, slots)
            # Rows behind the watermark are due by what is stored of them: the next step would fire
            # them, too, so none may be left to it.
            if not len(behind) or not self.steps.begins_again():
                break

    def close(self) -> None: ...

    def _sort_batch(self, batch: Batch) -> Batch:
        keys = self._node.order[1:]
        if batch.num_rows < 2 or not keys:
            return batch
        columns = [batch.column(k.column) for k in keys]
        rows = np.arange(batch.num_rows)
        return replace(
            batch.take(order(keys, columns, np.zeros_like(rows), rows)), watermark=batch.watermark
        )

    def _store(self, batch: Batch, output: Output) -> IntArray:
        """Stores the rows in time; returns the slots of those behind the watermark at the batch's
        end.

        As in Flink these are emitted with the next watermark.
        """
        slot = self._slot()
        times, valid = milliseconds(batch.column(self._time))
        watermarks = batch.watermarks()
        good = valid & self._in_time(times, batch, int(self._fired.columns["fired"][slot[0]]))
        if not good.all():
            self._late.drop(batch, np.flatnonzero(~good), output)
            batch, times, watermarks = (
                batch.take(np.flatnonzero(good)),
                times[good],
                watermarks[good],
            )
        columns = [batch.column(n) for n in self._node.schema.names]
        slots, _ = self._rows.put([], [], columns, batch.num_rows)
        behind: IntArray = slots[(times <= watermarks) & (watermarks == batch.watermark)]
        return behind

    def _in_time(self, times: IntArray, batch: Batch, fired: int) -> BoolArray:
        """Returns True for rows that arrive before a row of their time or later was emitted, as if
        each row were a batch."""
        stored = self._rows.table.columns[self._time][self._rows.table.live()].astype(np.int64)
        waiting = list(zip(_due(stored, batch.since).tolist(), stored.tolist(), strict=True))
        heapify(waiting)
        good = np.ones(len(times), np.bool_)
        due, watermarks = _due(times, batch.watermarks()).tolist(), batch.watermarks().tolist()
        for i, (time, emitted_at, watermark) in enumerate(
            zip(times.tolist(), due, watermarks, strict=True)
        ):
            # Rows are emitted before the row that brings their watermark is looked at: replay that
            # with a heap, first the rows stored, then those of this batch.
            while waiting and waiting[0][0] <= watermark:
                fired = max(fired, heappop(waiting)[1])
            if time > fired:
                heappush(waiting, (emitted_at, time))
            else:
                good[i] = False
        return good

    def _slot(self) -> IntArray:
        slots, new = self._fired.slots_for([pa.array([0], pa.int64())], 1)
        if new[0]:
            self._fired.columns["fired"][slots] = MIN_WATERMARK
            self._fired.mark(slots)
        return slots

    def _due(self, batch: Batch, behind: IntArray) -> IntArray:
        """Returns the rows that are due, as far as the step has room, but for those `behind` the
        watermark, which wait for the next one although they are due by their time."""
        most = self.steps.most
        upto = None if most is None else most + len(behind)
        due = self._rows.table.due(self._time, batch.watermark, upto)
        slots = due[~np.isin(due, behind)]
        if batch.watermark == batch.since or not len(slots):
            return _NONE
        times = self._rows.table.columns[self._time][slots].astype(np.int64)
        fired: IntArray = slots[times <= self.steps.room(np.sort(times), batch.watermark)]
        return fired

    def _fire(self, batch: Batch, slots: IntArray) -> Batch:
        arrivals = self._rows.table.arrivals[slots]
        columns = self._rows.arrays([k.column for k in self._node.order], slots)
        slots = slots[order(self._node.order, columns, np.zeros_like(slots), arrivals)]
        result = self._rows.arrays(self._node.schema.names, slots)
        last = self._slot()
        times, _ = milliseconds(result[self._node.schema.index(self._time)])
        # The time of the last emitted row is state: after a restart, rows up to it are still late.
        self._fired.columns["fired"][last] = times[-1]
        self._fired.mark(last)
        self._rows.drop(slots)
        tick = batch.tick(self._node.schema)
        return replace(
            tick,
            columns=tuple(result),
            num_rows=len(slots),
            row_watermarks=batch.watermarks_before(times),
        )


def _due(times: IntArray, reached: IntArray | int) -> IntArray:
    """Returns the watermark with which rows are emitted: a row behind the watermark waits for the
    next one."""
    due: IntArray = np.maximum(times, np.minimum(reached, MAX_WATERMARK - 1) + 1)
    return due
