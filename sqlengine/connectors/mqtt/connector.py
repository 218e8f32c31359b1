"""The connector 'mqtt': tables over topics of a server of MQTT 3.1.1 or 5.

    CREATE TABLE readings (device STRING, v DOUBLE, topic STRING METADATA VIRTUAL)
    WITH ('connector' = 'mqtt', 'server' = 'tcp://host:1883', 'topic' = 'plant/+/temp',
          'format' = 'json')

A receiver takes the messages into a log of the server's own, which tables read (ADR 26). Rows are
published at least once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from xxhash import xxh3_64_hexdigest

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
from sqlengine.batch import Batch
from sqlengine.connectors.base import Connector, Sink, Source
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.encoded import RowEncoder
from sqlengine.connectors.environment import Environment, password_as_written, writer_of
from sqlengine.connectors.metadata_types import check_written
from sqlengine.connectors.mqtt.metadata import COLUMNS, MqttRows
from sqlengine.connectors.mqtt.options import OPTIONS, account_of, settings_of, stream_of_table
from sqlengine.connectors.mqtt.receiver import MqttReceiver
from sqlengine.connectors.mqtt.sink import MqttRecords, MqttSink
from sqlengine.connectors.mqtt.templates import TopicTemplate
from sqlengine.connectors.receivers.service import Wanted
from sqlengine.connectors.receivers.source import ReceivedSource, as_written
from sqlengine.connectors.registry import options_of
from sqlengine.formats.base import Option
from sqlengine.formats.registry import encode_physical


class MqttConnector(Connector):
    name: ClassVar[str] = "mqtt"
    tested_with: ClassVar[str] = "mosquitto 2.0"
    on_spark: ClassVar[str] = "tasks read what the driver receives, and encode"
    options: ClassVar[Mapping[str, Option]] = OPTIONS
    metadata: ClassVar[Mapping[str, DataType]] = COLUMNS
    capabilities: ClassVar[Capabilities] = Capabilities(
        source=SourceCapabilities(changelog=OF_FORMAT, seekable=True, expires=True),
        sink=SinkCapabilities(
            changelog=OF_FORMAT,
            guarantee=DeliveryGuarantee.AT_LEAST_ONCE,
            condition="an epoch is committed when the server has confirmed each of its messages",
        ),
        format=FormatUse.RECORDS,
        received=True,
    )

    def source(self, table: Table, environment: Environment) -> Source:
        """See `Connector`. PlanError for options that contradict each other, or those of another
        table that shares the connection; the server may be away."""
        options = options_of(table)
        receivers = environment.receivers
        lasting = receivers is None or receivers.lasting
        said = as_written(options, table, environment)
        stream = stream_of_table(table, options, said, lasting=lasting)
        account = account_of(table, options, environment.files, "", lasting=stream.lasting_ms > 0)

        def make() -> MqttReceiver:
            assert receivers is not None
            client = options["client-id"]
            own = f"sqlengine-{receivers.identity()}-{xxh3_64_hexdigest(stream.place.encode())[:6]}"
            return MqttReceiver(replace(account, client=own if client is None else str(client)))

        settings = settings_of(table, options) | password_as_written(table, environment)
        wanted = Wanted(table.display, stream, settings, make, "client-id")
        return ReceivedSource(environment, table, options, wanted, MqttRows(table))

    def sink(self, table: Table, environment: Environment) -> Sink:
        """See `Connector`. The server may be away."""
        options = options_of(table)
        check_written(table)
        writer = xxh3_64_hexdigest(writer_of(environment.outside_writer, table).encode())
        client = f"{options['client-id'] or 'sqlengine'}-{writer}"
        account = account_of(table, options, environment.files, client, lasting=False)
        return MqttSink(
            table,
            replace(account, keep_alive_s=0),  # nobody would answer between two epochs
            int(str(options["sink.qos"])),
            retain=bool(options["sink.retain"]),
        )

    def rejects(self, table: Table, rows: Batch) -> Mapping[int, str]:
        """See `Connector`: rows whose topic has a NULL, or is none."""
        return TopicTemplate(table).errors(rows)

    def encode(self, table: Table, rows: Batch) -> None:
        """See `Connector`."""
        encode_physical(table, rows)

    def row_encoder(self, table: Table) -> RowEncoder:
        """See `Connector`."""
        return MqttRecords(table)

    def linked(self, table: Table, at: bytes) -> Chunk:
        """See `Connector`."""
        return MqttRows(table).linked(at)
