"""Rows that are handed to a driver one by one, as values of Python."""

from __future__ import annotations

from planner.catalog import Table
from sqlengine.batch import Batch, RowKind
from sqlengine.connectors.jdbc.dialect import Writer
from sqlengine.connectors.jdbc.driver import Cursor, Value
from sqlengine.connectors.jdbc.statements import Statements
from sqlengine.connectors.jdbc.values import written

Row = tuple[Value, ...]


class RowWriter(Writer):
    """Keeps each row with whether it goes; with a key the last row of each is written."""

    def __init__(self, table: Table, statements: Statements) -> None:
        self._columns = table.physical
        self._key = [self._columns.names.index(k) for k in table.primary_key]
        self._statements = statements
        self._rows: list[tuple[Row, bool]] = []

    def add(self, batch: Batch) -> None:
        columns = [written(batch.column(c.name), c.type) for c in self._columns]
        kinds = [RowKind.INSERT] * batch.num_rows if batch.kinds is None else batch.kinds.tolist()
        goes = [k in (RowKind.DELETE, RowKind.UPDATE_BEFORE) for k in kinds]
        self._rows += zip(zip(*columns, strict=True), goes, strict=True)

    def __len__(self) -> int:
        return len(self._rows)

    def clear(self) -> None:
        self._rows = []

    def apply(self, cursor: Cursor) -> None:
        if not self._key:
            cursor.executemany(self._statements.insert, [row for row, _ in self._rows])
            return
        latest = {tuple(row[k] for k in self._key): (row, goes) for row, goes in self._rows}
        gone = [key for key, (_, goes) in latest.items() if goes]
        kept = [row for row, goes in latest.values() if not goes]
        if gone:
            cursor.executemany(self._statements.delete, gone)
        if kept:
            cursor.executemany(self._statements.insert, kept)
