"""Queues that give nothing: why, for how long, and when that is an error of the job."""

from __future__ import annotations

import time
from typing import Final

from sqlengine.broker.rocketmq.codes import PASSING
from sqlengine.broker.rocketmq.errors import Refused, RocketAway, RocketError
from sqlengine.connectors.health import Health

# Seconds that a broker has to find messages that it had, or to come back while a range is read
# again; and for how long it may refuse what may work later.
PATIENCE_S: Final = 30.0


def may_pass(error: RocketError) -> bool:
    """True for an error after which the same may work."""
    return isinstance(error, RocketAway) or (isinstance(error, Refused) and error.code in PASSING)


class QueueTroubles:
    """The queues of a table that give nothing, told to its health until all of them answer."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._known: dict[str, RocketError] = {}
        # Since when brokers have refused to give, or have not found, what is to be read.
        self._refused_since: dict[str, float] = {}
        self._short_since: dict[str, float] = {}

    def failed(self, queue: str, error: RocketError) -> None:
        """Takes in that a queue could not be read; raises the error where that will stay so. A
        broker that is away is waited for without end."""
        if not isinstance(error, Refused):
            self._refused_since.pop(queue, None)
        elif not may_pass(error) or _is_over(self._refused_since, queue):
            raise error
        self.note(queue, error)

    def short(self, queue: str, error: RocketError) -> None:
        """Takes in that a queue ends before what is to be read: a broker that has just started may
        not have found its last messages yet. Raises the error where it has had its time."""
        self._refused_since.pop(queue, None)
        if _is_over(self._short_since, queue):
            raise error
        self.note(queue, error)

    def note(self, queue: str, error: RocketError) -> None:
        """Notes what may pass. A connection that is lost is told again, for each of its queues,
        until the next attempt: that is one error."""
        new = all(known is not error for known in self._known.values())
        self._known[queue] = error
        if new:
            self._health.retries += 1
            if self._health.trouble != error.words:
                self._health.failed(error.words)

    def over(self, queue: str) -> None:
        """Takes in that a queue was read, be it that there was nothing new."""
        self._refused_since.pop(queue, None)
        self._short_since.pop(queue, None)
        if self._known.pop(queue, None) is not None and not self._known:
            self._health.works()


def _is_over(since: dict[str, float], queue: str) -> bool:
    now = time.monotonic()
    return now - since.setdefault(queue, now) > PATIENCE_S
