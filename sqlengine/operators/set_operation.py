"""INTERSECT and EXCEPT, with and without ALL."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Schema
from planner.logical import SetOperation
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import Context, Output
from sqlengine.operators.changelog.row_kinds import DELETE, INSERT, first_seen, plain, retractions
from sqlengine.operators.ports import PortTimes
from sqlengine.state.columns import BoolArray
from sqlengine.state.table import KeyedTable

_SIDES = ("left", "right")
_COUNTS = Schema.of(left=BIGINT.with_nullable(False), right=BIGINT.with_nullable(False))


class SetOperationOperator:
    """Emits +I or -D for each batch and row value, as often as the multiplicity in the result
    changed.

    Inputs: left (0) and right (1), with changes. State: table `rows`, all columns -> number of
    equal rows on the left and on the right; a row without either is removed. Flink rewrites these
    to GROUP BY or joins; here they are one operator.
    """

    def __init__(self, node: SetOperation) -> None:
        self._node = node

    def open(self, context: Context) -> None:
        names = self._node.schema.names
        self._table: KeyedTable = context.table("rows", self._node.schema, _COUNTS, names)
        self._times = PortTimes(context, 2)

    def process(self, port: int, batch: Batch) -> Output:
        batch = self._times.advance(port, batch)
        result = self._change(port, batch) if batch.num_rows else None
        return [(0, result or batch.tick(self._node.schema))]

    def close(self) -> None: ...

    def _change(self, port: int, batch: Batch) -> Batch | None:
        retracts, columns = (
            retractions(batch),
            [batch.column(n) for n in self._node.inputs[port].schema.names],
        )
        slots, _ = self._table.slots_for(columns, batch.num_rows)
        touched = first_seen(slots)
        before = self._multiplicity(touched)
        np.add.at(
            self._table.columns[_SIDES[port]],
            slots,
            1 if retracts is None else np.where(retracts, -1, 1),
        )
        self._table.mark(touched)
        difference = self._multiplicity(touched) - before
        result = self._changes(batch, touched, difference) if difference.any() else None
        self._table.remove(touched[self._is_empty(touched)])
        return result

    def _multiplicity(self, slots: IntArray) -> IntArray:
        """Returns how often the result contains each row."""
        left, right = (self._table.columns[side][slots].astype(np.int64) for side in _SIDES)
        if self._node.all:
            return np.maximum(left - right, 0) if self._node.is_except else np.minimum(left, right)
        contained: BoolArray = (left > 0) & ((right > 0) != self._node.is_except)
        return contained.astype(np.int64)

    def _is_empty(self, slots: IntArray) -> BoolArray:
        empty: BoolArray = (self._table.columns["left"][slots] == 0) & (
            self._table.columns["right"][slots] == 0
        )
        return empty

    def _changes(self, batch: Batch, touched: IntArray, difference: IntArray) -> Batch:
        index = np.repeat(np.arange(len(touched)), np.abs(difference))
        kinds = np.where(difference[index] > 0, INSERT, DELETE).astype(np.int8)
        columns = [c.take(pa.array(index)) for c in self._table.key_arrays(touched)]
        tick = batch.tick(self._node.schema)
        return replace(tick, columns=tuple(columns), num_rows=len(index), kinds=plain(kinds))
