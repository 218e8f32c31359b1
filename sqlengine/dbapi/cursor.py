"""Cursors of PEP 249, whose rows come while they are fetched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, Self

from parser.writer.parameters import Parameters, ParamStyle, template
from parser.writer.row_inserts import inserts, row_insert
from sqlengine.dbapi.errors import InterfaceError, translating
from sqlengine.dbapi.types import Description, describe

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlengine.connection.base import Connection
    from sqlengine.connection.results import Result

Row = tuple[Any, ...]


class Opened(Protocol):
    """The connection of a cursor. `engine` raises InterfaceError once it is closed."""

    @property
    def engine(self) -> Connection: ...

    @property
    def paramstyle(self) -> ParamStyle: ...


class Cursor:
    """Runs one statement after the other. For one thread, but for `cancel`.

    `description`: of the columns, None for a statement without rows; `rowcount`: rows that an
    INSERT has written, else -1, as rows are not counted before they come; `job`: the name of the
    job that an INSERT has become, as its input has no end."""

    def __init__(self, connection: Opened, *, follow: bool = False) -> None:
        self.connection = connection
        self.arraysize = 1
        self.description: list[Description] | None = None
        self.rowcount = -1
        self.lastrowid = None
        self.job: str | None = None
        self._follow = follow
        self._closed = False
        self._result: Result | None = None

    # ---- statements ------------------------------------------------------------------------------

    def execute(self, operation: str, parameters: Parameters | None = None) -> Self:
        """Runs a statement. Without parameters the text is taken as it is."""
        self._begin(operation)
        with translating():
            if parameters is not None:
                operation = template(operation, self.connection.paramstyle).bound(parameters)
            self._run(operation)
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> Self:
        """Runs a statement for each of the parameters; many rows of INSERT … VALUES at once. Those
        before one that fails stay written."""
        self._begin(operation)
        rows: int | None = 0
        with translating():
            for result in self._many(operation, seq_of_parameters):
                self._take(result)
                if self.description is not None:
                    raise InterfaceError("executemany is for statements without rows")
                rows = None if rows is None or self.rowcount < 0 else rows + self.rowcount
        self.rowcount = -1 if rows is None else rows
        return self

    def _many(self, operation: str, parameters: Iterable[Parameters]) -> Iterator[Result]:
        """Yields the results of statements for all parameters: rows of marks alone go as Arrow."""
        from sqlengine.connection.parameters import in_parts

        engine, style = self.connection.engine, self.connection.paramstyle
        insert = row_insert(operation, style)
        for part in (parameters,) if insert is None else in_parts(insert, parameters):
            if isinstance(part, tuple):
                yield engine.insert_rows(*part)
            else:
                yield from map(engine.sql, inserts(operation, style, part))

    def _begin(self, operation: object) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed")
        if not isinstance(operation, str):
            raise InterfaceError(f"a statement is a text, not {operation!r:.60}")
        self._end()
        self.description, self.rowcount, self.job = None, -1, None

    def _run(self, text: str) -> None:
        self._take(self.connection.engine.sql(text, follow=self._follow))

    def _take(self, result: Result) -> None:
        self._result = result
        skipped = 1 if result.changes else 0
        fields = list(result.schema)[skipped:]
        if fields or result.message is None:
            self.description = describe([(f.name, f.metadata[b"sql"].decode()) for f in fields])
        else:
            self._result = None
        self.job = None if result.job is None else result.job.name
        self.rowcount = -1 if result.rows_written is None else result.rows_written

    def cancel(self) -> None:
        """Ends the statement that runs; by any thread."""
        if (result := self._result) is not None:
            result.close()

    # ---- rows ------------------------------------------------------------------------------------

    @property
    def _rows(self) -> Result:
        if self._closed or self._result is None:
            raise InterfaceError(
                "the cursor is closed" if self._closed else "there is no result to fetch from"
            )
        return self._result

    def fetchone(self) -> Row | None:
        """Returns the next row, None behind the last."""
        with translating():
            return next(self._rows, None)

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """Returns the next rows, `arraysize` of them by default."""
        wanted: object = self.arraysize if size is None else size
        if not isinstance(wanted, int) or wanted < 0:
            raise InterfaceError(f"a number of rows is 0 or more, not {wanted!r:.60}")
        with translating():
            return list(islice(self._rows, wanted))

    def fetchall(self) -> list[Row]:
        """Returns all rows that are left."""
        with translating():
            return list(self._rows)

    def fetch_arrow_table(self) -> pa.Table:
        """Returns all rows that are left as an Arrow table."""
        with translating():
            return self._rows.to_arrow()

    def fetch_record_batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows that are left as Arrow record batches, as they come."""
        with translating():
            yield from self._rows.batches()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def setinputsizes(self, sizes: object) -> None:
        """Does nothing, as PEP 249 allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing, as PEP 249 allows."""

    # ---- its end ---------------------------------------------------------------------------------

    def _end(self) -> None:
        result, self._result = self._result, None
        if result is not None:
            result.close()

    def close(self) -> None:
        """Ends the statement, if it runs. May be called twice."""
        self._closed = True
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
