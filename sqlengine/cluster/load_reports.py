"""Measures the load of jobs in the subtasks of one instance, for the reports to the leader."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlengine.cluster.subtask import Subtask
from sqlengine.graphs.load_monitor import IsolationTrigger, LoadMonitor
from sqlengine.jobs.isolation_settings import IsolationLimits, limits_in
from sqlengine.jobs.job import Cause


class LoadReports:
    """Keeps a load monitor for each subtask.

    `settings` returns the version and the settings of a running job. `clock` returns monotonic
    seconds, as commits are timed by it. All methods are called from the thread of the subtasks."""

    def __init__(
        self,
        settings: Callable[[str], tuple[int, Mapping[str, str]]],
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._monitors: dict[int, LoadMonitor] = {}
        self._limits: dict[str, tuple[int, IsolationLimits]] = {}

    def triggers(self, subtasks: Mapping[int, Subtask]) -> list[IsolationTrigger]:
        """Returns the jobs that should leave the graph, each once.

        Triggers for errors are left to the leader, which knows the errors and the rows of all
        subtasks."""
        now = self._clock()
        self._monitors = {
            index: self._monitor(index, subtask)
            for index, subtask in subtasks.items()
            if not subtask.runner.broken
        }
        triggers = [
            trigger
            for monitor in self._monitors.values()
            for trigger in monitor.triggers(now, self._limits_of, len(subtasks))
        ]
        return list({t.job: t for t in triggers if t.cause is not Cause.ERRORS}.values())

    def _monitor(self, index: int, subtask: Subtask) -> LoadMonitor:
        monitor = self._monitors.get(index)
        if monitor is None or monitor.graph is not subtask.graph:  # the subtask was reopened
            return LoadMonitor(subtask.graph)
        return monitor

    def _limits_of(self, name: str) -> IsolationLimits:
        version, settings = self._settings(name)
        known, limits = self._limits.get(name, (0, None))
        if limits is None or known != version:
            limits = limits_in(settings)
            self._limits[name] = version, limits
        return limits
