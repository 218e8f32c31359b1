"""Shows other threads a graph as it is between two of its epochs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from parser.errors import ServiceError
from sqlengine.graphs.loop import GraphLoop

T = TypeVar("T")
# How old an answer may be, and how long a reader waits for the end of an epoch: briefly, where the
# last one has waited in vain.
_FRESH_S: Final = 0.5
_PATIENCE_S: Final = 1.0
_BRIEF_S: Final = 0.02


class Observed(Generic[T]):
    """The last known value of something in a graph, which `look` finds in its thread. Any thread;
    `now`: monotonic seconds; `known`: the value until then."""

    def __init__(
        self, loop: GraphLoop, look: Callable[[], T], now: Callable[[], float], known: T
    ) -> None:
        self._loop = loop
        self._look = look
        self._now = now
        self._known = known
        self._fresh_until = 0.0
        self._busy = False

    def get(self) -> T:
        """Returns the value as of now, or the last known one while the graph is busy."""
        if not self._loop.running or self._now() >= self._fresh_until:
            patience = _BRIEF_S if self._busy else _PATIENCE_S
            try:
                self._known = self._loop.call(self._look, patience)
                self._busy = False
            except ServiceError:
                self._busy = True
            self._fresh_until = self._now() + _FRESH_S
        return self._known
