"""A database of SQLite in memory. A transaction is there whole or not; what was committed stays,
also without power."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch
from urllib.parse import unquote, urlsplit

from tests.simulation.world import Death, World

FILE = "app.db"
TABLES = """
CREATE TABLE stored (host TEXT PRIMARY KEY, n BIGINT, total INT);
CREATE TABLE added (id BIGINT, host TEXT);
"""
_connect = sqlite3.connect


class SimulatedDatabase:
    """`crashes_now` as that of the disk. All connections of a process are one: their transactions do not
    overlap."""

    def __init__(self, world: World, owner: str, crashes_now: Callable[[], bool]) -> None:
        self.dead = False
        self._world = world
        self._owner = owner
        self._crashes_now = crashes_now
        self._opened: sqlite3.Connection | None = None
        with self._empty() as made:
            made.executescript(TABLES)
            self._committed = made.serialize()

    @staticmethod
    def _empty() -> sqlite3.Connection:
        return _connect(":memory:", isolation_level=None)

    def open(self) -> SimulatedConnection:
        return SimulatedConnection(self)

    @property
    def connection(self) -> sqlite3.Connection:
        if self.dead:
            raise Death
        if self._opened is None:
            self._opened = self._empty()
            self._opened.deserialize(self._committed)
        return self._opened

    def commit(self) -> None:
        connection = self.connection
        self._world.note(self._owner, "commit", FILE)
        dies = self._crashes_now()
        if not dies or self._world.happens(0.5):
            connection.commit()
            self._committed = connection.serialize()
        if dies:
            self.dead = True
            raise Death

    def end_process(self) -> None:
        """What was not committed is gone."""
        if self._opened is not None:
            self._opened.close()
        self._opened, self.dead = None, False

    def rows(self, table: str) -> list[tuple[object, ...]]:
        """What was committed, in order where rows are only added."""
        with self._empty() as look:
            look.deserialize(self._committed)
            return look.execute(f"SELECT * FROM {table} ORDER BY rowid").fetchall()


class SimulatedConnection:
    """See `Connection` of the jdbc dialects."""

    def __init__(self, database: SimulatedDatabase) -> None:
        self._database = database

    def cursor(self) -> sqlite3.Cursor:
        return self._database.connection.cursor()

    def commit(self) -> None:
        self._database.commit()

    def rollback(self) -> None:
        self._database.connection.rollback()

    def close(self) -> None: ...


@contextmanager
def databases(by_owner: Mapping[str, SimulatedDatabase]) -> Iterator[None]:
    """Whoever connects to SQLite within gets the database of the server whose folder it would be
    in."""

    def connect(database: str, **_: object) -> SimulatedConnection:
        return by_owner[Path(unquote(urlsplit(database).path)).parts[1]].open()

    with patch.object(sqlite3, "connect", connect):
        yield
