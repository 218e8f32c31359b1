"""Options of all tables whose changes are followed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from planner.catalog import Table
from sqlengine.connectors.receivers.source import RECEIVE_OPTIONS
from sqlengine.formats.base import Option
from sqlengine.formats.options import choice, duration

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
