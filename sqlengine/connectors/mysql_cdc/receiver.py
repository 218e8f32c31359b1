"""The receiver of a MariaDB server: a snapshot of each table that has none, and then the changes of
its binary log."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Final, Protocol, cast

from parser.errors import ServiceError
from sqlengine.connectors.changes.change import Change, Values
from sqlengine.connectors.changes.followed import Followed
from sqlengine.connectors.jdbc.mysql import driver
from sqlengine.connectors.mysql_cdc.database import Gtid, Place, replication, unreachable
from sqlengine.connectors.mysql_cdc.snapshot import Snapshot, complete
from sqlengine.connectors.mysql_cdc.texts import text_of
from sqlengine.connectors.receivers.base import Batch, Receiver, Stream, Tail, Taken

log = logging.getLogger("sqlengine.connectors")

_ROWS: Final = 20_000  # that are taken at once
_HEARTBEAT_S: Final = 0.2  # after which the server says that there is nothing
# Seconds after which the log of a quiet table notes how far the server's log was read.
_NOTE_S: Final = 10.0
_SETTINGS: Final = {"log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL"}
_METADATA: Final = "binlog_row_metadata"


class _Event(Protocol):
    """An event of the log; which of these it has depends on its class."""

    gtid: str
    query: str
    schema: str
    table: str
    timestamp: int
    rows: Sequence[Mapping[str, Mapping[str, object]]]


class _Reader(Protocol):
    def fetchone(self) -> _Event: ...
    def close(self) -> None: ...


class MariaDbReceiver(Receiver):
    """Follows tables of one server. `number` is that of a replica, which no other one has. The
    server notes nothing of who reads: where to go on stands in the logs."""

    def __init__(self, place: Place, number: int) -> None:
        self._place = place
        self._number = number
        self._lock = threading.Lock()
        self._tables: list[Followed] = []
        self._snapshot: Snapshot | None = None
        self._reader: _Reader | None = None
        self._tail: Tail | None = None
        self._at = Gtid(0)
        self._within = False  # a transaction
        self._noted = time.monotonic()
        self._columns: dict[object, list[str]] = {}

    def adopt(self, other: Receiver) -> None:
        """See `Receiver`."""
        assert isinstance(other, MariaDbReceiver)
        with self._lock:
            self._place = other._place

    # ---- connecting ------------------------------------------------------------------------------

    def connect(self, streams: Sequence[Stream], gone: Sequence[Stream], tail: Tail) -> None:
        """See `Receiver`. ServiceError where the server lacks what is needed."""
        replication()
        self.close()
        self._tail = tail
        with self._lock:
            place = self._place
        self._tables = [Followed.of(stream) for stream in streams]
        for table in self._tables:
            table.find_end(tail)
        self._require_settings(place)
        new = [table for table in self._tables if not table.snapshot]
        self._snapshot = Snapshot(place, new) if new else None
        first = min(self._tables, key=lambda table: table.last)
        self._at = Gtid(first.last[0], first.origin)

    def _require_settings(self, place: Place) -> None:
        connection = place.connect()
        try:
            with unreachable():
                cursor = connection.cursor()
                cursor.execute("SHOW VARIABLES LIKE '%bin%log%'")
                found = {str(name): str(value) for name, value in cursor.fetchall()}
                cursor.execute("SHOW VARIABLES LIKE 'log_bin'")
                found |= {str(name): str(value) for name, value in cursor.fetchall()}
        finally:
            connection.close()
        wanted = {**_SETTINGS, _METADATA: "FULL"}
        wrong = {name: value for name, value in wanted.items() if found.get(name) != value}
        if wrong:
            said = ", ".join(f"{name} = {value}" for name, value in wrong.items())
            raise ServiceError(f"the server does not tell its changes: set {said}")

    def follow(self, streams: Sequence[Stream], gone: Sequence[Stream]) -> None:
        """See `Receiver`. A table more wants a snapshot."""
        assert self._tail is not None
        self.connect(streams, gone, self._tail)

    def _open(self) -> _Reader:
        binlog, event = replication(), import_module("pymysqlreplication.event")
        rows = import_module("pymysqlreplication.row_event")
        make = cast("Callable[..., _Reader]", binlog.BinLogStreamReader)
        names = ("MariadbGtidEvent", "XidEvent", "QueryEvent", "HeartbeatLogEvent")
        changes = ("WriteRowsEvent", "UpdateRowsEvent", "DeleteRowsEvent")
        wanted = [getattr(event, name) for name in names] + [getattr(rows, n) for n in changes]
        return make(
            connection_settings=dict(self._place.settings),
            server_id=self._number,
            blocking=True,
            is_mariadb=True,
            auto_position=str(self._at),
            slave_heartbeat=_HEARTBEAT_S,
            only_events=wanted,
            only_schemas=sorted({table.schema for table in self._tables}),
            only_tables=sorted({table.table for table in self._tables}),
            enable_logging=False,
            pymysql_wrapper=_connect,
        )

    # ---- taking ----------------------------------------------------------------------------------

    def take(self, wait_s: float) -> Batch:
        """See `Receiver`."""
        if self._snapshot is not None:
            found = self._snapshot.take()
            if found is not None:
                return dict([found])
            self._snapshot.close()
            self._snapshot = None
        with unreachable():
            if self._reader is None:
                self._reader = self._open()
            return self._changes(self._reader, time.monotonic() + wait_s)

    def _changes(self, reader: _Reader, until: float) -> Batch:
        found = {table.topic: Taken() for table in self._tables}
        count = 0
        while count < _ROWS and (self._within or time.monotonic() < until):
            event = reader.fetchone()
            kind = type(event).__name__
            if kind == "HeartbeatLogEvent":
                break
            count += self._handle(kind, event, found)
        self._note(found)
        return {topic: taken for topic, taken in found.items() if taken.values}

    def _handle(self, kind: str, event: _Event, found: Batch) -> int:
        """Adds what an event tells; returns the number of rows."""
        if kind == "MariadbGtidEvent":
            self._at, self._within = Gtid.parsed(event.gtid), True
            for table in self._tables:
                table.begins(self._at.number)
                table.origin = self._at.origin
        elif kind == "XidEvent":
            self._within = False
        elif kind == "QueryEvent":
            self._within = self._within and event.query.upper() == "BEGIN"
        else:
            return self._rows(event, found)
        return 0

    def _rows(self, event: _Event, found: Batch) -> int:
        name, rows = (event.schema, event.table), event.rows
        deleted = type(event).__name__ == "DeleteRowsEvent"
        time_ms = event.timestamp * 1000
        for table in self._tables:
            if table.name == name and rows:
                columns = list(next(iter(rows[0].values())))
                self._relate(table, columns)
                for change in _changes_of(table, columns, rows, deleted=deleted):
                    table.take(change, time_ms, found[table.topic], _nothing)
        return len(rows)

    def _relate(self, table: Followed, columns: list[str]) -> None:
        if self._columns.get(table.topic) != columns:
            self._columns[table.topic] = columns
            if lacking := table.is_now(columns):
                log.warning(
                    "table %s of %s has no column %s any more: it is NULL from here on",
                    ".".join(table.name),
                    self._place.account.host,
                    ", ".join(lacking),
                )

    def _note(self, found: Batch) -> None:
        """Notes in the logs of quiet tables how far the server's log was read, which it does not
        keep for ever."""
        now = time.monotonic()
        if self._within or now - self._noted < _NOTE_S:
            return
        self._noted = now
        for table in self._tables:
            taken = found[table.topic]
            if not taken.values and table.last < (self._at.number, 0):
                table.last = self._at.number, 1 << 31
                taken.values.append(b"")
                taken.metadata.append(complete(table, self._at))

    def acknowledge(self) -> None:
        """See `Receiver`. The server keeps its log by itself."""

    def rest(self) -> None:
        """See `Receiver`."""

    def close(self) -> None:
        """See `Receiver`."""
        snapshot, reader = self._snapshot, self._reader
        self._snapshot, self._reader, self._within = None, None, False
        for one in (snapshot, reader):
            if one is not None:
                try:
                    with unreachable():
                        one.close()
                except ServiceError:
                    continue  # it was lost
        self._columns = {}


def _changes_of(
    table: Followed,
    columns: list[str],
    rows: Sequence[Mapping[str, Mapping[str, object]]],
    *,
    deleted: bool,
) -> Iterator[Change]:
    """Yields the changes of an event: a row with its values was inserted or deleted, one with those
    before and after updated."""
    binary = [column in table.binary for column in columns]

    def values(row: Mapping[str, object]) -> Values:
        found = zip(row.values(), binary, strict=True)
        return [text_of(value, binary=b) for value, b in found]

    for row in rows:
        if "after_values" in row:
            old, new = values(row["before_values"]), values(row["after_values"])
            yield Change(0, old, new, updates=True)
        elif deleted:
            yield Change(0, values(row["values"]), None, updates=False)
        else:
            yield Change(0, None, values(row["values"]), updates=False)


def _connect(**settings: object) -> object:
    """Connects as the reader of the log wants, which names the database in a way that has gone."""
    if "db" in settings:
        settings["database"] = settings.pop("db")
    return cast("Callable[..., object]", driver().connect)(**settings)


def _nothing(table: Followed, places: Sequence[int], key: Values) -> Values | None:
    return None
