"""Writing into a table of a database, exactly once.

The rows of an epoch and the number of the epoch, in a table of its own by writer, are one
transaction: what opens the database again sees both or neither, and an epoch that is repeated adds
nothing. With a primary key only the last change of each key in the epoch is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from xxhash import xxh64_hexdigest

from parser.errors import ExecutionError, SqlError, TryAgain
from planner.catalog import Table
from sqlengine.batch import Batch, RowKind
from sqlengine.connectors.base import Sink
from sqlengine.connectors.environment import writer_of
from sqlengine.connectors.jdbc.dialects import (
    Account,
    Connection,
    Cursor,
    DatabaseBusy,
    Dialect,
    Value,
    dialect_of,
)
from sqlengine.connectors.jdbc.values import written

Row = tuple[Value, ...]
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
        self._columns = table.physical
        self._key = [self._columns.names.index(k) for k in table.primary_key]
        self._statements = _Statements(self._dialect, table, name, str(options["sink.epoch-table"]))
        retries = options["sink.max-retries"]
        assert isinstance(retries, int)
        self._retries = retries
        self._clock = clock
        self._locked_since: int | None = None
        self._writer = writer_of(_shortened(writer), table, url, name)
        self._pending: list[tuple[Row, bool]] = []
        self._connection: Connection | None = None
        self._last = self._prepare()

    def _prepare(self) -> int | None:
        """Makes the table of epochs, looks whether the columns are there, and reads the last
        epoch."""
        try:
            cursor = self._open().cursor()
            cursor.execute(self._statements.make_epochs)
            cursor.execute(self._statements.probe)
            cursor.fetchall()
            last = self._last_epoch(cursor)
            self._open().commit()
        except self._dialect.errors() as error:
            self.close()
            raise ExecutionError(
                f"table '{self._table}' of the {self._dialect.name} database cannot be written",
                detail=str(error.args[-1]) if error.args else None,
                hint=f"make it in the database: {self._statements.definition}",
            ) from None
        return last

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
        if not batch.num_rows:
            return
        columns = [written(batch.column(c.name), c.type) for c in self._columns]
        kinds = [RowKind.INSERT] * batch.num_rows if batch.kinds is None else batch.kinds.tolist()
        goes = [k in (RowKind.DELETE, RowKind.UPDATE_BEFORE) for k in kinds]
        self._pending += zip(zip(*columns, strict=True), goes, strict=True)

    def commit(self, epoch: int) -> int:
        """See `Sink`. TryAgain where the database has no space, or is locked: the rows stay."""
        if not self._pending:
            return 0
        for attempt in range(self._retries + 1):
            try:
                done = self._transaction(epoch)
            except self._dialect.errors() as error:
                self.close()
                found = self._dialect.failed(self._table, error)
                if isinstance(found, DatabaseBusy):
                    raise self._locked(found) from None
                if attempt == self._retries or isinstance(found, TryAgain):
                    raise found from None
            else:
                self._locked_since = None
                count = len(self._pending) if done else 0
                self._pending, self._last = [], epoch
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

    def _transaction(self, epoch: int) -> bool:
        """Writes the epoch; False where it is there already."""
        cursor = self._open().cursor()
        cursor.execute(self._dialect.hurry)  # a graph waits with it
        cursor.execute(self._dialect.begin)
        last = self._last_epoch(cursor)
        if last is not None and last >= epoch:
            self._open().rollback()
            return False
        self._apply(cursor)
        cursor.execute(self._statements.note_epoch, (self._writer, epoch))
        self._open().commit()
        return True

    def _apply(self, cursor: Cursor) -> None:
        if not self._key:
            cursor.executemany(self._statements.insert, [row for row, _ in self._pending])
            return
        latest = {tuple(row[k] for k in self._key): (row, goes) for row, goes in self._pending}
        gone = [key for key, (_, goes) in latest.items() if goes]
        kept = [row for row, goes in latest.values() if not goes]
        if gone:
            cursor.executemany(self._statements.delete, gone)
        if kept:
            cursor.executemany(self._statements.insert, kept)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                # First, as SQLite closes no connection of which a cursor is left, and an error
                # that is kept has one: its lock would stay.
                connection.rollback()
                connection.close()
            except self._dialect.errors():
                return  # it was lost; what it had begun is undone by the database


class _Statements:
    """The SQL that a sink sends to its database. `definition` is a CREATE TABLE that would fit."""

    def __init__(self, dialect: Dialect, table: Table, name: str, epochs: str) -> None:
        names = [dialect.quoted(c.name) for c in table.physical]
        key = [dialect.quoted(k) for k in table.primary_key]
        target, epochs = dialect.quoted(name), dialect.quoted(epochs)
        conflict = dialect.on_conflict(key, [n for n in names if n not in key]) if key else ""
        self.insert = (
            f"INSERT INTO {target} ({', '.join(names)}) VALUES ({_marks(dialect, names)}){conflict}"
        )
        self.delete = f"DELETE FROM {target} WHERE " + " AND ".join(
            f"{k} = {dialect.mark}" for k in key
        )
        self.probe = f"SELECT {', '.join(names)} FROM {target} WHERE 1 = 0"
        self.make_epochs = (
            f"CREATE TABLE IF NOT EXISTS {epochs} (writer {dialect.text} PRIMARY KEY, epoch BIGINT"
            " NOT NULL)"
        )
        self.last_epoch = f"SELECT epoch FROM {epochs} WHERE writer = {dialect.mark}{dialect.lock}"
        note = dialect.on_conflict(["writer"], ["epoch"])
        self.note_epoch = (
            f"INSERT INTO {epochs} (writer, epoch) VALUES"
            f" ({_marks(dialect, ('writer', 'epoch'))}){note}"
        )
        parts = [
            f"{n} {dialect.type_name(c.type, n in key)}"
            for n, c in zip(names, table.physical, strict=True)
        ]
        parts += [f"PRIMARY KEY ({', '.join(key)})"] if key else []
        self.definition = f"CREATE TABLE {target} ({', '.join(parts)})"


def _shortened(writer: str) -> str:
    """Returns the writer's key in the table of epochs, different for each writer."""
    return (
        writer
        if len(writer) <= _MOST_OF_WRITER
        else f"{writer[:180]}-{xxh64_hexdigest(writer.encode())}"
    )


def _marks(dialect: Dialect, names: Sequence[str]) -> str:
    return ", ".join([dialect.mark] * len(names))
