"""Connections to a PostgreSQL server whose changes are followed: its catalog, its slots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

from parser.errors import ServiceError
from sqlengine.connectors.changes.options import Account
from sqlengine.connectors.jdbc.dialect import words
from sqlengine.connectors.jdbc.postgresql import ALIVE, driver
from sqlengine.connectors.receivers.base import Unreachable

if TYPE_CHECKING:
    import psycopg
    from psycopg.pq import abc

# Values come in one form, whatever the server or the user has set.
_SETTINGS: Final = " ".join(
    f"-c {setting}"
    for setting in (
        "timezone=UTC", "datestyle=ISO", "bytea_output=hex", "extra_float_digits=3",
        "client_encoding=UTF8",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Place:
    """A database of a server, reached by an account."""

    account: Account
    database: str

    def connect(self, *, replication: bool = False) -> psycopg.Connection[tuple[object, ...]]:
        """Connects; `replication`: for the commands of slots. Unreachable where that fails."""
        connect = cast("Callable[..., psycopg.Connection[tuple[object, ...]]]", driver().connect)
        more = {"replication": "database"} if replication else {}
        with unreachable():
            return connect(
                host=self.account.host,
                port=self.account.port,
                dbname=self.database,
                user=self.account.username,
                password=self.account.password,
                connect_timeout=self.account.timeout_s,
                application_name="sqlengine",
                options=_SETTINGS,
                autocommit=True,
                prepare_threshold=None,
                **ALIVE,
                **more,
            )


@contextmanager
def unreachable() -> Iterator[None]:
    """Makes Unreachable of what the driver raises."""
    try:
        yield
    except driver().Error as error:
        raise Unreachable(words(error)) from None


def command(connection: psycopg.Connection[tuple[object, ...]], text: str) -> list[str]:
    """Runs a command of the replication protocol; returns the first row. ServiceError where the
    server refuses it."""
    pq = import_module("psycopg.pq")
    result: abc.PGresult = connection.pgconn.exec_(text.encode())
    if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
        told = (result.error_message or b"").decode(errors="replace")
        raise ServiceError(" ".join(told.split()) or "the server has ended the connection")
    return [(result.get_value(0, i) or b"").decode() for i in range(result.nfields)]


def quoted(*names: str) -> str:
    """Returns a name for a statement."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def lsn_of(text: str) -> int:
    """Returns a place in the log of a database, which is written as 16/B374D848."""
    high, low = text.split("/")
    return (int(high, 16) << 32) | int(low, 16)


@dataclass(frozen=True)
class Publication:
    """The publication that says of which tables changes are told."""

    name: str

    def include(
        self, connection: psycopg.Connection[tuple[object, ...]], tables: Sequence[tuple[str, str]]
    ) -> None:
        """Makes it where it is missing, and adds tables. ServiceError where that is not allowed."""
        names = ", ".join(quoted(*table) for table in tables)
        found = connection.execute(
            "SELECT puballtables FROM pg_publication WHERE pubname = %s", (self.name,)
        ).fetchone()
        if found is not None and found[0]:
            return
        known = connection.execute(
            "SELECT schemaname::text, tablename::text FROM pg_publication_tables"
            " WHERE pubname = %s",
            (self.name,),
        ).fetchall()
        missing = [quoted(*table) for table in tables if table not in known]
        if found is None:
            said = f"CREATE PUBLICATION {quoted(self.name)} FOR TABLE {names}"
        elif missing:
            said = f"ALTER PUBLICATION {quoted(self.name)} ADD TABLE {', '.join(missing)}"
        else:
            return
        try:
            connection.execute(said.encode())
        except driver().Error as error:
            raise ServiceError(
                f"tables are missing in publication '{self.name}': {words(error)}; as their owner:"
                f" {said}"
            ) from None
