"""An operator whose rows are all in another part of a divided graph: here time alone passes it."""

from __future__ import annotations

from sqlengine.batch import Batch
from sqlengine.operators.base import ERROR_PORT, GIVE_UP_PORT, Context, Operator, Stream


class ForwardWatermarksOperator:
    """What it would say of no rows at all (as that their number is 0) is said where its rows
    are."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator

    def open(self, context: Context) -> None:
        self.operator.open(context)

    def process(self, port: int, batch: Batch) -> Stream:
        for to, made in self.operator.process(port, batch):
            if to not in (ERROR_PORT, GIVE_UP_PORT):
                yield to, made.tick(made.schema)

    def close(self) -> None:
        self.operator.close()
