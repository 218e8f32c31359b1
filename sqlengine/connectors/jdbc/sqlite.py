"""Files of SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final, cast

from planner.catalog import Table
from sqlengine.connectors.jdbc.dialect import MARK, Dialect
from sqlengine.connectors.jdbc.driver import CONNECT_S, Account, Connection, Cursor
from sqlengine.connectors.jdbc.row_writer import RowWriter
from sqlengine.connectors.jdbc.statements import Statements
from sqlengine.connectors.jdbc.writer import Writer

# Types as other databases name them, and the parts of names that mean them to SQLite.
_AFFINITIES: Final = {"text": ("CHAR", "CLOB", "TEXT"), "double": ("REAL", "FLOA", "DOUB")}
_AT_FAULT: Final = (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG)
_LOCKED: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class Sqlite(Dialect):
    name: ClassVar[str] = "SQLite"
    prefixes: ClassVar[tuple[str, ...]] = ("jdbc:sqlite:",)
    example: ClassVar[str] = "jdbc:sqlite:/path/to/file"
    quote: ClassVar[str] = "`"  # in double quotes a name that is no column would be a text
    mark: ClassVar[str] = "?"
    hurry: ClassVar[str] = "PRAGMA busy_timeout = 200"
    begin: ClassVar[str] = "BEGIN IMMEDIATE"
    text: ClassVar[str] = "TEXT"

    def on_conflict(self, target: str, key: Sequence[str], others: Sequence[str]) -> str:
        sets = ", ".join(f"{c} = excluded.{c}" for c in others)
        return f" ON CONFLICT ({', '.join(key)}) DO " + (
            f"UPDATE SET {sets}" if sets else "NOTHING"
        )

    def complete(self, text: str) -> str:
        """See `Dialect`. Nothing else is a mark to it than what stands outside of names."""
        return text.replace(MARK, self.mark)

    def files(self, url: str) -> Sequence[Path]:
        """See `Dialect`: the database."""
        return [Path(url.removeprefix(self.prefixes[0]))]

    def connect(self, url: str, account: Account) -> Connection:
        """See `Dialect`. Never makes a database."""
        file = Path(url.removeprefix("sqlite:")).absolute().as_uri() + "?mode=rw"
        opened = sqlite3.connect(
            file, timeout=CONNECT_S, isolation_level=None, check_same_thread=False, uri=True
        )
        return cast("Connection", opened)

    @property
    def errors(self) -> type[Exception]:
        return sqlite3.Error

    def full(self, error: Exception) -> bool:
        return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL

    def busy(self, error: Exception) -> bool:
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in _LOCKED

    def key_types(self, cursor: Cursor, name: str) -> Mapping[str, str]:
        """See `Dialect`: a column converts what is written to it, by a part of its type's name. A
        text is not equal to one that is stored as bytes."""
        cursor.execute("SELECT name, type FROM pragma_table_info(?)", (name,))
        found = {str(column): str(kind).upper() for column, kind in cursor.fetchall()}
        return {
            column: like
            for column, kind in found.items()
            for like, parts in _AFFINITIES.items()
            if "INT" not in kind and any(part in kind for part in parts)
        }

    def at_fault(self, error: Exception) -> bool:
        code = getattr(error, "sqlite_errorcode", 0)
        # A trigger may mean anything.
        return code & 0xFF in _AT_FAULT and code != sqlite3.SQLITE_CONSTRAINT_TRIGGER

    def writer(self, table: Table, statements: Statements) -> Writer:
        return RowWriter(table, statements)
