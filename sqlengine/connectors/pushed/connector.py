"""The connector 'http-push': clients POST rows to the server.

    CREATE TABLE readings (device STRING, v DOUBLE)
    WITH ('connector' = 'http-push', 'format' = 'json')

takes them at /api/v1/tables/readings/rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from parser.types import DataType
from planner.capabilities import OF_FORMAT, Capabilities, FormatUse, SourceCapabilities
from planner.catalog import Table
from sqlengine.connectors.base import Connector, Source
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.pushed.bodies import Bodies
from sqlengine.connectors.pushed.inbox import Inbox
from sqlengine.connectors.pushed.metadata import COLUMNS, PushedRows
from sqlengine.connectors.receivers.base import Receiver
from sqlengine.connectors.receivers.service import Receivers, Wanted
from sqlengine.connectors.receivers.source import RECEIVE_OPTIONS, ReceivedSource, stream_of
from sqlengine.connectors.registry import options_of
from sqlengine.formats.base import Option

_PLACE: Final = "http-push "


class TableInbox(Inbox):
    """The inbox of one table, which knows how bodies become its records."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        self.bodies = Bodies(table)

    def adopt(self, other: Receiver) -> None:
        """See `Receiver`. The last definition of the table counts."""
        if isinstance(other, TableInbox):
            self.bodies = other.bodies


class HttpPushConnector(Connector):
    name: ClassVar[str] = "http-push"
    on_spark: ClassVar[str] = "tasks read what the driver receives"
    options: ClassVar[Mapping[str, Option]] = RECEIVE_OPTIONS
    metadata: ClassVar[Mapping[str, DataType]] = COLUMNS
    capabilities: ClassVar[Capabilities] = Capabilities(
        source=SourceCapabilities(changelog=OF_FORMAT, seekable=True, expires=True),
        format=FormatUse.RECORDS,
        received=True,
        blocks=False,
    )

    def source(self, table: Table, environment: Environment) -> Source:
        """See `Connector`."""
        options = options_of(table)
        stream = stream_of(_PLACE + ".".join(table.name), {}, options, 0)
        wanted = Wanted(table.display, stream, {}, lambda: TableInbox(table))
        return ReceivedSource(environment, table, options, wanted, PushedRows(table))

    def linked(self, table: Table, at: bytes) -> Chunk:
        """See `Connector`."""
        return PushedRows(table).linked(at)


def inbox_of(receivers: Receivers, table: Sequence[str]) -> TableInbox | None:
    """Returns the inbox of a table by its whole name; None where no job reads it."""
    found = receivers.at(_PLACE + ".".join(table))
    return found if isinstance(found, TableInbox) else None
