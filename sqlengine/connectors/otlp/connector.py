"""The connector 'otlp': log records that collectors and SDKs of OpenTelemetry export to the server.

    CREATE TABLE logs (ts TIMESTAMP_LTZ(3), severity STRING, body STRING,
      attributes MAP<STRING, STRING>, resource MAP<STRING, STRING>)
    WITH ('connector' = 'otlp')

takes them at /v1/logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Kept:
    """The log records of a request that are kept: `too_large` others have more bytes than one may,
    `too_many` stand behind as many bytes as a request may have."""

    records: list[bytes]
    too_large: int
    too_many: int


def records_of(rows: Sequence[LogRow], most: int, together: int) -> Kept:
    """Returns what is kept of log records: each with `most` bytes, and `together` of all. What a
    request says once, such as a resource, each of its records has."""
    kept: list[bytes] = []
    size = too_large = 0
    for number, row in enumerate(rows):
        record = encode_row(row)
        if len(record) > most:
            too_large += 1
            continue
        if size + len(record) > together:
            return Kept(kept, too_large, len(rows) - number)
        kept.append(record)
        size += len(record)
    return Kept(kept, too_large, 0)
