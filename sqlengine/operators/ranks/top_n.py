"""The base class of Top-N operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, Column, Schema
from planner.logical import Rank
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import Context, Output, Rest, expiry
from sqlengine.operators.changelog.row_kinds import Kinds, plain
from sqlengine.state.columns import BoolArray, Values
from sqlengine.state.keys import Key
from sqlengine.state.rows import RowsTable
from sqlengine.state.sort_keys import Sorting

# The processing time (ms) of a row's last write.
TOUCHED, NUMBER = "#touched", BIGINT.with_nullable(False)

# An output row: the number of the row, its kind, its rank.
RankChange: TypeAlias = tuple[int, np.int8, int]


@dataclass(frozen=True)
class RankChanges:
    """The output rows of a batch, in order: the number of each row, its kind, its rank."""

    rows: IntArray
    kinds: Kinds
    ranks: IntArray

    @staticmethod
    def of(changes: Sequence[RankChange]) -> RankChanges:
        """Collects changes that were made one by one."""
        rows, kinds, ranks = zip(*changes, strict=True) if changes else ((), (), ())
        return RankChanges(
            np.array(rows, np.int64), np.array(kinds, np.int8), np.array(ranks, np.int64)
        )

    def __len__(self) -> int:
        return len(self.rows)


class TopNOperator:
    """Maintains the rows of each partition in order, for `ttl_ms` at most, and emits for each batch
    what it changes.

    State: table `rows`, partition and identity -> rows in order, with `#touched` (ms) with a TTL.
    """

    _rows: RowsTable

    def __init__(self, node: Rank) -> None:
        self._node = node
        self._names = node.input.schema.names

    def process(self, port: int, batch: Batch) -> Output:
        if self._node.ttl_ms:
            self._rows.drop(self._rows.table.due(TOUCHED, batch.proctime - self._node.ttl_ms))
        result = self._change(batch) if batch.num_rows else None
        return [(0, result or batch.tick(self._node.schema))]

    def rest(self) -> Rest:
        return expiry(self._rows.table, TOUCHED, self._node.ttl_ms)

    def close(self) -> None: ...

    def _change(self, batch: Batch) -> Batch | None:
        """Returns the changes that the rows of a batch cause; None for none."""
        raise NotImplementedError

    def _table(
        self,
        context: Context,
        identity: Schema,
        values: Schema,
        by: Sorting | None,
        form: type[RowsTable] = RowsTable,
    ) -> RowsTable:
        """Opens the state: rows by partition, identified by `identity`; in the order of their
        arrival without another one."""
        if self._node.ttl_ms:
            values = Schema((Column(TOUCHED, NUMBER), *values))
        key = self._node.input.schema.select(self._node.partition)
        return form(context, "rows", key, identity, values, self._node.partition, by)

    def _put(
        self,
        batch: Batch,
        key: Sequence[Key],
        identity: Sequence[Key],
        values: Sequence[Values],
        num_rows: int,
        sort_keys: Sequence[bytes] | None = None,
    ) -> tuple[IntArray, BoolArray]:
        """Puts rows of the batch, like `RowsTable.put`."""
        if self._node.ttl_ms:
            values = [np.full(num_rows, batch.proctime), *values]
        return self._rows.put(key, identity, values, num_rows, sort_keys)

    def _result(self, batch: Batch, columns: list[pa.Array], changes: RankChanges) -> Batch:
        """Returns the output rows; `columns` are theirs but for kind and rank."""
        if self._node.rank_name is not None:
            columns = [*columns, pa.array(changes.ranks)]
        tick, kinds = batch.tick(self._node.schema), plain(changes.kinds)
        return replace(tick, columns=tuple(columns), num_rows=len(changes), kinds=kinds)


def select_rows(batch: Batch, rows: IntArray) -> Batch:
    """Returns these rows; the watermark after the batch stays."""
    return (
        batch
        if len(rows) == batch.num_rows
        else replace(batch.take(rows), watermark=batch.watermark)
    )
