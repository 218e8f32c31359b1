"""The connector 'topic': tables over topics of the broker.

    CREATE TABLE clicks (…) WITH ('connector' = 'topic', 'topic' = 'clicks', 'format' = 'json')

A new job begins at the latest offset unless 'scan.startup.mode' says otherwise. Rows of one epoch
leave as one append per shard, exactly once. With 'key.fields' a row's shard is the hash (version 1,
as for state) of those columns in canonical form, which is also the record's key; without, an
epoch's rows go to one shard together, the next epoch's to the next.

With 'upsert' = 'true' the topic holds the last row of each primary key (see `upserts`), and is
read from its beginning unless 'scan.startup.mode' says otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from parser.errors import PlanError, ServiceError, UnsupportedError
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
from planner.graph.distribution import SubtaskAssignment
from planner.logical.change_kinds import UPSERT
from sqlengine.batch import Batch
from sqlengine.broker.auto_create import NewTopic
from sqlengine.broker.base import Broker, Records, is_system
from sqlengine.broker.coordinator import check_name
from sqlengine.broker.errors import BrokerError
from sqlengine.broker.storage.compression import COMPRESSIONS
from sqlengine.connectors.base import (
    Chunk,
    Connector,
    Environment,
    Option,
    Sink,
    Source,
    is_rehearsal,
    writer_of,
)
from sqlengine.connectors.encoded import RowEncoder
from sqlengine.connectors.registry import options_of
from sqlengine.connectors.topic.creation import missing_topic, shards_of
from sqlengine.connectors.topic.sink import TopicRecords, TopicSink
from sqlengine.connectors.topic.upserts import UPSERT_OPTION, is_upsert, read_upserts
from sqlengine.formats.options import at_least, boolean, choice, duration
from sqlengine.formats.registry import encoder_for, value_metadata


def _group(text: str) -> str:
    try:
        check_name("group", text)
    except BrokerError as error:
        raise ValueError(str(error.detail)) from None
    return text


# What is read of a shard at once, at most, where nobody wants more.
_BYTES_PER_READ: Final = 8 << 20


class TopicConnector(Connector):
    name: ClassVar[str] = "topic"
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
        "scan.startup.mode": Option(
            choice("latest-offset", "earliest-offset", "group-offsets", "timestamp"),
            default="latest-offset",
        ),
        "scan.startup.timestamp-millis": Option(
            at_least(0), doc="where the mode 'timestamp' begins"
        ),
        "scan.bounded.mode": Option(choice("unbounded", "latest-offset"), default="unbounded"),
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
            raise PlanError(f"group '{group}' belongs to the system, as its topic does")
        broker = _broker(environment)
        shards = shards_of(broker, table, environment.auto_create, writes=False)
        return TopicSource(broker, table, options, environment.assignment, shards)

    def sink(self, table: Table, environment: Environment) -> Sink:
        """See `Connector`. Creates the topic, unless 'topic.auto-create' forbids it."""
        options = options_of(table)
        name = table.options["topic"]
        if is_system(name):
            raise PlanError(f"topic '{name}' belongs to the system and cannot be written")
        for column in table.metadata:
            if not column.virtual:
                raise UnsupportedError(
                    f"metadata column '{column.column.name}' cannot be written",
                    hint="declare it METADATA VIRTUAL",
                )
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
        names = table.physical.names
        columns = [rows.column(name) for name in names]
        encoder_for(table).encode(rows.with_columns(rows.schema.select(names), columns))

    def row_encoder(self, table: Table) -> RowEncoder:
        """See `Connector`."""
        return TopicRecords(table)

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


@dataclass(frozen=True)
class _Key:
    """A declared metadata column: its key and its type."""

    key: str
    type: DataType


class TopicSource(Source):
    """Reads the shards of a topic, by number as text; an offset counts records. A subtask without a
    shard has a source that ends before it begins."""

    bounded = False  # unless the options or the assignment of the subtask say otherwise

    def __init__(
        self,
        broker: Broker,
        table: Table,
        options: Mapping[str, object],
        assignment: SubtaskAssignment,
        number: int,
    ) -> None:
        self._broker = broker
        self._topic = table.options["topic"]
        self._start = _start_at(broker, table, options)
        of_format = value_metadata(table)
        self._keys = [_Key(m.key, m.column.type) for m in table.metadata if m not in of_format]
        self._group = options["properties.group.id"]
        self._upsert = is_upsert(table)
        shards = range(number)
        self._shards = [str(s) for s in shards if assignment.has(s)]  # their number never changes
        self.bounded = options["scan.bounded.mode"] == "latest-offset" or not self._shards
        ends = self.bounded and not is_rehearsal()
        self._ends = [broker.end_offset(self._topic, s) for s in shards] if ends else []
        self._times, self._size = 1, _BYTES_PER_READ
        self._width = 0.0  # bytes of a record, of those that were read last

    def shards(self) -> list[str]:
        return self._shards

    def start(self, shard: str) -> int:
        return self._start(int(shard))

    def end(self, shard: str) -> int | None:
        return (
            self._ends[int(shard)]
            if self.bounded
            else self._broker.end_offset(self._topic, int(shard))
        )

    def read(
        self, shard: str, offset: int, *, max_rows: int, until: int | None = None
    ) -> Chunk | None:
        """See `Source`. Tombstones (records without a value) give no row."""
        number = int(shard)
        if until is None and self.bounded:
            if offset >= self._ends[number]:
                return None
            max_rows = min(max_rows, self._ends[number] - offset)
        size = max(self._size, _BYTES_PER_READ)
        records = self._broker.read(
            self._topic, number, offset, max_records=max_rows, max_bytes=size, until=until
        )
        if records is None:
            return None
        self._width = records.values.nbytes / max(records.num_rows, 1)
        return self._chunk(shard, offset, records)

    def widen(self, times: int, size: int) -> None:
        """See `Source`."""
        self._times, self._size = times, size

    def rows_per_poll(self, most: int) -> int:
        """See `Source`."""
        if not self._width:
            return most
        fitting = int(self._size / (self._width * most * len(self._shards)))
        return most * max(min(self._times, fitting), 1)

    def _chunk(self, shard: str, start: int, records: Records) -> Chunk:
        columns = {k.key: _metadata(k, records) for k in self._keys}
        values, offsets = records.values, records.offsets
        if self._upsert:
            values, kinds, present = read_upserts(records)
            columns = {key: column.filter(pa.array(present)) for key, column in columns.items()}
            end, rows = records.next_offset, len(values)
            return Chunk(
                shard,
                start,
                end,
                rows,
                values,
                offsets=offsets[present],
                metadata=columns,
                kinds=kinds,
            )
        if values.null_count:
            present = values.is_valid()
            values, offsets = values.filter(present), offsets[np.asarray(present)]
            columns = {key: column.filter(present) for key, column in columns.items()}
        return Chunk(
            shard,
            start,
            records.next_offset,
            len(values),
            values,
            offsets=offsets,
            metadata=columns,
        )

    def expired(self, shard: str, offset: int) -> str | None:
        """See `Source`. Retention takes records, and a topic may be made anew."""
        begin, end = (
            at(self._topic, int(shard))
            for at in (self._broker.begin_offset, self._broker.end_offset)
        )
        if begin <= offset <= end:
            return None
        place = f"offset {offset} of shard {shard} is to be read, and topic '{self._topic}'"
        return (
            f"{place} begins at {begin} by now"
            if offset < begin
            else f"{place} ends at {end}: it was made anew"
        )

    def first(self, shard: str) -> int:
        return self._broker.begin_offset(self._topic, int(shard))

    def at(self, shard: str, place: str | int) -> int:
        """See `Source`."""
        number = int(shard)
        if isinstance(place, int):
            return self._broker.offset_for_time(self._topic, number, place)
        edge = self._broker.end_offset if place == "latest" else self._broker.begin_offset
        return edge(self._topic, number)

    def notify_checkpoint(self, positions: Mapping[str, int]) -> None:
        """Commits the offsets for the group, if the table names one."""
        if isinstance(self._group, str):
            self._broker.commit(
                self._group, self._topic, {int(shard): at for shard, at in positions.items()}
            )

    def close(self) -> None: ...


def _start_at(broker: Broker, table: Table, options: Mapping[str, object]) -> Callable[[int], int]:
    """Returns a function from a shard to the offset at which a new job begins. PlanError where the
    startup mode lacks an option."""
    default = "earliest-offset" if is_upsert(table) else options["scan.startup.mode"]
    topic, mode, millis, group = (
        table.options["topic"],
        default if "scan.startup.mode" not in table.options else options["scan.startup.mode"],
        options["scan.startup.timestamp-millis"],
        options["properties.group.id"],
    )
    if mode == "timestamp":
        if not isinstance(millis, int):
            raise PlanError(
                f"table '{table.display}' needs the option 'scan.startup.timestamp-millis'"
            )
        return lambda shard: broker.offset_for_time(topic, shard, millis)
    if mode == "group-offsets":
        if not isinstance(group, str):
            raise PlanError(f"table '{table.display}' needs the option 'properties.group.id'")
        return lambda shard: broker.committed(group, topic).get(
            shard, broker.end_offset(topic, shard)
        )
    if mode == "earliest-offset":
        return lambda shard: broker.begin_offset(topic, shard)
    return lambda shard: broker.end_offset(topic, shard)


def _metadata(key: _Key, records: Records) -> pa.Array:
    """Returns a metadata column in the type that the table declares."""
    match key.key:
        case "timestamp":
            values = pa.array(records.timestamps).view(pa.timestamp("ms", "UTC"))
        case "offset":
            values = pa.array(records.offsets)
        case "shard":
            values = pa.array(np.full(records.num_rows, records.shard, np.int32))
        case _:
            values = (
                records.keys
                if records.keys is not None
                else pa.nulls(records.num_rows, pa.binary())
            )
    return values if values.type == key.type.arrow else values.cast(key.type.arrow, safe=False)
