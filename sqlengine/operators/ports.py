"""What operators of several inputs share: the time that all inputs together have reached."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, INT, Schema
from sqlengine.batch import MIN_WATERMARK, Batch
from sqlengine.operators.base import Context
from sqlengine.state.table import KeyedTable

_KEYS = Schema.of(port=INT)
_VALUES = Schema.of(watermark=BIGINT.with_nullable(False))


class PortTimes:
    """The watermark of each input; it is state. That of the operator is the least of them."""

    def __init__(self, context: Context, inputs: int) -> None:
        self._table: KeyedTable = context.table("watermarks", _KEYS, _VALUES, None)
        self._slots = [self._slot(port) for port in range(inputs)]

    def _slot(self, port: int) -> int:
        slots, new = self._table.slots_for([pa.array([port], pa.int32())], 1)
        if new[0]:
            self._table.columns["watermark"][slots[0]] = MIN_WATERMARK
            self._table.mark(slots)
        return int(slots[0])

    def others(self, port: int) -> int | None:
        """The least watermark of the other inputs; None where there is no other."""
        column = self._table.columns["watermark"]
        return min((int(column[s]) for i, s in enumerate(self._slots) if i != port), default=None)

    def advance(self, port: int, batch: Batch) -> Batch:
        """Takes the time of a batch. It comes back with the operator's: its watermark behind the batch, before each row,
        and before the batch."""
        others = self.others(port)
        column, slot = self._table.columns["watermark"], self._slots[port]
        if column[slot] != batch.watermark:
            column[slot] = batch.watermark
            self._table.mark(np.array([slot]))
        if others is None:
            return batch
        before = None if batch.row_watermarks is None else np.minimum(batch.row_watermarks, others)
        return replace(
            batch,
            watermark=min(batch.watermark, others),
            row_watermarks=before,
            since=min(batch.since, others),
            steps=None if batch.steps is None else np.minimum(batch.steps, others),
        )
