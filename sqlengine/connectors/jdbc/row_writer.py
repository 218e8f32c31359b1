"""Rows that are handed to a driver one by one, as values of Python."""

from __future__ import annotations

from collections.abc import Iterable

from sqlengine.connectors.jdbc.driver import Cursor, Value
from sqlengine.connectors.jdbc.values import written
from sqlengine.connectors.jdbc.writer import Columns, Writer


class RowWriter(Writer):
    """Writes rows as values of Python."""

    def _insert(self, cursor: Cursor, rows: Columns) -> None:
        cursor.executemany(self._statements.insert, self._values(rows, self._schema.names))

    def _delete(self, cursor: Cursor, keys: Columns) -> None:
        cursor.executemany(self._statements.delete, self._values(keys, self._key))

    def _values(self, rows: Columns, names: tuple[str, ...]) -> list[tuple[Value, ...]]:
        kinds = {c.name: c.type for c in self._schema}
        columns: Iterable[list[Value]] = (
            written(rows[name].combine_chunks(), kinds[name]) for name in names
        )
        return list(zip(*columns, strict=True))
