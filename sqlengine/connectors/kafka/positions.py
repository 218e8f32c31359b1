"""The offsets at which reading a partition begins and ends, by Flink's options."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Final, TypeVar

from parser.errors import ExecutionError, OptionError
from planner.catalog import Table
from sqlengine.connectors.kafka.client import ANSWER_S, consumer, failure, log, words
from sqlengine.connectors.kafka.properties import Settings, offset_reset, settings_of
from sqlengine.connectors.kafka.topics import Partition
from sqlengine.formats.base import Option
from sqlengine.formats.options import at_least, choice

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition

T = TypeVar("T")

GROUP: Final = "properties.group.id"
STARTUP: Final = "scan.startup."
BOUNDED: Final = "scan.bounded."
_PAIR: Final = re.compile(r"partition:([0-9]{1,9}),offset:([0-9]{1,18})")


def specific_offsets(text: str) -> Mapping[int, int]:
    """Parses 'partition:0,offset:42;partition:1,offset:300' as offsets by partition."""
    found = {}
    for part in (p.strip() for p in text.split(";") if p.strip()):
        match = _PAIR.fullmatch(part.replace(" ", ""))
        if match is None:
            raise ValueError("expected 'partition:0,offset:42;partition:1,offset:300'")
        found[int(match[1])] = int(match[2])
    return found


POSITION_OPTIONS: Final[Mapping[str, Option]] = {
    STARTUP + "mode": Option(
        choice(
            "earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets"
        ),
        doc=(
            "where a new job begins; default: at the offsets of the group that"
            " 'properties.group.id' names, and without one at the end"
        ),
    ),
    STARTUP + "specific-offsets": Option(
        specific_offsets,
        doc="of the mode 'specific-offsets': partition:0,offset:42;partition:1,…; each partition is"
        " there, and each offset between its first record and its end",
    ),
    STARTUP + "timestamp-millis": Option(
        at_least(0), doc="of the mode 'timestamp': ms since 1970, in UTC"
    ),
    BOUNDED + "mode": Option(
        choice("unbounded", "latest-offset", "group-offsets", "timestamp", "specific-offsets"),
        default="unbounded",
        doc="where reading ends, as it is when the table is opened",
    ),
    BOUNDED + "specific-offsets": Option(
        specific_offsets, doc="of the mode 'specific-offsets': the first offsets that are not read"
    ),
    BOUNDED + "timestamp-millis": Option(
        at_least(0), doc="of the mode 'timestamp': the first time that is not read"
    ),
}


def check_positions(table: Table, options: Mapping[str, object]) -> None:
    """Raises OptionError where a mode lacks the option that it needs, or offsets are those of
    several topics."""
    for prefix, mode in ((STARTUP, startup_mode(options)), (BOUNDED, options[BOUNDED + "mode"])):
        needed = {"timestamp": prefix + "timestamp-millis", "group-offsets": GROUP}
        needed["specific-offsets"] = prefix + "specific-offsets"
        option = needed.get(str(mode))
        if option is not None and options.get(option) is None:
            raise OptionError(
                f"table '{table.display}' needs the option '{option}'",
                detail=f"'{prefix}mode' is '{mode}'",
                subject=prefix + "mode",
            )
        several = ";" in str(options.get("topic") or "") or options.get("topic-pattern") is not None
        if mode == "specific-offsets" and several:
            message = f"'{option}' of table '{table.display}' needs a single topic"
            raise OptionError(message, subject=option or prefix)
    offset_reset(table)


def startup_mode(options: Mapping[str, object]) -> str:
    """Returns where a new job begins: of upserts at the first record."""
    given = options.get(STARTUP + "mode", "earliest-offset")
    default = "latest-offset" if options.get(GROUP) is None else "group-offsets"
    return default if given is None else str(given)


class Positions:
    """Asks the server for offsets of a table's partitions. KafkaAway where it does not answer."""

    def __init__(self, client: Consumer, servers: str, table: Table) -> None:
        self._client, self._servers = client, servers
        self._table, self._reset = table.display, offset_reset(table)
        self._settings: Settings = settings_of(table)

    def earliest(self, partition: Partition) -> int:
        """Returns the offset of the first record that is still there."""
        return self._range(partition)[0]

    def latest(self, partition: Partition) -> int:
        """Returns the offset after the last record that can be read: of transactions only what is
        committed, unless 'isolation.level' says otherwise."""
        return self._range(partition)[1]

    def known_latest(self, partition: Partition) -> int | None:
        """Returns what the client was told last, with transactions that are open; asks nobody."""
        high = self._client.get_watermark_offsets(self._place(partition), cached=True)[1]
        return high if high >= 0 else None

    def at_time(self, partition: Partition, ms: int) -> int:
        """Returns the offset of the first record of that time (ms) or later."""
        asked = [self._place(partition, ms)]
        found = self._ask(
            partition, lambda: self._client.offsets_for_times(asked, timeout=ANSWER_S)[0]
        )
        return found.offset if found.offset >= 0 else self.latest(partition)

    def of_group(self, partition: Partition) -> int:
        """Returns the offset that the group has committed, or what 'auto.offset.reset' says where
        it has none, or one that the partition has not. ExecutionError where that is 'none'."""
        asked = [self._place(partition)]
        found = self._ask(partition, lambda: self._client.committed(asked, timeout=ANSWER_S)[0])
        if found.error is not None:
            raise failure(self._what(partition), self._servers, found.error)
        why = None if found.offset < 0 else self._outside(partition, found.offset)
        if found.offset >= 0 and why is None:
            return found.offset
        if self._reset == "none":
            raise ExecutionError(
                f"the group has no offset of partition '{partition.shard}'",
                detail=None if why is None else f"it has {found.offset}, and the partition {why}",
                hint="'properties.auto.offset.reset' = 'earliest' or 'latest' says where to begin",
            )
        if why is not None:
            log.warning(
                "table '%s' begins partition '%s' at the %s offset: its group has %d, and the"
                " partition %s", self._table, partition.shard, self._reset, found.offset, why,
            )  # fmt: skip
        return (self.earliest if self._reset == "earliest" else self.latest)(partition)

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commits offsets for the group, without waiting."""
        from confluent_kafka import KafkaException

        places = [self._place(partition, offset) for partition, offset in offsets.items()]
        try:
            if places:
                self._client.commit(offsets=places, asynchronous=True)
        except KafkaException as error:
            log.warning("offsets are not committed: %s", words(error.args[0]))

    def start(self, partition: Partition, options: Mapping[str, object]) -> int:
        """Returns where a new job begins. OptionError where that is an offset that the partition
        has not."""
        mode = startup_mode(options)
        if mode == "earliest-offset":
            return self.earliest(partition)
        if mode == "latest-offset":
            return self.latest(partition)
        offset = self._by_option(partition, options, STARTUP, mode, missing=self.of_group)
        if mode == "specific-offsets" and (why := self._outside(partition, offset)) is not None:
            raise OptionError(
                f"table '{self._table}' cannot begin at offset {offset} of partition"
                f" '{partition.shard}', which {why}",
                hint=f"name an offset that it has in '{STARTUP}specific-offsets', or begin by"
                f" '{STARTUP}mode' = 'earliest-offset' or 'latest-offset'",
                subject=STARTUP + "specific-offsets",
            )
        return offset

    def start_may_fail(self, options: Mapping[str, object]) -> bool:
        """True if `start` may raise for what the options say."""
        mode = startup_mode(options)
        return mode == "specific-offsets" or (mode == "group-offsets" and self._reset == "none")

    def require_named(
        self, prefix: str, options: Mapping[str, object], there: Iterable[Partition]
    ) -> None:
        """Raises OptionError where 'specific-offsets' name a partition that the topic has not: one
        that comes later is read from its beginning."""
        option = prefix + "specific-offsets"
        named, topic = options.get(option), options.get("topic")
        used = startup_mode(options) if prefix == STARTUP else options[BOUNDED + "mode"]
        if not isinstance(named, Mapping) or used != "specific-offsets":
            return
        numbers = {p.number for p in there}
        missing = sorted(named.keys() - numbers)
        if missing:
            raise OptionError(
                f"table '{self._table}' names partition {missing[0]} in '{option}', which topic"
                f" '{topic}' has not",
                detail=f"its partitions are 0 to {max(numbers)}" if numbers else "it has none",
                hint="leave it out: a partition that comes later is read from its beginning",
                subject=option,
            )

    def _outside(self, partition: Partition, offset: int) -> str | None:
        """Returns why nothing can be read at an offset; None where something can, or is to come
        next. An offset of 0 stands for the first record that is still there."""
        begin, end = self._range(partition)
        if 0 < offset < begin:
            return f"begins at {begin} by now"
        if offset <= end or offset <= (end := max(end, self._written_end(partition))):
            return None
        return f"ends at {end}"

    def _written_end(self, partition: Partition) -> int:
        """Returns the offset after the last record, be its transaction open or not."""
        settings = {**self._settings, "isolation.level": "read_uncommitted"}
        with closing(consumer(settings, self._table)) as other:
            return self._range(partition, other)[1]

    def stop(self, partition: Partition, options: Mapping[str, object]) -> int:
        """Returns the first offset that a bounded table does not read; none behind the end."""
        mode = str(options[BOUNDED + "mode"])
        latest = self.latest(partition)
        if mode == "latest-offset":
            return latest
        return min(self._by_option(partition, options, BOUNDED, mode, self.latest), latest)

    def _by_option(
        self,
        partition: Partition,
        options: Mapping[str, object],
        prefix: str,
        mode: str,
        missing: Callable[[Partition], int],
    ) -> int:
        if mode == "timestamp":
            millis = options[prefix + "timestamp-millis"]
            assert isinstance(millis, int)
            return self.at_time(partition, millis)
        if mode == "group-offsets":
            return self.of_group(partition)
        given = options[prefix + "specific-offsets"]
        assert isinstance(given, Mapping)
        return int(given[partition.number]) if partition.number in given else missing(partition)

    def _range(self, partition: Partition, client: Consumer | None = None) -> tuple[int, int]:
        place, asked = self._place(partition), client or self._client
        found = self._ask(partition, lambda: asked.get_watermark_offsets(place, timeout=ANSWER_S))
        if found is None:
            raise failure(self._what(partition), self._servers, _no_answer())
        return found

    def _place(self, partition: Partition, offset: int | None = None) -> TopicPartition:
        from confluent_kafka import TopicPartition

        if offset is None:
            return TopicPartition(partition.topic, partition.number)
        return TopicPartition(partition.topic, partition.number, offset)

    def _ask(self, partition: Partition, question: Callable[[], T]) -> T:
        from confluent_kafka import KafkaException

        try:
            return question()
        except KafkaException as error:
            raise failure(self._what(partition), self._servers, error) from None

    def _what(self, partition: Partition) -> str:
        return f"Kafka at {self._servers} does not tell the offsets of '{partition.shard}'"


def _no_answer() -> object:
    from confluent_kafka import KafkaError

    return KafkaError(KafkaError._TIMED_OUT)
