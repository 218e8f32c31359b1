"""Process functions: users' code over the rows and timers of a key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, BYTES, Column, Schema
from planner.logical import ProcessFunction
from sqlengine.batch import NO_OFFSET, Batch, IntArray
from sqlengine.functions.process_wire import LOST_TIMERS, Shape
from sqlengine.functions.processes import Given, Memories, ProcessKernel
from sqlengine.operators.base import (
    ERROR_PORT,
    NO_TICK,
    Context,
    Output,
    Rest,
    Stream,
    expiry,
    min_rest,
)
from sqlengine.operators.dead_letters import dead_letters, letters
from sqlengine.operators.functions.process_requests import request_of, times_of, typed
from sqlengine.operators.functions.view_entries import ViewEntries, Writing
from sqlengine.state.columns import milliseconds
from sqlengine.state.keys import batch_keys, encode
from sqlengine.state.table import KeyedTable

_STATE, _TIMERS, _NEXT, _USED = "state", "timers", "#next", "#used"
# Keys whose timers are fired with one request.
_AT_ONCE: Final = 10_000
_NO_ROWS: Final[IntArray] = np.empty(0, np.int64)


class ProcessFunctionOperator:
    """Gives the rows and the timers of each key to a process function, in the order of the
    watermarks between them, as Flink's ProcessSetTableOperator.

    Late rows are rows as others. A timer fires with the first watermark at or past its time; its
    rows stand before that watermark. Timers of one watermark fire by time, then by key, then by
    name; with the end of all input those alone that were set before. A row or timer for which the
    function fails leaves by the error port, and its key remembers nothing of it.

    State: table `keys`, key -> `state` and `timers`, encoded by the worker, `#next` (ms) and, with
    a TTL, `#used` (processing time, ms). Timers: `#next`, `#used`. Entries of views are in another
    table."""

    def __init__(self, node: ProcessFunction) -> None:
        self._node = node
        below = node.input.schema
        columns = dict.fromkeys(n for t in node.tables for n, _ in t.columns)
        self._columns = below.select(tuple(columns))
        self._keys = below.select(node.keys)
        zoned = node.time is not None and below.type(node.time).arrow.tz is not None
        shape = Shape(tuple((t.name, t.columns) for t in node.tables), zoned)
        scalars = [(name, v.type, v.value) for name, v in node.arguments]
        self._kernel = ProcessKernel(node.function, shape, self._columns, scalars, self._keys)

    def open(self, context: Context) -> None:
        self._context = context
        if not self._node.remembers:
            return
        ttl = (Column(_USED, BIGINT),) if self._node.ttl_ms else ()
        values = (Column(_STATE, BYTES), Column(_TIMERS, BYTES), Column(_NEXT, BIGINT), *ttl)
        self._table: KeyedTable = context.table(
            "keys", self._keys, Schema(values), self._keys.names
        )
        if self._node.views:
            ttls = [self._node.ttl_ms if ttl is None else ttl for ttl in self._node.views]
            self._entries = ViewEntries(context, self._keys, ttls)

    def process(self, port: int, batch: Batch) -> Stream:
        letters_: Output = []
        if batch.num_rows and self._node.time is not None:
            batch = self._with_time(batch, letters_)
        yield from letters_
        if not self._node.remembers:
            yield from self._without_memory(batch)
            return
        self._forget(batch)
        touched = list(self._touched(batch))
        for place, slots in enumerate(touched):
            last = place == len(touched) - 1
            part = batch if last else replace(batch.tick(batch.schema), watermark=batch.watermark)
            yield from self._with_memory(part, slots, last=last)

    def rest(self) -> Rest:
        if not self._node.remembers:
            return NO_TICK
        first = self._table.earliest(_NEXT)
        rests = [NO_TICK if first is None else Rest(first)]
        if self._node.ttl_ms:
            rests.append(expiry(self._table, _USED, self._node.ttl_ms))
        if self._node.views:
            rests.append(self._entries.rest())
        return min_rest(rests)

    def close(self) -> None: ...

    # ---- keys ------------------------------------------------------------------------------------

    def _forget(self, batch: Batch) -> None:
        """Removes the state that was not changed for the time to live."""
        if self._node.views:
            self._entries.forget(batch.proctime)
        if not self._node.ttl_ms:
            return
        slots = self._table.due(_USED, batch.proctime - self._node.ttl_ms)
        if len(slots):
            self._table.blank(slots, (_STATE, _USED))
            self._table.mark(slots)
            timed = self._table.columns[_NEXT + "?"][slots].astype(np.bool_)
            self._table.remove(slots[~timed])

    def _touched(self, batch: Batch) -> Iterator[IntArray]:
        """Yields the slots of the keys that have rows or timers that are due, in parts of which the
        last one has the rows."""
        due = _NO_ROWS
        if batch.watermark > batch.since:
            due = self._table.due(_NEXT, batch.watermark)
            self._table.mark(due)
        if not batch.num_rows:
            times = self._table.columns[_NEXT][due].astype(np.int64)
            due = due[np.lexsort((self._order(due), times))]
            for start in range(0, max(len(due), 1), _AT_ONCE):
                yield due[start : start + _AT_ONCE]
            return
        slots, _ = self._table.slots_for(batch_keys(batch, self._node.keys), batch.num_rows)
        yield np.union1d(slots, due)

    def _order(self, slots: IntArray) -> IntArray:
        """The rank of each slot by its key."""
        keys = encode([c.type for c in self._keys], self._table.key_arrays(slots), len(slots))
        ranks = np.empty(len(slots), np.int64)
        ranks[sorted(range(len(slots)), key=keys.__getitem__)] = np.arange(len(slots))
        return ranks

    def _with_memory(self, batch: Batch, slots: IntArray, *, last: bool) -> Stream:
        if not len(slots):
            yield 0, batch.tick(self._node.schema)
            return
        if self._node.timers:
            slots = slots[np.argsort(self._order(slots))]
        rows, _ = (
            self._table.slots_for(batch_keys(batch, self._node.keys), batch.num_rows)
            if batch.num_rows
            else (_NO_ROWS, None)
        )
        place = np.empty(int(slots.max()) + 1, np.int64)
        place[slots] = np.arange(len(slots))
        keys = self._table.key_arrays(slots)
        before = self._memories(slots)
        request, times = self._request(batch, place[rows]), times_of(batch)
        views = Writing(self._entries, keys) if self._node.views else None
        given = self._kernel(request, before, keys, times, views)
        if views is not None:
            views.keep(batch.proctime)
        self._keep(slots, before, given.memories, batch)
        yield from self._results(batch, given, keys, last=last)

    def _memories(self, slots: IntArray) -> Memories:
        columns = self._table.columns
        states, timers = (columns[n][slots].tolist() for n in (_STATE, _TIMERS))
        has, nexts = columns[_NEXT + "?"][slots].tolist(), columns[_NEXT][slots].tolist()
        return Memories(states, timers, [n if h else None for n, h in zip(nexts, has, strict=True)])

    def _keep(self, slots: IntArray, before: Memories, after: Memories, batch: Batch) -> None:
        written = {
            _STATE: pa.array(after.states, pa.binary()),
            _TIMERS: pa.array(after.timers, pa.binary()),
            _NEXT: pa.array(after.nexts, pa.int64()),
        }
        self._table.write(slots, written)
        if self._node.ttl_ms:
            changed = slots[
                np.array([a != b for a, b in zip(after.states, before.states, strict=True)])
            ]
            self._table.write(changed, {_USED: np.full(len(changed), batch.proctime)})
            self._table.blank(slots[[s is None for s in after.states]], (_USED,))
        self._table.mark(slots)
        empty = [s is None and t is None for s, t in zip(after.states, after.timers, strict=True)]
        self._table.remove(slots[np.array(empty, np.bool_)])

    # ---- rows ------------------------------------------------------------------------------------

    def _with_time(self, batch: Batch, output: Output) -> Batch:
        """The rows that have a time."""
        assert self._node.time is not None
        _, valid = milliseconds(batch.column(self._node.time))
        if valid.all():
            return batch
        untimed = batch.take(np.flatnonzero(~valid))
        output.append((ERROR_PORT, self._failed(untimed, ["its time is NULL"] * untimed.num_rows)))
        return replace(batch.take(np.flatnonzero(valid)), watermark=batch.watermark)

    def _request(self, batch: Batch, groups: IntArray) -> pa.RecordBatch:
        node, schema = self._node, self._kernel.rows_schema
        return request_of(batch, groups, schema, self._columns.names, node.time, node.table)

    def _without_memory(self, batch: Batch) -> Stream:
        """Calls the function for rows that have nothing to do with each other."""
        count = batch.num_rows
        if not count:
            yield 0, batch.tick(self._node.schema)
            return
        keys = [batch.column(n) for n in self._node.keys]
        nothing: list[None] = [None] * count
        memories = Memories([*nothing], [*nothing], [*nothing])
        given = self._kernel(
            self._request(batch, np.arange(count)), memories, keys, times_of(batch)
        )
        yield from self._results(batch, given, keys, last=True)

    def _results(
        self, batch: Batch, given: Given, keys: Sequence[pa.Array], *, last: bool
    ) -> Stream:
        if given.failures:
            rows = np.array([row for row, _ in given.failures], np.int64)
            yield ERROR_PORT, self._failed(batch.take(rows), [why for _, why in given.failures])
        lost = pa.Table.from_batches(given.lost_timers, LOST_TIMERS).combine_chunks()
        if lost.num_rows:
            yield ERROR_PORT, self._failed_timers(batch, lost, keys)
        table = pa.Table.from_batches(given.rows, self._kernel.result_schema).combine_chunks()
        made = self._made(batch, table, given, keys)
        if made.num_rows or last:
            yield 0, made

    def _made(self, batch: Batch, table: pa.Table, given: Given, keys: Sequence[pa.Array]) -> Batch:
        """The rows that came of a batch, in order, at the watermarks that they stand before."""
        rows = table.column(0).to_numpy()
        if given.failures:
            good = ~np.isin(rows, [row for row, _ in given.failures])
            table, rows = table.filter(pa.array(good)), rows[good]
        count = table.num_rows
        if not count:
            return batch.tick(self._node.schema)
        groups = table.column(1).combine_chunks()
        passed = [self._passed(batch, name, rows, groups, keys) for name in self._node.passed]
        columns = [*passed, *(c.combine_chunks() for c in table.columns[4:])]
        if self._node.time is not None:
            kind = self._node.columns[-1].type.arrow
            times = table.column(2).combine_chunks().cast(pa.timestamp("ms", kind.tz))
            columns.append(times.cast(kind))
        offsets = None
        if batch.offsets is not None:
            offsets = np.full(count, NO_OFFSET, np.int64)
            offsets[rows >= 0] = batch.offsets[rows[rows >= 0]]
        made = batch.result(self._node.schema, typed(columns, self._node.schema.arrow.types), count)
        watermarks = table.column(3).to_numpy()
        return replace(made, row_watermarks=watermarks, offsets=offsets, origin=batch.origin)

    def _passed(
        self,
        batch: Batch,
        name: str,
        rows: IntArray,
        groups: pa.Array,
        keys: Sequence[pa.Array],
    ) -> pa.Array:
        if name in self._node.keys:
            return keys[self._node.keys.index(name)].take(groups)
        return batch.column(name).take(pa.array(rows))

    # ---- errors ----------------------------------------------------------------------------------

    def _failed(self, rows: Batch, reasons: list[str]) -> Batch:
        self._context.counters["rows_in_error"] += rows.num_rows
        return dead_letters(rows, place=self._place, subject=self._subject, reason=reasons)

    def _failed_timers(self, batch: Batch, lost: pa.Table, keys: Sequence[pa.Array]) -> Batch:
        """Dead letters of timers: the key, with the time (ms) and the name of the timer."""
        self._context.counters["rows_in_error"] += lost.num_rows
        shown = {
            c.name: k.take(lost.column(0).combine_chunks())
            for c, k in zip(self._keys, keys, strict=True)
        }
        table = pa.table({**shown, "timer": lost.column(1), "name": lost.column(2)})
        payload = [str(row) for row in table.to_pylist()]
        return letters(batch, self._place, self._subject, lost.column(3).to_pylist(), payload)

    @property
    def _place(self) -> str:
        return str(self._node.position) if self._node.position else ""

    @property
    def _subject(self) -> str:
        return f"{self._node.called}(…)"
