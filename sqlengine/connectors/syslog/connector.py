"""The connector 'syslog': messages that senders bring, and rows that become messages.

CREATE TABLE messages (line STRING, peer STRING METADATA VIRTUAL)
WITH ('connector' = 'syslog', 'listen' = 'udp://127.0.0.1:5514', 'format' = 'raw');
CREATE TABLE alerts (severity STRING, message STRING) WITH ('connector' = 'syslog',
  'server' = 'tcp://siem.example:514', 'severity' = '{{severity}}', 'message' = '{{message}}',
  'format' = 'json')"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from typing import ClassVar

from parser.errors import OptionError, UnsupportedOption
from parser.types import DataType
from planner.capabilities import (
    OF_FORMAT,
    Capabilities,
    DeliveryGuarantee,
    FormatUse,
    SinkCapabilities,
    SourceCapabilities,
)
from planner.catalog import Table
from planner.logical.change_kinds import INSERT_ONLY
from sqlengine.batch import Batch
from sqlengine.connectors.base import Connector, Sink, Source
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.pushed.metadata import COLUMNS, PushedRows
from sqlengine.connectors.receivers.service import Wanted
from sqlengine.connectors.receivers.source import RECEIVE_OPTIONS, ReceivedSource, stream_of
from sqlengine.connectors.registry import options_of
from sqlengine.connectors.syslog.addresses import Address, listen_addresses, server_address
from sqlengine.connectors.syslog.messages import Messages
from sqlengine.connectors.syslog.receiver import SyslogReceiver
from sqlengine.connectors.syslog.sink import MOST_UDP, SyslogSink
from sqlengine.connectors.tls.files import CERTIFICATE, TLS_OPTIONS, pem_files
from sqlengine.formats.base import Option
from sqlengine.formats.options import choice, duration
from sqlengine.system.file_access import FileAccess
from sqlengine.system.sizes import size


class SyslogConnector(Connector):
    name: ClassVar[str] = "syslog"
    on_spark: ClassVar[str] = "tasks read what the driver receives; the driver writes"
    tested_with: ClassVar[str] = "rsyslogd 8.2302"
    options: ClassVar[Mapping[str, Option]] = {
        "listen": Option(
            listen_addresses,
            place=True,
            doc="where messages are taken: udp://, tcp:// or tls:// with host and port, several"
            " separated by ;; without a host 127.0.0.1",
        ),
        "receive.buffer": Option(
            size, default="8 mb", doc="what the kernel keeps of datagrams that are not read yet"
        ),
        **RECEIVE_OPTIONS,
        "server": Option(
            server_address, place=True, doc="where rows are sent: udp://, tcp:// or tls://"
        ),
        "severity": Option(
            default="notice", doc="a name, a number, or {{column}} for the value of a column"
        ),
        "facility": Option(default="user", doc="as the severity"),
        "hostname": Option(doc="a text with {{column}}; by default that of this machine"),
        "app-name": Option(default="sqlengine", doc="a text with {{column}}"),
        "proc-id": Option(doc="a text with {{column}}"),
        "msg-id": Option(doc="a text with {{column}}"),
        "structured-data": Option(
            doc="an id such as alert@32473, under which all columns are sent as structured data"
        ),
        "message": Option(doc="a text with {{column}}; by default the row in the table's format"),
        "framing": Option(
            choice("octet-counting", "newline"),
            default="octet-counting",
            doc="how messages are told apart that are sent over TCP",
        ),
        "connect.timeout": Option(duration, default="10 s", doc="for connecting, and for sending"),
        **TLS_OPTIONS,
    }
    metadata: ClassVar[Mapping[str, DataType]] = {
        key: kind for key, kind in COLUMNS.items() if key != "principal"
    }
    capabilities: ClassVar[Capabilities] = Capabilities(
        source=SourceCapabilities(changelog=OF_FORMAT, seekable=True, expires=True),
        sink=SinkCapabilities(
            changelog=INSERT_ONLY,
            guarantee=DeliveryGuarantee.AT_LEAST_ONCE,
            condition=(
                "over TCP and TLS, as far as the kernel of the other side counts: syslog has no"
                " acknowledgements, and UDP may lose what it is given"
            ),
        ),
        format=FormatUse.RECORDS,
        received=True,
    )

    def capabilities_of(self, table: Table) -> Capabilities:
        """See `Connector`. A table is read if it has 'listen', and written if it has 'server'.
        OptionError where it has none or both, PlanError for templates that name no column."""
        options = options_of(table)
        reads, writes = options["listen"] is not None, options["server"] is not None
        if reads is writes:
            raise OptionError(
                f"table '{table.display}' needs the option 'listen' to be read, or 'server' to be"
                " written",
                subject="listen",
            )
        if writes:
            Messages(table, options)
            return Capabilities(sink=self.capabilities.sink, format=FormatUse.RECORDS)
        tls = any(a.transport == "tls" for a in listen_addresses(table.options["listen"]))
        if tls and options[CERTIFICATE] is None:
            raise OptionError(
                f"table '{table.display}' listens by TLS and needs '{CERTIFICATE}' and 'tls.key'",
                subject=CERTIFICATE,
            )
        return Capabilities(
            source=self.capabilities.source, format=FormatUse.RECORDS, received=True
        )

    def source(self, table: Table, environment: Environment) -> Source:
        """See `Connector`. PlanError for options that other tables of the same address have
        differently."""
        options = options_of(table)
        if options["listen"] is None:
            raise UnsupportedOption(
                f"table '{table.display}' has no 'listen', and cannot be read",
                hint="for example 'listen' = 'udp://0.0.0.0:514'",
                subject="listen",
            )
        addresses = listen_addresses(table.options["listen"])
        place = "syslog " + ";".join(map(str, addresses))
        buffer = options["receive.buffer"]
        assert isinstance(buffer, int)
        shared = {name: str(options[name] or "") for name in TLS_OPTIONS}
        plain = None if any(a.transport == "tls" for a in addresses) else addresses[0].scheme
        files = pem_files(table, options, environment.files, plain)
        context: Callable[[], ssl.SSLContext] | None = None
        if plain is None:
            context = files.server_context
            context()  # what is wrong with its files is told at once
        wanted = Wanted(
            table.display,
            stream_of(place, {}, options, 0),
            shared,
            lambda: SyslogReceiver(addresses, buffer, context),
        )
        return ReceivedSource(environment, table, options, wanted, PushedRows(table))

    def sink(self, table: Table, environment: Environment) -> Sink:
        """See `Connector`. The server may be away."""
        options = options_of(table)
        if options["server"] is None:
            raise UnsupportedOption(
                f"table '{table.display}' has no 'server', and cannot be written",
                hint="for example 'server' = 'udp://localhost:514'",
                subject="server",
            )
        address, timeout_ms = _server(options), options["connect.timeout"]
        assert isinstance(timeout_ms, int)
        return SyslogSink(
            table.display,
            address,
            Messages(table, options),
            "octet-counting" if address.transport == "tls" else str(options["framing"]),
            environment.network,
            min(timeout_ms / 1000, environment.openings.timeout_s / 2),
            _context(address, table, environment.files),
        )

    def linked(self, table: Table, at: bytes) -> Chunk:
        """See `Connector`."""
        return PushedRows(table).linked(at)

    def rejects(self, table: Table, rows: Batch) -> Mapping[int, str]:
        """See `Connector`: rows with a severity or facility that is none, and for UDP those that
        are too long."""
        options = options_of(table)
        most = MOST_UDP if _server(options).transport == "udp" else None
        return Messages(table, options).refused(rows, most)

    def encode(self, table: Table, rows: Batch) -> None:
        """See `Connector`."""
        Messages(table, options_of(table)).encode(rows, 0)


def _server(options: Mapping[str, object]) -> Address:
    found = options["server"]
    assert isinstance(found, Address)
    return found


def _context(address: Address, table: Table, files: FileAccess) -> ssl.SSLContext | None:
    plain = None if address.transport == "tls" else address.scheme
    found = pem_files(table, options_of(table), files, plain)
    return found.client_context() if plain is None else None
