"""The connector 'topic': tables over topics of the broker.

    CREATE TABLE clicks (…) WITH ('connector' = 'topic', 'topic' = 'clicks', 'format' = 'json')

A new job begins at the latest offset unless 'scan.startup.mode' says otherwise. Rows of one epoch
leave as one append per shard, exactly once. With 'key.fields' a row's shard is the hash (version 1,
as for state) of those columns in canonical form, which is also the record's key; without, an
epoch's rows go to one shard together, the next epoch's to the next.

With 'upsert' = 'true' the topic holds the last row of each primary key (see `upserts`), and is
read from its beginning unless 'scan.startup.mode' says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from parser.errors import OptionError, ServiceError
from parser.types import BIGINT, BYTES, INT, DataType, timestamp_ltz
from planner.capabilities import (
    OF_FORMAT,
    Boundedness,
    Capabilities,
    FormatUse,
    SinkCapabilities,
    SourceCapabilities,
)
from planner.catalog import Table
from planner.logical.change_kinds import UPSERT
from sqlengine.batch import Batch
from sqlengine.broker.auto_create import NewTopic
from sqlengine.broker.base import Broker, is_system
from sqlengine.broker.coordinator import check_name
from sqlengine.broker.errors import BrokerError
from sqlengine.broker.storage.compression import COMPRESSIONS
from sqlengine.connectors.base import Connector, Sink, Source
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.encoded import RowEncoder
from sqlengine.connectors.environment import Environment, writer_of
from sqlengine.connectors.metadata_types import check_written
from sqlengine.connectors.registry import options_of
from sqlengine.connectors.topic.creation import missing_topic, shards_of
from sqlengine.connectors.topic.rows import TopicRows
from sqlengine.connectors.topic.sink import TopicRecords, TopicSink
from sqlengine.connectors.topic.source import TopicSource
from sqlengine.connectors.topic.upserts import UPSERT_OPTION, is_upsert
from sqlengine.formats.base import Option
from sqlengine.formats.options import at_least, boolean, choice, duration
from sqlengine.formats.registry import encode_physical


def _group(text: str) -> str:
    try:
        check_name("group", text)
    except BrokerError as error:
        raise ValueError(str(error.detail)) from None
    return text


class TopicConnector(Connector):
    name: ClassVar[str] = "topic"
    on_spark: ClassVar[str] = "tasks read and encode"
    options: ClassVar[Mapping[str, Option]] = {
        "topic": Option(required=True, doc="the topic's name"),
        "topic.auto-create": Option(
            boolean,
            doc="make the topic where it is missing; default: as the server says, else for sinks",
        ),
        "topic.auto-create.shards": Option(
            at_least(1), doc="shards of a topic that is made; default: 1, or as the server says"
        ),
        "topic.auto-create.retention": Option(
            duration, doc="how long a topic that is made keeps records; default: as the server says"
        ),
        "topic.owned": Option(
            boolean,
            doc="the topic is the table's alone: CREATE TABLE by a client makes it, DROP TABLE"
            " deletes it with its rows",
        ),
        "scan.startup.mode": Option(
            choice("latest-offset", "earliest-offset", "group-offsets", "timestamp"),
            default="latest-offset",
        ),
        "scan.startup.timestamp-millis": Option(
            at_least(0), doc="where the mode 'timestamp' begins"
        ),
        "scan.bounded.mode": Option(
            choice("unbounded", "latest-offset", "timestamp"), default="unbounded"
        ),
        "scan.bounded.timestamp-millis": Option(
            at_least(0), doc="where the mode 'timestamp' of 'scan.bounded.mode' ends"
        ),
        "properties.group.id": Option(_group, doc="whose offsets the mode 'group-offsets' takes"),
        "compression": Option(
            choice(*COMPRESSIONS), doc="how a sink packs its batches; default: as the topic says"
        ),
        "key.fields": Option(doc="columns, separated by ;, whose rows stay together and in order"),
        UPSERT_OPTION: Option(
            boolean,
            default="false",
            doc="a record is the row of its primary key, one without a value its end",
        ),
    }
    metadata: ClassVar[Mapping[str, DataType]] = {
        "timestamp": timestamp_ltz(3),
        "offset": BIGINT,
        "shard": INT,
        "key": BYTES,
    }
    capabilities: ClassVar[Capabilities] = Capabilities(
        blocks=False,
        source=SourceCapabilities(
            changelog=OF_FORMAT,
            boundedness=Boundedness.BY_OPTIONS,
            seekable=True,
            expires=True,
            parallel=True,
        ),
        sink=SinkCapabilities(
            changelog=OF_FORMAT,
            condition="each shard remembers the last epoch of each writer",
            parallel=True,
        ),
        format=FormatUse.RECORDS,
        on_broker=True,
    )

    def capabilities_of(self, table: Table) -> Capabilities:
        """See `Connector`. With 'upsert' = 'true' records are upserts in any format."""
        return self.capabilities.with_format(UPSERT) if is_upsert(table) else self.capabilities

    def source(self, table: Table, environment: Environment) -> Source:
        """See `Connector`. BrokerError where the topic is missing, PlanError for options that
        contradict each other."""
        options = options_of(table)
        group = options["properties.group.id"]
        if isinstance(group, str) and is_system(group) and is_system(table.options["topic"]):
            raise OptionError(
                f"group '{group}' of table '{table.display}' belongs to the system",
                hint="name another one",
                subject="properties.group.id",
            )
        broker = _broker(environment)
        shards = shards_of(broker, table, environment.auto_create, writes=False)
        return TopicSource(broker, table, options, environment.assignment, shards)

    def sink(self, table: Table, environment: Environment) -> Sink:
        """See `Connector`. Creates the topic, unless 'topic.auto-create' forbids it."""
        options = options_of(table)
        name = table.options["topic"]
        if is_system(name):
            raise OptionError(
                f"topic '{name}' of table '{table.display}' belongs to the system and cannot be"
                " written",
                hint="name another one",
                subject="topic",
            )
        check_written(table)
        broker = _broker(environment)
        shards = shards_of(broker, table, environment.auto_create, writes=True)
        packed = next((c for c in COMPRESSIONS if c == options["compression"]), None)
        writer = writer_of(
            environment.writer, table, *(f"{k}={v}" for k, v in sorted(table.options.items()))
        )
        return TopicSink(
            broker, table, shards, writer if environment.once else None, environment.clock, packed
        )

    def encode(self, table: Table, rows: Batch) -> None:
        """See `Connector`."""
        encode_physical(table, rows)

    def row_encoder(self, table: Table) -> RowEncoder:
        """See `Connector`."""
        return TopicRecords(table)

    def linked(self, table: Table, at: bytes) -> Chunk:
        """See `Connector`."""
        return TopicRows(table).linked(at)

    def missing_topic(
        self, table: Table, environment: Environment, *, writes: bool
    ) -> NewTopic | None:
        """See `Connector`."""
        broker = environment.broker
        if broker is None:
            return None
        return missing_topic(broker, table, environment.auto_create, writes=writes)


def _broker(environment: Environment) -> Broker:
    if environment.broker is None:
        raise ServiceError("there is no broker here", hint="name a data folder: --data DIR")
    return environment.broker
