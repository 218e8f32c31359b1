"""DB-API 2.0 (PEP 249): statements over a server, or an engine in this process, as other databases
have them in Python.

    from sqlengine import dbapi

    with dbapi.connect("http://127.0.0.1:8083") as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT name, price FROM items WHERE price > ?", (10,))
        print(cursor.fetchall())
"""

from __future__ import annotations

from typing import Final

from sqlengine.dbapi.connection import Connection, connect
from sqlengine.dbapi.cursor import Cursor
from sqlengine.dbapi.errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,  # noqa: A004
)
from sqlengine.dbapi.types import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
    TypeCode,
)

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "TypeCode",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

apilevel: Final = "2.0"
# Threads may share connections, which have one session; a cursor is for one of them.
threadsafety: Final = 2
paramstyle: Final = "qmark"
