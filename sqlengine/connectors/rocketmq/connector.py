"""The connector 'rocketmq': tables over topics of RocketMQ 5.

    CREATE TABLE orders (…) WITH ('connector' = 'rocketmq', 'topic' = 'orders',
      'nameServerAddress' = 'localhost:9876', 'consumerGroup' = 'billing', 'format' = 'json')

A new job begins at the latest offset unless the options say otherwise. With 'keyColumns' rows with
equal keys go to one queue and stay in order. With 'upsert' = 'true' a message is the last row of
its primary key, as a compacted topic keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from parser.errors import SqlError
from parser.types import DataType
from planner.capabilities import (
    OF_FORMAT,
    Boundedness,
    Capabilities,
    DeliveryGuarantee,
    FormatUse,
    SinkCapabilities,
    SourceCapabilities,
)
from planner.catalog import Table
from planner.logical.change_kinds import UPSERT
from sqlengine.batch import Batch
from sqlengine.broker.rocketmq import codes
from sqlengine.broker.rocketmq.errors import Refused, RocketError
from sqlengine.connectors.base import Connector, Sink, Source
from sqlengine.connectors.encoded import RowEncoder
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.registry import options_of
from sqlengine.connectors.rocketmq.options import (
    CLUSTER,
    SINK,
    SOURCE,
    check_files,
    text_of,
    topic_of,
)
from sqlengine.connectors.rocketmq.outgoing import MessageEncoder
from sqlengine.connectors.rocketmq.rows import METADATA
from sqlengine.connectors.rocketmq.sink import RocketSink
from sqlengine.connectors.rocketmq.source import RocketSource
from sqlengine.connectors.rocketmq.writer import writer_name
from sqlengine.connectors.topic.upserts import is_upsert
from sqlengine.formats.base import Option


class RocketConnector(Connector):
    name: ClassVar[str] = "rocketmq"
    options: ClassVar[Mapping[str, Option]] = {**CLUSTER, **SOURCE, **SINK}
    metadata: ClassVar[Mapping[str, DataType]] = METADATA
    tested_with: ClassVar[str] = "RocketMQ 5.5"
    on_spark: ClassVar[str] = "the driver reads, tasks encode"
    capabilities: ClassVar[Capabilities] = Capabilities(
        source=SourceCapabilities(
            changelog=OF_FORMAT,
            boundedness=Boundedness.BY_OPTIONS,
            seekable=True,
            expires=True,
            parallel=True,
        ),
        sink=SinkCapabilities(
            changelog=OF_FORMAT,
            guarantee=DeliveryGuarantee.AT_LEAST_ONCE,
            condition="tables of this connector drop what comes again: to them it is exactly once",
            parallel=True,
        ),
        format=FormatUse.RECORDS,
    )

    def capabilities_of(self, table: Table) -> Capabilities:
        """See `Connector`. With 'upsert' = 'true' messages are upserts in any format."""
        return self.capabilities.with_format(UPSERT) if is_upsert(table) else self.capabilities

    def source(self, table: Table, environment: Environment) -> Source:
        """See `Connector`. RocketError where the topic is missing or the cluster is away, PlanError
        for options that contradict each other."""
        options = options_of(table)
        check_files(table, options, environment.files)
        topic = topic_of(table, options, text_of(options, "consumerGroup"))
        try:
            return RocketSource(topic, table, options, environment.assignment)
        except BaseException as error:
            topic.client.close()
            if not isinstance(error, SqlError):
                raise
            raise _explained(table, error) from None

    def sink(self, table: Table, environment: Environment) -> Sink:
        """See `Connector`. RocketError as for a source."""
        options = options_of(table)
        check_files(table, options, environment.files)
        topic = topic_of(table, options, text_of(options, "producerGroup"))
        try:
            return RocketSink(topic, table, options, writer_name(table, environment))
        except BaseException as error:
            topic.client.close()
            if not isinstance(error, SqlError):
                raise
            raise _explained(table, error) from None

    def encode(self, table: Table, rows: Batch) -> None:
        """See `Connector`."""
        MessageEncoder(table, options_of(table)).encode(rows)

    def row_encoder(self, table: Table) -> RowEncoder:
        """See `Connector`."""
        return MessageEncoder(table, options_of(table))


def _explained(table: Table, error: SqlError) -> SqlError:
    """Returns the error of a table that cannot be opened, with what can be done about it."""
    name = table.options["topic"]
    if isinstance(error, Refused) and error.code == codes.NO_TOPIC:
        return RocketError(
            f"topic '{name}' of table '{table.display}' does not exist, or its brokers are away",
            hint=f"make it: mqadmin updateTopic -n NAMESERVER -c CLUSTER -t {name}",
        )
    if isinstance(error, RocketError) and error.hint is None:
        error.hint = "see 'nameServerAddress', and whether the servers run"
    return error
