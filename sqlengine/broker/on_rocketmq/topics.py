"""The topics that are in a cluster of RocketMQ, and what can be done with them there."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Final

from sqlengine.broker.base import Appended, Column, Records, ShardInfo, TopicInfo
from sqlengine.broker.errors import BrokerAway, BrokerError, TopicNotFound, topic_not_found
from sqlengine.broker.on_rocketmq.address import ClusterAddress
from sqlengine.broker.on_rocketmq.kept import Kept
from sqlengine.broker.on_rocketmq.names import name_in_cluster
from sqlengine.broker.on_rocketmq.queue_log import MOST_BYTES, QueueLog
from sqlengine.broker.on_rocketmq.records import messages_of, records_of
from sqlengine.broker.on_rocketmq.writers import Writers
from sqlengine.broker.rocketmq import admin, codes
from sqlengine.broker.rocketmq.client import Queue, RocketClient
from sqlengine.broker.rocketmq.errors import Refused
from sqlengine.broker.rocketmq.locks import lock_queue, unlock_queue
from sqlengine.broker.rocketmq.topic import RocketTopic
from sqlengine.broker.storage.reading import ReadBounds
from sqlengine.broker.topics import MAX_SHARDS

# The group by which brokers know who reads and writes.
_GROUP: Final = "sqlengine"
# Seconds that name servers have to hear of a topic, and between two looks.
_HEARS_S, _LOOK_S = 20.0, 0.05


class ClusterTopics:
    """The topics of a cluster, as far as somebody has asked for them. Any thread.

    The shards of a topic are the queues that it had when it was first used here, in the order of
    their brokers' names: `kept` has them, since a broker that is away is not on any list. `came` is
    called when there are new messages."""

    def __init__(self, address: ClusterAddress, kept: Kept, came: Callable[[], None]) -> None:
        self._client = RocketClient(address.names, address.account, address.tls)
        self._commands = address.commands
        self._kept = kept
        self._came = came
        self._lock = Lock()
        self._held: set[str] = set()
        self._logs: dict[str, list[QueueLog]] = {}
        self._writers: dict[tuple[str, int], Writers] = {}

    def check(self) -> None:
        """Raises BrokerError, with what can be done about it, where no broker is there."""
        try:
            found = self._client.brokers()
        except BrokerError as error:
            error.hint = error.hint or "see --broker, and whether the servers run"
            raise
        if not found:
            raise BrokerAway("no broker of RocketMQ is there", hint="start one, and then this")

    # ---- definitions -----------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Returns the topics that this data folder has used."""
        return self._kept.topics()

    def check_new(self, topic: str, shards: int) -> None:
        """BrokerError for a topic that cannot be made."""
        name_in_cluster(topic, self._commands)
        if not 1 <= shards <= MAX_SHARDS:
            raise BrokerError(
                f"topic {topic!r} would have {shards} shards", detail=f"it has 1 to {MAX_SHARDS}"
            )

    def create(self, topic: str, shards: int) -> None:
        """Makes a topic with so many queues, shared out among all brokers, and waits until the name
        servers know it."""
        name, brokers = name_in_cluster(topic, self._commands), self._client.brokers()
        for number, broker in enumerate(brokers):
            queues = shards // len(brokers) + (number < shards % len(brokers))
            if queues:
                admin.create_topic(self._client, name, queues, brokers=[broker])
        deadline = time.monotonic() + _HEARS_S
        while len(self._route(topic) or ()) < shards:
            if time.monotonic() > deadline:
                raise BrokerAway(f"name servers have not heard of topic {topic!r}")
            time.sleep(_LOOK_S)

    def require_known(self, topic: str) -> None:
        """TopicNotFound for one that is not there, and was not."""
        if self._kept.queues(topic) is None:
            self.logs(topic)

    def delete(self, topic: str) -> None:
        """Deletes a topic that is there, or was."""
        admin.delete_topic(self._client, name_in_cluster(topic, self._commands))
        with self._lock:
            self._logs.pop(topic, None)
            self._writers = {p: w for p, w in self._writers.items() if p[0] != topic}
            self._kept.forget(topic)

    def info(self, topic: str) -> TopicInfo:
        """Describes a topic, of which only the offsets are known."""
        shards = self.shards(topic)
        begin, end = tuple(s.begin for s in shards), tuple(s.end for s in shards)
        return TopicInfo(topic, len(shards), begin, end, 0, compacted=False)

    def shards(self, topic: str) -> list[ShardInfo]:
        """Describes the shards of a topic."""
        return [ShardInfo(log.begin, log.end, 0, {}) for log in self.logs(topic)]

    # ---- shards ----------------------------------------------------------------------------------

    def logs(self, topic: str) -> list[QueueLog]:
        """Returns the shards of a topic. TopicNotFound, and BrokerError for one whose queues are
        others than they were."""
        known = self._logs.get(topic)
        if known is not None:
            return known
        queues = self._queues(topic)
        name = name_in_cluster(topic, self._commands)
        with self._lock:
            if topic not in self._logs:
                there = RocketTopic(self._client, name, _GROUP)
                self._logs[topic] = [
                    QueueLog(there, queue, f"topic {topic!r} shard {number}", self._came)
                    for number, queue in enumerate(queues)
                ]
            return self._logs[topic]

    def log(self, topic: str, shard: int) -> QueueLog:
        """Returns a shard. BrokerError for one that is not there."""
        logs = self.logs(topic)
        if not 0 <= shard < len(logs):
            raise BrokerError(
                f"topic {topic!r} has no shard {shard}", detail=f"it has {len(logs)}, from 0 on"
            )
        return logs[shard]

    def _queues(self, topic: str) -> tuple[Queue, ...]:
        kept, found = self._kept.queues(topic), self._route(topic)
        if kept is None and not found:
            raise topic_not_found(topic, self.names())
        if kept is None:
            kept = tuple(found or ())
            self._kept.set_queues(topic, kept)
            return kept
        if found is None:
            raise BrokerAway(
                f"no broker of topic {topic!r} is there",
                hint="start its brokers; if it was deleted in RocketMQ, delete it here, too",
            )
        new = sorted(queue.name for queue in {*found} - {*kept})
        if new:
            raise BrokerError(
                f"topic {topic!r} has queues that are none of its shards: {', '.join(new[:5])}",
                detail=f"it had {len(kept)} when it was first used here, and their number stays",
                hint="give it the number of before, or use a topic of another name",
            )
        return kept

    def _route(self, topic: str) -> list[Queue] | None:
        """Returns the queues that are there; None where nobody knows the topic."""
        try:
            route = self._client.route(name_in_cluster(topic, self._commands))
        except Refused as error:
            if error.code == codes.NO_TOPIC:
                return None
            raise
        return sorted({*route.readable} & {*route.writable})

    def is_there(self, topic: str) -> bool:
        """True if there is such a topic."""
        try:
            return bool(self.logs(topic))
        except TopicNotFound:
            return False

    # ---- records ---------------------------------------------------------------------------------

    def append(
        self,
        topic: str,
        shard: int,
        values: Column,
        keys: Column | None,
        time_ms: int,
        writer: str | None,
        epoch: int | None,
    ) -> Appended:
        """See `Broker.append`. Without a writer it is one request, which is there as a whole or not
        at all; with one the next attempt adds what is missing."""
        log = self.log(topic, shard)
        if writer is not None and epoch is not None:
            writers = self._of(topic, shard)
            messages = messages_of(values, keys, writers.origin(writer, epoch))
            return writers.append(writer, epoch, messages, time_ms)
        messages = messages_of(values, keys)
        if not messages:
            return Appended(log.end, log.end)
        size = sum(message.size for message in messages)
        if size > MOST_BYTES:
            raise BrokerError(
                f"{size:,} bytes are too many for RocketMQ at once",
                detail=f"a batch without a writer has {MOST_BYTES:,} bytes at most",
                hint="append less at once",
            )
        first = log.append(messages, time_ms)
        return Appended(first, first + len(messages))

    def read(self, topic: str, shard: int, offset: int, bounds: ReadBounds) -> Records | None:
        """See `Broker.read`."""
        found = self.log(topic, shard).read(offset, bounds)
        return None if found is None else records_of(topic, shard, offset, found[1], found[0])

    def last_epoch(self, topic: str, shard: int, writer: str) -> int | None:
        """See `Broker.last_epoch`."""
        return self._of(topic, shard).last_epoch(writer)

    def _of(self, topic: str, shard: int) -> Writers:
        log = self.log(topic, shard)
        with self._lock:
            if (topic, shard) not in self._writers:
                self._writers[topic, shard] = Writers(topic, shard, log, self._kept)
            return self._writers[topic, shard]

    def hold(self, topic: str) -> bool:
        """Holds a topic for this data folder, or goes on to; False where another one holds it. It
        is free a minute after the last call."""
        queue = self.log(topic, 0).queue
        self._held.add(topic)
        name = name_in_cluster(topic, self._commands)
        return lock_queue(self._client, name, queue, _GROUP, self._kept.name)

    def _release(self, topic: str) -> None:
        name, queue = name_in_cluster(topic, self._commands), self.log(topic, 0).queue
        with suppress(BrokerError):  # it is free in a minute
            unlock_queue(self._client, name, queue, _GROUP, self._kept.name)

    def close(self) -> None:
        """Keeps what is known of writers, and closes all connections."""
        try:
            for topic in self._held:
                self._release(topic)
            for writers in list(self._writers.values()):
                writers.close()
        finally:
            self._client.close()
