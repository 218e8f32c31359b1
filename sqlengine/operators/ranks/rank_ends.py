"""The last wanted rank of each partition: a constant, or a column of the partition's first row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, Schema
from planner.logical import Rank
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import NO_TICK, Context, Rest, expiry
from sqlengine.operators.ranks.top_n import NUMBER, TOUCHED
from sqlengine.state.keys import batch_keys


class RankEnds:
    """The last wanted rank by partition.

    State: table `ends`, partition -> `#end`, taken from its first row; with a TTL it expires so
    long after that row. Flink's VariableRankRange.
    """

    def __init__(self, context: Context, node: Rank) -> None:
        self._node = node
        if node.end_column is None:
            return
        touched = (Column(TOUCHED, NUMBER),) if node.ttl_ms else ()
        key = node.input.schema.select(node.partition)
        self._table = context.table(
            "ends", key, Schema((Column("#end", NUMBER), *touched)), node.partition
        )

    def of(self, batch: Batch) -> IntArray:
        """Returns the last wanted rank of each row's partition."""
        if self._node.end_by is not None:
            given: IntArray = batch.column(self._node.end_by).to_numpy()
            return given
        if self._node.end_column is None:
            return np.full(batch.num_rows, self._node.end)
        slots, is_new = self._table.slots_for(
            batch_keys(batch, self._node.partition), batch.num_rows
        )
        # Only the first row of a partition sets the end; later values of the column are ignored.
        first = np.flatnonzero(is_new)
        if len(first):
            limits = (
                batch.column(self._node.end_column)
                .take(pa.array(first))
                .cast(BIGINT.arrow)
                .fill_null(0)
            )
            self._table.columns["#end"][slots[first]] = np.maximum(
                limits.to_numpy() - self._node.end_cut, 0
            )
            if self._node.ttl_ms:
                self._table.columns[TOUCHED][slots[first]] = batch.proctime
            self._table.mark(slots[first])
        ends: IntArray = self._table.columns["#end"][slots].astype(np.int64)
        return ends

    def rest(self) -> Rest:
        """Returns which tick is the first that removes an entry."""
        if self._node.end_column is None:
            return NO_TICK
        return expiry(self._table, TOUCHED, self._node.ttl_ms)

    def forget(self, proctime: int) -> None:
        """Removes entries whose TTL is over at `proctime` (ms)."""
        if self._node.end_column is not None and self._node.ttl_ms:
            self._table.remove(self._table.due(TOUCHED, proctime - self._node.ttl_ms))
