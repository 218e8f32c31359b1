"""Holds back alerts, such as those of a maintenance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planner.logical import HoldBack
from sqlengine.batch import Batch
from sqlengine.expressions import compile_expression, truth
from sqlengine.operators.base import NO_TICK, Context, Output, Rest
from sqlengine.operators.member_counts import HELD_BACK


class HoldBackOperator:
    """Passes the rows for which the predicate is not TRUE; counts the others (`held_back`) where
    the node does.

    Stateless. Flink has no counterpart.
    """

    def __init__(self, node: HoldBack) -> None:
        self._held = compile_expression(node.predicate)
        self._counts = node.counts

    def open(self, context: Context) -> None:
        self._counters = context.counters

    def process(self, port: int, batch: Batch) -> Output:
        held = truth(self._held(batch), batch.num_rows)
        if self._counts:
            self._counters[HELD_BACK] += int(held.sum())
        if not held.any():
            return [(0, batch)]
        return [(0, replace(batch.take(np.flatnonzero(~held)), watermark=batch.watermark))]

    def rest(self) -> Rest:
        return NO_TICK

    def close(self) -> None: ...
