"""Projection: one output row for each input row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from parser.types import Column, Schema
from planner.logical import Project
from planner.scalar import find_position
from sqlengine.batch import Batch, replaced
from sqlengine.expressions import compile_column
from sqlengine.operators.base import ERROR_PORT, NO_TICK, Context, Output, Rest
from sqlengine.operators.dead_letters import dead_letters
from udf.vector import Errors, merge_errors


class ProjectOperator:
    """Computes the items of the projection that are read downstream (`columns`).

    Stateless; Flink's StreamExecCalc without a condition. A row in which an expression fails leaves
    by the error port and has no other output.
    """

    def __init__(self, node: Project, columns: Sequence[str]) -> None:
        items = [(n, e) for n, e in node.items if n in set(columns)]
        self.schema = Schema(tuple(Column(n, e.type) for n, e in items))
        self._items = [
            (str(e), find_position(e), compile_column(e, f"{node.salt}/{name}"))
            for name, e in items
        ]

    def open(self, context: Context) -> None:
        self._counters = context.counters

    def process(self, port: int, batch: Batch) -> Output:
        if not batch.num_rows:
            return [(0, replaced(batch.tick(self.schema), origin=batch.origin))]
        vectors = [compute(batch) for _, _, compute in self._items]
        columns = [v.array(batch.num_rows) for v in vectors]
        result = batch.with_columns(
            self.schema,
            [_plain(c, f.type) for c, f in zip(columns, self.schema.arrow, strict=True)],
        )
        errors = merge_errors([v.errors for v in vectors])
        if errors is None:
            return [(0, result)]
        return [
            (ERROR_PORT, self._failed(batch, errors, vectors)),
            (0, drop_rows(result, errors.mask)),
        ]

    def _failed(self, batch: Batch, errors: Errors, vectors: Sequence[object]) -> Batch:
        rows = np.flatnonzero(errors.mask)
        self._counters["rows_in_error"] += len(rows)
        texts = [f"{text}" for text, _, _ in self._items]
        places = [str(p) if p else "" for _, p, _ in self._items]
        first = [next(i for i, v in enumerate(vectors) if _fails(v, int(r))) for r in rows]
        return dead_letters(
            batch.take(rows),
            place=[places[i] for i in first],
            subject=[texts[i] for i in first],
            reason=[errors.reason(int(r)) for r in rows],
        )

    def rest(self) -> Rest:
        return NO_TICK

    def close(self) -> None: ...


def _fails(vector: object, row: int) -> bool:
    errors = getattr(vector, "errors", None)
    return isinstance(errors, Errors) and bool(errors.mask[row])


def _plain(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Casts to the type of the schema: kernels may return a wider one (NULL literals, int64
    lengths)."""
    return array if array.type.equals(kind) else array.cast(kind, safe=False)


def drop_rows(batch: Batch, mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Batch:
    """Drops the rows of `mask`; the watermark after the last row stays."""
    kept = batch.take(np.flatnonzero(~mask))
    return replaced(kept, watermark=batch.watermark)
