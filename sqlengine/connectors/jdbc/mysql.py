"""MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import ClassVar, Final, Protocol, cast
from urllib.parse import unquote, urlsplit

from parser.errors import ServiceError
from planner.catalog import Table
from sqlengine.connectors.jdbc.dialect import Dialect, Shape
from sqlengine.connectors.jdbc.driver import (
    CONNECT_S,
    SILENCE_S,
    Account,
    Connection,
    Cursor,
)
from sqlengine.connectors.jdbc.row_writer import RowWriter
from sqlengine.connectors.jdbc.statements import Statements
from sqlengine.connectors.jdbc.writer import Writer

_TYPES: Final = (
    "SELECT column_name, data_type FROM information_schema.columns"
    " WHERE table_schema = DATABASE() AND table_name = %s"
)
# Values that a column cannot hold, and constraints: duplicates, NULL, foreign keys, checks, no
# partition.
_AT_FAULT: Final = (
    1048, 1062, 1169, 1216, 1217, 1264, 1265, 1292, 1366, 1367, 1406, 1411, 1416, 1451, 1452, 1526,
    1557, 1586, 1690, 1761, 1762, 1859, 3140, 3819, 3988, 4025,
)  # fmt: skip


class MySql(Dialect):
    name: ClassVar[str] = "MySQL"
    prefixes: ClassVar[tuple[str, ...]] = ("jdbc:mysql://", "jdbc:mariadb://")
    example: ClassVar[str] = "jdbc:mysql://host:3306/database"
    quote: ClassVar[str] = "`"
    hurry: ClassVar[str] = "SET SESSION innodb_lock_wait_timeout = 1"  # its least
    begin: ClassVar[str] = "START TRANSACTION"
    text: ClassVar[str] = "VARCHAR(255)"
    lock: ClassVar[str] = " FOR UPDATE"

    def on_conflict(self, target: str, key: Sequence[str], others: Sequence[str]) -> str:
        sets = ", ".join(f"{c} = VALUES({c})" for c in others or key[:1])
        return f" ON DUPLICATE KEY UPDATE {sets}"

    def connect(self, url: str, account: Account) -> Connection:
        parts = urlsplit(url)
        connect = cast("Callable[..., Connection]", driver().connect)
        return connect(
            host=parts.hostname or "localhost",
            port=parts.port or 3306,
            database=unquote(parts.path.lstrip("/")),
            user=account.username,
            password=account.password or "",
            charset="utf8mb4",
            init_command="SET time_zone = '+00:00'",
            connect_timeout=CONNECT_S,
            # A connection whose other end is gone would be waited for without end.
            read_timeout=SILENCE_S,
            write_timeout=SILENCE_S,
        )

    def reading(self, connection: Connection, fetch: int) -> Cursor:
        """See `Dialect`. Its usual cursor holds all rows, whatever is fetched of it."""
        if not fetch:
            return connection.cursor()
        make = cast("Callable[[object], Cursor]", connection.cursor)
        return make(import_module("pymysql.cursors").SSCursor)

    def shape(self, cursor: Cursor, table: Table, name: str) -> Shape:
        """See `Dialect`."""
        found = super().shape(cursor, table, name)
        cursor.execute(_TYPES, (name,))
        return replace(found, types={str(n): str(t) for n, t in cursor.fetchall()})

    @property
    def errors(self) -> type[Exception]:
        return driver().Error

    def full(self, error: Exception) -> bool:
        return error.args[:1] in ((1021,), (1114,))  # the disk, the table

    def busy(self, error: Exception) -> bool:
        return error.args[:1] in ((1205,), (1213,))  # a lock, a deadlock

    def at_fault(self, error: Exception) -> bool:
        return any(number in _AT_FAULT for number in error.args[:1])

    def writer(self, table: Table, statements: Statements) -> Writer:
        return RowWriter(table, statements)


class _Driver(Protocol):
    @property
    def connect(self) -> object: ...
    @property
    def Error(self) -> type[Exception]: ...  # noqa: N802  a name of DB-API


def driver() -> _Driver:
    """Returns the module of the driver. ServiceError where it is not installed."""
    try:
        return cast("_Driver", import_module("pymysql"))
    except ModuleNotFoundError:
        raise ServiceError(
            "MySQL and MariaDB need a driver that is not installed",
            hint="pip install 'sqlengine[mysql]'",
        ) from None
