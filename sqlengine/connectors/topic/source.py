"""Reading a topic, shard by shard: its records, or where they are, for others that read them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from parser.errors import OptionError
from planner.catalog import Table
from planner.graph.distribution import SubtaskAssignment
from sqlengine.broker.base import Broker, Records
from sqlengine.broker.errors import BrokerAway
from sqlengine.broker.open_topics import OpenTopics
from sqlengine.broker.storage.reading import ReadBounds
from sqlengine.connectors.base import Source
from sqlengine.connectors.chunks import Chunk, Place
from sqlengine.connectors.environment import is_rehearsal
from sqlengine.connectors.health import Health
from sqlengine.connectors.topic.rows import TopicRows
from sqlengine.connectors.topic.upserts import is_upsert

# What is read of a shard at once, at most, where nobody wants more.
_BYTES_PER_READ: Final = 8 << 20
# So many records tell how long those behind them are.
_SAMPLE: Final = 256
# Seconds that servers behind our broker have to come back while an epoch is read again.
_PATIENCE_S: Final = 30.0
_RETRY_S: Final = 0.25
# Batches have so many rows on average, or they are read where the broker is.
_LEAST_ROWS: Final = 16


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
        self._rows = TopicRows(table)
        self._group = options["properties.group.id"]
        shards = range(number)
        self._shards = [str(s) for s in shards if assignment.has(s)]  # their number never changes
        end = _end_at(broker, table, options)
        self.bounded = end is not None or not self._shards
        self._ends = [] if end is None or is_rehearsal() else [end(s) for s in shards]
        self._known_ends: dict[str, int] = {}
        self._times, self._size = 1, _BYTES_PER_READ
        self._width = 0.0  # bytes of a record, of those that were read last
        self._links: tuple[Path, int] | None = None
        # The servers behind our broker may be away; ours is not.
        self._behind = Health()
        if broker.may_be_away:
            self.health = self._behind

    def shards(self) -> list[str]:
        return self._shards

    def start(self, shard: str) -> int:
        return self._start(int(shard))

    def end(self, shard: str) -> int | None:
        """See `Source`. While the servers behind our broker are away it is what was known last."""
        if self.bounded:
            return self._ends[int(shard)]
        try:
            self._known_ends[shard] = self._broker.end_offset(self._topic, int(shard))
        except BrokerAway:
            return self._known_ends.get(shard)
        return self._known_ends[shard]

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
        if (chunk := self._linked(shard, offset, max_rows, size, until)) is not None:
            return chunk
        records = self._records(number, offset, max_rows, size, until)
        if records is None:
            return None
        self._width = records.values.nbytes / max(records.num_rows, 1)
        return self._rows.chunk(shard, offset, records)

    def _records(
        self, shard: int, offset: int, max_rows: int, size: int, until: int | None
    ) -> Records | None:
        """Reads records; None also while the servers behind our broker are away, unless an epoch
        is read again: that is waited for."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                records = self._broker.read(
                    self._topic, shard, offset, max_records=max_rows, max_bytes=size, until=until
                )
            except BrokerAway as error:
                if self._behind.trouble is None:
                    self._behind.failed(error.message)
                if until is None:
                    return None
                if time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_S)
            else:
                self._behind.works()
                return records

    def _linked(
        self, shard: str, offset: int, max_rows: int, size: int, until: int | None
    ) -> Chunk | None:
        """Returns where records are that are to be read elsewhere; None where they are not."""
        broker, number = self._broker, int(shard)
        if self._links is None or not isinstance(broker, OpenTopics):
            return None
        folder, step = self._links
        stop = until
        if stop is None:
            stop = min(offset + max_rows, broker.end_offset(self._topic, number))
        if stop - offset <= step or not self._measured(broker, number, offset):
            return None
        if until is None:
            stop = min(stop, offset + max(int(size / max(self._width, 1.0)), step))
        stops = [*range(offset, stop, step), stop]
        found = broker.excerpts(self._topic, number, stops, folder)
        if found is None:
            return None
        places = [Place(e.start - offset, msgspec.msgpack.encode(e)) for e in found]
        return Chunk(shard, offset, stop, stop - offset, places=places)

    def _measured(self, broker: OpenTopics, shard: int, offset: int) -> bool:
        """Measures some records from `offset` on; True if their batches are worth being read apart:
        of small ones `Broker.read` has a faster way."""
        bounds = ReadBounds(_SAMPLE, _BYTES_PER_READ, None)
        sample = broker.read_batches(self._topic, shard, offset, bounds)
        headers = [] if sample is None else sample.run().headers
        rows = sum(header.rows for header in headers)
        self._width = sum(header.value_bytes for header in headers) / max(rows, 1)
        return rows >= _LEAST_ROWS * len(headers) > 0

    def link(self, folder: Path, rows: int) -> None:
        """See `Source`. Links are made to the segments of the topic; what cannot be linked, and
        compacted topics, are read here."""
        self._links = folder, rows

    def widen(self, times: int, size: int) -> None:
        """See `Source`."""
        self._times, self._size = times, size

    def rows_per_poll(self, most: int) -> int:
        """See `Source`."""
        if not self._width:
            return most
        fitting = int(self._size / (self._width * most * len(self._shards)))
        return most * max(min(self._times, fitting), 1)

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
            raise OptionError(
                f"table '{table.display}' needs the option 'scan.startup.timestamp-millis'",
                detail=f"'scan.startup.mode' is '{mode}'",
                subject="scan.startup.mode",
            )
        return lambda shard: broker.offset_for_time(topic, shard, millis)
    if mode == "group-offsets":
        if not isinstance(group, str):
            raise OptionError(
                f"table '{table.display}' needs the option 'properties.group.id'",
                detail=f"'scan.startup.mode' is '{mode}'",
                subject="scan.startup.mode",
            )
        return lambda shard: broker.committed(group, topic).get(
            shard, broker.end_offset(topic, shard)
        )
    if mode == "earliest-offset":
        return lambda shard: broker.begin_offset(topic, shard)
    return lambda shard: broker.end_offset(topic, shard)


def _end_at(
    broker: Broker, table: Table, options: Mapping[str, object]
) -> Callable[[int], int] | None:
    """Returns a function from a shard to the offset at which a bounded table ends; None for one
    that is not bounded. PlanError where the mode lacks an option."""
    topic, millis = table.options["topic"], options.get("scan.bounded.timestamp-millis")
    match options["scan.bounded.mode"]:
        case "latest-offset":
            return lambda shard: broker.end_offset(topic, shard)
        case "timestamp" if isinstance(millis, int):
            return lambda shard: broker.offset_for_time(topic, shard, millis)
        case "timestamp":
            raise OptionError(
                f"table '{table.display}' needs the option 'scan.bounded.timestamp-millis'",
                detail="'scan.bounded.mode' is 'timestamp'",
                subject="scan.bounded.mode",
            )
    return None
