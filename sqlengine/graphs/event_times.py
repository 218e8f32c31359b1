"""Event time of a running graph for other threads, without holding it up."""

from __future__ import annotations

from collections.abc import Callable

from parser.errors import ServiceError
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.event_times import EventTimes, event_times
from sqlengine.graphs.loop import GraphLoop

# How old an answer may be, and how long a reader waits for the end of an epoch: briefly, where the
# last one has waited in vain.
_FRESH_S, _PATIENCE_S, _BRIEF_S = 0.5, 1.0, 0.02


class EventTimesCache:
    """The last known event time of a graph. Any thread; `now`: monotonic seconds."""

    def __init__(
        self, loop: GraphLoop, executor: EmbeddedExecutor, now: Callable[[], float]
    ) -> None:
        self._loop = loop
        self._executor = executor
        self._now = now
        self._known = EventTimes()
        self._fresh_until = 0.0
        self._busy = False

    def get(self) -> EventTimes:
        """Returns event time as of now, or the last known one while the graph is busy."""
        if not self._loop.running or self._now() >= self._fresh_until:
            patience = _BRIEF_S if self._busy else _PATIENCE_S
            try:
                self._known = self._loop.call(lambda: event_times(self._executor), patience)
                self._busy = False
            except ServiceError:
                self._busy = True
            self._fresh_until = self._now() + _FRESH_S
        return self._known
