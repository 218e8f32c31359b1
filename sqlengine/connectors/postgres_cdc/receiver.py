"""The receiver of a slot: it makes what is missing in the database, takes a snapshot of each table
that has none, and then the changes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from parser.errors import ServiceError
from sqlengine.connectors.changes.change import Change
from sqlengine.connectors.changes.followed import Followed
from sqlengine.connectors.changes.refusals import Refusals
from sqlengine.connectors.changes.truncation import truncated
from sqlengine.connectors.postgres_cdc.current import CurrentRows
from sqlengine.connectors.postgres_cdc.database import (
    Place,
    Publication,
    command,
    quoted,
    unreachable,
)
from sqlengine.connectors.postgres_cdc.pgoutput import (
    Begin,
    Commit,
    Message,
    Relation,
    Truncate,
)
from sqlengine.connectors.postgres_cdc.snapshot import Snapshot
from sqlengine.connectors.postgres_cdc.stream import SlotStream
from sqlengine.connectors.receivers.base import Batch, Receiver, Stream, Tail, Taken

if TYPE_CHECKING:
    import psycopg

log = logging.getLogger("sqlengine.connectors")

_BYTES: Final = 4 << 20  # of messages that are taken at once


class PostgresReceiver(Receiver):
    """Follows the tables of one slot. A change is known by the place of its commit in the log of
    the database: what the logs have already is left out when the server sends it again.
    `temporary`: the slot goes with its connection; `skips`: a TRUNCATE is passed over.

    A table that was followed and cannot be any more holds up no other, but the slot: the server
    keeps its log from there on, so that the table goes on where it ended, or ends there again."""

    def __init__(
        self, place: Place, slot: str, publication: str, *, temporary: bool, skips: bool
    ) -> None:
        self._place = place
        self._slot = slot
        self._publication = Publication(publication)
        self._temporary = temporary
        self._skips = skips
        self._refusal: ServiceError | None = None
        self._refusals = Refusals()
        self._lock = threading.Lock()
        self._streams: Sequence[Stream] = ()
        self._tables: list[Followed] = []
        self._relations: dict[int, list[Followed]] = {}
        self._snapshot: Snapshot | None = None
        self._stream: SlotStream | None = None
        self._link: psycopg.Connection[tuple[object, ...]] | None = None
        self._current = CurrentRows(place)
        self._tail: Tail | None = None
        self._begun: Begin | None = None
        self._taken_to = 0
        self._owes = False  # rows were taken and are not acknowledged
        self._held = False  # a table has ended, and nothing is acknowledged

    def adopt(self, other: Receiver) -> None:
        """See `Receiver`."""
        assert isinstance(other, PostgresReceiver)
        with self._lock:
            self._place, self._skips = other._place, other._skips

    def refused(self, stream: Stream) -> str | None:
        """See `Receiver`."""
        return self._refusals.reason(stream.topic)

    # ---- connecting ------------------------------------------------------------------------------

    def connect(self, streams: Sequence[Stream], gone: Sequence[Stream], tail: Tail) -> None:
        """See `Receiver`. ServiceError where the server lacks what is needed."""
        self.close()
        self._streams, self._tail = streams, tail
        with self._lock:
            place = self._place
        tables = [Followed.of(stream) for stream in streams]
        for table in tables:
            table.find_end(tail)
        with place.connect() as connection, unreachable():
            _require_logical(connection.execute("SHOW wal_level").fetchone())
            found = self._refusals.followed(tables, partial(self._look, connection), known=True)
            self._held = any(table.snapshot for table in tables if table not in found)
            known = connection.execute(
                "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", (self._slot,)
            ).fetchone()
        self._link = place.connect(replication=True)
        if known is None:
            self._make_slot(tables)
        new = [table for table in found if not table.snapshot]
        self._snapshot = Snapshot(place, new) if new else None
        self._current = CurrentRows(place)
        self._tables, self._relations, self._taken_to = found, {}, 0

    def _require(self, connection: psycopg.Connection[tuple[object, ...]], table: Followed) -> None:
        """Looks whether the changes of a table are told. ServiceError where they are not."""
        _require_identity(table, connection.execute(_IDENTITY, table.name).fetchone())
        self._publication.include(connection, [table.name])

    def _look(
        self, connection: psycopg.Connection[tuple[object, ...]], table: Followed
    ) -> str | None:
        """Returns why a table cannot be followed; None where it can."""
        columns = ", ".join(quoted(c) for c in table.columns)
        try:
            with unreachable():
                self._require(connection, table)
                if not table.snapshot:  # of one that is known a column may go
                    connection.execute(
                        f"SELECT {columns} FROM {quoted(*table.name)} LIMIT 0".encode()
                    )
        except ServiceError as error:
            if connection.closed:
                raise
            return error.reason
        return None

    def _look_again(self) -> None:
        """Begins anew where a table that was refused can be followed now."""
        with self._place.connect() as connection:
            changed = self._refusals.changed(partial(self._look, connection))
        if changed:
            assert self._tail is not None
            self.connect(self._streams, (), self._tail)

    def _make_slot(self, tables: Sequence[Followed]) -> None:
        """Makes the slot. ServiceError where a log goes on from one that is gone."""
        behind = [table for table in tables if table.snapshot]
        if behind:
            raise ServiceError(
                f"slot '{self._slot}' is gone from the database, and with it the changes of table"
                f" '{'.'.join(behind[0].name)}' since then: name another 'slot.name', and begin"
                " anew"
            )
        kind = "TEMPORARY " if self._temporary else ""
        assert self._link is not None
        said = f"CREATE_REPLICATION_SLOT {quoted(self._slot)} {kind}LOGICAL pgoutput"
        command(self._link, said + " NOEXPORT_SNAPSHOT")

    def follow(self, streams: Sequence[Stream], gone: Sequence[Stream]) -> None:
        """See `Receiver`. A table more wants a snapshot, and the stream must know of it."""
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
        if self._refusals.due and not self._temporary:  # such a slot ends with its connection
            self._look_again()
            return {}
        if self._stream is None:
            assert self._link is not None
            self._stream = SlotStream(self._link, self._slot, self._publication.name)
        return self._changes(self._stream, wait_s)

    def _changes(self, stream: SlotStream, wait_s: float) -> Batch:
        found = {table.topic: Taken() for table in self._tables}
        size = 0
        for message, length in stream.messages(wait_s):
            self._handle(message, found)
            size += length
            if size >= _BYTES or (message is None and stream.idle_at) or self._refusal is not None:
                break
        batch = {topic: taken for topic, taken in found.items() if taken.values}
        self._owes = bool(batch)
        if not self._owes:
            self._settle(stream)
            stream.tell_now_and_then()
        return batch

    def _handle(self, message: Message, found: Batch) -> None:
        match message:
            case Change():
                begun = self._begun
                for table in self._relations.get(message.relation, ()):
                    assert begun is not None
                    table.take(message, begun.time_ms, found[table.topic], self._current.values)
            case Begin():
                self._begun = message
                for table in self._tables:
                    table.begins(message.lsn)
            case Commit():
                self._begun, self._taken_to = None, message.end
            case Relation():
                self._relate(message)
            case Truncate():
                tables = [t for i in message.relations for t in self._relations.get(i, ())]
                host = self._place.account.host
                self._end(tables, truncated(tables, host, skips=self._skips, anew="slot.name"))

    def _end(self, tables: Sequence[Followed], why: ServiceError | None) -> None:
        """Follows tables no more; where no other is left nothing is taken."""
        left = [table for table in self._tables if table not in tables]
        if why is not None and left:
            self._refusals.end(tables, str(why))
            self._tables, self._held = left, True
            self._relations = {
                relation: [table for table in mine if table in left]
                for relation, mine in self._relations.items()
            }
        elif why is not None:
            self._refusal = why

    def _relate(self, relation: Relation) -> None:
        name = relation.schema, relation.name
        mine = [table for table in self._tables if table.name == name]
        self._relations[relation.id] = mine
        for lacking in [missing for table in mine if (missing := table.is_now(relation.columns))]:
            log.warning(
                "table %s of %s has no column %s any more: it is NULL from here on",
                ".".join(name),
                self._place.account.host,
                ", ".join(lacking),
            )

    # ---- what is safe ----------------------------------------------------------------------------

    def acknowledge(self) -> None:
        """See `Receiver`."""
        self._owes = False
        if self._stream is not None:
            self._settle(self._stream)
            self._stream.tell()

    def _settle(self, stream: SlotStream) -> None:
        """Notes what is safe: all commits that were taken whole and, between two, all that the
        server has sent; no more of them once a table has ended."""
        if self._held:
            return
        between = stream.idle_at if self._begun is None else 0
        stream.safe = max(stream.safe, self._taken_to, between)

    def rest(self) -> None:
        """See `Receiver`."""
        if self._stream is not None:
            self._stream.tell_now_and_then()

    def close(self) -> None:
        """See `Receiver`."""
        snapshot, self._snapshot, self._stream = self._snapshot, None, None
        link, self._link, self._begun, self._refusal = self._link, None, None, None
        self._current.close()
        if snapshot is not None:
            snapshot.close()
        if link is not None:
            link.close()


_IDENTITY: Final = """
SELECT c.relreplident::text, c.relkind::text FROM pg_class c JOIN pg_namespace n
ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s"""


def _require_logical(level: tuple[object, ...] | None) -> None:
    if level != ("logical",):
        raise ServiceError(
            "the PostgreSQL server does not write its log for others: set wal_level = logical, and"
            " start it again"
        )


def _require_identity(table: Followed, found: tuple[object, ...] | None) -> None:
    """Looks for the table, and whether it tells what its mode needs."""
    name = ".".join(table.name)
    if found is None:
        raise ServiceError(f"there is no table '{name}' in the database")
    if found[0] == "n":
        raise ServiceError(
            f"table '{name}' does not tell its changes: ALTER TABLE … REPLICA IDENTITY DEFAULT"
        )
    if not table.upsert and found[0] != "f":
        raise ServiceError(
            f"table '{name}' does not tell the rows before its changes: ALTER TABLE {name} REPLICA"
            " IDENTITY FULL, or 'changelog-mode' = 'upsert'"
        )
