"""The connector 'mysql-cdc': the changes of a table of MariaDB.

    CREATE TABLE orders (id BIGINT, price DECIMAL(10, 2), PRIMARY KEY (id) NOT ENFORCED)
    WITH ('connector' = 'mysql-cdc', 'hostname' = 'db', 'username' = 'app',
          'password' = '${secret:DB}', 'database-name' = 'shop', 'table-name' = 'orders')

A receiver takes a snapshot and then the changes into a log of the server's own, which tables read
(ADR 26, ADR 27): each change once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar, Final
from zlib import crc32

import msgspec

from parser.types import DataType
from planner.capabilities import Capabilities, SourceCapabilities
from planner.catalog import Table
from planner.logical.change_kinds import ALL_CHANGES
from sqlengine.connectors.base import Connector, Source
from sqlengine.connectors.changes.options import (
    CHANGE_OPTIONS,
    account_of,
    changes_stream,
    followed_by,
)
from sqlengine.connectors.changes.rows import COLUMNS, ChangeRows
from sqlengine.connectors.changes.source import ChangesSource
from sqlengine.connectors.environment import Environment, password_as_written
from sqlengine.connectors.jdbc.values import check_types
from sqlengine.connectors.mysql_cdc.database import Place, replication
from sqlengine.connectors.mysql_cdc.receiver import MariaDbReceiver
from sqlengine.connectors.mysql_cdc.starts import START_OPTIONS, start_of
from sqlengine.connectors.receivers.service import Receivers, Wanted
from sqlengine.connectors.receivers.source import as_written
from sqlengine.connectors.registry import options_of
from sqlengine.formats.base import Option
from sqlengine.formats.options import at_least

_OF_PLACE: Final = ("username", "connect.timeout", "scan.on-truncate")
_LEAST_NUMBER: Final = 1 << 30  # of those that are made up


class MySqlCdcConnector(Connector):
    name: ClassVar[str] = "mysql-cdc"
    tested_with: ClassVar[str] = "MariaDB 10.11"
    options: ClassVar[Mapping[str, Option]] = {
        "hostname": Option(required=True, place=True, doc="the host of the server"),
        "port": Option(at_least(1), default="3306", doc="of the server"),
        "username": Option(
            required=True, doc="who connects: with the rights SELECT and REPLICATION SLAVE"
        ),
        "password": Option(secret=True, doc="of the one who connects"),
        "database-name": Option(required=True, doc="the database"),
        "table-name": Option(required=True, doc="the table whose changes are read"),
        "server-id": Option(
            at_least(1), doc="the number of a replica that no other has; default: made up"
        ),
        **CHANGE_OPTIONS,
        **START_OPTIONS,
    }
    metadata: ClassVar[Mapping[str, DataType]] = {
        key: kind for key, kind in COLUMNS.items() if key != "schema_name"
    }
    capabilities: ClassVar[Capabilities] = Capabilities(
        source=SourceCapabilities(changelog=ALL_CHANGES, expires=True), received=True
    )

    def capabilities_of(self, table: Table) -> Capabilities:
        """See `Connector`."""
        start_of(table, options_of(table))
        return self.capabilities

    def source(self, table: Table, environment: Environment) -> Source:
        """See `Connector`. The server may be away. UnsupportedError for columns that changes do not
        have, ServiceError where a package is missing."""
        replication()
        options = options_of(table)
        check_types(table, table.physical, arrays=False)
        binary = [c.name for c in table.physical if c.type.is_binary]
        what = {
            **followed_by(table, options["database-name"], options),
            "binary": msgspec.json.encode(binary).decode(),
            "changelog": "all",
            **start_of(table, options),
        }
        said = as_written(options, table, environment)
        number = said["server-id"]
        place = f"{said['hostname']}:{said['port']}"
        place += "" if number is None else f" as {number}"
        wanted = Wanted(
            table.display,
            changes_stream(environment, place, what, options),
            {name: str(options[name]) for name in _OF_PLACE}
            | password_as_written(table, environment),
            partial(_receiver, options, place, environment.receivers),
        )
        rows = ChangeRows(table, options, upsert=False)
        return ChangesSource(environment, table, options, wanted, rows, anew="server-id")


def _receiver(
    options: Mapping[str, object], place: str, receivers: Receivers | None
) -> MariaDbReceiver:
    """Returns the receiver of a place, with a number that is made up where the options have
    none."""
    number = options["server-id"]
    if not isinstance(number, int):
        assert receivers is not None, "they ask for it"
        number = _LEAST_NUMBER + crc32(f"{receivers.identity()} {place}".encode()) % _LEAST_NUMBER
    return MariaDbReceiver(
        Place(account_of(options)), number, skips=options["scan.on-truncate"] == "skip"
    )
