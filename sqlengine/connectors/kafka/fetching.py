"""Reading partitions by offset, through one consumer of the client."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Final

import numpy as np

from parser.errors import ExecutionError
from sqlengine.connectors.health import Health
from sqlengine.connectors.kafka.client import KafkaAway, failure, words
from sqlengine.connectors.kafka.fetched import Fetched, Offsets, besides, joined
from sqlengine.connectors.kafka.topics import Partition

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, TopicPartition

# Records that are taken of the client at once: at first, and at most, and bytes as far as those
# before tell; it keeps what a batch was unpacked to, and each record that is taken is copied.
_RECORDS: Final = (100, 10_000)
_BYTES: Final = 8 << 20
# Seconds without a record of a range that is read again.
_SILENCE_S: Final = 20.0
_GONE: Final = "its records there are gone, or its topic was made anew with fewer"
# Seconds between two looks whether a server that was away is back.
_LOOK_S: Final = 2.0


class OutOfRange(ExecutionError):
    """Raised where a partition has no records from an offset on: they are gone, or never were."""


@dataclass(frozen=True)
class Taken:
    """Records of a partition up to the offset `end`: what is before that is here or nowhere."""

    messages: Sequence[Message]
    offsets: Offsets
    end: int


class Fetcher:
    """Reads partitions by offset, through one consumer. One thread at a time.

    The client fetches ahead in threads of its own, up to a limit in bytes; what it hands over waits
    here by partition."""

    def __init__(self, client: Consumer, servers: str, health: Health) -> None:
        from confluent_kafka import KafkaError, Message, TopicPartition

        self._client, self._servers, self._health = client, servers, health
        self._kafka_error, self._message, self._place = KafkaError, Message, TopicPartition
        self._fetched: dict[Partition, Fetched] = {}
        self._asked: set[Partition] = set()
        self._next_look = 0.0
        self._count = _RECORDS[0]

    def take(
        self, partition: Partition, offset: int, *, most: int, stop: int | None, until: int | None
    ) -> Taken | None:
        """Returns records from `offset` on: at most so many that are there now, none at or after
        `stop`; or all before `until`. None where there is nothing new.

        KafkaAway where a range does not come in time, OutOfRange where it is gone, ExecutionError
        where the partition cannot be read."""
        fetched = self._from(partition, offset)
        if until is not None:
            self._fetch_to(partition, fetched, until)
        elif not fetched.runs and fetched.next == offset:
            self._fetch_once_a_round(partition)
        self._require_sound(partition, fetched)
        limit = stop if until is None else until
        runs = list(fetched.take(most if until is None else None, limit))
        taken = joined(runs)
        end = fetched.first if not fetched.runs or not runs else int(runs[-1][1][-1]) + 1
        end = end if limit is None else min(max(end, until or 0), limit)
        fetched.at = end
        if fetched.paused and not fetched.runs:
            self._pause(partition, fetched, paused=False)
        return Taken(*taken, end) if end > offset else None

    def read_to_end(self, partition: Partition) -> int | None:
        """Returns the offset to which everything was fetched, if there was no more then and nothing
        waits here; None otherwise."""
        fetched = self._fetched.get(partition)
        return fetched.next if fetched is not None and fetched.at_end else None

    def forget(self, partition: Partition) -> None:
        """Stops fetching a partition."""
        if self._fetched.pop(partition, None) is not None:
            self._client.incremental_unassign([self._at(partition)])

    def _at(self, partition: Partition, offset: int | None = None) -> TopicPartition:
        if offset is None:
            return self._place(partition.topic, partition.number)
        return self._place(partition.topic, partition.number, offset)

    def _from(self, partition: Partition, offset: int) -> Fetched:
        """Returns what is fetched from `offset` on; the client goes there if it is elsewhere."""
        fetched = self._fetched.get(partition)
        if fetched is not None and fetched.at <= offset <= fetched.first:
            return fetched
        self.forget(partition)
        self._client.incremental_assign([self._at(partition, offset)])
        self._fetched[partition] = fetched = Fetched(offset, offset)
        return fetched

    # ---- what the client has ---------------------------------------------------------------------

    def _fetch_once_a_round(self, partition: Partition) -> None:
        """Fetches for all partitions: those that are asked for next need not."""
        if self._asked and partition not in self._asked:
            self._asked.add(partition)
            return
        self._asked = {partition}
        self._fetch(0.0)
        self._pause_full(partition)

    def _fetch_to(self, partition: Partition, fetched: Fetched, until: int) -> None:
        """Fetches until nothing before an offset is still to come."""
        deadline = time.monotonic() + _SILENCE_S
        while fetched.next < until and fetched.error is None:
            before = fetched.next
            if fetched.paused:
                self._pause(partition, fetched, paused=False)
            self._fetch(0.1)
            if fetched.next > before:
                deadline = time.monotonic() + _SILENCE_S
            elif time.monotonic() > deadline:
                what = f"records {before} to {until} of partition '{partition.shard}' do not come"
                hint = f"see whether Kafka at {self._servers} is there and can be reached"
                raise KafkaAway(what, detail=self._health.trouble, hint=hint)
        self._pause_full(partition)

    def _pause_full(self, partition: Partition) -> None:
        """Ends fetching for all partitions but this one of which enough waits here."""
        for other, waiting in self._fetched.items():
            if other != partition and not waiting.paused and waiting.is_full:
                self._pause(other, waiting, paused=True)

    def _pause(self, partition: Partition, fetched: Fetched, *, paused: bool) -> None:
        fetched.paused = paused
        (self._client.pause if paused else self._client.resume)([self._at(partition)])

    def _fetch(self, wait_s: float) -> None:
        messages = self._client.consume(self._count, wait_s)
        if not messages:
            self._look()
        errors = list(map(self._message.error, messages))
        if not {*map(type, errors)} <= {NoneType}:
            told = [m for m, e in zip(messages, errors, strict=True) if e is not None]
            messages = [m for m, e in zip(messages, errors, strict=True) if e is None]
            self._store(messages)
            for message in told:
                self._note(message)
        else:
            self._store(messages)

    def _look(self) -> None:
        """Reads the ends of partitions anew while there is trouble: the client tells of an end
        once, so that after a lost connection a topic to which nobody writes would never show that
        it works again."""
        if self._health.trouble is None or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + _LOOK_S
        for partition, fetched in self._fetched.items():
            if fetched.at_end and not fetched.paused:
                self._client.incremental_unassign([self._at(partition)])
                self._client.incremental_assign([self._at(partition, fetched.next)])

    def _note(self, message: Message) -> None:
        """Takes in what the client tells in the place of a record."""
        error, topic, number = message.error(), message.topic(), message.partition()
        assert error is not None
        fetched = self._fetched.get(Partition(topic or "", -1 if number is None else number))
        if error.code() == self._kafka_error._PARTITION_EOF:
            if fetched is not None:
                fetched.next = max(fetched.next, message.offset() or 0)
                fetched.at_end = True
            self._health.works()
        elif fetched is not None and not error.retriable():
            fetched.error = error
        else:
            self._health.failed(words(error))

    def _require_sound(self, partition: Partition, fetched: Fetched) -> None:
        error = fetched.error
        if error is None:
            return
        self.forget(partition)
        self._health.failed(words(error))
        what = f"partition '{partition.shard}' cannot be read from offset {fetched.next} on"
        if error.code() in (
            self._kafka_error._AUTO_OFFSET_RESET,
            self._kafka_error.OFFSET_OUT_OF_RANGE,
        ):
            hint = "start the job anew, or keep records for longer than it may stand still"
            raise OutOfRange(what, detail=_GONE, hint=hint)
        raise failure(what, self._servers, error)

    def _store(self, messages: Sequence[Message]) -> None:
        if not messages:
            return
        self._health.works()
        average = sum(map(len, messages)) // len(messages) + besides(messages) + 1
        self._count = max(1, min(_RECORDS[1], _BYTES // average))
        for run in self._by_partition(messages):
            topic, number = run[0].topic(), run[0].partition()
            fetched = self._fetched.get(Partition(topic or "", -1 if number is None else number))
            if fetched is not None:
                fetched.besides = besides(run)
                fetched.add(run, self._offsets(run))

    def _by_partition(self, messages: Sequence[Message]) -> Iterator[Sequence[Message]]:
        """Yields runs of records of one partition, in their order."""
        if len(self._fetched) == 1:
            yield messages
            return
        count = len(messages)
        numbers = np.fromiter(map(self._message.partition, messages), np.int64, count)
        if len({p.topic for p in self._fetched}) > 1:
            known: dict[str | None, int] = {}
            topics = (known.setdefault(t, len(known)) for t in map(self._message.topic, messages))
            numbers += np.fromiter(topics, np.int64, count) << 32
        ends = [*(np.flatnonzero(np.diff(numbers)) + 1).tolist(), count]
        start = 0
        for end in ends:
            yield messages[start:end]
            start = end

    def _offsets(self, run: Sequence[Message]) -> Offsets:
        first, last = run[0].offset() or 0, run[-1].offset() or 0
        if last - first == len(run) - 1:  # they rise, so that none is missing
            return np.arange(first, last + 1)
        return np.fromiter(map(self._message.offset, run), np.int64, len(run))
