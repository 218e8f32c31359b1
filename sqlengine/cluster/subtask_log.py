"""The epoch logs of the subtasks of a distributed graph: one topic with a shard for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

import msgspec

from parser.errors import ServiceError
from sqlengine.broker.base import Broker, system_topic
from sqlengine.broker.errors import Fenced
from sqlengine.broker.ownership import Fence
from sqlengine.executors.epochs import EpochRecord, decode_record

Fencing = Callable[[], Fence | None]


def subtask_log_topic(graph: str) -> str:
    """Returns the topic whose shards are assigned to instances: the owner of a shard runs the
    subtask of that number."""
    return system_topic("parts", graph)  # the name on disk


def create_subtasks(broker: Broker, graph: str, parallelism: int) -> str:
    """Creates the topic if it does not exist. ServiceError if the graph has another parallelism,
    which is fixed."""
    topic = subtask_log_topic(graph)
    existing = broker.create_topic(topic, parallelism, if_not_exists=True)
    if existing.shards != parallelism:
        raise ServiceError(
            f"graph '{graph}' has {existing.shards} parts, not {parallelism}",
            hint="the number of parts is fixed when a graph is made",
        )
    return topic


def subtask_count(broker: Broker, graph: str) -> int | None:
    """Returns the parallelism with which the graph was created; None if there is none of that
    name."""
    return next(
        (topic.shards for topic in broker.topics() if topic.name == subtask_log_topic(graph)), None
    )


class SubtaskLog:
    """The epoch log of one subtask.

    `fence` proves the ownership of the subtask. Once it is stale, records are refused, and no
    output of their epochs is written (`fenced`)."""

    keeps_every_epoch: ClassVar[bool] = True

    def __init__(self, broker: Broker, topic: str, index: int, fence: Fencing) -> None:
        self._broker = broker
        self._topic = topic
        self._index = index
        self.fence = fence
        self.fenced = False

    def append(self, record: EpochRecord) -> int:
        """Appends a record and returns the next offset. Fenced if the subtask has another owner."""
        value = msgspec.json.encode(record)
        try:
            done = self._broker.append(
                self._topic, self._index, [value], timestamp_ms=record.proctime, fence=self.fence()
            )
        except Fenced:
            # Noted here for good: the refused record was never written, so that no output may
            # follow.
            self.fenced = True
            raise
        return done.next_offset

    def forget(self, before: int) -> None:
        """Deletes records below the offset, which are in a checkpoint."""
        self._broker.trim(self._topic, self._index, before)

    def read(self, offset: int) -> Iterator[tuple[int, EpochRecord]]:
        """Yields the records from `offset` on, each with the offset after it."""
        offset = max(offset, self._broker.begin_offset(self._topic, self._index))
        while (records := self._broker.read(self._topic, self._index, offset)) is not None:
            for value, at in zip(records.values.to_pylist(), records.offsets.tolist(), strict=True):
                yield at + 1, decode_record(value)
            offset = records.next_offset
