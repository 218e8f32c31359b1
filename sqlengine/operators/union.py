"""All rows of all inputs; the time of the result is that of the slowest input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, INT, Schema
from sqlengine.batch import MIN_WATERMARK, Batch, IntArray
from sqlengine.operators.base import Context, Output
from sqlengine.state.table import KeyedTable

_KEYS = Schema.of(port=INT)


class UnionOperator:
    """Renames columns by position. The watermark of each input is state: a row's watermark is the least of them.

    `aligned` inputs come from one source, batch for batch: what held before a row there holds for all of them. Only the
    time behind the last row waits until every input has had its part of the batch."""

    def __init__(self, schema: Schema, inputs: int, aligned: bool) -> None:
        self.schema = schema
        self._inputs = inputs
        self._aligned = aligned

    def open(self, context: Context) -> None:
        values = Schema.of(watermark=BIGINT.with_nullable(False))
        self._times: KeyedTable = context.table("watermarks", _KEYS, values, ())
        self._slots = [self._slot(i) for i in range(self._inputs)]

    def _slot(self, port: int) -> int:
        slots, new = self._times.slots_for([pa.array([port], pa.int32())], 1)
        if new[0]:
            self._times.columns["watermark"][slots[0]] = MIN_WATERMARK
            self._times.mark(slots)
        return int(slots[0])

    def process(self, port: int, batch: Batch) -> Output:
        column = self._times.columns["watermark"]
        others = min((int(column[s]) for i, s in enumerate(self._slots) if i != port), default=batch.watermark)
        slot = self._slots[port]
        if column[slot] != batch.watermark:
            column[slot] = batch.watermark
            self._times.mark(np.array([slot]))
        before = batch.watermarks() if self._aligned else self._least(batch, others)
        watermark = min(batch.watermark, others)
        result = Batch(self.schema, batch.columns, batch.num_rows, batch.proctime, watermark, before, batch.kinds)
        return [(0, replace(result, seed=batch.seed))]

    def _least(self, batch: Batch, others: int) -> IntArray | None:
        return None if batch.row_watermarks is None else np.minimum(batch.row_watermarks, others)

    def close(self) -> None: ...
