"""Reading topics of Kafka, partition by partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from planner.catalog import Table
from planner.graph.distribution import SubtaskAssignment
from sqlengine.connectors.base import Source
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.health import Health
from sqlengine.connectors.kafka.client import KafkaAway, consumer, log
from sqlengine.connectors.kafka.fetching import Fetcher, OutOfRange
from sqlengine.connectors.kafka.positions import BOUNDED, GROUP, STARTUP, Positions
from sqlengine.connectors.kafka.properties import settings_of
from sqlengine.connectors.kafka.rows import KafkaRows
from sqlengine.connectors.kafka.topics import Discovery, Partition, Topics

if TYPE_CHECKING:
    from confluent_kafka import Consumer

SERVERS: Final = "properties.bootstrap.servers"
DISCOVERY: Final = "scan.topic-partition-discovery.interval"


class KafkaSource(Source):
    """Reads the partitions of a table's topics; a shard is 'topic-3', an offset is Kafka's.

    With transactions and compaction offsets have holes: a chunk ends where the next record can be,
    so that a range has the same records whenever it is read. A subtask without a partition has a
    source that ends before it begins, unless new partitions are looked for."""

    def __init__(
        self, table: Table, options: Mapping[str, object], assignment: SubtaskAssignment
    ) -> None:
        self.health: Health = Health()
        self._options = options
        servers = str(options[SERVERS])
        self._client: Consumer = consumer(settings_of(table), table.display, self.health)
        self._positions = Positions(self._client, servers, table)
        self._fetcher = Fetcher(self._client, servers, self.health)
        self._rows = KafkaRows(table)
        self._group = options.get(GROUP)
        self._bounded = options[BOUNDED + "mode"] != "unbounded"
        self._there: Sequence[Partition] = ()  # also those that other subtasks read
        try:
            self._discovery = self._discovered(table, servers, assignment)
            partitions = self._discovery.partitions()
            self._positions.require_named(BOUNDED, options, self._there)
            self._bounded = self._bounded or not (partitions or options[DISCOVERY])
            self._stops = {p: self._positions.stop(p, options) for p in partitions if self._bounded}
        except BaseException:
            self._client.close()  # it has threads, and is tried again
            raise

    def _discovered(self, table: Table, servers: str, assignment: SubtaskAssignment) -> Discovery:
        topics, interval = Topics.of(table, self._options), self._options[DISCOVERY]
        assert isinstance(interval, int)

        def ask() -> list[Partition]:
            try:
                found = topics.partitions(self._client, self.health, servers)
            except KafkaAway as error:
                self._client.poll(0)  # hears why
                raise error.because(self.health.trouble) from None
            self._there = found
            return [p for p in found if p.read_by(assignment)]

        return Discovery(ask, 0.0 if self._bounded else interval / 1000)

    @property
    def bounded(self) -> bool:
        return self._bounded

    def shards(self) -> list[str]:
        return [p.shard for p in self._discovery.partitions()]

    def start(self, shard: str) -> int:
        """See `Source`. OptionError for offsets that no partition has: of those that a job goes on
        from nothing is asked."""
        self._positions.require_named(STARTUP, self._options, self._there)
        return self._positions.start(Partition.of(shard), self._options)

    def check_start(self) -> None:
        """See `Source`."""
        if self._positions.start_may_fail(self._options):
            for shard in self.shards():
                self.start(shard)

    def end(self, shard: str) -> int | None:
        """See `Source`. Of a table without end it is what the client was told last."""
        partition = Partition.of(shard)
        if self._bounded:
            return self._stops.get(partition, 0)
        read = self._fetcher.read_to_end(partition)
        return self._positions.known_latest(partition) if read is None else read

    def read(
        self, shard: str, offset: int, *, max_rows: int, until: int | None = None
    ) -> Chunk | None:
        """See `Source`. OutOfRange where records of the offset are gone, KafkaAway where a range
        does not come."""
        partition = Partition.of(shard)
        stop = self._stops.get(partition, 0) if self._bounded and until is None else None
        if stop is not None and offset >= stop:
            return None
        try:
            taken = self._fetcher.take(partition, offset, most=max_rows, stop=stop, until=until)
        except OutOfRange:
            if offset:
                raise
            return self._without_first(partition, until)
        return None if taken is None else self._rows.chunk(shard, offset, taken)

    def _without_first(self, partition: Partition, until: int | None) -> Chunk | None:
        """Returns what leads from offset 0 to the first record that is still there: a partition
        that is found later is read from 0 on."""
        first = self._positions.earliest(partition)
        first = first if until is None else min(first, until)
        if not first:
            return None
        log.warning("partition '%s' begins at offset %d by now", partition.shard, first)
        return self._rows.nothing(partition.shard, 0, first)

    def expired(self, shard: str, offset: int) -> str | None:
        """See `Source`. Retention takes records, and a topic may be made anew."""
        partition = Partition.of(shard)
        begin, end = self._positions.earliest(partition), self._positions.latest(partition)
        if begin <= offset <= end:
            return None
        place = f"offset {offset} is to be read, and partition '{shard}'"
        return (
            f"{place} begins at {begin} by now"
            if offset < begin
            else f"{place} ends at {end}: its topic was made anew"
        )

    def first(self, shard: str) -> int:
        return self._positions.earliest(Partition.of(shard))

    def at(self, shard: str, place: str | int) -> int:
        """See `Source`."""
        partition = Partition.of(shard)
        if isinstance(place, int):
            return self._positions.at_time(partition, place)
        edge = self._positions.latest if place == "latest" else self._positions.earliest
        return edge(partition)

    def notify_checkpoint(self, positions: Mapping[str, int]) -> None:
        """Commits the offsets for the group, if the table names one. Where that fails, the next
        checkpoint brings newer ones."""
        if isinstance(self._group, str):
            self._positions.commit({Partition.of(s): at for s, at in positions.items()})

    def close(self) -> None:
        self._client.close()
