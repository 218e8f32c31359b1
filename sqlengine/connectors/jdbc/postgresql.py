"""PostgreSQL, by psycopg 3."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import ClassVar, Final, Protocol, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import OptionError, ServiceError
from parser.types import DataType
from planner.catalog import Table
from sqlengine.batch import Batch
from sqlengine.connectors.jdbc.copy_in import CopyWriter
from sqlengine.connectors.jdbc.copy_out import load_copy
from sqlengine.connectors.jdbc.dialect import MARK, Dialect, Query, Shape, shown
from sqlengine.connectors.jdbc.driver import (
    CONNECT_S,
    Account,
    Connection,
    Cursor,
)
from sqlengine.connectors.jdbc.loading import Loaded
from sqlengine.connectors.jdbc.postgresql_types import (
    declared_types,
    innermost,
    shape_of,
    type_name,
)
from sqlengine.connectors.jdbc.statements import Statements
from sqlengine.connectors.jdbc.writer import Writer

# Parameters of a URL, as PostgreSQL's own driver in Java names them, and as libpq does.
_PARAMETERS: Final[Mapping[str, str]] = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
}
_FILES: Final = ("sslrootcert", "sslcert", "sslkey")
_SYSTEM: Final = "system"  # the authorities of the system, in the place of a file
_SCHEMA: Final = "currentSchema"
# Values are written and read in one form, whatever the server or the user has set.
_SETTINGS: Final = (
    "SET timezone = 'UTC'; SET datestyle = 'ISO, YMD'; SET extra_float_digits = 3;"
    " SET bytea_output = 'hex'; SET standard_conforming_strings = on; SET client_encoding = 'UTF8'"
)
# Whose other end is gone: noticed after half a minute.
ALIVE: Final = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}
_FULL: Final = ("53100",)
# Classes of errors: of data, of constraints, of checks of views; and too long for an index.
_AT_FAULT: Final = ("22", "23", "44", "54000")
_BUSY: Final = ("55P03", "40P01", "40001")  # a lock, a deadlock, a serialization failure


class PostgreSql(Dialect):
    name: ClassVar[str] = "PostgreSQL"
    prefixes: ClassVar[tuple[str, ...]] = ("jdbc:postgresql://",)
    example: ClassVar[str] = "jdbc:postgresql://host:5432/database"
    quote: ClassVar[str] = '"'
    begin: ClassVar[str] = "BEGIN; SET LOCAL lock_timeout = '200ms'"
    text: ClassVar[str] = "TEXT"
    lock: ClassVar[str] = " FOR UPDATE"
    at_once: ClassVar[str] = "SET CONSTRAINTS ALL IMMEDIATE"
    arrays: ClassVar[bool] = True
    exact: ClassVar[frozenset[str]] = frozenset({"text", "character varying"})

    def on_conflict(self, target: str, key: Sequence[str], others: Sequence[str]) -> str:
        keys = ", ".join(key)
        if not others:
            return f" ON CONFLICT ({keys}) DO NOTHING"
        sets = ", ".join(f"{c} = excluded.{c}" for c in others)
        # Of two that write the same epoch at once, the second one finds nothing to do.
        newer = f" WHERE {target}.epoch < excluded.epoch" if list(key) == ["writer"] else ""
        return f" ON CONFLICT ({keys}) DO UPDATE SET {sets}{newer}"

    def table_name(self, name: str) -> str:
        """See `Dialect`: the schema may stand before it, as in Flink."""
        return ".".join(map(self.quoted, name.split(".", 1)))

    def type_name(self, kind: DataType, key: bool) -> str:
        return type_name(kind)

    def rejects(self, rows: Batch) -> Mapping[int, str]:
        """See `Dialect`: rows with a text that has the character NUL."""
        found: dict[int, str] = {}
        for column, array in zip(rows.schema, rows.columns, strict=True):
            reason = f"column '{column.name}' has a NUL, which PostgreSQL cannot keep"
            if innermost(column.type).is_string:
                found |= dict.fromkeys(_with_nul(array), reason)
        return found

    def check_url(self, url: str) -> None:
        for name, _ in parse_qsl(urlsplit(url.removeprefix("jdbc:")).query):
            if name not in (*_PARAMETERS, _SCHEMA):
                raise OptionError(
                    f"unknown parameter '{name}' of the URL '{shown(url)}'",
                    hint="there is " + ", ".join((*_PARAMETERS, _SCHEMA)),
                    subject="url",
                )

    def files(self, url: str) -> Sequence[Path]:
        """See `Dialect`: authorities, certificate and key."""
        given = parse_qsl(urlsplit(url.removeprefix("jdbc:")).query)
        return [Path(value) for name, value in given if name in _FILES and value != _SYSTEM]

    def connect(self, url: str, account: Account) -> Connection:
        parts = urlsplit(url)
        given = dict(parse_qsl(parts.query))
        schema = given.pop(_SCHEMA, None)
        connect = cast("Callable[..., Connection]", driver().connect)
        found = connect(
            host=parts.hostname or "localhost",
            port=parts.port or 5432,
            dbname=unquote(parts.path.lstrip("/")) or None,
            user=account.username,
            password=account.password,
            # Statements begin no transaction: ours say it. Poolers know none that are prepared.
            autocommit=True,
            prepare_threshold=None,
            connect_timeout=CONNECT_S,
            application_name="sqlengine",
            **ALIVE,
            **{_PARAMETERS[name]: value for name, value in given.items()},
        )
        path = f"; SET search_path = {self.quoted(schema)}" if schema else ""
        found.cursor().execute(_SETTINGS + path)
        return found

    @property
    def errors(self) -> type[Exception]:
        return driver().Error

    def full(self, error: Exception) -> bool:
        return getattr(error, "sqlstate", None) in _FULL

    def busy(self, error: Exception) -> bool:
        return getattr(error, "sqlstate", None) in _BUSY

    def at_fault(self, error: Exception) -> bool:
        return (getattr(error, "sqlstate", None) or "").startswith(_AT_FAULT)

    def writer(self, table: Table, statements: Statements) -> Writer:
        return CopyWriter(table, statements)

    def shape(self, cursor: Cursor, table: Table, name: str) -> Shape:
        found = declared_types(cursor, self.table_name(name))
        return shape_of(table, name, found, self.quoted)

    def load(self, cursor: Cursor, query: Query, table: Table, fetch: int) -> Loaded:
        """See `Dialect`. Rows come in the server's own form, which is made columns of without a
        value of Python; they are streamed, whatever `fetch` says."""
        pieces = query.text.split(MARK)
        literals = [*map(_literal, query.values), ""]
        text = "".join(p + v for p, v in zip(pieces, literals, strict=True))
        return load_copy(cursor, text, table)


def _with_nul(array: pa.Array) -> list[int]:
    """Returns the places of texts, or arrays of them, that have the character NUL."""
    if pa.types.is_list(array.type):
        elements = pa.array(_with_nul(array.flatten()), pa.int64())
        places: list[int] = pc.list_parent_indices(array).take(elements).to_pylist()
        return places
    having = pc.fill_null(pc.match_substring(array, "\0"), False)
    return np.flatnonzero(np.asarray(having)).tolist()


def _literal(value: object) -> str:
    """Writes a value into a statement: COPY takes no parameters."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, Decimal):
        return format(value, "f")
    return repr(value) if isinstance(value, int | float) else "NULL"


class Driver(Protocol):
    """The part of psycopg that is used."""

    @property
    def connect(self) -> object: ...
    @property
    def Error(self) -> type[Exception]: ...  # noqa: N802  a name of DB-API


def driver() -> Driver:
    """Returns the module of the driver. ServiceError where it is not installed."""
    try:
        return cast("Driver", import_module("psycopg"))
    except ImportError:
        raise ServiceError(
            "PostgreSQL needs a driver that is not installed",
            hint="pip install 'sqlengine[postgresql]'",
        ) from None
