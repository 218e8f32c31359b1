"""The connector 'otlp': log records that collectors and SDKs of OpenTelemetry export to the server.

    CREATE TABLE logs (ts TIMESTAMP_LTZ(3), severity STRING, body STRING,
      attributes MAP<STRING, STRING>, resource MAP<STRING, STRING>)
    WITH ('connector' = 'otlp')

takes them at /v1/logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

import msgspec

from parser.types import DataType
from planner.capabilities import Capabilities, SourceCapabilities
from planner.catalog import Table
from sqlengine.connectors.base import Connector, Source
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.otlp.rows import LogRow, LogRows, check_columns
from sqlengine.connectors.pushed.inbox import Inbox
from sqlengine.connectors.pushed.metadata import COLUMNS
from sqlengine.connectors.receivers.service import Receivers, Wanted
from sqlengine.connectors.receivers.source import RECEIVE_OPTIONS, ReceivedSource, stream_of
from sqlengine.connectors.registry import options_of
from sqlengine.formats.base import Option

_PLACE: Final = "otlp logs"
encode_row: Final = msgspec.json.Encoder().encode


class OtlpConnector(Connector):
    name: ClassVar[str] = "otlp"
    on_spark: ClassVar[str] = "tasks read what the driver receives"
    tested_with: ClassVar[str] = "opentelemetry-sdk 1.45"
    options: ClassVar[Mapping[str, Option]] = RECEIVE_OPTIONS
    metadata: ClassVar[Mapping[str, DataType]] = COLUMNS
    capabilities: ClassVar[Capabilities] = Capabilities(
        source=SourceCapabilities(seekable=True, expires=True), received=True, blocks=False
    )

    def capabilities_of(self, table: Table) -> Capabilities:
        """See `Connector`. UnsupportedError for columns that log records do not have."""
        check_columns(table)
        return self.capabilities

    def source(self, table: Table, environment: Environment) -> Source:
        """See `Connector`. All tables read the same records."""
        check_columns(table)
        options = options_of(table)
        stream = stream_of(_PLACE, {}, options, 0)
        wanted = Wanted(table.display, stream, {}, Inbox)
        return ReceivedSource(environment, table, options, wanted, LogRows(table))

    def linked(self, table: Table, at: bytes) -> Chunk:
        """See `Connector`."""
        return LogRows(table).linked(at)


def logs_inbox(receivers: Receivers) -> Inbox | None:
    """Returns the inbox of log records; None where no job reads them."""
    found = receivers.at(_PLACE)
    return found if isinstance(found, Inbox) else None


def records_of(rows: list[LogRow], most: int) -> tuple[list[bytes], int]:
    """Returns what is kept of log records, and how many are not, as they have over `most` bytes."""
    encoded = [encode_row(row) for row in rows]
    kept = [record for record in encoded if len(record) <= most]
    return kept, len(encoded) - len(kept)
