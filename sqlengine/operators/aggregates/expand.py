"""GROUPING SETS, ROLLUP, CUBE: emits each row once for each grouping set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from planner.logical import Expand
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import NO_TICK, Context, Rest, Stream
from sqlengine.operators.bounded import repeated


class ExpandOperator:
    """Emits each row once for each set of grouped columns, all copies of one row before those of
    the next, in slices of few rows.

    Flink's StreamExecExpand. Stateless. Emits the columns that are read downstream (`columns`).
    """

    def __init__(self, node: Expand, columns: Sequence[str]) -> None:
        self.schema = node.schema.select(tuple(columns))
        self._node = node
        self._marks = {name: np.array(values, np.int64) for name, values in node.marks}

    def open(self, context: Context) -> None: ...

    def process(self, port: int, batch: Batch) -> Stream:
        if not batch.num_rows:
            return [(0, replace(batch.tick(self.schema), origin=batch.origin))]
        return self._expanded(batch)

    def rest(self) -> Rest:
        return NO_TICK

    def close(self) -> None: ...

    def _expanded(self, batch: Batch) -> Stream:
        counts = np.full(batch.num_rows, len(self._node.sets))
        for part, rows, nth in repeated(batch, counts, ()):
            columns = [self._column(name, batch, rows, nth) for name in self.schema.names]
            yield 0, part.with_columns(self.schema, columns)

    def _column(self, name: str, batch: Batch, rows: IntArray, nth: IntArray) -> pa.Array:
        if name in self._marks:
            return pa.array(self._marks[name][nth])
        lacking = self._node.emptied.get(name)
        if lacking is None:
            return batch.column(self._node.sources[name]).take(pa.array(rows))
        return batch.column(name).take(pa.array(rows, mask=np.asarray(lacking)[nth]))
