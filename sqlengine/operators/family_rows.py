"""The rows of a node for a family whose members take all of them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, Schema
from planner.graph.family_members import EVERY_ROW
from planner.graph.family_nodes import FamilyRows
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import Context, Stream
from sqlengine.operators.bounded import repeated


class FamilyRowsOperator:
    """Gives each row once for each member, with the member's number, in the order of the rows.
    `passed`: the rows that it has had.

    Stateless; Flink has no counterpart.
    """

    def __init__(self, plan: FamilyRows) -> None:
        ((self._port, name),) = plan.numbers.items()
        self._number = Column(name, BIGINT.with_nullable(False))
        self._members = np.array([number for _, number in plan.members[EVERY_ROW]], np.int64)
        self.passed: Counter[str] = Counter()

    def open(self, context: Context) -> None: ...

    def process(self, port: int, batch: Batch) -> Stream:
        self.passed[EVERY_ROW] += batch.num_rows
        if not batch.num_rows:
            yield self._port, self._numbered(batch, np.empty(0, np.int64))
            return
        counts = np.full(batch.num_rows, len(self._members))
        for rows, _, nth in repeated(batch, counts):
            yield self._port, self._numbered(rows, nth)

    def close(self) -> None: ...

    def _numbered(self, rows: Batch, nth: IntArray) -> Batch:
        schema = Schema((self._number, *rows.schema))
        return rows.with_columns(schema, (pa.array(self._members[nth]), *rows.columns))
