"""Wakes threads that wait for data, and syncs logs periodically."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from sqlengine.broker.errors import BrokerError
from sqlengine.system.threads import Threads


class AppendNotifier:
    """Counts appends, so that a thread can wait for those that it has not seen yet, or for one to a
    topic: others do not wake it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._condition = threading.Condition(self._lock)
        # Of topics for which a thread waits now, with how many do.
        self._of_topics: dict[str, threading.Condition] = {}
        self._waiting_for: Counter[str] = Counter()
        self._count = 0
        self._waiting = 0
        self._seen = threading.local()

    def notify(self, topic: str | None = None) -> None:
        """Tells of an append, None: to a topic that is not known."""
        with self._condition:
            self._count += 1
            if self._waiting:
                self._condition.notify_all()
            for name in self._of_topics if topic is None else (topic,):
                if name in self._of_topics:
                    self._of_topics[name].notify_all()

    def _wait(self, has_new: Callable[[], bool], timeout_s: float) -> bool:
        """Waits for `has_new`; the caller holds the condition."""
        self._waiting += 1
        try:
            return self._condition.wait_for(has_new, timeout_s)
        finally:
            self._waiting -= 1

    def wait(self, timeout_s: float) -> bool:
        """Waits for an append since this thread's last call; False if there is none within
        `timeout_s`."""
        seen = getattr(self._seen, "count", 0)
        with self._condition:
            has_new = self._wait(lambda: self._count > seen, timeout_s)
            self._seen.count = self._count
        return has_new

    def wait_for(self, topic: str, has_new: Callable[[], bool], timeout_s: float) -> bool:
        """Waits until `has_new`, which is asked behind each append to the topic; it must not wait
        for anything itself."""
        with self._lock:
            condition = self._of_topics.setdefault(topic, threading.Condition(self._lock))
            self._waiting_for[topic] += 1
            try:
                return condition.wait_for(has_new, timeout_s)
            finally:
                self._waiting_for[topic] -= 1
                if not self._waiting_for[topic]:
                    del self._waiting_for[topic], self._of_topics[topic]

    def wait_beyond(self, seen: int, timeout_s: float) -> int:
        """Returns the number of appends, once it is not `seen` any more or the time is over."""
        with self._condition:
            self._wait(lambda: self._count != seen, timeout_s)
            return self._count


class Flusher:
    """Calls `sync` every `interval_s` in a thread of its own; `check` raises its failure."""

    def __init__(self, sync: Callable[[], None], interval_s: float, threads: Threads) -> None:
        self._sync = sync
        self._error: OSError | BrokerError | None = None
        self._repeated = threads.every("broker-sync", interval_s, self._turn)

    def _turn(self) -> None:
        try:
            self._sync()
        except (OSError, BrokerError) as error:
            self._error = error

    def check(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise BrokerError(
                "appended records could not be synced to disk", detail=str(error)
            ) from error

    def stop(self) -> None:
        self._repeated.stop()
