"""Asking a database for rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from parser.errors import ExecutionError
from planner.catalog import Table
from planner.rewrite import conjuncts
from planner.scalar import Scalar
from sqlengine.connectors.health import Health
from sqlengine.connectors.jdbc.conditions import asked
from sqlengine.connectors.jdbc.dialect import Query, Shape, words
from sqlengine.connectors.jdbc.dialects import dialect_of
from sqlengine.connectors.jdbc.driver import Account, Connection, Cursor
from sqlengine.connectors.jdbc.loading import Loaded
from sqlengine.connectors.jdbc.partitions import Partition


class TableReader:
    """Reads one table; each call has a connection of its own, unless it is kept (`keeps`) until
    `close`. `fetch`: how many rows the driver is asked for at a time, 0 for as many as are good.
    ExecutionError where the database refuses."""

    def __init__(self, table: Table, account: Account, fetch: int, *, keeps: bool = False) -> None:
        self.name = table.options["table-name"]
        self._url = table.options["url"]
        self._table = table
        self._account = account
        self._fetch = fetch
        self._dialect = dialect_of(self._url)
        self._where: Scalar | None = None
        self._limit = 0
        self.health: Health = Health()
        self._keeps = keeps
        self._connection: Connection | None = None
        self._shape: Shape | None = None

    def ask(self, where: Scalar | None, limit: int) -> None:
        """Lets the database leave out rows: see `Source.apply_query`."""
        self._where, self._limit = where, limit

    def load(self, partition: Partition | None = None) -> Loaded:
        """Returns the rows of the table, or of a partition, in the order of the primary key or,
        without one, of all columns."""
        dialect = self._dialect
        with self._cursor() as cursor:
            shape = self._shaped(cursor)
            text = f"SELECT {', '.join(shape.columns)} FROM {dialect.table_name(self.name)}"
            behind = f" ORDER BY {', '.join(shape.order)}"
            behind += f" LIMIT {self._limit}" if self._limit else ""
            query = self._query(text, shape, partition, behind)
            return dialect.load(cursor, query, self._table, self._fetch)

    def counts(self, partitions: Sequence[Partition]) -> list[int]:
        """Returns the number of rows of each partition."""
        found = []
        with self._cursor() as cursor:
            text = f"SELECT COUNT(*) FROM {self._dialect.table_name(self.name)}"
            shape = self._shaped(cursor)
            for partition in partitions:
                query = self._query(text, shape, partition)
                self._dialect.ask(cursor, query)
                (row,) = cursor.fetchall()
                found.append(int(str(row[0])))
        return found

    def _query(
        self, text: str, shape: Shape, partition: Partition | None, behind: str = ""
    ) -> Query:
        parts = asked(self._where, shape.types, self._dialect)
        self.health.conditions = len(parts)
        if partition is not None:
            ends = (partition.start, partition.stop)
            parts.append(Query(partition.condition(self._dialect), ends))
        where = " WHERE " + " AND ".join(p.text for p in parts) if parts else ""
        return Query(f"{text}{where}{behind}", tuple(v for p in parts for v in p.values))

    def probe(self) -> None:
        """Raises where the table is not there, or has other columns."""
        with self._cursor() as cursor:
            columns = ", ".join(self._shaped(cursor).columns)
            name = self._dialect.table_name(self.name)
            self._dialect.ask(cursor, Query(f"SELECT {columns} FROM {name} WHERE 1 = 0"))

    def judges(self, where: Scalar) -> bool:
        """Returns True if the database can judge the whole condition."""
        with self._cursor() as cursor:
            found = asked(where, self._shaped(cursor).types, self._dialect)
            return len(found) == len(conjuncts(where))

    def likens(self, column: str) -> bool:
        """Returns True if the database may find texts in a column equal that differ, as by case
        or blanks at their ends."""
        with self._cursor() as cursor:
            return self._shaped(cursor).types.get(column) not in self._dialect.exact

    def _shaped(self, cursor: Cursor) -> Shape:
        if self._shape is None or not self._keeps:
            found = self._dialect.shape(cursor, self._table, self.name)
            types = self._dialect.key_types(cursor, self.name) if self._keeps else {}
            self._shape = replace(found, types={**found.types, **types})
        return self._shape

    @contextmanager
    def _cursor(self) -> Iterator[Cursor]:
        dialect = self._dialect
        connection = self._connection or dialect.open(self._url, self._account)
        self._connection = connection
        try:
            yield dialect.reading(connection, self._fetch)
        except dialect.errors as error:
            raise ExecutionError(
                f"table '{self.name}' of the {dialect.name} database cannot be read",
                detail=words(error),
            ) from None
        finally:
            if not self._keeps:
                self.close()

    def close(self) -> None:
        """Closes a connection that is kept."""
        connection, self._connection = self._connection, None
        if connection is not None:
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
