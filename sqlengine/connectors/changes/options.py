"""Options of all tables whose changes are followed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from planner.catalog import Table
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.receivers.base import Stream
from sqlengine.connectors.receivers.source import RECEIVE_OPTIONS, stream_of
from sqlengine.formats.base import Option
from sqlengine.formats.options import choice, duration

# Longer than anything: a server keeps what nobody takes, or knows where a log has got to, and a log
# keeps what nobody has read.
_FOR_EVER_MS: Final = 100 * 365 * 86_400_000

CHANGE_OPTIONS: Final[Mapping[str, Option]] = {
    "connect.timeout": Option(duration, default="30 s", doc="how long connecting may take"),
    **{name: o for name, o in RECEIVE_OPTIONS.items() if not name.startswith("scan.")},
    "scan.startup.mode": Option(
        choice("initial", "latest-offset"),
        default="initial",
        doc="a snapshot and then changes, or changes alone",
    ),
    "scan.on-truncate": Option(
        choice("fail", "skip"),
        default="fail",
        doc="what becomes of TRUNCATE, which names no rows: nothing is read any more, or they stay",
    ),
}


@dataclass(frozen=True)
class Account:
    """The place of a server of databases, and who connects; connecting takes `timeout_s` at
    most."""

    host: str
    port: int
    username: str
    password: str | None
    timeout_s: int


def account_of(options: Mapping[str, object]) -> Account:
    """Returns the account that a table's options name."""
    port, timeout_ms, password = (options[name] for name in ("port", "connect.timeout", "password"))
    assert isinstance(port, int)
    assert isinstance(timeout_ms, int)
    return Account(
        str(options["hostname"]),
        port,
        str(options["username"]),
        None if password is None else str(password),
        max(timeout_ms // 1000, 1),
    )


def is_lasting(environment: Environment) -> bool:
    """True unless what is received here ends with this process, as that of a script does."""
    return environment.receivers is None or environment.receivers.lasting


def changes_stream(
    environment: Environment, place: str, what: Mapping[str, str], options: Mapping[str, object]
) -> Stream:
    """Returns the stream of a table with `CHANGE_OPTIONS`, see `stream_of`. Its log does not
    expire, so that a job that was away goes on where it was."""
    return stream_of(place, what, options, _FOR_EVER_MS if is_lasting(environment) else 0)


def followed_by(table: Table, schema: object, options: Mapping[str, object]) -> dict[str, str]:
    """Returns what says which changes a table follows: of which table in the database, and which of
    its columns."""
    return {
        "schema": str(schema),
        "table": str(options["table-name"]),
        "columns": msgspec.json.encode(table.physical.names).decode(),
        "key": msgspec.json.encode(table.primary_key).decode(),
        "startup": str(options["scan.startup.mode"]),
    }
