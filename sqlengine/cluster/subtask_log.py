"""The epoch logs of the parts of a divided graph: one topic, a shard for each."""

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
    """The topic that instances share out among them: who owns a shard runs the part."""
    return system_topic("parts", graph)


def create_subtasks(broker: Broker, graph: str, parts: int) -> str:
    """Makes the topic, or finds it. ServiceError where the graph has another number of parts, which
    is fixed."""
    topic = subtask_log_topic(graph)
    made = broker.create_topic(topic, parts, if_not_exists=True)
    if made.shards != parts:
        raise ServiceError(
            f"graph '{graph}' has {made.shards} parts, not {parts}",
            hint="the number of parts is fixed when a graph is made",
        )
    return topic


def subtask_count(broker: Broker, graph: str) -> int | None:
    """How many parts the graph was made with; None where there is none of that name."""
    return next(
        (topic.shards for topic in broker.topics() if topic.name == subtask_log_topic(graph)), None
    )


class SubtaskLog:
    """The log of one part. `fence` proves that the part is ours: a record is refused once it is
    not, and then nothing of its epoch leaves (`lost`)."""

    keeps_every_epoch: ClassVar[bool] = True

    def __init__(self, broker: Broker, topic: str, index: int, fence: Fencing) -> None:
        self._broker = broker
        self._topic = topic
        self._index = index
        self.fence = fence
        self.fenced = False

    def append(self, record: EpochRecord) -> int:
        """Raises Fenced when the part belongs to somebody else by now."""
        value = msgspec.json.encode(record)
        try:
            done = self._broker.append(
                self._topic, self._index, [value], timestamp_ms=record.proctime, fence=self.fence()
            )
        except Fenced:
            self.fenced = True
            raise
        return done.next_offset

    def forget(self, before: int) -> None:
        """What stands before that offset is in a checkpoint."""
        self._broker.trim(self._topic, self._index, before)

    def read(self, offset: int) -> Iterator[tuple[int, EpochRecord]]:
        offset = max(offset, self._broker.begin_offset(self._topic, self._index))
        while (records := self._broker.read(self._topic, self._index, offset)) is not None:
            for value, at in zip(records.values.to_pylist(), records.offsets.tolist(), strict=True):
                yield at + 1, decode_record(value)
            offset = records.next_offset
