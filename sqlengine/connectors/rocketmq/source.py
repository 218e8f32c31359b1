"""Reading a topic of RocketMQ: a shard is a queue of a broker, and offsets are those of the
queue."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from typing import Final
from zlib import crc32

from parser.errors import ExecutionError
from planner.catalog import Table
from planner.graph.distribution import SubtaskAssignment
from sqlengine.broker.rocketmq import codes
from sqlengine.broker.rocketmq.client import Queue, queue_of
from sqlengine.broker.rocketmq.errors import Refused, RocketError
from sqlengine.broker.rocketmq.fetching import Pulled, QueueFetcher, pulled
from sqlengine.broker.rocketmq.messages import (
    TAGS,
    Message,
    properties_of,
    stored,
    unpacked_message,
)
from sqlengine.broker.rocketmq.repeats import Repeats, origin_of
from sqlengine.broker.rocketmq.topic import Pull, RocketTopic
from sqlengine.broker.rocketmq.wire import Answer
from sqlengine.connectors.base import Source
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.environment import is_rehearsal
from sqlengine.connectors.health import Health
from sqlengine.connectors.rocketmq.options import filter_of, integer_of, text_of
from sqlengine.connectors.rocketmq.packing import rows_in
from sqlengine.connectors.rocketmq.rows import MessageRows
from sqlengine.connectors.rocketmq.starts import ends_at, start_at
from sqlengine.connectors.rocketmq.troubles import PATIENCE_S, QueueTroubles, may_pass
from sqlengine.system.lanes import get_on

# Bytes that wait to be read: of all queues together, and of one.
_WAITING_BYTES: Final = 64 << 20
_QUEUE_BYTES: Final = (256 << 10, 8 << 20)
# A chunk is no longer, but for its last message.
_CHUNK_BYTES: Final = 16 << 20
_RETRY_S: Final = 0.25
# Seconds after which queues are looked for, where a broker is away.
_AWAY_S: Final = 5.0


class RocketSource(Source):
    """Reads the queues of a topic. While a broker is away there are no rows of its queues."""

    def __init__(
        self,
        topic: RocketTopic,
        table: Table,
        options: Mapping[str, object],
        assignment: SubtaskAssignment,
    ) -> None:
        self.health: Health = Health()
        self._topic = topic
        self._assignment = assignment
        self._start = start_at(topic, table, options)
        self._rows = MessageRows(table)
        self._wanted = filter_of(table, options)
        self._tags = self._wanted.tags
        self._publishes = bool(text_of(options, "consumerGroup"))
        self._published: dict[str, int] = {}
        self._count = integer_of(options, "pullBatchSize")
        self._interval_s = integer_of(options, "partitionDiscoveryIntervalMs") / 1000
        self._queues: dict[str, Queue] = {}
        # Parts of the graph that had queues first, and queues that appeared since.
        self._parts: set[int] = set()
        self._appeared: set[str] = set()
        self._fetchers: dict[str, QueueFetcher] = {}
        self._repeats: dict[str, Repeats] = {}
        self._known_ends: dict[str, int] = {}
        self._troubles = QueueTroubles(self.health)
        self._find_queues()
        if self._wanted.sql and self._queues:
            topic.check(next(iter(self._queues.values())).broker, self._wanted)
        ends = ends_at(topic, table, options)
        self._bounded = ends is not None
        self._ends: dict[str, int] = {}
        if ends is not None and not is_rehearsal():
            for broker in {queue.broker for queue in self._queues.values()}:
                topic.client.settle(broker)
            self._ends = {name: ends(queue) for name, queue in self._queues.items()}

    # ---- queues ----------------------------------------------------------------------------------

    @property
    def bounded(self) -> bool:
        """See `Source`. A part without a queue has nothing to wait for."""
        return self._bounded or not self._queues

    def _find_queues(self) -> None:
        """Looks for queues. ExecutionError where one appears for a part that had none, and has
        ended."""
        self._due = time.monotonic() + self._interval_s
        parts = set[int]()
        for queue in self._topic.route().readable:
            # A topic may get queues and brokers: a queue's number must not change with them.
            number = crc32(queue.broker.encode()) + queue.number
            part = number % self._assignment.parallelism
            parts.add(part)
            if self._parts and part not in self._parts:
                raise _unread(self._topic.name, queue)
            if self._assignment.has(number) and queue.name not in self._queues:
                self._queues[queue.name] = queue
                self._appeared.update([queue.name] if self._parts else [])
        self._parts = self._parts or parts

    def shards(self) -> list[str]:
        """See `Source`. A queue whose broker is away is still one."""
        if not self.bounded and time.monotonic() >= self._due:
            try:
                self._find_queues()
            except RocketError as error:
                # Nobody has said that one is gone; brokers are asked as before.
                self._due = time.monotonic() + min(self._interval_s, _AWAY_S)
                if not isinstance(error, Refused):
                    self.health.errors += 1
        return list(self._queues)

    def resume(self, positions: Mapping[str, int], marks: Mapping[str, str]) -> None:
        """See `Source`. Queues that were read are shards, whether or not their broker is there."""
        for name in positions:
            self._queues.setdefault(name, queue_of(name))
            self._repeats[name] = Repeats(marks.get(name))

    def marks(self) -> Mapping[str, str]:
        """See `Source`: which messages of ours would be repetitions."""
        marks = ((name, repeats.mark()) for name, repeats in self._repeats.items())
        return {name: mark for name, mark in marks if mark is not None}

    # ---- offsets ---------------------------------------------------------------------------------

    def start(self, shard: str) -> int:
        return self._start(self._queues[shard])

    def end(self, shard: str) -> int | None:
        """See `Source`. While a broker is away it is what was known last."""
        if self.bounded:
            return self._ends.get(shard, 0)
        try:
            self._known_ends[shard] = self._topic.end(self._queues[shard])
        except RocketError:
            return self._known_ends.get(shard)
        return self._known_ends[shard]

    def first(self, shard: str) -> int:
        return self._topic.first(self._queues[shard])

    def at(self, shard: str, place: str | int) -> int:
        """See `Source`."""
        queue = self._queues[shard]
        if isinstance(place, int):
            return self._topic.at_time(queue, place)
        return self._topic.end(queue) if place == "latest" else self._topic.first(queue)

    def expired(self, shard: str, offset: int) -> str | None:
        """See `Source`. Brokers keep messages for some days, and a topic may be made anew."""
        queue = queue_of(shard)
        begin, end = self._topic.first(queue), self._topic.end(queue)
        if begin <= offset <= end or (offset == 0 and begin > 0):
            return None
        return self._lost(shard, offset, begin if offset < begin else end)

    def _lost(self, shard: str, offset: int, edge: int) -> str:
        place = f"offset {offset} of queue '{shard}' is to be read, and topic '{self._topic.name}'"
        if offset < edge:
            return f"{place} begins at {edge} by now"
        return f"{place} ends at {edge}: it was made anew, or its broker has lost messages"

    def notify_checkpoint(self, positions: Mapping[str, int]) -> None:
        """Commits the offsets for the group, if the table names one."""
        if not self._publishes:
            return
        for shard, offset in positions.items():
            if self._published.get(shard) != offset and shard in self._queues:
                self._published[shard] = offset
                committed = self._topic.commit(self._queues[shard], offset)
                committed.add_done_callback(partial(self._committed, shard))

    def _committed(self, shard: str, answer: Future[Answer]) -> None:
        """Takes the answer to a commit (in another thread): one that failed is made again after the
        next checkpoint. Nothing depends on it here."""
        if answer.exception() is not None or answer.result().code != codes.OK:
            self._published.pop(shard, None)
            self.health.errors += 1

    # ---- reading ---------------------------------------------------------------------------------

    def read(
        self, shard: str, offset: int, *, max_rows: int, until: int | None = None
    ) -> Chunk | None:
        """See `Source`. Messages that came before, and such as the filter does not let pass, give
        no row."""
        if until is None:
            found, end = self._read_ahead(shard, offset, max_rows)
        else:
            found, end = self._read_again(shard, offset, until), until
        if end == offset:
            return None
        repeats = self._repeats.setdefault(shard, Repeats())
        repeats.begin(offset)
        kept = [m for m in found if m.offset < end and self._is_wanted(m, repeats)]
        repeats.end(end)
        return self._rows.chunk(shard, offset, end, kept)

    def _is_wanted(self, message: Message, repeats: Repeats) -> bool:
        origin = origin_of(message.properties)
        if origin is not None and repeats.came_before(origin):
            return False
        if self._tags is None:
            return True
        return properties_of(message.properties).get(TAGS) in self._tags

    def _read_ahead(self, shard: str, offset: int, max_rows: int) -> tuple[list[Message], int]:
        """Returns what has come, unpacked, and where that ends; nothing and `offset` while there is
        nothing. A message with many rows may bring more than `max_rows`: it has one offset."""
        limit = self._ends.get(shard, 0) if self.bounded else None
        fetcher = self._fetcher(shard)
        found: list[Message] = []
        at, size, rows = offset, 0, 0
        while rows < max_rows and size < _CHUNK_BYTES and (limit is None or at < limit):
            part = self._take(shard, fetcher, at)
            if part is None:
                break
            at = part.end
            for message in map(unpacked_message, stored(part.body)):
                found.append(message)
                # As it is unpacked: a thousandth of that may have been sent.
                size += len(message.body) + len(message.properties)
                packed = rows_in(message.properties)
                rows += 1 if packed is None else packed
                full = rows >= max_rows or size >= _CHUNK_BYTES
                if full and message.behind < len(part.body):
                    at = message.offset + 1
                    fetcher.put_back(Pulled(at, part.end, part.body[message.behind :]))
                    break
        return found, at if limit is None else min(at, limit)

    def _fetcher(self, shard: str) -> QueueFetcher:
        if shard not in self._fetchers:
            least, most = _QUEUE_BYTES
            share = min(max(_WAITING_BYTES // len(self._queues), least), most)
            self._fetchers[shard] = QueueFetcher(
                self._topic, self._queues[shard], self._wanted, self._count, share
            )
        return self._fetchers[shard]

    def _take(self, shard: str, fetcher: QueueFetcher, at: int) -> Pulled | None:
        """Takes what was fetched from an offset on; None while there is nothing, which `health`
        may explain. RocketError where that will stay so."""
        try:
            part = fetcher.take(at)
        except RocketError as error:
            self._troubles.failed(shard, error)
            self._look_soon()
            return None
        if part is not None and part.moved:
            return self._moved(shard, at, part.end)
        if part is not None or fetcher.quiet:
            self._troubles.over(shard)
        return part

    def _look_soon(self) -> None:
        self._due = min(self._due, time.monotonic() + _AWAY_S)

    def _moved(self, shard: str, at: int, edge: int) -> Pulled | None:
        """Decides what to do at an offset that a queue does not have: one that appeared when it was
        old already is read from its beginning."""
        if at == 0 and shard in self._appeared:
            return Pulled(at, edge)
        lost = RocketError(
            f"messages of topic '{self._topic.name}' are gone",
            detail=self._lost(shard, at, edge),
            hint="'sql start JOB --from earliest' goes on with what is left, without state",
        )
        if edge > at:
            raise lost
        self._troubles.short(shard, lost)
        return None

    def _read_again(self, shard: str, offset: int, until: int) -> list[Message]:
        """Returns the messages of a range. RocketError where some of it are gone, or the broker is
        away for too long."""
        queue, at = self._queues[shard], offset
        found: list[Message] = []
        deadline = time.monotonic() + PATIENCE_S
        while at < until:
            count = min(self._count, until - at)
            try:
                part = self._pull(queue, Pull(at, count, _CHUNK_BYTES))
            except RocketError as error:
                if not may_pass(error) or time.monotonic() > deadline:
                    raise
                self._troubles.note(shard, error)
                time.sleep(_RETRY_S)
                continue
            if part.end <= at or part.moved:
                raise RocketError(
                    f"messages of topic '{self._topic.name}' are gone",
                    detail=self._lost(shard, at, part.end),
                )
            found += stored(part.body)
            at = part.end
            get_on()
        self._troubles.over(shard)
        return found

    def _pull(self, queue: Queue, pull: Pull) -> Pulled:
        asked = self._topic.pull(queue, pull, self._wanted)
        answer = self._topic.client.answer(asked, queue.broker)
        return pulled(pull.offset, answer, f"to read queue '{queue.name}'")

    def close(self) -> None:
        self._topic.client.close()


def _unread(topic: str, queue: Queue) -> ExecutionError:
    return ExecutionError(
        f"topic '{topic}' has got queue '{queue.name}', which no part of the graph reads",
        detail="the part whose it would be had no queue, and has ended",
        hint="the job reads it when it is started again",
    )
