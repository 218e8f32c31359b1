"""Constant rows, given once when the first tick arrives; their end is the end of time."""

from __future__ import annotations

import pyarrow as pa

from parser.types import Schema
from planner.logical import Values
from sqlengine.batch import MAX_WATERMARK, Batch
from sqlengine.expressions import compile_expression
from sqlengine.operators.base import Context, Output

_ONE = Schema(())


class ValuesOperator:
    """A source without shards: the executor sends one tick, which becomes the rows."""

    def __init__(self, node: Values) -> None:
        self._node = node

    def open(self, context: Context) -> None: ...

    def process(self, port: int, batch: Batch) -> Output:
        one = Batch(_ONE, (), 1, batch.proctime, batch.watermark, seed=batch.seed)
        schema = self._node.row_schema
        columns = []
        for i, field in enumerate(schema.arrow):
            cells = [compile_expression(r[i])(one).array(1).cast(field.type) for r in self._node.rows]
            columns.append(pa.concat_arrays(cells) if cells else pa.array([], field.type))
        rows = len(self._node.rows)
        return [(0, Batch(schema, tuple(columns), rows, batch.proctime, MAX_WATERMARK, seed=batch.seed))]

    def close(self) -> None: ...
