"""Asking a database for rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from parser.errors import ExecutionError
from planner.catalog import Table
from sqlengine.connectors.jdbc.dialects import Account, Cursor, Dialect, dialect_of
from sqlengine.connectors.jdbc.partitions import Partition

Rows = list[tuple[object, ...]]


class TableReader:
    """Reads one table; each call has a connection of its own. `fetch`: how many rows the driver is
    asked for at a time, 0 for all. ExecutionError where the database refuses."""

    def __init__(self, table: Table, account: Account, fetch: int) -> None:
        self.name = table.options["table-name"]
        self._url = table.options["url"]
        self._table = table
        self._account = account
        self._fetch = fetch
        self._dialect = dialect_of(self._url)

    def rows(self, partition: Partition | None = None) -> Rows:
        """Returns the rows of the table, or of a partition, in the order of the primary key or,
        without one, of all columns."""
        dialect = self._dialect
        columns = [dialect.quoted(c.name) for c in self._table.physical]
        order = [dialect.quoted(k) for k in self._table.primary_key] or columns
        text = f"SELECT {', '.join(columns)} FROM {dialect.quoted(self.name)}"
        with self._cursor() as cursor:
            _ask(cursor, dialect, text, partition, f" ORDER BY {', '.join(order)}")
            return [tuple(row) for row in self._fetched(cursor)]

    def counts(self, partitions: Sequence[Partition]) -> list[int]:
        """Returns the number of rows of each partition."""
        found = []
        with self._cursor() as cursor:
            text = f"SELECT COUNT(*) FROM {self._dialect.quoted(self.name)}"
            for partition in partitions:
                _ask(cursor, self._dialect, text, partition)
                (row,) = cursor.fetchall()
                found.append(int(str(row[0])))
        return found

    def _fetched(self, cursor: Cursor) -> Iterator[Sequence[object]]:
        if not self._fetch:
            yield from cursor.fetchall()
            return
        while rows := cursor.fetchmany(self._fetch):
            yield from rows

    @contextmanager
    def _cursor(self) -> Iterator[Cursor]:
        dialect = self._dialect
        connection = dialect.open(self._url, self._account)
        try:
            yield connection.cursor()
        except dialect.errors() as error:
            raise ExecutionError(
                f"table '{self.name}' of the {dialect.name} database cannot be read",
                detail=str(error.args[-1]) if error.args else None,
            ) from None
        finally:
            connection.close()

    def changed(self) -> ExecutionError:
        """Returns the error for a table whose rows are not those of before."""
        return ExecutionError(
            f"table '{self.name}' has changed while it was read",
            detail=(
                "the job was stopped in between, and the rows that were left are not those of then"
            ),
            hint="remove the job and submit it again: it reads the table as it is now",
        )


def _ask(
    cursor: Cursor, dialect: Dialect, text: str, partition: Partition | None, behind: str = ""
) -> None:
    if partition is None:
        cursor.execute(text + behind)
    else:
        text = f"{text} WHERE {partition.condition(dialect)}{behind}"
        cursor.execute(text, (partition.start, partition.stop))
