"""Snapshots of tables of MariaDB: their rows as they were at a place in its log, without locks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from typing import Final, cast

from parser.errors import ServiceError
from planner.logical.change_kinds import RowKind
from sqlengine.connectors.changes.change import Values
from sqlengine.connectors.changes.followed import Followed, line
from sqlengine.connectors.changes.positions import COMPLETE, Mark
from sqlengine.connectors.changes.refusals import Look
from sqlengine.connectors.changes.snapshot import TableSnapshots
from sqlengine.connectors.jdbc.driver import Connection, Cursor
from sqlengine.connectors.mysql_cdc.database import Gtid, Place, quoted, unreachable
from sqlengine.connectors.mysql_cdc.starts import gtid_at, place_of
from sqlengine.connectors.mysql_cdc.texts import queried, text_of
from sqlengine.connectors.receivers.base import Taken

_ROWS: Final = 10_000  # that are handed on at a time


class Snapshot(TableSnapshots):
    """Snapshots of tables of MariaDB, all of one place; or the places where their changes begin."""

    def __init__(self, place: Place, tables: Sequence[Followed]) -> None:
        self._connection = place.connect()
        cursor = self._connection.cursor()
        with unreachable():
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            now = _place_of_snapshot(cursor)
        for table in tables:
            # The changes behind it are in those with a greater number.
            at = place_of(table, now, cursor)
            table.snapshot, table.last, table.origin = (
                at.number + 1,
                (at.number, 1 << 31),
                at.origin,
            )
        super().__init__(tables)

    def take(self) -> tuple[str, Taken] | None:
        """See `TableSnapshots`. Unreachable where the server is gone."""
        with unreachable():
            return super().take()

    def complete(self, table: Followed) -> bytes:
        """See `TableSnapshots`."""
        return complete(table, Gtid(table.last[0], table.origin))

    def rows(self, table: Followed) -> Iterator[Taken]:
        """See `TableSnapshots`."""
        columns = ", ".join(quoted(c) for c in table.columns)
        mark = Mark(RowKind.INSERT, table.snapshot).encoded()
        make = cast("Callable[[object], Cursor]", self._connection.cursor)
        cursor = make(import_module("pymysql.cursors").SSCursor)
        cursor.execute(f"SELECT {columns} FROM {quoted(*table.name)}")
        described = zip(table.columns, cursor.description or (), strict=True)
        kinds = [(name in table.binary, told[1]) for name, told in described]
        while rows := cursor.fetchmany(_ROWS):
            values = [line(_texts(row, kinds)) for row in rows]
            yield Taken(values, [mark] * len(values))

    def close(self) -> None:
        """See `TableSnapshots`."""
        with unreachable():
            self._connection.close()


def _texts(row: Sequence[object], kinds: Sequence[tuple[bool, object]]) -> Values:
    found = zip(row, kinds, strict=True)
    return [text_of(queried(value, kind), binary=binary) for value, (binary, kind) in found]


def complete(table: Followed, at: Gtid) -> bytes:
    """Returns the mark of a record that has no row: all before `at` is in the log."""
    return Mark(COMPLETE, table.snapshot, at.number, 1 << 31, 0, at.origin).encoded()


@contextmanager
def looking(place: Place) -> Iterator[Look]:
    """Gives what says why a table cannot be followed: that is not there, or not as it is declared,
    or whose changes do not begin where its options say. Unreachable where the server is away."""
    connection = place.connect()
    try:
        yield partial(_refusal, connection)
    finally:
        with suppress(ServiceError), unreachable():
            connection.close()


def _refusal(connection: Connection, table: Followed) -> str | None:
    columns = ", ".join(quoted(c) for c in table.columns)
    cursor = connection.cursor()
    try:
        with unreachable():
            cursor.execute(f"SELECT {columns} FROM {quoted(*table.name)} LIMIT 0")
        place_of(table, Gtid(0), cursor)
    except ServiceError as error:
        with unreachable():
            connection.cursor().execute("SELECT 1")  # else nothing is known of the table
        return error.reason
    return None


def _place_of_snapshot(cursor: Cursor) -> Gtid:
    """Returns the place of the snapshot that the transaction has just begun with. ServiceError
    where the server writes no log."""
    cursor.execute("SHOW STATUS LIKE 'binlog_snapshot_%'")
    told = {str(name).lower(): value for name, value in cursor.fetchall()}
    file, at = told.get("binlog_snapshot_file"), told.get("binlog_snapshot_position")
    if not file:
        raise ServiceError(
            "the server writes no binary log, or is no MariaDB",
            hint="start it with --log-bin --binlog-format=ROW --binlog-row-metadata=FULL",
        )
    return gtid_at(cursor, str(file), int(str(at)))
