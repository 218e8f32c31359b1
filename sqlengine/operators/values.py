"""VALUES: constant rows, emitted at the first tick, followed by the end of input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from parser.types import Schema
from planner.logical import Values
from planner.scalar import Scalar, find_position
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK, Batch
from sqlengine.expressions import compile_expression
from sqlengine.operators.base import ERROR_PORT, Context, Output
from sqlengine.operators.dead_letters import letters
from udf.vector import Vector

_ONE = Schema(())


class ValuesOperator:
    """A source without shards: the executor sends one tick, for which it emits the rows; Flink's
    StreamExecValues.

    Stateless. A row in which an expression fails leaves by the error port.
    """

    def __init__(self, node: Values) -> None:
        self._node = node

    def open(self, context: Context) -> None:
        self._counters = context.counters

    def process(self, port: int, batch: Batch) -> Output:
        one = Batch(_ONE, (), 1, batch.proctime, batch.watermark, seed=batch.seed)
        cells = [[compile_expression(e)(one) for e in row] for row in self._node.rows]
        good = [row for row in cells if all(v.errors is None for v in row)]
        schema = self._node.row_schema
        columns = tuple(
            _column([row[i] for row in good], f.type) for i, f in enumerate(schema.arrow)
        )
        before = np.full(len(good), MIN_WATERMARK)
        rows = replace(
            batch.result(schema, columns, len(good)), watermark=MAX_WATERMARK, row_watermarks=before
        )
        if len(good) == len(cells):
            return [(0, rows)]
        failed = [
            first
            for row in zip(self._node.rows, cells, strict=True)
            for first in _first_error(*row)
        ]
        return [(ERROR_PORT, self._failed(batch, failed)), (0, rows)]

    def _failed(self, batch: Batch, failed: list[tuple[Scalar, str]]) -> Batch:
        self._counters["rows_in_error"] += len(failed)
        return letters(
            batch,
            place=[str(find_position(e) or "") for e, _ in failed],
            subject=[str(e) for e, _ in failed],
            reason=[reason for _, reason in failed],
            payload=["{}"] * len(failed),
        )

    def close(self) -> None: ...


def _column(cells: list[Vector], kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays([c.array(1).cast(kind) for c in cells]) if cells else pa.array([], kind)


def _first_error(
    expressions: Sequence[Scalar], cells: Sequence[Vector]
) -> list[tuple[Scalar, str]]:
    """Returns the first failing expression of a row with the reason; empty where none fails."""
    return [
        (e, v.errors.reason(0))
        for e, v in zip(expressions, cells, strict=True)
        if v.errors is not None
    ][:1]
