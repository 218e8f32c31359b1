"""UNION ALL: the rows of all inputs, under the combined watermark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from parser.types import Schema
from sqlengine.batch import Batch, concat
from sqlengine.operators.base import NO_TICK, Context, Output, Rest
from sqlengine.operators.ports import PortTimes


class UnionOperator:
    """Forwards the rows of all inputs, columns renamed by position; Flink's StreamExecUnion.

    State: the watermark of each input (`PortTimes`); a row's watermark is the least of them.

    `aligned` inputs come from one source, batch for batch: the watermark before a row in the source
    applies to all of them, and only the watermark after the last row waits until every input has
    had its part of the batch. `process_many` takes these parts together and restores the order of
    the source: no window fires before all inputs have delivered their rows.
    """

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

    def process_many(self, parts: Sequence[tuple[int, Batch]]) -> Output:
        """Processes the batches in turn; where they are the parts of one source batch, returns one
        batch."""
        output = [result for port, batch in parts for result in self.process(port, batch)]
        if not self._aligned or len({port for port, _ in parts}) < len(parts):
            return output
        batches = [batch for _, batch in output]
        together, times = concat(batches), [b.watermarks() for b in batches]
        order = np.argsort(together.watermarks(), kind="stable")
        # Equal watermarks everywhere: each source row became one row in every part.
        if len(times[0]) and all(np.array_equal(times[0], t) for t in times):
            order = np.arange(together.num_rows).reshape(len(batches), -1).T.ravel()
        return [(0, replace(together.take(order), watermark=together.watermark))]

    def rest(self) -> Rest:
        return NO_TICK

    @property
    def untold(self) -> list[int]:
        return self._times.untold

    def close(self) -> None: ...
