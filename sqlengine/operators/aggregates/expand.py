"""GROUPING SETS, ROLLUP, CUBE: emits each row once for each grouping set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from planner.logical import Expand
from sqlengine.batch import Batch
from sqlengine.operators.base import Context, Output


class ExpandOperator:
    """Emits each row once for each set of grouped columns, all copies of one row before those of
    the next.

    Flink's StreamExecExpand. Stateless. Emits the columns that are read downstream (`columns`).
    """

    def __init__(self, node: Expand, columns: Sequence[str]) -> None:
        self.schema = node.schema.select(tuple(columns))
        self._node = node
        self._marks = {name: np.array(values, np.int64) for name, values in node.marks}

    def open(self, context: Context) -> None: ...

    def process(self, port: int, batch: Batch) -> Output:
        if not batch.num_rows:
            return [(0, replace(batch.tick(self.schema), origin=batch.origin))]
        index = np.repeat(np.arange(batch.num_rows), len(self._node.sets))
        columns = [self._column(name, batch, index) for name in self.schema.names]
        return [(0, batch.take(index, ()).with_columns(self.schema, columns))]

    def close(self) -> None: ...

    def _column(
        self, name: str, batch: Batch, index: np.ndarray[tuple[int], np.dtype[np.intp]]
    ) -> pa.Array:
        if name in self._marks:
            return pa.array(np.tile(self._marks[name], batch.num_rows))
        lacking = self._node.emptied.get(name)
        if lacking is None:
            return batch.column(self._node.sources[name]).take(pa.array(index))
        return batch.column(name).take(pa.array(index, mask=np.tile(lacking, batch.num_rows)))
