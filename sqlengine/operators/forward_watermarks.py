"""Stands for an operator whose data belong to another subtask: forwards watermarks only."""

from __future__ import annotations

from sqlengine.batch import Batch
from sqlengine.operators.base import ERROR_PORT, FATAL_ERROR_PORT, Context, Operator, Stream


class ForwardWatermarksOperator:
    """Forwards watermarks and drops rows: another subtask owns this operator's data, and emits its
    empty-input result.

    Keeps the state tables of the operator it wraps, without rows. Errors are dropped, too.
    """

    def __init__(self, operator: Operator) -> None:
        self.operator = operator

    def open(self, context: Context) -> None:
        self.operator.open(context)

    def process(self, port: int, batch: Batch) -> Stream:
        for to, made in self.operator.process(port, batch):
            if to not in (ERROR_PORT, FATAL_ERROR_PORT):
                yield to, made.tick(made.schema)

    def close(self) -> None:
        self.operator.close()
