"""Collects a changelog, and emits the final rows at the end of input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, Schema
from planner.logical import Materialize
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK, Batch
from sqlengine.operators.base import Context, Output
from sqlengine.operators.changelog.row_kinds import retractions
from sqlengine.operators.ranks.ordering import order
from sqlengine.state.columns import IntArray, distinct
from sqlengine.state.table import KeyedTable

_COUNT, _ARRIVAL = "#count", "#arrival"
_NUMBER = BIGINT.with_nullable(False)


class MaterializeOperator:
    """Emits the rows that remain at the end of bounded input, sorted.

    Input: an insert-only stream or a changelog. State: table `rows`, number of arrival -> row, or
    the row by all columns -> multiplicity. Flink collects such results in the client, or sorts them
    in batch mode.
    """

    def __init__(self, node: Materialize) -> None:
        self._node = node
        self._names = node.schema.names
        self._insert_only = not node.input.changes

    def open(self, context: Context) -> None:
        self._counters = context.counters
        schema = self._node.schema
        number = Schema((Column(_ARRIVAL if self._insert_only else _COUNT, _NUMBER),))
        keys, values = (number, schema) if self._insert_only else (schema, number)
        self._table: KeyedTable = context.table("rows", keys, values, ())

    def process(self, port: int, batch: Batch) -> Output:
        if batch.num_rows:
            (self._add if self._insert_only else self._change)(batch)
        if batch.watermark < MAX_WATERMARK or not len(self._table):
            return [(0, batch.tick(self._node.schema))]
        return [(0, self._emit(batch))]

    def close(self) -> None: ...

    def _add(self, batch: Batch) -> None:
        first = len(self._table)  # rows are removed all at once: numbers have no gaps
        numbers = np.arange(first, first + batch.num_rows)
        slots, _ = self._table.slots_for([pa.array(numbers)], batch.num_rows)
        self._table.write(slots, {n: batch.column(n) for n in self._names})
        self._table.mark(slots)

    def _change(self, batch: Batch) -> None:
        retracts = retractions(batch)
        slots, _ = self._table.slots_for([batch.column(n) for n in self._names], batch.num_rows)
        counts = self._table.columns[_COUNT].view(np.int64)
        np.add.at(counts, slots, 1 if retracts is None else np.where(retracts, -1, 1))
        touched = distinct(slots)
        self._table.mark(touched)
        # Below 0: more retractions than rows. They are counted and forgotten with the slot.
        removed = touched[counts[touched] <= 0]
        self._counters["rows_without_key"] -= int(counts[removed].sum())
        self._table.remove(removed)

    def _emit(self, batch: Batch) -> Batch:
        slots = self._table.in_order(self._table.live())
        if not self._insert_only:
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
