"""Messages of a queue, fetched ahead of who reads them."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock
from typing import Final

from sqlengine.broker.rocketmq import codes
from sqlengine.broker.rocketmq.client import Queue
from sqlengine.broker.rocketmq.errors import Refused, RocketAway, RocketError
from sqlengine.broker.rocketmq.topic import Filter, Pull, RocketTopic
from sqlengine.broker.rocketmq.wire import Answer

# The broker answers at once when a message comes, and after so long else.
_WAIT_MS: Final = 15_000
# A broker looks at waiting requests every 5 s.
_PATIENCE_S: Final = 20.0
_BYTES_PER_PULL: Final = 4 << 20
# Seconds after a refusal, and between two looks whether a broker is there again.
_PAUSE_S: Final = 1.0
_AWAY_S: Final = 0.25


@dataclass(frozen=True)
class Pulled:
    """Messages (`messages.stored`) from `start` on, all that are wanted before `end`. `moved`: the
    queue begins or ends there, and `start` lies outside."""

    start: int
    end: int
    body: bytes = b""
    moved: bool = False


def pulled(start: int, answer: Answer, what: str) -> Pulled:
    """Returns what a pull from `start` on has given. Refused where it was refused."""
    match answer.code:
        case codes.OK:
            return Pulled(start, answer.number("nextBeginOffset"), answer.body)
        case codes.NOTHING_FOUND | codes.PULL_AGAIN:
            return Pulled(start, max(answer.number("nextBeginOffset"), start))
        case codes.OFFSET_MOVED:
            return Pulled(start, answer.number("nextBeginOffset"), moved=True)
    raise Refused(answer.code, what, answer.remark)


class QueueFetcher:
    """Fetches one queue, one request at a time, until `most` bytes wait to be taken: then the
    broker keeps the rest. Requests go on in the thread that takes answers; `take` begins the first
    one, and the next after a failure.

    `quiet`: the broker has answered last that there is nothing new. Any thread."""

    def __init__(
        self, topic: RocketTopic, queue: Queue, wanted: Filter, count: int, most: int
    ) -> None:
        self._topic, self._queue, self._wanted = topic, queue, wanted
        self._count, self._most = count, most
        self._lock = Lock()
        self._ready: deque[Pulled] = deque()
        self._bytes = 0
        self._next: int | None = None
        # Which requests count: those of before a jump give what nobody wants.
        self._run = 0
        self._asked_at: float | None = None
        self._failure: RocketError | None = None
        self._failed = False
        self._due = 0.0
        self.quiet = False

    @property
    def waiting_bytes(self) -> int:
        """The bytes that wait to be taken. Any thread."""
        return self._bytes

    def take(self, offset: int) -> Pulled | None:
        """Returns the next messages from `offset` on; None while there are none. RocketError, once,
        where a request has failed: another one is made later."""
        with self._lock:
            if offset != (self._ready[0].start if self._ready else self._next):
                self._jump(offset)
            found = self._ready.popleft() if self._ready else None
            if found is not None:
                self._bytes -= len(found.body)
            failure, self._failure = self._failure, None
        self._go_on()
        if failure is not None and found is None:
            raise failure
        return found

    def put_back(self, rest: Pulled) -> None:
        """Puts back what was taken last, and is still wanted."""
        with self._lock:
            self._ready.appendleft(rest)
            self._bytes += len(rest.body)

    def _jump(self, offset: int) -> None:
        self._ready.clear()
        self._bytes, self._next = 0, offset
        self._run += 1
        self._asked_at = None

    def _go_on(self) -> None:
        """Makes the next request, where none is under way and there is room."""
        now = time.monotonic()
        with self._lock:
            asked_at = self._asked_at
            overdue = asked_at is not None and now - asked_at > _PATIENCE_S + _WAIT_MS / 1000
            if overdue:
                self._asked_at = None
                self._run += 1
            waits = self._asked_at is not None or self._bytes >= self._most or now < self._due
            if self._next is None or waits:
                return
            start, run, self._asked_at = self._next, self._run, now
        if overdue:
            self._topic.client.drop(self._queue.broker, "no answer to a pull")
        # After a failure the broker says at once that it is there again.
        pull = Pull(start, self._count, _BYTES_PER_PULL, 0 if self._failed else _WAIT_MS)
        asked = self._topic.pull(self._queue, pull, self._wanted)
        asked.add_done_callback(lambda answer: self._answered(answer, start, run))

    def _answered(self, answer: Future[Answer], start: int, run: int) -> None:
        """Takes an answer (in the thread of the connection, or of who asked)."""
        what = f"to read queue '{self._queue.name}' of topic '{self._topic.name}'"
        found, failure = None, None
        try:
            found = pulled(start, answer.result(), what)
        except RocketError as error:
            failure = error
        except (ValueError, KeyError) as error:  # it would vanish in the thread
            failure = RocketError(f"a broker answers nonsense when asked {what}", detail=str(error))
        with self._lock:
            if run != self._run:
                return
            self._asked_at = None
            self._failed = found is None
            self.quiet = found is not None and found.end == found.start and not found.moved
            if found is None:
                # The client knows when to connect again.
                pause = _AWAY_S if isinstance(failure, RocketAway) else _PAUSE_S
                self._failure, self._due = failure, time.monotonic() + pause
                return
            self._next = None if found.moved else found.end
            if found.end != found.start or found.moved:
                self._ready.append(found)
                self._bytes += len(found.body)
        self._go_on()
