"""The open topics of an embedded broker, and all that only reads them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from sqlengine.broker.base import LookupResult, Records, ShardInfo, TopicInfo
from sqlengine.broker.errors import BrokerError, topic_not_found
from sqlengine.broker.storage import compaction
from sqlengine.broker.storage.excerpts import Excerpt
from sqlengine.broker.storage.reading import Batches, ReadBounds
from sqlengine.broker.storage.shard import ShardLog
from sqlengine.broker.topics import DamagedTopic, Topic


class OpenTopics:
    """Topics by name, with the reading half of `Broker`. Any thread may call it."""

    def __init__(self) -> None:
        self._topics: dict[str, Topic] = {}
        self._damaged: dict[str, DamagedTopic] = {}
        self._definitions = threading.RLock()  # held while topics are created, altered, deleted

    def topics(self) -> list[TopicInfo]:
        with self._definitions:
            known: dict[str, Topic | DamagedTopic] = {**self._topics, **self._damaged}
            return [known[name].info() for name in sorted(known)]

    def topic_names(self) -> frozenset[str]:
        """Returns the names of all topics, which costs less than `topics`."""
        return frozenset((*self._topics.copy(), *self._damaged.copy()))

    def topic(self, name: str) -> TopicInfo:
        return self._topic(name).info()

    def shards(self, topic: str) -> list[ShardInfo]:
        return [log.info() for log in self._topic(topic).logs]

    def _topic(self, name: str) -> Topic:
        topic = self._topics.get(name)
        if topic is None:
            if name in self._damaged:
                raise self._damaged[name].error
            raise topic_not_found(name, list(self._topics))
        return topic

    def _log(self, topic: str, shard: int) -> ShardLog:
        return self._topic(topic).log(shard)

    def _all(self) -> list[Topic]:
        with self._definitions:
            return list(self._topics.values())

    def read(
        self,
        topic: str,
        shard: int,
        offset: int,
        *,
        max_records: int = 10_000,
        max_bytes: int = 8 << 20,
        until: int | None = None,
    ) -> Records | None:
        return self._log(topic, shard).read(offset, ReadBounds(max_records, max_bytes, until))

    def read_batches(
        self, topic: str, shard: int, offset: int, limits: ReadBounds
    ) -> Batches | None:
        """Returns the batches with the records of a `read`, as they are in the files."""
        return self._log(topic, shard).read_batches(offset, limits)

    def excerpts(
        self, topic: str, shard: int, stops: Sequence[int], folder: Path
    ) -> list[Excerpt] | None:
        """Returns where the records from the first of these offsets to the last are, in excerpts
        that meet at some of the others; they are links in `folder`. None where they can only be
        `read`."""
        found = self._topic(topic)
        return None if found.definition.compacted else found.log(shard).excerpts(stops, folder)

    def read_latest(self, topic: str) -> dict[bytes, bytes]:
        values: dict[bytes, bytes] = {}
        for log in self._compacted(topic).logs:
            values |= compaction.latest(log)
        return values

    def lookup(self, topic: str, key: bytes) -> LookupResult | None:
        return self._compacted(topic).lookup(key)

    def _compacted(self, name: str) -> Topic:
        topic = self._topic(name)
        if not topic.definition.compacted:
            raise BrokerError(
                f"topic {name!r} is not compacted", hint="create it with compacted = true"
            )
        return topic

    def begin_offset(self, topic: str, shard: int) -> int:
        return self._log(topic, shard).begin

    def end_offset(self, topic: str, shard: int) -> int:
        return self._log(topic, shard).end

    def last_epoch(self, topic: str, shard: int, writer: str) -> int | None:
        return self._log(topic, shard).last_epoch(writer)

    def offset_for_time(self, topic: str, shard: int, timestamp_ms: int) -> int:
        return self._log(topic, shard).offset_for_time(timestamp_ms)
