"""Checkpoint stores in a compacted topic of the broker, for engines without a disk of their own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from parser.errors import ServiceError
from sqlengine.broker.base import Broker
from sqlengine.broker.errors import BrokerError
from sqlengine.broker.ownership import Fence
from sqlengine.state.store import BlobStore, CheckpointStore

CHECKPOINTS: Final = "_checkpoints"
_HEAD: Final = b"/head"


class TopicStore(BlobStore):
    """Keeps the checkpoints of one graph in a shard of `topic`.

    The key of a record is the graph's name and the blob's key. The records of one checkpoint are
    one batch of the topic, which is atomic. Offsets by key are in memory. `fence` proves the
    ownership of the graph: after losing it, writes fail.
    """

    def __init__(
        self,
        broker: Broker,
        graph: str,
        clock: Callable[[], int],
        topic: str,
        shard: int = 0,
        fence: Callable[[], Fence | None] = lambda: None,
    ) -> None:
        self._broker = broker
        self._topic = topic
        self._shard = shard
        self._fence = fence
        self._prefix = graph.encode() + b"/"
        self._clock = clock
        self._offsets = _offsets(broker, topic, self._prefix, shard)
        super().__init__(f"{topic}/{graph}")

    def close(self) -> None: ...

    def clear(self) -> None:
        """Deletes all blobs of the graph."""
        self._write({}, [key.removeprefix(self._prefix) for key in self._offsets])

    def _get(self, key: bytes) -> bytes | None:
        offset = self._offsets.get(self._prefix + key)
        if offset is None:
            return None
        records = self._broker.read(self._topic, self._shard, offset, until=offset + 1)
        if records is None or records.offsets.tolist() != [offset]:
            return None
        data: bytes | None = records.values[0].as_py()
        return data

    def _write(self, puts: Mapping[bytes, bytes], deletes: Collection[bytes]) -> None:
        keys = [self._prefix + key for key in (*puts, *deletes)]
        if not keys:
            return
        try:
            values = [*puts.values(), *([None] * len(deletes))]
            appended = self._broker.append(
                self._topic,
                self._shard,
                values,
                keys=keys,
                timestamp_ms=self._clock(),
                fence=self._fence(),
            )
        except BrokerError as error:
            raise ServiceError(
                "the checkpoint could not be written", detail=str(error), hint=error.hint
            ) from error
        self._offsets |= zip(
            keys[: len(puts)], range(appended.first_offset, appended.next_offset), strict=False
        )
        for key in keys[len(puts) :]:
            self._offsets.pop(key, None)


class TopicStores:
    """The stores of all graphs of a broker, in one topic."""

    def __init__(self, broker: Broker, clock: Callable[[], int], topic: str = CHECKPOINTS) -> None:
        broker.create_topic(topic, compacted=True, if_not_exists=True)
        self._broker = broker
        self._clock = clock
        self._topic = topic

    def names(self) -> list[str]:
        heads = (key for key in _offsets(self._broker, self._topic, b"") if key.endswith(_HEAD))
        return sorted(key.removesuffix(_HEAD).decode() for key in heads)

    def open(self, name: str) -> CheckpointStore:
        return TopicStore(self._broker, name, self._clock, self._topic)

    def remove(self, name: str) -> None:
        TopicStore(self._broker, name, self._clock, self._topic).clear()


def has_topic(broker: Broker) -> bool:
    """True if the topic of checkpoints exists."""
    return any(topic.name == CHECKPOINTS for topic in broker.topics())


def _offsets(broker: Broker, topic: str, prefix: bytes, shard: int = 0) -> dict[bytes, int]:
    """Returns the offset of the last value of each key with this prefix."""
    offsets: dict[bytes, int] = {}
    offset = broker.begin_offset(topic, shard)
    while (records := broker.read(topic, shard, offset)) is not None:
        assert records.keys is not None or not records.num_rows
        present = records.values.is_valid().to_pylist()
        for key, key_offset, is_present in zip(
            records.keys.to_pylist() if records.keys is not None else (),
            records.offsets.tolist(),
            present,
            strict=True,
        ):
            if key.startswith(prefix):
                offsets.pop(key, None)
                if is_present:
                    offsets[key] = key_offset
        offset = records.next_offset
    return offsets
