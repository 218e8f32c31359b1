"""The binary log of a MariaDB server: its reader, and the changes in its events."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Final, Protocol, cast

from sqlengine.connectors.changes.change import Change, Values
from sqlengine.connectors.changes.followed import Followed
from sqlengine.connectors.jdbc.mysql import driver
from sqlengine.connectors.mysql_cdc.database import Place, replication
from sqlengine.connectors.mysql_cdc.texts import logged, text_of
from sqlengine.connectors.receivers.base import Unreachable

_HEARTBEAT_S: Final = 0.2  # after which the server says that there is nothing
_SILENCE_S: Final = 30  # without a word, after which the server is taken for gone


_NAME: Final = r"(?:`((?:[^`]|``)+)`|([\w$]+))"
_TRUNCATE: Final = re.compile(
    rf"(?:\s|/\*.*?\*/)*TRUNCATE\s+(?:TABLE\s+)?(?:{_NAME}\s*\.\s*)?{_NAME}",
    re.IGNORECASE | re.DOTALL,
)


class EventColumn(Protocol):
    """A column of the table of an event, with the number of its type."""

    type: int


class Event(Protocol):
    """An event of the log; which of these it has depends on its class."""

    gtid: str
    flags: int
    query: str
    schema: str
    table: str
    timestamp: int
    rows: Sequence[Mapping[str, Mapping[str, object]]]
    columns: Sequence[EventColumn]


class Reader(Protocol):
    """Reads the log, event by event."""

    def fetchone(self) -> Event: ...
    def close(self) -> None: ...


def open_reader(place: Place, number: int, at: str, tables: Sequence[Followed]) -> Reader:
    """Returns a reader of what comes behind the transaction `at`, as the replica `number`."""
    binlog, event = replication(), import_module("pymysqlreplication.event")
    rows = import_module("pymysqlreplication.row_event")
    make = cast("Callable[..., Reader]", binlog.BinLogStreamReader)
    names = ("MariadbGtidEvent", "XidEvent", "QueryEvent", "HeartbeatLogEvent")
    changes = ("WriteRowsEvent", "UpdateRowsEvent", "DeleteRowsEvent")
    wanted = [getattr(event, name) for name in names] + [getattr(rows, n) for n in changes]
    return make(
        connection_settings={**place.settings, "read_timeout": _SILENCE_S},
        server_id=number,
        blocking=True,
        is_mariadb=True,
        auto_position=at,
        slave_heartbeat=_HEARTBEAT_S,
        only_events=wanted,
        only_schemas=sorted({table.schema for table in tables}),
        only_tables=sorted({table.table for table in tables}),
        enable_logging=False,
        pymysql_wrapper=_Connecting(),
    )


def truncated_by(event: Event) -> tuple[str, str] | None:
    """Returns the table, with its schema, that a statement of the log has emptied."""
    found = _TRUNCATE.match(event.query)
    if found is None:
        return None
    schema, plain_schema, name, plain = found.groups()
    of = (schema or plain_schema or _text(event.schema), name or plain)
    return of[0].replace("``", "`"), of[1].replace("``", "`")


def _text(name: object) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


class _Connecting:
    """Connects for the reader of the log, but not again: it would begin where it began before."""

    def __init__(self) -> None:
        self._reads = False

    def __call__(self, **settings: object) -> object:
        """Connects. Unreachable where the log was read before."""
        if "db" in settings:  # for the catalog, by a name of the argument that has gone
            settings["database"] = settings.pop("db")
        elif self._reads:
            raise Unreachable("the connection was lost")
        else:
            self._reads = True
        return cast("Callable[..., object]", driver().connect)(**settings)


def changes_of(
    table: Followed,
    columns: Mapping[str, int],
    rows: Sequence[Mapping[str, Mapping[str, object]]],
    *,
    deleted: bool,
) -> Iterator[Change]:
    """Yields the changes of an event: a row with its values was inserted or deleted, one with those
    before and after updated. `columns`: the types of those of the event."""
    kinds = [(column in table.binary, kind) for column, kind in columns.items()]

    def values(row: Mapping[str, object]) -> Values:
        found = zip(row.values(), kinds, strict=True)
        return [text_of(logged(value, kind), binary=binary) for value, (binary, kind) in found]

    for row in rows:
        if "after_values" in row:
            old, new = values(row["before_values"]), values(row["after_values"])
            yield Change(0, old, new, updates=True)
        elif deleted:
            yield Change(0, values(row["values"]), None, updates=False)
        else:
            yield Change(0, None, values(row["values"]), updates=False)
