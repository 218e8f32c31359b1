"""Tables of databases, and the changes of such."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Sequence
from contextlib import closing
from typing import Any, ClassVar, Final

from sqlengine.connectors.jdbc.driver import Connection
from sqlengine.service import Service
from tests.connectors.contract.place import FULL, Direction, Place, Property, Row
from tests.connectors.contract.servers import Servers
from tests.connectors.databases import Database, sqlite
from tests.servers.mariadb import MariaDbServer
from tests.servers.postgresql import PostgresServer
from tests.servers.process import ServerProcess
from tests.support import eventually


class Jdbc(Place):
    """A table of a database, in which no name is 'refused'."""

    refused: ClassVar[Row] = {"id": 2, "name": "refused"}
    text: ClassVar[str] = "TEXT"
    bounded = True
    fails = True
    server: ServerProcess

    def __init__(self, servers: Servers) -> None:
        super().__init__(servers)
        self.database = self.found(servers)
        key = " PRIMARY KEY" if self.key else ""
        self.database.execute(
            f"CREATE TABLE {self.name} (id BIGINT{key}, name {self.text}, CHECK (name <> 'refused'))"
        )

    def found(self, servers: Servers) -> Database:
        """Returns the database of the table."""
        raise NotImplementedError

    def options(self, direction: Direction, shown: Property | None = None) -> dict[str, str]:
        user = {"username": self.database.username} if self.database.username else {}
        url = {"url": self.database.url, "table-name": self.name}
        return {"connector": "jdbc", **url, **user}

    def listening(self, service: Service) -> bool:
        """See `Place`: it is asked."""
        return True

    def put(self, rows: Sequence[Row]) -> None:
        """See `Place`: in one transaction."""
        mark = "?" if self.database.dialect.name == "SQLite" else "%s"
        with closing(self.database.connect()) as connection:
            cursor: Any = connection.cursor()
            cursor.executemany(
                f"INSERT INTO {self.name} VALUES ({mark}, {mark})",
                [(row["id"], row.get("name")) for row in rows],
            )
            connection.commit()

    def got(self) -> Sequence[Row]:
        return [{"id": row[0], "name": row[1]} for row in self.database.rows(self.name)]

    def kill(self) -> None:
        self.server.kill()

    def start(self) -> None:
        self.server.start()


class Sqlite(Jdbc):
    """A file of SQLite. It is away while somebody else has locked it."""

    fails = False
    _lock: Connection

    def found(self, servers: Servers) -> Database:
        return sqlite(servers.folder(self.name))

    def kill(self) -> None:
        self._lock = self.database.connect()
        self._lock.cursor().execute("BEGIN EXCLUSIVE")

    def start(self) -> None:
        self._lock.rollback()
        self._lock.close()


class PostgreSQL(Jdbc):
    def found(self, servers: Servers) -> Database:
        self.server = servers.get(PostgresServer)
        return Database(self.server.url, "postgres")


class MariaDB(Jdbc):
    text = "LONGTEXT"

    def found(self, servers: Servers) -> Database:
        self.server = servers.get(MariaDbServer)
        return Database(self.server.url, "root")


class Changes(Place):
    """The changes of a table of a database."""

    key = "id"
    connector: ClassVar[str]
    server: ServerProcess
    listening = Place.listening
    bounded = False

    def options(self, direction: Direction, shown: Property | None = None) -> dict[str, str]:
        bound = {"receive.max-unread": "100 kb"} if shown == "back-pressure" else {}
        return self.place() | {"hostname": "127.0.0.1", "port": str(self.server.port), **bound}

    def place(self) -> dict[str, str]:
        """Returns the options that say which table of the server it is."""
        raise NotImplementedError


_TYPES: Final = (
    "b BOOLEAN, i INT, n DECIMAL(10, 2), d DOUBLE, s STRING, dd DATE, t TIME, ts TIMESTAMP(3),"
    " z TIMESTAMP_LTZ(3), y BYTES, a ARRAY<INT>"
)
_COLUMNS: Final = (
    "b boolean, i int, n numeric(10, 2), d float8, s text, dd date, t time, ts timestamp(3),"
    " z timestamptz, y bytea, a int[]"
)


class PostgresChanges(Changes, PostgreSQL):
    types = f"id BIGINT, {_TYPES}"
    full: ClassVar[Row] = {k: v for k, v in FULL.items() if k not in ("m", "r")}

    def __init__(self, servers: Servers) -> None:
        super().__init__(servers)
        added = (
            f"ALTER TABLE {self.name} ADD {column}" for column in re.split(r", (?!\d)", _COLUMNS)
        )
        self.database.execute(*added, f"ALTER TABLE {self.name} REPLICA IDENTITY FULL")

    def put(self, rows: Sequence[Row]) -> None:
        """See `Place`: in one transaction."""
        given = str(FULL["y"])
        told = json.dumps(rows).replace(given, "\\\\x" + b64decode(given).hex())
        with closing(self.database.connect()) as connection:
            found: Any = connection.cursor()
            made = f"json_populate_recordset(NULL::{self.name}, %s)"
            found.execute(f"INSERT INTO {self.name} SELECT * FROM {made}", (told,))
            connection.commit()

    def close(self) -> None:
        """See `Place`: for a slot that nobody reads the server would keep its log."""
        eventually(self._dropped, "the slot to be dropped")

    def _dropped(self) -> bool:
        of_this = f"FROM pg_replication_slots WHERE slot_name = 'slot_{self.name}'"
        with closing(self.database.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(f"SELECT pg_drop_replication_slot(slot_name) {of_this} AND NOT active")
            cursor.execute(f"SELECT 1 {of_this}")
            left = cursor.fetchall()
            connection.commit()
            return not left

    def place(self) -> dict[str, str]:
        return {
            "connector": "postgres-cdc", "username": "postgres", "database-name": "postgres",
            "table-name": self.name, "slot.name": f"slot_{self.name}",
        }  # fmt: skip


class MariaDBChanges(Changes, MariaDB):
    def place(self) -> dict[str, str]:
        return {
            "connector": "mysql-cdc", "username": "root", "database-name": "app",
            "table-name": self.name,
        }  # fmt: skip
