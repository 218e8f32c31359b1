"""NEW_TERM: whether values were there before."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, Schema
from planner.logical import NewTerm
from sqlengine.batch import MIN_WATERMARK, Batch, IntArray
from sqlengine.operators.base import NO_TICK, Context, Output, Rest
from sqlengine.state.columns import BoolArray, milliseconds, validity
from sqlengine.state.keys import batch_keys
from sqlengine.state.table import KeyedTable

# The greatest time (ms) of a row with the key's terms.
_LAST: Final = "#last"


class NewTermOperator:
    """Adds to each row whether its terms are new: no row with equal ones came within the memory.

    A row that comes late is judged by its own time: its terms are known where a row within the
    memory before it, or any after it, is still remembered. They are remembered until the watermark
    (or the clock) is further past their last row than the memory. State: table `terms`,
    terms -> `#last`. Timers: `#last`."""

    def __init__(self, node: NewTerm) -> None:
        self._node = node

    def open(self, context: Context) -> None:
        terms = self._node.input.schema.select(self._node.terms)
        last = Schema((Column(_LAST, BIGINT.with_nullable(False)),))
        self._table: KeyedTable = context.table("terms", terms, last, self._node.terms)

    def process(self, port: int, batch: Batch) -> Output:
        answers = pa.array(np.zeros(0, np.bool_)) if not batch.num_rows else self._answers(batch)
        self._forget(batch)
        return [(0, batch.with_columns(self._node.schema, (*batch.columns, answers)))]

    def rest(self) -> Rest:
        first = self._table.earliest(_LAST) if self._node.memory_ms else None
        if first is None:
            return NO_TICK
        end = first + self._node.memory_ms + 1
        return Rest(proctime=end) if self._node.time is None else Rest(end)

    def close(self) -> None: ...

    def _answers(self, batch: Batch) -> pa.Array:
        """TRUE where the terms of a row are new; NULL where one of them, or its time, is."""
        times, valid = self._times(batch)
        for name in self._node.terms:
            valid = valid & validity(batch.column(name))
        asked = np.flatnonzero(valid)
        is_new = np.zeros(batch.num_rows, np.bool_)
        if len(asked):
            some = batch if len(asked) == batch.num_rows else batch.take(asked)
            is_new[asked] = self._judged(some, times[asked])
        return pa.array(is_new, mask=~valid)

    def _times(self, batch: Batch) -> tuple[IntArray, BoolArray]:
        if self._node.time is not None:
            return milliseconds(batch.column(self._node.time))
        every = np.ones(batch.num_rows, np.bool_)
        return np.full(batch.num_rows, batch.proctime, np.int64), every

    def _judged(self, batch: Batch, times: IntArray) -> BoolArray:
        """Judges each row by those before it, and remembers all."""
        keys = batch_keys(batch, self._node.terms)
        slots, inserted = self._table.slots_for(keys, batch.num_rows)
        stored = self._table.columns[_LAST]
        stored[slots[inserted]] = MIN_WATERMARK
        before, last = _running(slots, times, stored[slots].astype(np.int64))
        stored[slots] = last  # of rows with one slot the last one wins
        self._table.mark(slots)
        known = before != MIN_WATERMARK
        if self._node.memory_ms:
            now = times if self._node.time is None else np.maximum(times, batch.watermarks())
            known &= before >= now - self._node.memory_ms
        is_new: BoolArray = ~known
        return is_new

    def _forget(self, batch: Batch) -> None:
        """Removes what no later row can find any more."""
        if self._node.memory_ms:
            now = batch.proctime if self._node.time is None else batch.watermark
            first = max(now, MIN_WATERMARK + self._node.memory_ms + 1) - self._node.memory_ms
            self._table.remove(self._table.due(_LAST, first - 1))


def _running(slots: IntArray, times: IntArray, stored: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the greatest time of each row's slot before the row, and with it.

    The places of times are compared, not times: a slot's are above all of the slots before it."""
    order = np.argsort(slots, kind="stable")
    ranked, place = np.unique(np.concatenate([times, stored]), return_inverse=True)
    of_rows, of_slots = place[: len(times)][order], place[len(times) :][order]
    first = np.ones(len(order), np.bool_)
    first[1:] = slots[order][1:] != slots[order][:-1]
    above = (np.cumsum(first) - 1) * len(ranked)
    with_row = np.maximum.accumulate(np.maximum(of_rows, of_slots) + above) - above
    without = np.where(first, of_slots, np.roll(with_row, 1))
    before, last = np.empty_like(times), np.empty_like(times)
    before[order], last[order] = ranked[without], ranked[with_row]
    return before, last
