"""All rows of all inputs; the time of the result is that of the slowest input."""

from __future__ import annotations

from dataclasses import replace

from parser.types import Schema
from sqlengine.batch import Batch
from sqlengine.operators.base import Context, Output
from sqlengine.operators.ports import PortTimes


class UnionOperator:
    """Renames columns by position. The watermark of each input is state: a row's watermark is the least of them.

    `aligned` inputs come from one source, batch for batch: what held before a row there holds for all of them. Only the
    time behind the last row waits until every input has had its part of the batch."""

    def __init__(self, schema: Schema, inputs: int, aligned: bool) -> None:
        self.schema = schema
        self._inputs = inputs
        self._aligned = aligned

    def open(self, context: Context) -> None:
        self._times = PortTimes(context, self._inputs)

    def process(self, port: int, batch: Batch) -> Output:
        timed = self._times.advance(port, batch)
        before = batch.watermarks() if self._aligned else timed.row_watermarks
        result = timed.result(self.schema, batch.columns, batch.num_rows)
        return [(0, replace(result, row_watermarks=before, kinds=batch.kinds))]

    def close(self) -> None: ...
