"""Feeds an operator one row at a time: queries without mini-batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sqlengine.batch import Batch, concat
from sqlengine.operators.base import (
    ERROR_PORT,
    EVERY_TICK,
    FATAL_ERROR_PORT,
    Context,
    Operator,
    Output,
    Rest,
    Rests,
    Stream,
)

# The number of output rows to buffer before they are emitted.
_ROWS = 1 << 16


class RowByRowOperator:
    """Runs an operator as if each row were a batch of its own.

    The output for a batch is one batch for each port again, or several where it is long. State and
    timers are those of the wrapped operator.
    """

    def __init__(self, operator: Operator) -> None:
        self.operator = operator

    def open(self, context: Context) -> None:
        self.operator.open(context)

    def process(self, port: int, batch: Batch) -> Stream:
        output: Output = []
        rows = 0
        for to, part in self._row_by_row(port, batch):
            output.append((to, part))
            rows += part.num_rows
            if rows >= _ROWS:
                yield from joined(output)
                output, rows = [], 0
        yield from joined(output)

    def _row_by_row(self, port: int, batch: Batch) -> Stream:
        if not batch.num_rows:
            yield from self.operator.process(port, batch)
            return
        before = batch.watermarks()
        for i in range(batch.num_rows):
            for to, part in self.operator.process(port, batch.slice(i, 1)):
                yield to, _as_of(part, int(before[i]))

    def rest(self) -> Rest:
        return self.operator.rest() if isinstance(self.operator, Rests) else EVERY_TICK

    def close(self) -> None:
        self.operator.close()


def _as_of(part: Batch, before: int) -> Batch:
    """Sets the watermark of a row's output to the one before the row, which the row itself advances
    afterwards."""
    if part.row_watermarks is not None or not part.num_rows or part.watermark <= before:
        return part
    return replace(part, row_watermarks=np.full(part.num_rows, before))


def joined(output: Output) -> Output:
    """Concatenates the batches of each output port, errors first; of ticks between rows the last
    watermark stays."""
    by_port: dict[int, list[Batch]] = {}
    for port, batch in output:
        by_port.setdefault(port, []).append(batch)
    result: Output = []
    for port in sorted(by_port, key=lambda p: (p not in (ERROR_PORT, FATAL_ERROR_PORT), p)):
        batches = by_port[port]
        last = batches.pop()
        result.append((port, concat([*(b for b in batches if b.num_rows), last])))
    return result
