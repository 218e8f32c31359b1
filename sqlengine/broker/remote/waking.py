"""What goes on beside appends and reads: waking who waits for data, and syncing now and then."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sqlengine.broker.errors import BrokerError
from sqlengine.system.threads import Threads


class Arrivals:
    """Counts appends, so that a thread can wait for those that it has not seen yet."""

    def __init__(self) -> None:
        self._condition = threading.Condition(threading.Lock())
        self._count = 0
        self._waiting = 0
        self._seen = threading.local()

    def notify(self) -> None:
        with self._condition:
            self._count += 1
            if self._waiting:
                self._condition.notify_all()

    def _wait(self, came: Callable[[], bool], timeout_s: float) -> bool:
        """With the condition held."""
        self._waiting += 1
        try:
            return self._condition.wait_for(came, timeout_s)
        finally:
            self._waiting -= 1

    def wait(self, timeout_s: float) -> bool:
        """False when nothing came since this thread's last call and within `timeout_s`."""
        seen = getattr(self._seen, "count", 0)
        with self._condition:
            came = self._wait(lambda: self._count > seen, timeout_s)
            self._seen.count = self._count
        return came

    def wait_beyond(self, seen: int, timeout_s: float) -> int:
        """The number of appends, once it is not `seen` any more or after that time."""
        with self._condition:
            self._wait(lambda: self._count != seen, timeout_s)
            return self._count


class Flusher:
    """Calls `sync` every `interval_s`, beside all else. A failure is raised by the next `check`."""

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
