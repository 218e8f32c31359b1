"""The connector 'postgres-cdc': the changes of a table of PostgreSQL.

    CREATE TABLE orders (id BIGINT, price DECIMAL(10, 2), PRIMARY KEY (id) NOT ENFORCED)
    WITH ('connector' = 'postgres-cdc', 'hostname' = 'db', 'username' = 'app',
          'password' = '${secret:DB}', 'database-name' = 'shop', 'table-name' = 'orders',
          'slot.name' = 'orders')

A receiver takes a snapshot and then the changes into a log of the server's own, which tables read
(ADR 26, ADR 27): each change once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import ClassVar, Final

from parser.types import DataType
from planner.capabilities import Capabilities, SourceCapabilities
from planner.catalog import Table
from planner.logical.change_kinds import ALL_CHANGES, UPSERT
from sqlengine.connectors.base import Connector, Source
from sqlengine.connectors.changes.options import (
    CHANGE_OPTIONS,
    account_of,
    changes_stream,
    followed_by,
    is_lasting,
)
from sqlengine.connectors.changes.rows import COLUMNS, ChangeRows
from sqlengine.connectors.changes.source import ChangesSource
from sqlengine.connectors.environment import Environment, password_as_written
from sqlengine.connectors.jdbc.postgresql import driver
from sqlengine.connectors.jdbc.values import check_types
from sqlengine.connectors.postgres_cdc.database import Place
from sqlengine.connectors.postgres_cdc.receiver import PostgresReceiver
from sqlengine.connectors.receivers.service import Wanted
from sqlengine.connectors.receivers.source import as_written
from sqlengine.connectors.registry import options_of
from sqlengine.formats.base import Option
from sqlengine.formats.options import at_least, choice

_UPSERT: Final = "upsert"
_SLOT_NAME: Final = re.compile("[a-z0-9_]{1,63}")
_OF_PLACE: Final = ("username", "publication.name", "connect.timeout", "scan.on-truncate")


def _slot_name(text: str) -> str:
    if not _SLOT_NAME.fullmatch(text):
        raise ValueError("expected up to 63 lower case letters, digits and underscores")
    return text


class PostgresCdcConnector(Connector):
    name: ClassVar[str] = "postgres-cdc"
    tested_with: ClassVar[str] = "PostgreSQL 15"
    options: ClassVar[Mapping[str, Option]] = {
        "hostname": Option(required=True, place=True, doc="the host of the server"),
        "port": Option(at_least(1), default="5432", doc="of the server"),
        "username": Option(required=True, doc="who connects: with the right REPLICATION"),
        "password": Option(secret=True, doc="of the one who connects"),
        "database-name": Option(required=True, doc="the database"),
        "schema-name": Option(default="public", doc="the schema of the table"),
        "table-name": Option(required=True, doc="the table whose changes are read"),
        "slot.name": Option(
            _slot_name,
            required=True,
            doc="the slot of the server that keeps what was not read; made where it is missing",
        ),
        "decoding.plugin.name": Option(choice("pgoutput"), default="pgoutput", doc="of the slot"),
        "publication.name": Option(
            doc="the publication of the table; default: sqlengine_ and the name of the slot, made"
            " where it is missing"
        ),
        "changelog-mode": Option(
            choice("all", _UPSERT),
            default="all",
            doc="'all' needs REPLICA IDENTITY FULL; with 'upsert' an update comes without the row"
            " before it, and a primary key is needed",
        ),
        **CHANGE_OPTIONS,
    }
    metadata: ClassVar[Mapping[str, DataType]] = COLUMNS
    capabilities: ClassVar[Capabilities] = Capabilities(
        source=SourceCapabilities(changelog=ALL_CHANGES, expires=True), received=True
    )

    def capabilities_of(self, table: Table) -> Capabilities:
        """See `Connector`."""
        upsert = table.options.get("changelog-mode") == _UPSERT
        return self.capabilities.with_changelog(source=UPSERT) if upsert else self.capabilities

    def source(self, table: Table, environment: Environment) -> Source:
        """See `Connector`. The server may be away. UnsupportedError for columns that changes do not
        have, ServiceError where the driver is missing."""
        driver()
        options = options_of(table)
        check_types(table, table.physical, arrays=True)
        said = as_written(options, table, environment)
        host = f"{said['hostname']}:{said['port']}"
        place = f"{host}/{said['database-name']} slot '{said['slot.name']}'"
        what = {
            **followed_by(table, options["schema-name"], options),
            "changelog": str(options["changelog-mode"]),
        }
        wanted = Wanted(
            table.display,
            changes_stream(environment, place, what, options),
            {name: str(options[name]) for name in _OF_PLACE}
            | password_as_written(table, environment),
            partial(_receiver, options, temporary=not is_lasting(environment)),
        )
        rows = ChangeRows(table, options, upsert=options["changelog-mode"] == _UPSERT)
        return ChangesSource(environment, table, options, wanted, rows, anew="slot.name")


def _receiver(options: Mapping[str, object], *, temporary: bool) -> PostgresReceiver:
    """Returns the receiver of a slot, which is dropped with its connection where it is
    `temporary`."""
    slot = str(options["slot.name"])
    return PostgresReceiver(
        Place(account_of(options), str(options["database-name"])),
        slot,
        str(options["publication.name"] or f"sqlengine_{slot}"),
        temporary=temporary,
        skips=options["scan.on-truncate"] == "skip",
    )
