"""The databases that the connector 'jdbc' speaks to: how each is reached, and what its SQL has of
its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast
from urllib.parse import SplitResult, unquote, urlsplit

from parser.errors import ExecutionError, OptionError, ServiceError, SqlError, TryAgain
from parser.types import DataType
from sqlengine.connectors.base import Busy

Value = str | int | float | bytes | None
BUSY_S = 5  # how long to wait for another's lock, or for a connection
_SILENCE_S = 600  # how long a statement may take before its connection is taken for lost


class DatabaseBusy(Busy):
    """Another holds a lock on what is written to."""


class DatabaseFull(TryAgain):
    """Raised where a database has no space for what is written."""


class Cursor(Protocol):
    """The part of a DB-API cursor that is used."""

    def execute(self, text: str, values: Sequence[Value] = ..., /) -> object: ...
    def executemany(self, text: str, rows: Iterable[Sequence[Value]], /) -> object: ...
    def fetchone(self) -> Sequence[object] | None: ...
    def fetchmany(self, size: int, /) -> Sequence[Sequence[object]]: ...
    def fetchall(self) -> Sequence[Sequence[object]]: ...


class Connection(Protocol):
    """The part of a DB-API connection that is used. It begins a transaction with its first
    statement."""

    def cursor(self) -> Cursor: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Account:
    """The user of a connection; None where the database asks for none."""

    username: str | None
    password: str | None


@dataclass(frozen=True)
class Dialect:
    """The SQL of one kind of database, and its driver.

    `quote` stands around names, `mark` for a value; `begin` opens a transaction that writes,
    `hurry` lets statements wait for a lock no longer than a moment; `text` is the type of a text
    that can be a key; `on_conflict` writes what an INSERT of a key that exists does, from the
    columns of the key and the others. `connect` takes the URL after 'jdbc:' and raises one of
    `errors`, as all statements do."""

    name: str
    quote: str
    mark: str
    begin: str
    hurry: str
    text: str
    lock: str
    on_conflict: Callable[[Sequence[str], Sequence[str]], str]
    connect: Callable[[str, Account], Connection]
    errors: Callable[[], type[Exception]]
    full: Callable[[Exception], bool]
    busy: Callable[[Exception], bool]

    def quoted(self, name: str) -> str:
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def type_name(self, kind: DataType, key: bool) -> str:
        """A type of the database that holds the values of `kind`, also as part of a `key`."""
        if kind.is_binary:
            return "BLOB"
        if kind.is_timestamp:
            return f"DATETIME({min(kind.precision, 6)})"
        if kind.is_string:
            return self.text if key else "TEXT"
        return str(kind.plain)

    def open(self, url: str, account: Account) -> Connection:
        """ExecutionError where the database cannot be reached; its text holds no password."""
        try:
            return self.connect(url.removeprefix("jdbc:"), account)
        except self.errors() as error:
            raise ExecutionError(
                f"cannot open the {self.name} database '{shown(url)}'", detail=_words(error)
            ) from None

    def failed(self, table: str, error: Exception) -> SqlError:
        """Returns the error that a statement's exception stands for: DatabaseFull, DatabaseBusy,
        else ExecutionError."""
        if self.busy(error):
            hint = "the rows are kept and written once the lock is gone"
            message = f"table '{table}' of the {self.name} database is locked by another"
            return DatabaseBusy(message, detail=_words(error), hint=hint)
        if self.full(error):
            hint = "free disk space; the rows are kept and written then"
            return DatabaseFull(
                f"no space to write to table '{table}' of the {self.name} database", hint=hint
            )
        return ExecutionError(
            f"the {self.name} database refused table '{table}'", detail=_words(error)
        )


def dialect_of(url: str) -> Dialect:
    """The dialect of a URL 'jdbc:sqlite:…', 'jdbc:mysql://…' or 'jdbc:mariadb://…'; OptionError for
    others."""
    for prefix, dialect in _DIALECTS.items():
        if url.startswith(prefix) and _parts(url) is not None:
            return dialect
    raise OptionError(
        f"no database that the connector 'jdbc' knows: '{shown(url)}'",
        hint="jdbc:sqlite:/path/to/file, jdbc:mysql://host:3306/database or jdbc:mariadb://host:3306/database",
        subject="url",
    )


def shown(url: str) -> str:
    """A URL without the password that may stand in it."""
    parts = _parts(url)
    if parts is None:
        return url.partition("//")[0] + "//…"
    return (
        url
        if not parts.query and "@" not in parts.netloc
        else f"jdbc:{parts.scheme}://{parts.hostname}{parts.path}"
    )


def _parts(url: str) -> SplitResult | None:
    """Splits a URL; None for a text that is no URL, or whose port is no number."""
    try:
        parts = urlsplit(url.removeprefix("jdbc:"))
        _ = parts.port
    except ValueError:
        return None
    return parts


def _words(error: Exception) -> str:
    return str(error.args[-1]) if error.args else type(error).__name__


def _sqlite(url: str, account: Account) -> Connection:
    # Never makes a database.
    file = Path(url.removeprefix("sqlite:")).absolute().as_uri() + "?mode=rw"
    opened = sqlite3.connect(
        file, timeout=BUSY_S, isolation_level=None, check_same_thread=False, uri=True
    )
    return cast("Connection", opened)


def _sqlite_conflict(key: Sequence[str], others: Sequence[str]) -> str:
    sets = ", ".join(f"{c} = excluded.{c}" for c in others)
    return f" ON CONFLICT ({', '.join(key)}) DO " + (f"UPDATE SET {sets}" if sets else "NOTHING")


def _mysql(url: str, account: Account) -> Connection:
    parts = urlsplit(url)
    connect = cast("Callable[..., Connection]", _driver().connect)
    return connect(
        host=parts.hostname or "localhost",
        port=parts.port or 3306,
        database=unquote(parts.path.lstrip("/")),
        user=account.username,
        password=account.password or "",
        charset="utf8mb4",
        init_command="SET time_zone = '+00:00'",
        connect_timeout=BUSY_S,
        # A connection whose other end is gone would be waited for without end.
        read_timeout=_SILENCE_S,
        write_timeout=_SILENCE_S,
    )


def _mysql_conflict(key: Sequence[str], others: Sequence[str]) -> str:
    sets = ", ".join(f"{c} = VALUES({c})" for c in others or key[:1])
    return f" ON DUPLICATE KEY UPDATE {sets}"


def _driver() -> _Driver:
    try:
        return cast("_Driver", import_module("pymysql"))
    except ModuleNotFoundError:
        raise ServiceError(
            "MySQL and MariaDB need a driver that is not installed",
            hint="pip install 'sqlengine[mysql]'",
        ) from None


class _Driver(Protocol):
    @property
    def connect(self) -> object: ...
    @property
    def Error(self) -> type[Exception]: ...  # noqa: N802  a name of DB-API


_SQLITE = Dialect(
    name="SQLite",
    quote="`",  # in double quotes a name that is no column would be a text
    mark="?",
    begin="BEGIN IMMEDIATE",
    hurry="PRAGMA busy_timeout = 200",
    text="TEXT",
    lock="",
    on_conflict=_sqlite_conflict,
    connect=_sqlite,
    errors=lambda: sqlite3.Error,
    full=lambda error: getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL,
    busy=lambda error: (
        getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    ),
)
_MYSQL = Dialect(
    name="MySQL",
    quote="`",
    mark="%s",
    begin="START TRANSACTION",
    hurry="SET SESSION innodb_lock_wait_timeout = 1",  # its least
    text="VARCHAR(255)",
    lock=" FOR UPDATE",
    on_conflict=_mysql_conflict,
    connect=_mysql,
    errors=lambda: _driver().Error,
    full=lambda error: error.args[:1] in ((1021,), (1114,)),  # the disk, the table
    busy=lambda error: error.args[:1] in ((1205,), (1213,)),  # a lock, a deadlock
)
_DIALECTS: Mapping[str, Dialect] = {
    "jdbc:sqlite:": _SQLITE,
    "jdbc:mysql://": _MYSQL,
    "jdbc:mariadb://": _MYSQL,
}
