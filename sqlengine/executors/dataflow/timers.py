"""The timers of processing time of the operators of one graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlengine.executors.dataflow.running_node import RunningNode
from sqlengine.executors.ticks.earliest import Earliest
from sqlengine.operators.base import Timed


class Timers:
    """The next timer of each operator that has any. Only what has run since is asked again."""

    def __init__(self) -> None:
        self._timed: dict[str, Timed] = {}
        self._timers = Earliest[str]()
        self._changed: set[str] = set()

    def change(self, names: Iterable[str], running: Mapping[str, RunningNode]) -> None:
        """Follows a change of these nodes: new ones, gone ones, others with another operator."""
        for name in names:
            node = running.get(name)
            if node is not None and isinstance(node.operator, Timed):
                self._timed[name] = node.operator
                self._changed.add(name)
            elif self._timed.pop(name, None) is not None:
                self._changed.discard(name)
                self._timers.put(name, None)

    def ran(self, name: str) -> None:
        """Notes that a node has run: a timer changes with its operator's state, and that only
        then."""
        if name in self._timed:
            self._changed.add(name)

    def first(self) -> int | None:
        """Returns the earliest processing time (ms) at which an operator wants a tick; None if none
        does."""
        for name in self._changed:
            self._timers.put(name, self._timed[name].timer())
        self._changed.clear()
        return self._timers.first()
