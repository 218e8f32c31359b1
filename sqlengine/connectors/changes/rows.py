"""Rows of the changes in a log, for one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from parser.types import STRING, Column, DataType, Schema, timestamp_ltz
from planner.catalog import Table
from sqlengine.broker.base import Records
from sqlengine.connectors.changes.positions import COMPLETE, marks_of
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.jdbc.array_literals import elements_of
from sqlengine.connectors.jdbc.copy_out import columns_of_csv
from sqlengine.connectors.topic.rows import TopicRows

# The keys of metadata columns, as Flink's connector has them.
COLUMNS: Final[Mapping[str, DataType]] = {
    "op_ts": timestamp_ltz(3),
    "database_name": STRING,
    "schema_name": STRING,
    "table_name": STRING,
}
_OPTIONS: Final[Mapping[str, str]] = {
    "database_name": "database-name",
    "schema_name": "schema-name",
    "table_name": "table-name",
}


class ChangeRows(TopicRows):
    """Makes rows of the snapshot that is complete, and of the changes behind it. `snapshot`: which
    it is; rows of others were taken before a crash, and are there again."""

    def __init__(self, table: Table, options: Mapping[str, object], *, upsert: bool) -> None:
        super().__init__(replace(table, metadata=()))
        self.snapshot: int | None = None
        self._declared = table
        self._options = options
        physical = table.physical
        if upsert:  # a row that is gone has its key alone
            nullable = (Column(c.name, c.type.with_nullable(True)) for c in physical)
            physical = Schema(tuple(nullable))
        self._table = replace(table, physical=physical)

    def chunk(self, shard: str, start: int, records: Records) -> Chunk:
        assert records.keys is not None
        marks = marks_of(records.keys)
        mine = (marks.snapshots == self.snapshot) & (marks.kinds != COMPLETE)
        values = records.values if mine.all() else records.values.filter(pa.array(mine))
        count = len(values)
        found = columns_of_csv(b"\n".join([*values.to_pylist(), b""]), self._table, elements_of)
        for declared in self._declared.metadata:
            made = self._metadata(declared.key, marks.times[mine])
            found[declared.column.name] = made.cast(declared.column.type.arrow, safe=False)
        kinds = marks.kinds[mine].astype(np.int8)
        return Chunk(
            shard,
            start,
            records.next_offset,
            count,
            columns=found,
            offsets=records.offsets[mine],
            kinds=kinds,
        )

    def _metadata(self, key: str, times: np.typing.NDArray[np.int64]) -> pa.Array:
        if key == "op_ts":
            return pa.array(times).view(pa.timestamp("ms", "UTC"))
        value = str(self._options[_OPTIONS[key]])
        return pa.array(np.full(len(times), value, dtype=object), pa.string())
