"""Checkpoints in a compacted topic of the broker: where the broker is, they are, and nothing else needs a disk."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from parser.errors import ServiceError
from sqlengine.broker.base import Broker
from sqlengine.broker.errors import BrokerError
from sqlengine.state.store import BlobStore, CheckpointStore

CHECKPOINTS: Final = "_checkpoints"
_HEAD: Final = b"/head"


class TopicStore(BlobStore):
    """The store of one graph in `topic`. Its records have the graph's name and the blob's key as theirs; those of one checkpoint are
    one batch of the topic, which is there whole or not at all. In memory it has the offset of each of them."""

    def __init__(self, broker: Broker, graph: str, clock: Callable[[], int], topic: str) -> None:
        self._broker = broker
        self._topic = topic
        self._prefix = graph.encode() + b"/"
        self._clock = clock
        self._offsets = _offsets(broker, topic, self._prefix)
        super().__init__(f"{topic}/{graph}")

    def close(self) -> None: ...

    def clear(self) -> None:
        """Forgets all of it."""
        self._write({}, [key.removeprefix(self._prefix) for key in self._offsets])

    def _get(self, key: bytes) -> bytes | None:
        offset = self._offsets.get(self._prefix + key)
        if offset is None:
            return None
        records = self._broker.read(self._topic, 0, offset, max_records=1)
        if records is None or records.offsets.tolist() != [offset]:
            return None
        data: bytes | None = records.values[0].as_py()
        return data

    def _write(self, puts: Mapping[bytes, bytes], gone: Collection[bytes]) -> None:
        keys = [self._prefix + key for key in (*puts, *gone)]
        if not keys:
            return
        try:
            values = [*puts.values(), *([None] * len(gone))]
            done = self._broker.append(self._topic, 0, values, keys=keys, timestamp_ms=self._clock())
        except BrokerError as error:
            raise ServiceError("the checkpoint could not be written", detail=str(error), hint=error.hint) from error
        self._offsets |= zip(keys[: len(puts)], range(done.first_offset, done.next_offset), strict=False)
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
    """Whether there are checkpoints in the topic, or were."""
    return any(topic.name == CHECKPOINTS for topic in broker.topics())


def _offsets(broker: Broker, topic: str, prefix: bytes) -> dict[bytes, int]:
    """Where the last value of each key is that begins so."""
    found: dict[bytes, int] = {}
    offset = broker.begin_offset(topic, 0)
    while (records := broker.read(topic, 0, offset)) is not None:
        assert records.keys is not None or not records.num_rows
        kept = records.values.is_valid().to_pylist()
        for key, at, there in zip(
            records.keys.to_pylist() if records.keys is not None else (), records.offsets.tolist(), kept, strict=True
        ):
            if key.startswith(prefix):
                found.pop(key, None)
                if there:
                    found[key] = at
        offset = records.next_offset
    return found
