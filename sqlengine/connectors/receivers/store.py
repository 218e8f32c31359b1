"""The streams that were asked for, over restarts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from parser.errors import ServiceError
from sqlengine.broker.base import Broker
from sqlengine.connectors.receivers.base import Stream

_TOPIC: Final = "_receivers"


class Known(msgspec.Struct, frozen=True):
    """A stream, and when (ms) its last reader went; None while it has one."""

    stream: Stream
    released_ms: int | None = None


class StreamStore:
    """Keeps streams in a compacted topic. `Receivers` calls it, one thread at a time.

    A server that was killed asks for all of them again before it takes anything: the place sends
    what came meanwhile for each as soon as it is connected, whether or not its tables are open."""

    def __init__(self, broker: Broker, clock: Callable[[], int]) -> None:
        self._broker = broker
        self._clock = clock
        self._loaded: dict[bytes, bytes] | None = None

    @property
    def _values(self) -> dict[bytes, bytes]:
        if self._loaded is None:
            self._broker.create_topic(_TOPIC, 1, compacted=True, if_not_exists=True)
            self._loaded = self._broker.read_latest(_TOPIC)
        return self._loaded

    def streams(self) -> list[Known]:
        """Returns all streams."""
        return [msgspec.json.decode(text, type=Known) for text in self._values.values()]

    def put(self, known: Known) -> None:
        """Keeps a stream."""
        text = msgspec.json.encode(known)
        if self._values.get(known.stream.topic.encode()) != text:
            self._put(known.stream.topic.encode(), text)

    def forget(self, stream: Stream) -> None:
        """Deletes the log of a stream that nobody asks for any more."""
        with suppress(ServiceError):
            self._broker.delete_topic(stream.topic)
        self._put(stream.topic.encode(), None)

    def _put(self, key: bytes, value: bytes | None) -> None:
        values = self._values
        self._broker.append(_TOPIC, 0, [value], keys=[key], timestamp_ms=self._clock())
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
