"""Dialects: how a kind of database is reached, its SQL, and its errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final
from urllib.parse import SplitResult, urlsplit

from parser.errors import ExecutionError, PlanError, SqlError, TryAgain
from parser.types import DataType
from planner.catalog import Table
from sqlengine.batch import Batch
from sqlengine.connectors.base import Busy
from sqlengine.connectors.jdbc.driver import Account, Connection, Cursor, Value
from sqlengine.connectors.jdbc.loading import Loaded, load_rows
from sqlengine.connectors.jdbc.statements import Statements
from sqlengine.connectors.jdbc.writer import Writer

# Stands for a value in a statement until it is `Dialect.complete`: `Dialect.quoted` takes no name
# that has it.
MARK: Final = "\0"


class DatabaseBusy(Busy):
    """Raised where another holds a lock on what is written to."""


class DatabaseFull(TryAgain):
    """Raised where a database has no space for what is written."""


@dataclass(frozen=True)
class Shape:
    """The columns of a table as a SELECT names them, those that order its rows, and the types of
    all in the database, where it has some."""

    columns: tuple[str, ...]
    order: tuple[str, ...]
    types: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Query:
    """A statement with a MARK for each of its values."""

    text: str
    values: tuple[Value, ...] = ()


class Dialect(ABC):
    """The SQL of one kind of database, and its driver.

    `quote` stands around names, `mark` for a value, as the driver has it; `hurry` lets statements
    wait for a lock no longer than a moment, `begin` opens a transaction that writes; `text` is the
    type of a text that can be a key; `lock` stands behind a SELECT whose row no other may
    change; `at_once` makes a transaction judge every row as it comes; `exact` are the types of
    texts of which no two that differ are equal there."""

    name: ClassVar[str]
    prefixes: ClassVar[tuple[str, ...]]
    example: ClassVar[str]
    quote: ClassVar[str]
    mark: ClassVar[str] = "%s"
    hurry: ClassVar[str] = ""
    begin: ClassVar[str]
    text: ClassVar[str]
    lock: ClassVar[str] = ""
    at_once: ClassVar[str] = ""
    exact: ClassVar[frozenset[str]] = frozenset()
    arrays: ClassVar[bool] = False

    @abstractmethod
    def on_conflict(self, target: str, key: Sequence[str], others: Sequence[str]) -> str:
        """Returns what an INSERT into `target` does with a key that exists, from the columns of the
        key and the others."""

    @abstractmethod
    def connect(self, url: str, account: Account) -> Connection:
        """Connects to a URL without 'jdbc:'; raises one of `errors`, as all statements do."""

    def files(self, url: str) -> Sequence[Path]:
        """Returns the files that a URL names, which the driver opens."""
        return ()

    @property
    @abstractmethod
    def errors(self) -> type[Exception]:
        """The class of all errors of the driver."""

    @abstractmethod
    def full(self, error: Exception) -> bool:
        """True if the database has no space: the same statement may work later."""

    @abstractmethod
    def busy(self, error: Exception) -> bool:
        """True if another transaction is in the way: the same statement may work later."""

    @abstractmethod
    def at_fault(self, error: Exception) -> bool:
        """True if rows are at fault: others may be written."""

    @abstractmethod
    def writer(self, table: Table, statements: Statements) -> Writer:
        """Returns what writes the rows of a table, within the transaction of a sink."""

    def statements(self, table: Table, name: str, epochs: str) -> Statements:
        """Returns what a sink says to write to the table `name`, with the table of `epochs`."""
        names = tuple(self.quoted(c.name) for c in table.physical)
        key = tuple(self.quoted(k) for k in table.primary_key)
        target, epochs = self.table_name(name), self.table_name(epochs)
        others = [n for n in names if n not in key]
        conflict = self.on_conflict(target, key, others) if key else ""
        note = self.on_conflict(epochs, ("writer",), ("epoch",))
        same = " AND ".join(f"{k} = {MARK}" for k in key)
        return Statements(
            quoted=self.quoted,
            target=target,
            columns=names,
            key=key,
            conflict=conflict,
            insert=self.complete(f"{self._insert(target, names)}{conflict}"),
            delete=self.complete(f"DELETE FROM {target} WHERE {same}"),
            probe=f"SELECT {', '.join(names)} FROM {target} WHERE 1 = 0",
            make_epochs=f"CREATE TABLE IF NOT EXISTS {epochs}"
            f" (writer {self.text} PRIMARY KEY, epoch BIGINT NOT NULL)",
            last_epoch=self.complete(
                f"SELECT epoch FROM {epochs} WHERE writer = {MARK}{self.lock}"
            ),
            note_epoch=self.complete(f"{self._insert(epochs, ('writer', 'epoch'))}{note}"),
            definition=self._definition(table, target),
        )

    def _definition(self, table: Table, target: str) -> str:
        """Returns the CREATE TABLE of a table that is not there yet."""
        kinds = [
            f"{self.quoted(c.name)} {self.type_name(c.type, c.name in table.primary_key)}"
            for c in table.physical
        ]
        if table.primary_key:
            kinds.append(f"PRIMARY KEY ({', '.join(map(self.quoted, table.primary_key))})")
        return f"CREATE TABLE {target} ({', '.join(kinds)})"

    def complete(self, text: str) -> str:
        """Returns a statement with values as the driver wants it."""
        return text.replace("%", "%%").replace(MARK, self.mark)

    def _insert(self, target: str, names: Sequence[str]) -> str:
        marks = ", ".join([MARK] * len(names))
        return f"INSERT INTO {target} ({', '.join(names)}) VALUES ({marks})"

    def reading(self, connection: Connection, fetch: int) -> Cursor:
        """Returns a cursor that holds about `fetch` rows at a time (0: as many as the driver
        likes)."""
        return connection.cursor()

    def shape(self, cursor: Cursor, table: Table, name: str) -> Shape:
        """Returns how the columns of a table are asked for. ExecutionError for one that does not
        fit."""
        columns = tuple(self.quoted(c.name) for c in table.physical)
        keys = tuple(self.quoted(k) for k in table.primary_key)
        return Shape(columns, keys or columns)

    def key_types(self, cursor: Cursor, name: str) -> Mapping[str, str]:
        """Returns types of columns that hold where rows are asked for by keys, and it is for the
        database to say which are equal, besides those of `shape`."""
        return {}

    def ask(self, cursor: Cursor, query: Query) -> None:
        """Runs a query, whose rows the cursor gives then."""
        cursor.execute(self.complete(query.text), query.values)

    def load(self, cursor: Cursor, query: Query, table: Table, fetch: int) -> Loaded:
        """Returns the rows that a query gives, in its order. ExecutionError for a value that a
        column cannot hold."""
        self.ask(cursor, query)
        return load_rows(cursor, table, fetch)

    def rejects(self, rows: Batch) -> Mapping[int, str]:
        """Returns the rows that no table of the database can take, with the reasons."""
        return {}

    def check_url(self, url: str) -> None:  # noqa: B027
        """Raises OptionError for a URL of this database that cannot be."""

    def quoted(self, name: str) -> str:
        """Returns a name for a statement. PlanError for one with a NUL, which no database takes: in
        a statement it would stand for a value."""
        if MARK in name:
            raise PlanError(
                f"'{name.replace(MARK, '␀')}' is no name in a database: it has the character NUL"
            )
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def table_name(self, name: str) -> str:
        """Returns the name of a table, as the option 'table-name' gives it, for a statement."""
        return self.quoted(name)

    def type_name(self, kind: DataType, key: bool) -> str:
        """Returns a type of the database that holds the values of `kind`, also as part of a
        `key`."""
        if kind.is_binary:
            return "BLOB"
        if kind.is_timestamp:
            return f"DATETIME({min(kind.precision, 6)})"
        if kind.is_string:
            return self.text if key else "TEXT"
        return str(kind.plain)

    def open(self, url: str, account: Account) -> Connection:
        """Opens a connection to a URL. ExecutionError where the database cannot be reached; its
        text holds no password."""
        try:
            return self.connect(url.removeprefix("jdbc:"), account)
        except self.errors as error:
            raise ExecutionError(
                f"cannot open the {self.name} database '{shown(url)}'", detail=words(error)
            ) from None

    def failed(self, table: str, error: Exception) -> SqlError:
        """Returns the error that a statement's exception stands for: DatabaseFull, DatabaseBusy,
        else ExecutionError."""
        if self.busy(error):
            hint = "the rows are kept and written once the lock is gone"
            message = f"table '{table}' of the {self.name} database is locked by another"
            return DatabaseBusy(message, detail=words(error), hint=hint)
        if self.full(error):
            hint = "free disk space; the rows are kept and written then"
            return DatabaseFull(
                f"no space to write to table '{table}' of the {self.name} database", hint=hint
            )
        return ExecutionError(
            f"the {self.name} database refused table '{table}'", detail=words(error)
        )


def shown(url: str) -> str:
    """Returns a URL without the password that may stand in it."""
    parts = parts_of(url)
    if parts is None:
        return url.partition("//")[0] + "//…"
    return (
        url
        if not parts.query and "@" not in parts.netloc
        else f"jdbc:{parts.scheme}://{parts.hostname}{parts.path}"
    )


def parts_of(url: str) -> SplitResult | None:
    """Splits a URL; None for a text that is no URL, or whose port is no number."""
    try:
        parts = urlsplit(url.removeprefix("jdbc:"))
        _ = parts.port
    except ValueError:
        return None
    return parts


def words(error: Exception) -> str:
    """Returns what a driver says of an error, in one line."""
    return " ".join(str(error.args[-1]).split()) if error.args else type(error).__name__
