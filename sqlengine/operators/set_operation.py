"""INTERSECT and EXCEPT: how often each row is in either input, and what follows from that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Schema
from planner.logical import SetOperation
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import Context, Output
from sqlengine.operators.changelog.row_kinds import DELETE, INSERT, first_seen, plain, takes_back
from sqlengine.operators.ports import PortTimes
from sqlengine.state.columns import BoolArray
from sqlengine.state.table import KeyedTable

_SIDES = ("left", "right")
_COUNTS = Schema.of(left=BIGINT.with_nullable(False), right=BIGINT.with_nullable(False))


class SetOperationOperator:
    """For each batch and row value, +I or -D as often as the result has the row more or less often
    than before."""

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
        back, columns = (
            takes_back(batch),
            [batch.column(n) for n in self._node.inputs[port].schema.names],
        )
        slots, _ = self._table.slots_for(columns, batch.num_rows)
        touched = first_seen(slots)
        before = self._times_there(touched)
        np.add.at(
            self._table.columns[_SIDES[port]], slots, 1 if back is None else np.where(back, -1, 1)
        )
        self._table.mark(touched)
        more = self._times_there(touched) - before
        result = self._told(batch, touched, more) if more.any() else None
        self._table.remove(touched[self._gone(touched)])
        return result

    def _times_there(self, slots: IntArray) -> IntArray:
        """How often the result has each row."""
        left, right = (self._table.columns[side][slots].astype(np.int64) for side in _SIDES)
        if self._node.all:
            return np.maximum(left - right, 0) if self._node.is_except else np.minimum(left, right)
        found: BoolArray = (left > 0) & ((right > 0) != self._node.is_except)
        return found.astype(np.int64)

    def _gone(self, slots: IntArray) -> BoolArray:
        gone: BoolArray = (self._table.columns["left"][slots] == 0) & (
            self._table.columns["right"][slots] == 0
        )
        return gone

    def _told(self, batch: Batch, touched: IntArray, more: IntArray) -> Batch:
        which = np.repeat(np.arange(len(touched)), np.abs(more))
        kinds = np.where(more[which] > 0, INSERT, DELETE).astype(np.int8)
        columns = [c.take(pa.array(which)) for c in self._table.key_arrays(touched)]
        tick = batch.tick(self._node.schema)
        return replace(tick, columns=tuple(columns), num_rows=len(which), kinds=plain(kinds))
