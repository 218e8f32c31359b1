"""Knows, for a data folder, its topics in a cluster: a compacted topic, with the last values in
memory."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from sqlengine.broker.rocketmq.client import Queue, queue_of

_NAME: Final = ("name",)
_QUEUES, _WRITER = "queues", "writer"

Key = tuple[str | int, ...]
_KEYS: Final = msgspec.json.Decoder(Key)
Put = Callable[[bytes, bytes | None], None]


class WriterMark(msgspec.Struct, frozen=True, array_like=True):
    """The last epoch that a writer has written as a whole (-1: none), and the offset up to which
    nothing else of it is in the queue."""

    epoch: int
    offset: int


_MARK: Final = msgspec.json.Decoder(WriterMark)
_NAMES: Final = msgspec.json.Decoder(list[str])


class Kept:
    """The topic `_rocketmq`, which `put` appends to. Any thread."""

    def __init__(self, values: Mapping[bytes, bytes], put: Put) -> None:
        self._put = put
        self._lock = threading.Lock()
        self._values = {_KEYS.decode(key): value for key, value in values.items()}
        if _NAME not in self._values:
            self._set(_NAME, os.urandom(8).hex().encode())

    @property
    def name(self) -> str:
        """The name of the data folder: writers of several folders are called alike."""
        return self._values[_NAME].decode()

    # ---- queues ----------------------------------------------------------------------------------

    def topics(self) -> list[str]:
        """Returns the topics whose queues are known."""
        with self._lock:
            return sorted(str(key[1]) for key in self._values if key[0] == _QUEUES)

    def queues(self, topic: str) -> tuple[Queue, ...] | None:
        """Returns the queues that are the shards of a topic, in order; None where nobody knows."""
        found = self._values.get((_QUEUES, topic))
        return None if found is None else tuple(map(queue_of, _NAMES.decode(found)))

    def set_queues(self, topic: str, queues: tuple[Queue, ...]) -> None:
        """Keeps the queues of a topic."""
        self._set((_QUEUES, topic), msgspec.json.encode([queue.name for queue in queues]))

    def forget(self, topic: str) -> None:
        """Forgets a topic, and who has written to it."""
        for key in list(self._of(topic)):
            self._set(key, None)

    def _of(self, topic: str) -> Iterator[Key]:
        with self._lock:
            return iter([k for k in self._values if len(k) > 1 and k[1] == topic])

    # ---- writers ---------------------------------------------------------------------------------

    def mark(self, topic: str, shard: int, writer: str) -> WriterMark | None:
        """Returns what is known of a writer; None where it has never written."""
        found = self._values.get((_WRITER, topic, shard, writer))
        return None if found is None else _MARK.decode(found)

    def set_mark(self, topic: str, shard: int, writer: str, mark: WriterMark) -> None:
        """Keeps what is known of a writer."""
        self._set((_WRITER, topic, shard, writer), msgspec.json.encode(mark))

    def _set(self, key: Key, value: bytes | None) -> None:
        with self._lock:
            self._put(msgspec.json.encode(key), value)
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = value
