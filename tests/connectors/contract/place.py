"""The other side of a connector, as its contract needs it: a table outside, which others fill and
read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, ClassVar, Literal, TypeAlias

from sqlengine.service import Service
from tests.connectors.contract.servers import Servers

Row: TypeAlias = Mapping[str, Any]
Direction: TypeAlias = Literal["in", "out"]
# What a connector has to stand.
Property: TypeAlias = Literal[
    "types", "large", "malformed", "reconnect", "back-pressure", "stops", "kills", "spark"
]
_NAMES = count()


class Place:
    """A new table of a connector on a real server.

    `columns`: of the table; `select`: what makes an `id` and a `name` of these columns, or them of
    these two. `key`: its primary key. `types`: columns of all types, and `full`: a value of each, as
    JSON. `malformed`: a record that is no row of it; `refused`: a row that it does not take. `once`:
    each row comes once through kills, not once at least. `bounded`: it is read once, when its job begins;
    `fails`: a job that writes to it fails while the server is away, and is started again by itself."""

    columns: ClassVar[str] = "id BIGINT, name STRING"
    select: ClassVar[str] = "id, name"
    key: ClassVar[str] = ""
    types: ClassVar[str] = ""
    full: ClassVar[Row] = {}
    malformed: ClassVar[bytes] = b'{"id": "x"}'
    refused: ClassVar[Row] = {}
    once: ClassVar[bool] = True
    bounded: ClassVar[bool] = False
    fails: ClassVar[bool] = False

    def __init__(self, servers: Servers) -> None:
        """Makes the table, on one of the servers. `Missing` where that cannot run here."""
        self.name = f"place{next(_NAMES)}"

    def close(self) -> None:
        """Called at the end of the test."""

    def options(self, direction: Direction, shown: Property | None = None) -> dict[str, str]:
        """Returns the options of the table, to be read from its beginning or to be written, for what
        is to be shown."""
        raise NotImplementedError

    def serve(self, port: int) -> None:
        """Hears at which port of this machine the engine's HTTP is."""

    def listening(self, service: Service) -> bool:
        """True once the engine hears what comes from now on."""
        views = service.engine.receivers.views()
        return bool(views) and all(v.connected and v.asked for v in views)

    def put(self, rows: Sequence[Row]) -> None:
        """Puts rows into the table. Returns when they are safe there, however long that takes."""
        self.put_records([json.dumps(row).encode() for row in rows])

    def put_records(self, records: Sequence[bytes]) -> None:
        """Puts records into the table as they are, as `put` does."""
        raise NotImplementedError

    def got(self) -> Sequence[Row]:
        """Returns the rows that the table has now, in any order."""
        raise NotImplementedError

    def kill(self) -> None:
        """Kills the server, or takes it away from the engine."""
        raise NotImplementedError

    def start(self) -> None:
        """Starts a killed server again, with what it had."""
        raise NotImplementedError

    def create(self, table: str, direction: Direction, shown: Property) -> str:
        """Returns the statement that declares the table."""
        given = self.options(direction, shown)
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in given.items())
        columns = self.types if shown == "types" else self.columns
        return f"CREATE TABLE {table} ({columns}{self.constraint}) WITH ({listed});\n"

    @property
    def constraint(self) -> str:
        """The primary key behind the columns of a table."""
        return f", PRIMARY KEY ({self.key}) NOT ENFORCED" if self.key else ""


# Of formats of JSON.
TYPES = (
    "id BIGINT, b BOOLEAN, i INT, n DECIMAL(10, 2), d DOUBLE, s STRING, dd DATE, t TIME, ts TIMESTAMP(3),"
    " z TIMESTAMP_LTZ(3), y BYTES, a ARRAY<INT>, m MAP<STRING, INT>, r ROW<x INT, z STRING>"
)
FULL: Row = {
    "id": 9_007_199_254_740_993, "b": True, "i": -7, "n": 12.34, "d": 0.5, "s": "über 'x' 😀\\\n",
    "dd": "2026-01-31", "t": "12:00:01", "ts": "2026-01-31 12:00:00.123",
    "z": "2026-01-31 12:00:00.123Z", "y": "AAEC", "a": [1, None, 3], "m": {"k": 1}, "r": {"x": 1, "z": "q"},
}  # fmt: skip
