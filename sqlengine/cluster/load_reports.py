"""What jobs cost the parts of one instance, and hold up in them, which its leader is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter

from sqlengine.cluster.subtask import Subtask
from sqlengine.graphs.load_monitor import IsolationTrigger, LoadMonitor
from sqlengine.jobs.isolation_settings import IsolationLimits, limits_in
from sqlengine.jobs.job import Cause


class LoadReports:
    """`settings` are those of a job that runs here and its version. `clock`: seconds that only
    grow, as commits are measured by. All methods are called from the thread of the parts."""

    def __init__(
        self,
        settings: Callable[[str], tuple[int, Mapping[str, str]]],
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._gauges: dict[int, LoadMonitor] = {}
        self._limits: dict[str, tuple[int, IsolationLimits]] = {}

    def look(self, parts: Mapping[int, Subtask]) -> list[IsolationTrigger]:
        """Jobs that should leave the parts, each once. Not for their errors: of these the leader
        knows how many there are in all parts, and in how many rows."""
        now = self._clock()
        self._gauges = {
            index: self._gauge(index, part)
            for index, part in parts.items()
            if not part.runner.broken
        }
        found = [t for g in self._gauges.values() for t in g.look(now, self._limits_of, len(parts))]
        return list({t.job: t for t in found if t.cause is not Cause.ERRORS}.values())

    def _gauge(self, index: int, part: Subtask) -> LoadMonitor:
        held = self._gauges.get(index)
        return held if held is not None and held.graph is part.graph else LoadMonitor(part.graph)

    def _limits_of(self, name: str) -> IsolationLimits:
        version, settings = self._settings(name)
        known, limits = self._limits.get(name, (0, None))
        if limits is None or known != version:
            limits = limits_in(settings)
            self._limits[name] = version, limits
        return limits
