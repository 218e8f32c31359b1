"""The connectors 'kafka' and 'upsert-kafka', by Flink's options.

    CREATE TABLE clicks (…) WITH ('connector' = 'kafka', 'topic' = 'clicks',
        'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json')

A table of 'upsert-kafka' holds the last row of each primary key: a record is that row, one without
a value its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

from parser.errors import OptionError
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
from planner.logical.change_kinds import INSERT_ONLY, UPSERT
from sqlengine.batch import Batch
from sqlengine.connectors.base import Connector, Sink, Source
from sqlengine.connectors.environment import Environment, is_rehearsal, writer_of
from sqlengine.connectors.kafka.client import require_library
from sqlengine.connectors.kafka.positions import GROUP, POSITION_OPTIONS, STARTUP, check_positions
from sqlengine.connectors.kafka.properties import files_of, settings_of
from sqlengine.connectors.kafka.records import KafkaRecords
from sqlengine.connectors.kafka.rows import METADATA
from sqlengine.connectors.kafka.sink import KafkaSink
from sqlengine.connectors.kafka.source import DISCOVERY, SERVERS, KafkaSource
from sqlengine.connectors.kafka.topics import Topics
from sqlengine.connectors.kafka.transactions import TransactionalSink
from sqlengine.connectors.key_options import KEY_OPTIONS, UPSERT_KEY_OPTIONS, check_keys
from sqlengine.connectors.registry import options_of
from sqlengine.connectors.secret_names import is_secret
from sqlengine.formats.base import Option
from sqlengine.formats.keyed.fields import VALUE_FORMAT
from sqlengine.formats.options import at_least, choice, delay
from sqlengine.formats.registry import format_of

GUARANTEE: Final = "sink.delivery-guarantee"
PREFIX: Final = "sink.transactional-id-prefix"
PARTITIONER: Final = "sink.partitioner"
_EXACTLY_ONCE: Final = "exactly-once"
_CONDITION: Final = (
    "with 'sink.delivery-guarantee' = 'exactly-once' rows and epoch are one transaction of Kafka;"
    " else at least once"
)


class KafkaConnector(Connector):
    name: ClassVar[str] = "kafka"
    options: ClassVar[Mapping[str, Option]] = {
        SERVERS: Option(
            required=True,
            place=True,
            doc="hosts and ports of some brokers: 'host1:9092,host2:9092'",
        ),
        "topic": Option(place=True, doc="the topic's name; to read several, separated by ;"),
        "topic-pattern": Option(
            place=True, doc="instead: a regular expression for the whole names of topics to read"
        ),
        GROUP: Option(
            doc="the group whose offsets the mode 'group-offsets' takes; they are committed"
        ),
        "properties.ssl.key.pem": Option(secret=True, doc="a private key as PEM text"),
        "properties.*": Option(doc="settings of the client: librdkafka's, or those of Java's"),
        **POSITION_OPTIONS,
        DISCOVERY: Option(
            delay, default="5 min", doc="how often new partitions are looked for; 0: never"
        ),
        "scan.parallelism": Option(at_least(1), doc="without effect"),
        **KEY_OPTIONS,
        PARTITIONER: Option(
            choice("default", "fixed", "round-robin"),
            default="default",
            doc="the partition of a record: by its key, else one after the other in batches;"
            " 'fixed': one for each subtask",
        ),
        GUARANTEE: Option(
            choice(_EXACTLY_ONCE, "at-least-once", "none"),
            default="at-least-once",
            doc="'exactly-once' writes transactions; 'none' is 'at-least-once'",
        ),
        PREFIX: Option(
            doc="begins the names of transactions: one for each data folder of a server"
        ),
        "sink.parallelism": Option(at_least(1), doc="without effect"),
    }
    metadata: ClassVar[Mapping[str, DataType]] = METADATA
    tested_with: ClassVar[str] = "Apache Kafka 4.4"
    on_spark: ClassVar[str] = "the driver reads and writes, tasks encode"
    # The key is that of 'key.fields', and not the primary key.
    key_by_fields: ClassVar[bool] = True
    capabilities: ClassVar[Capabilities] = Capabilities(
        source=SourceCapabilities(
            changelog=OF_FORMAT,
            boundedness=Boundedness.BY_OPTIONS,
            seekable=True,
            expires=True,
            parallel=True,
        ),
        sink=SinkCapabilities(changelog=OF_FORMAT, condition=_CONDITION, parallel=True),
        format=FormatUse.RECORDS_WITH_KEYS,
    )

    def capabilities_of(self, table: Table) -> Capabilities:
        """See `Connector`. The sink's guarantee is what its options say."""
        self.check(table)
        exactly = options_of(table)[GUARANTEE] == _EXACTLY_ONCE
        return _with_guarantee(self.capabilities, exactly=exactly)

    def check(self, table: Table) -> None:
        """Raises PlanError for options that contradict each other."""
        options = options_of(table)
        check_keys(table, fields=self.key_by_fields)
        Topics.of(table, options)
        check_positions(table, options)
        settings_of(table)
        if options[GUARANTEE] == _EXACTLY_ONCE and options[PREFIX] is None:
            raise OptionError(
                f"table '{table.display}' needs the option '{PREFIX}'",
                detail=f"'{GUARANTEE}' is '{_EXACTLY_ONCE}'",
                hint="a name that no other server, and no other data folder, uses",
                subject=GUARANTEE,
            )

    def source(self, table: Table, environment: Environment) -> Source:
        """See `Connector`. ServiceError where Kafka does not answer, ExecutionError where a topic
        is missing."""
        self.check(table)
        _prepare(table, environment)
        return KafkaSource(table, options_of(table), environment.assignment)

    def sink(self, table: Table, environment: Environment) -> Sink:
        """See `Connector`. Raises as `source`."""
        self.check(table)
        _prepare(table, environment)
        options = options_of(table)
        if len(Topics.of(table, options).names) != 1:
            message = f"table '{table.display}' needs a single topic to be written"
            raise OptionError(message, subject="topic")
        subtask = environment.assignment.index
        sink = self._sink(table, options, environment)
        try:
            partitions = sink.open()
        except BaseException:
            sink.close()
            raise
        if options.get(PARTITIONER) == "fixed":
            sink.partition = subtask % partitions
        return sink

    def _sink(
        self, table: Table, options: Mapping[str, object], environment: Environment
    ) -> KafkaSink:
        if options[GUARANTEE] != _EXACTLY_ONCE or not environment.once or is_rehearsal():
            return KafkaSink(table, options)
        # Not by its secrets: with another password it is the same writer.
        given = sorted(table.options.items())
        definition = (f"{k}={v}" for k, v in given if not is_secret(k, self.options))
        writer = writer_of(environment.outside_writer, table, *definition)
        return TransactionalSink(table, options, f"{options[PREFIX]}-{writer}")

    def encode(self, table: Table, rows: Batch) -> None:
        """See `Connector`."""
        KafkaRecords(table).encode(rows)

    def row_encoder(self, table: Table) -> KafkaRecords:
        """See `Connector`."""
        return KafkaRecords(table)


class UpsertKafkaConnector(KafkaConnector):
    """Reads and writes topics whose records are the last row of their key."""

    name: ClassVar[str] = "upsert-kafka"
    options: ClassVar[Mapping[str, Option]] = {
        **{
            name: option
            for name, option in KafkaConnector.options.items()
            if name not in KEY_OPTIONS and not name.startswith(STARTUP) and name != PARTITIONER
        },
        **UPSERT_KEY_OPTIONS,
        "sink.buffer-flush.max-rows": Option(
            at_least(0),
            doc="without effect: an epoch's rows are written together, once for each key",
        ),
        "sink.buffer-flush.interval": Option(delay, doc="without effect, as above"),
    }
    capabilities: ClassVar[Capabilities] = KafkaConnector.capabilities.with_format(UPSERT)
    key_by_fields: ClassVar[bool] = False

    def check(self, table: Table) -> None:
        """See `KafkaConnector`. Also without a primary key, and for formats of changes."""
        if format_of(table)[0].capabilities.changelog != INSERT_ONLY:
            raise OptionError(
                f"table '{table.display}' with connector '{self.name}' needs a format of rows",
                detail=f"'{format_of(table)[0].name}' is one of changes",
                hint="for example 'value.format' = 'json', or the connector 'kafka'",
                subject="format" if "format" in table.options else VALUE_FORMAT,
            )
        super().check(table)


def _with_guarantee(capabilities: Capabilities, *, exactly: bool) -> Capabilities:
    assert capabilities.sink is not None
    guarantee = DeliveryGuarantee.EXACTLY_ONCE if exactly else DeliveryGuarantee.AT_LEAST_ONCE
    condition = (
        "rows and epoch are one transaction of Kafka"
        if exactly
        else "rows of an epoch that a crash repeats are written again"
    )
    sink = replace(capabilities.sink, guarantee=guarantee, condition=condition)
    return replace(capabilities, sink=sink)


def _prepare(table: Table, environment: Environment) -> None:
    """Raises PlanError for a file that SQL may not use, ServiceError where the client is not
    installed."""
    require_library()
    for option, path in files_of(table):
        environment.files.check_file(path, table=table.display, option=option)
