"""The receiver of a MariaDB server: a snapshot of each table that has none, and then the changes of
its binary log."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import Final

from parser.errors import ServiceError
from sqlengine.connectors.changes.change import Values
from sqlengine.connectors.changes.followed import Followed
from sqlengine.connectors.changes.refusals import Refusals
from sqlengine.connectors.changes.truncation import truncated
from sqlengine.connectors.mysql_cdc.binlog import (
    Event,
    Reader,
    changes_of,
    open_reader,
    truncated_by,
)
from sqlengine.connectors.mysql_cdc.database import (
    Gtid,
    Place,
    replication,
    require_order,
    unreachable,
)
from sqlengine.connectors.mysql_cdc.snapshot import Snapshot, complete, looking
from sqlengine.connectors.mysql_cdc.starts import since
from sqlengine.connectors.receivers.base import Batch, Receiver, Stream, Tail, Taken

log = logging.getLogger("sqlengine.connectors")

_ROWS: Final = 20_000  # that are taken at once
# Seconds after which the log of a quiet table notes how far the server's log was read.
_NOTE_S: Final = 10.0
_WHOLE_S: Final = 5.0  # by which a piece may take longer to end with its transaction
_SETTINGS: Final = {
    "log_bin": "ON",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
    "log_bin_compress": "OFF",
}
_STANDALONE: Final = 1  # a flag of a GTID: what follows is one statement
_ENDS: Final = ("COMMIT", "ROLLBACK")


class MariaDbReceiver(Receiver):
    """Follows tables of one server. `number` is that of a replica, which no other one has; `skips`:
    a TRUNCATE is passed over. The server notes nothing of who reads: where to go on stands in the
    logs."""

    def __init__(self, place: Place, number: int, *, skips: bool) -> None:
        self._place = place
        self._number = number
        self._skips = skips
        self._refusal: ServiceError | None = None
        self._refusals = Refusals()
        self._lock = threading.Lock()
        self._streams: Sequence[Stream] = ()
        self._tables: list[Followed] = []
        self._snapshot: Snapshot | None = None
        self._reader: Reader | None = None
        self._tail: Tail | None = None
        self._at = self._before = Gtid(0)  # the transaction that is read, and the one before it
        self._within = False  # a transaction
        self._second = 0  # of that transaction, since 1970
        self._noted = time.monotonic()
        self._columns: dict[object, list[str]] = {}

    def adopt(self, other: Receiver) -> None:
        """See `Receiver`."""
        assert isinstance(other, MariaDbReceiver)
        with self._lock:
            self._place, self._skips = other._place, other._skips

    def refused(self, stream: Stream) -> str | None:
        """See `Receiver`."""
        return self._refusals.reason(stream.topic)

    # ---- connecting ------------------------------------------------------------------------------

    def connect(self, streams: Sequence[Stream], gone: Sequence[Stream], tail: Tail) -> None:
        """See `Receiver`. ServiceError where the server lacks what is needed."""
        replication()
        self.close()
        self._streams, self._tail = streams, tail
        with self._lock:
            place = self._place
        tables = [Followed.of(stream) for stream in streams]
        for table in tables:
            table.find_end(tail)
        self._require_settings(place)
        with looking(place) as look:
            self._tables = self._refusals.followed(tables, look)
        new = [table for table in self._tables if not table.snapshot]
        self._snapshot = Snapshot(place, new) if new else None
        self._at = min(map(_place_of, self._tables))

    def _require_settings(self, place: Place) -> None:
        connection = place.connect()
        try:
            with unreachable():
                cursor = connection.cursor()
                cursor.execute("SHOW VARIABLES LIKE '%bin%'")
                found = {str(name): str(value) for name, value in cursor.fetchall()}
        finally:
            connection.close()
        wrong = {name: v for name, v in _SETTINGS.items() if found.get(name, "OFF") != v}
        if wrong:
            said = ", ".join(f"{name} = {value}" for name, value in wrong.items())
            raise ServiceError(f"the server does not tell its changes: set {said}")

    def follow(self, streams: Sequence[Stream], gone: Sequence[Stream]) -> None:
        """See `Receiver`. A table more wants a snapshot."""
        assert self._tail is not None
        self.connect(streams, gone, self._tail)

    # ---- taking ----------------------------------------------------------------------------------

    def take(self, wait_s: float) -> Batch:
        """See `Receiver`. ServiceError behind a TRUNCATE of the last table."""
        if self._refusal is not None:
            raise self._refusal
        if self._snapshot is not None:
            found = self._snapshot.take()
            if found is not None:
                return dict([found])
            self._snapshot.close()
            self._snapshot = None
        if self._refusals.due:
            self._look_again()
            return {}
        with unreachable():
            if self._reader is None:
                self._reader = open_reader(self._place, self._number, str(self._at), self._tables)
            return self._changes(self._reader, time.monotonic() + wait_s)

    def _look_again(self) -> None:
        """Begins anew where a table that was refused can be followed now."""
        with looking(self._place) as look:
            changed = self._refusals.changed(look)
        if changed:
            assert self._tail is not None
            self.connect(self._streams, (), self._tail)

    def _changes(self, reader: Reader, until: float) -> Batch:
        found = {table.topic: Taken() for table in self._tables}
        count = 0
        while (
            count < _ROWS
            and self._refusal is None
            and time.monotonic() < until + self._within * _WHOLE_S
        ):
            event = reader.fetchone()
            kind = type(event).__name__
            if kind == "HeartbeatLogEvent":
                self._within = False  # it tells of an end of the log
                break
            count += self._handle(kind, event, found)
        for table in self._tables if self._within else ():
            table.breaks_off(found[table.topic], self._before.text.encode())
        if self._refusal is None:
            self._note(found)
        return {topic: taken for topic, taken in found.items() if taken.values}

    def _handle(self, kind: str, event: Event, found: Batch) -> int:
        """Adds what an event tells; returns the number of rows."""
        if kind == "MariadbGtidEvent":
            self._begin(event)
        elif kind == "XidEvent":
            self._within = False
        elif kind == "QueryEvent":
            # Savepoints are statements, too.
            self._within = self._within and event.query.strip().upper() not in _ENDS
            name = truncated_by(event)
            tables = [] if name is None else self._concerned(name)
            host = self._place.account.host
            self._end(tables, truncated(tables, host, skips=self._skips, anew="server-id"))
        else:
            return self._rows(event, found)
        return 0

    def _end(self, tables: list[Followed], why: ServiceError | None) -> None:
        """Follows tables no more; where no other is left nothing is taken."""
        left = [table for table in self._tables if table not in tables]
        if why is not None and left:
            self._refusals.end(tables, str(why))
            self._tables = left
        elif why is not None:
            self._refusal = why

    def _begin(self, event: Event) -> None:
        """Begins a transaction. ServiceError where its number says nothing of its place."""
        self._before, self._at = self._at, Gtid.parsed(event.gtid)
        self._within = not event.flags & _STANDALONE
        self._second = event.timestamp
        require_order(self._before, self._at)
        for table in self._tables:
            table.begins(self._at.number)
            table.origin = self._at.origin

    def _rows(self, event: Event, found: Batch) -> int:
        name, rows = (event.schema, event.table), event.rows
        deleted = type(event).__name__ == "DeleteRowsEvent"
        time_ms = event.timestamp * 1000
        for table in self._concerned(name) if rows else ():
            names = next(iter(rows[0].values()))
            columns = {n: c.type for n, c in zip(names, event.columns, strict=True)}
            self._relate(table, list(columns))
            for change in changes_of(table, columns, rows, deleted=deleted):
                table.take(change, time_ms, found[table.topic], _nothing)
        return len(rows)

    def _concerned(self, name: tuple[str, str]) -> list[Followed]:
        """Returns the tables of this name that follow the transaction that is read."""
        return [t for t in self._tables if t.name == name and self._second >= since(t)]

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
        self._refusal = None
        for one in (snapshot, reader):
            if one is not None:
                try:
                    with unreachable():
                        one.close()
                except ServiceError:
                    continue  # it was lost
        self._columns = {}


def _place_of(table: Followed) -> Gtid:
    """Returns the last transaction that is in the log of a table as a whole."""
    if table.resumes:
        return Gtid.parsed(table.resumes.decode())
    return Gtid(table.last[0], table.origin)


def _nothing(table: Followed, places: Sequence[int], key: Values) -> Values | None:
    return None
