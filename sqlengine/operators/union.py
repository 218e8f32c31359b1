"""All rows of all inputs; the time of the result is that of the slowest input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from parser.types import Schema
from sqlengine.batch import Batch, concat
from sqlengine.operators.base import Context, Output
from sqlengine.operators.ports import PortTimes


class UnionOperator:
    """Renames columns by position. The watermark of each input is state: a row's watermark is the
    least of them.

    `aligned` inputs come from one source, batch for batch: what held before a row there holds for
    all of them. Only the time behind the last row waits until every input has had its part of the
    batch. `process_many` takes these parts together and puts their rows in the order of the source: no
    window is over before all inputs have given it their rows."""

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
        """What `process` gives for all of them; as one batch where they are the parts of one."""
        output = [told for port, batch in parts for told in self.process(port, batch)]
        if not self._aligned or len({port for port, _ in parts}) < len(parts):
            return output
        made = [batch for _, batch in output]
        together, times = concat(made), [b.watermarks() for b in made]
        order = np.argsort(together.watermarks(), kind="stable")
        if len(times[0]) and all(
            np.array_equal(times[0], t) for t in times
        ):  # each row has become one in every part
            order = np.arange(together.num_rows).reshape(len(made), -1).T.ravel()
        return [(0, replace(together.take(order), watermark=together.watermark))]

    def close(self) -> None: ...
