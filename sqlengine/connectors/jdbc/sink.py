"""Writing into a table of a database, exactly once.

The rows of an epoch and the number of the epoch, in a table of its own by writer, are one
transaction: what opens the database again sees both or neither, and an epoch that is repeated adds
nothing. With a primary key only the last change of each key in the epoch is written. Rows that the
database refuses are told before the others are written: behind them, a crash would lose them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from xxhash import xxh64_hexdigest

from parser.errors import ExecutionError, SqlError, TryAgain
from planner.catalog import Table
from sqlengine.batch import Batch
from sqlengine.connectors.base import RowsRefused, Sink
from sqlengine.connectors.environment import writer_of
from sqlengine.connectors.jdbc.dialect import DatabaseBusy, words
from sqlengine.connectors.jdbc.dialects import dialect_of
from sqlengine.connectors.jdbc.driver import Account, Connection, Cursor
from sqlengine.connectors.jdbc.refusals import refused_rows
from sqlengine.connectors.refused_rows import RefusedRows

_MOST_OF_WRITER = 200
_PATIENCE_MS: Final = 5_000


class JdbcSink(Sink):
    """Writes the rows of one writer to one table, with the epoch in the same transaction.

    A connection that was lost is opened again, as often as 'sink.max-retries' says. It does not
    wait for another's lock: the epoch is tried again later, for 5 s as often as that."""

    def __init__(
        self,
        table: Table,
        account: Account,
        options: Mapping[str, object],
        writer: str,
        clock: Callable[[], int],
    ) -> None:
        url, name = str(options["url"]), str(options["table-name"])
        self._dialect = dialect_of(url)
        self._url, self._account, self._table = url, account, name
        self._columns = {column.lower() for column in table.physical.names}
        self._statements = self._dialect.statements(table, name, str(options["sink.epoch-table"]))
        retries = options["sink.max-retries"]
        assert isinstance(retries, int)
        self._retries = retries
        self._clock = clock
        self._locked_since: int | None = None
        self._writer = writer_of(_shortened(writer), table, url, name)
        self._rows = self._dialect.writer(table, self._statements)
        self._fails = options["sink.on-error"] == "fail"
        self._refused: list[RefusedRows] = []
        self._connection: Connection | None = None
        self._last = self._prepare()

    def _prepare(self) -> int | None:
        """Looks for the last epoch, and whether the columns are there; makes the table of epochs
        where it is missing."""
        try:
            cursor = self._with_epochs()
            last = self._last_epoch(cursor)
            cursor.execute(self._statements.probe)
            cursor.fetchall()
            self._open().commit()
        except self._dialect.errors as error:
            hint = self._remedy()
            self.close()
            raise ExecutionError(
                f"table '{self._table}' of the {self._dialect.name} database cannot be written",
                detail=words(error),
                hint=hint,
            ) from None
        return last

    def _remedy(self) -> str | None:
        """Returns what to do about a table that cannot be written, where it is not there or lacks a
        column; else the database's words say it."""
        try:
            connection = self._open()
            connection.rollback()
            cursor = connection.cursor()
            cursor.execute(f"SELECT * FROM {self._dialect.table_name(self._table)} WHERE 1 = 0")
            columns = [str(column[0]) for column in cursor.description or ()]
        except self._dialect.errors:
            return f"make it in the database: {self._statements.definition}"
        if columns and self._columns <= {c.lower() for c in columns}:
            return None
        return f"it has the columns {', '.join(columns)}; declare those, or add to them there"

    def _with_epochs(self) -> Cursor:
        """Returns a cursor of a database that has a table of epochs. It is not made where it is
        there: who writes need not have the right to."""
        cursor = self._open().cursor()
        try:
            self._last_epoch(cursor)
        except self._dialect.errors:
            self._open().rollback()
            cursor.execute(self._statements.make_epochs)
        return cursor

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = self._dialect.open(self._url, self._account)
        return self._connection

    def _last_epoch(self, cursor: Cursor) -> int | None:
        cursor.execute(self._statements.last_epoch, (self._writer,))
        found = cursor.fetchone()
        return None if found is None else int(str(found[0]))

    def last_epoch(self) -> int | None:
        return self._last

    def write(self, batch: Batch) -> None:
        if batch.num_rows:
            self._rows.add(batch)

    def commit(self, epoch: int) -> int:
        """See `Sink`. TryAgain where the database has no space, or is locked: the rows stay."""
        if not len(self._rows):
            return 0
        for attempt in range(self._retries + 1):
            try:
                done = self._transaction(epoch)
            except self._dialect.errors as error:
                self.close()
                found = self._dialect.failed(self._table, error)
                if isinstance(found, DatabaseBusy):
                    raise self._locked(found) from None
                if attempt == self._retries or isinstance(found, TryAgain):
                    raise found from None
            else:
                self._locked_since = None
                count = self._rows.accepted if done else 0
                self._rows.clear()
                self._last = max(self._last or 0, epoch)
                return count
        raise AssertionError("unreachable")

    def _locked(self, busy: DatabaseBusy) -> SqlError:
        """Returns the error to raise for a lock: TryAgain, or a failure once that was tried long
        enough."""
        now = self._clock()
        self._locked_since = now if self._locked_since is None else self._locked_since
        if now - self._locked_since < (self._retries + 1) * _PATIENCE_MS:
            return busy
        return ExecutionError(
            busy.message,
            detail=busy.detail,
            hint="end what holds the lock, and start the job again",
        )

    def refused(self) -> Sequence[RefusedRows]:
        """See `Sink`."""
        refused, self._refused = self._refused, []
        return refused

    def _transaction(self, epoch: int) -> bool:
        """Writes the epoch; False where it is there already. RowsRefused where the database refuses
        rows of it."""
        try:
            return self._written(epoch, self._at_once)
        except self._dialect.errors as error:
            if self._fails or not self._dialect.at_fault(error):
                raise
            self._open().rollback()
            return self._written(epoch, self._by_halves)

    def _written(self, epoch: int, write: Callable[[Cursor], None]) -> bool:
        cursor = self._open().cursor()
        if self._dialect.hurry:
            cursor.execute(self._dialect.hurry)  # a graph waits with it
        cursor.execute(self._dialect.begin)
        last = self._last_epoch(cursor)
        if last is None or last < epoch:
            write(cursor)
            cursor.execute(self._statements.note_epoch, (self._writer, epoch))
            if cursor.rowcount != 0:  # nobody has noted it since, where no lock kept them from it
                self._open().commit()
                return True
        self._open().rollback()
        return False

    def _at_once(self, cursor: Cursor) -> None:
        self._rows.apply(cursor, self._rows.places())

    def _by_halves(self, cursor: Cursor) -> None:
        """Writes all rows, some after the others. RowsRefused, with nothing written, where the
        database refuses some: these are left out from then on."""
        if found := refused_rows(cursor, self._dialect, self._rows):
            self._open().rollback()
            self._refused += self._rows.refuse(found)
            raise RowsRefused(
                f"the {self._dialect.name} database refuses rows of table '{self._table}'",
                hint="they become dead letters, and the others are written",
            )

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                # First, as SQLite closes no connection of which a cursor is left, and an error
                # that is kept has one: its lock would stay.
                connection.rollback()
                connection.close()
            except self._dialect.errors:
                return  # it was lost; what it had begun is undone by the database


def _shortened(writer: str) -> str:
    """Returns the writer's key in the table of epochs, different for each writer."""
    return (
        writer
        if len(writer) <= _MOST_OF_WRITER
        else f"{writer[:180]}-{xxh64_hexdigest(writer.encode())}"
    )
