"""The end of a queue, followed while somebody reads it: what comes is there for all readers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock
from typing import Final

from sqlengine.broker.rocketmq.client import Queue
from sqlengine.broker.rocketmq.errors import RocketError
from sqlengine.broker.rocketmq.fetching import Pulled, pulled
from sqlengine.broker.rocketmq.topic import Pull, RocketTopic
from sqlengine.broker.rocketmq.wire import Answer

# The broker answers at once when a message comes, and after so long else; it looks every 5 s.
_WAIT_MS: Final = 15_000
_PATIENCE_S: Final = 35.0
_COUNT: Final = 1024
_PULL_BYTES: Final = 1 << 20
# What is kept for readers, and how long nobody may have asked before it goes.
_MOST_BYTES: Final = 4 << 20
_IDLE_S: Final = 60.0


class Tail:
    """Follows a queue from the offset that `follow` is given: one request at a time, which waits
    for messages; `came` is called for each answer that has some. After a failure, or when nobody
    has read for a minute, it rests until the next `follow`."""

    def __init__(self, topic: RocketTopic, queue: Queue, came: Callable[[], None]) -> None:
        self._topic, self._queue, self._came = topic, queue, came
        self._lock = Lock()
        self._parts: deque[Pulled] = deque()
        self._bytes = 0
        self._next: int | None = None
        self._asked_at = self._read_at = 0.0

    def take(self, offset: int) -> Pulled | None:
        """Returns messages among which those from `offset` on are, up to where the part ends; at
        the end of the queue a part without any. None for an offset that is not followed."""
        now = time.monotonic()
        with self._lock:
            self._read_at = now
            silent = self._next is not None and now - self._asked_at > _PATIENCE_S
            if silent:
                self._rest()
            if self._next == offset:
                return Pulled(offset, offset)
            found = next((part for part in self._parts if part.start <= offset < part.end), None)
        if silent:
            self._topic.client.drop(self._queue.broker, "no answer to a pull")
        return found

    @property
    def end(self) -> int | None:
        """The offset at which the queue ends; None while it is not followed."""
        return self._next

    def follow(self, offset: int) -> None:
        """Begins to follow the queue from its end, unless it is followed already."""
        with self._lock:
            if self._next is not None:
                return
            self._next = offset
        self._ask(offset)

    def _rest(self) -> None:
        self._parts.clear()
        self._bytes, self._next = 0, None

    def _ask(self, start: int) -> None:
        with self._lock:
            self._asked_at = time.monotonic()
        asked = self._topic.pull(self._queue, Pull(start, _COUNT, _PULL_BYTES, _WAIT_MS))
        asked.add_done_callback(lambda answer: self._answered(answer, start))

    def _answered(self, answer: Future[Answer], start: int) -> None:
        """Takes an answer, in the thread of the connection."""
        try:
            found: Pulled | None = pulled(start, answer.result(), "to follow a queue")
        except (RocketError, ValueError, KeyError):
            found = None  # whoever reads asks for itself, and is told
        with self._lock:
            if self._next != start:
                return  # of before it rested
            if found is None or found.moved or time.monotonic() - self._read_at > _IDLE_S:
                self._rest()
                return
            if found.end > start:
                self._next = found.end
                self._parts.append(found)
                self._bytes += len(found.body)
                while self._bytes > _MOST_BYTES and len(self._parts) > 1:
                    self._bytes -= len(self._parts.popleft().body)
        if found.end > start:
            self._came()
        self._ask(found.end)
