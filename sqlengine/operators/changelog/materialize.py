"""What is left at the end of input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, Schema
from planner.logical import Materialize
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK, Batch
from sqlengine.operators.base import Context, Output
from sqlengine.operators.changelog.row_kinds import takes_back
from sqlengine.operators.ranks.ordering import order
from sqlengine.state.columns import IntArray
from sqlengine.state.table import KeyedTable

_COUNT, _ARRIVAL = "#count", "#arrival"
_NUMBER = BIGINT.with_nullable(False)


class MaterializeOperator:
    """Keeps rows, those that may be taken back by what they hold with how often they are there, and
    tells them, sorted, when its input is at its end."""

    def __init__(self, node: Materialize) -> None:
        self._node = node
        self._names = node.schema.names
        self._grows = not node.input.changes

    def open(self, context: Context) -> None:
        self._counters = context.counters
        schema = self._node.schema
        number = Schema((Column(_ARRIVAL if self._grows else _COUNT, _NUMBER),))
        keys, values = (number, schema) if self._grows else (schema, number)
        self._table: KeyedTable = context.table("rows", keys, values, ())

    def process(self, port: int, batch: Batch) -> Output:
        if batch.num_rows:
            (self._add if self._grows else self._change)(batch)
        if batch.watermark < MAX_WATERMARK or not len(self._table):
            return [(0, batch.tick(self._node.schema))]
        return [(0, self._tell(batch))]

    def close(self) -> None: ...

    def _add(self, batch: Batch) -> None:
        first = len(self._table)  # none goes before all go
        numbers = np.arange(first, first + batch.num_rows)
        slots, _ = self._table.slots_for([pa.array(numbers)], batch.num_rows)
        self._table.write(slots, {n: batch.column(n) for n in self._names})
        self._table.mark(slots)

    def _change(self, batch: Batch) -> None:
        back = takes_back(batch)
        slots, _ = self._table.slots_for([batch.column(n) for n in self._names], batch.num_rows)
        counts = self._table.columns[_COUNT].view(np.int64)
        np.add.at(counts, slots, 1 if back is None else np.where(back, -1, 1))
        touched = np.unique(slots)
        self._table.mark(touched)
        gone = touched[counts[touched] <= 0]
        self._counters["rows_without_key"] -= int(counts[gone].sum())
        self._table.remove(gone)

    def _tell(self, batch: Batch) -> Batch:
        slots = self._table.in_order(self._table.live())
        if not self._grows:
            slots = np.repeat(slots, self._table.columns[_COUNT][slots].astype(np.int64))
        slots = self._sorted(slots)[self._node.start - 1 : self._node.end]
        columns = tuple(self._table.array(n, slots) for n in self._names)
        self._table.remove(self._table.live())
        tick = batch.tick(self._node.schema)
        return replace(
            tick,
            columns=columns,
            num_rows=len(slots),
            row_watermarks=np.full(len(slots), MIN_WATERMARK),
        )

    def _sorted(self, slots: IntArray) -> IntArray:
        if not self._node.order:
            return slots
        columns = [self._table.array(k.column, slots) for k in self._node.order]
        return slots[order(self._node.order, columns, np.zeros_like(slots), np.arange(len(slots)))]
