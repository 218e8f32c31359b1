"""Feeds an operator one row at a time: what a query does where mini-batch is off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sqlengine.batch import Batch, concat
from sqlengine.operators.base import ERROR_PORT, GIVE_UP_PORT, Context, Operator, Output, Stream

# As many rows may be held before they go on.
_ROWS = 1 << 16


class RowByRowOperator:
    """The same operator, so that its rows come as they would if each batch had one. What comes out
    for a batch is one batch again, unless it is long."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator

    def open(self, context: Context) -> None:
        self.operator.open(context)

    def process(self, port: int, batch: Batch) -> Stream:
        if not batch.num_rows:
            yield from joined(list(self.operator.process(port, batch)))
            return
        before = batch.watermarks()
        output: Output = []
        rows = 0
        for i in range(batch.num_rows):
            for to, made in self.operator.process(port, batch.slice(i, 1)):
                output.append((to, _as_of(made, int(before[i]))))
                rows += made.num_rows
                if rows >= _ROWS:
                    yield from joined(output)
                    output, rows = [], 0
        yield from joined(output)

    def close(self) -> None:
        self.operator.close()


def _as_of(made: Batch, before: int) -> Batch:
    """What one row made comes before the time that the row brings."""
    if made.row_watermarks is not None or not made.num_rows or made.watermark <= before:
        return made
    return replace(made, row_watermarks=np.full(made.num_rows, before))


def joined(output: Output) -> Output:
    """The batches of each output port as one, errors first. Ticks between rows go: the last time
    stays."""
    by_port: dict[int, list[Batch]] = {}
    for port, batch in output:
        by_port.setdefault(port, []).append(batch)
    result: Output = []
    for port in sorted(by_port, key=lambda p: (p not in (ERROR_PORT, GIVE_UP_PORT), p)):
        batches = by_port[port]
        last = batches.pop()
        result.append((port, concat([*(b for b in batches if b.num_rows), last])))
    return result
