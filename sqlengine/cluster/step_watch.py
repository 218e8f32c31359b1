"""Watches the steps of one instance for the leader, in a thread of its own: that of the instance is
in the step."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from parser.errors import ExecutionError, SqlError
from sqlengine.broker.errors import BrokerError
from sqlengine.cluster.control_log import ControlLog, EndSteps, LongStep, LongSteps
from sqlengine.executors.failures import StepEnded
from sqlengine.executors.steps.guard import StepGuard, StepView
from sqlengine.executors.steps.limits import SLOW_S, Steps
from sqlengine.system.spawning import Place
from sqlengine.system.threads import Repeated, Threads

log = logging.getLogger("sqlengine.steps")

_WATCH_S: Final = 0.25
_REPORT_S: Final = 1.0  # between two reports of the same steps


class EndedJobs:
    """The job versions whose steps must end in one instance, and that its recoveries leave out.
    Any thread."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, int], EndSteps] = {}

    def add(self, entry: EndSteps) -> None:
        """Takes a request of the leader. A later one of the same job version replaces it."""
        self._entries[entry.job, entry.job_version] = entry

    def among(self, versions: Mapping[str, int], graph_version: int) -> list[EndSteps]:
        """Returns the requests that concern these jobs in this version of the graph."""
        entries = (self._entries.get(item) for item in versions.items())
        return [e for e in entries if e is not None and graph_version <= e.version]

    def known(self, reason: str) -> frozenset[str]:
        """Returns the jobs whose steps the leader ends for that reason."""
        entries = list(self._entries.values())
        return frozenset(entry.job for entry in entries if entry.reason == reason)

    def left_out(self) -> dict[tuple[str, int], tuple[int, SqlError]]:
        """Returns what a recovery leaves out, as `SubtaskContext` has it."""
        return {
            key: (entry.version, ExecutionError(entry.reason))
            for key, entry in dict(self._entries).items()
        }


class StepWatch:
    """Reports the long steps of an instance, and ends those that the leader asks to end.

    `control` is read by this thread alone. `publish` sends a report."""

    def __init__(
        self,
        place: Place,
        pid: int,
        control: ControlLog,
        steps: Steps,
        ends: EndedJobs,
        publish: Callable[[LongSteps], None],
    ) -> None:
        self._instance, self._pid = place.name, pid
        self._prefix = f"{place.graph}-"
        self._control = control
        self._steps = steps
        self._ends = ends
        self._publish = publish
        self._next = 0
        # None: nothing yet, so that the first report replaces that of a process before.
        self._reported: set[tuple[str, int]] | None = None
        self._reported_at = 0.0
        self._repeated: Repeated | None = None
        self._now: Callable[[], float] = float

    def start(self, threads: Threads) -> None:
        """Starts the thread."""
        self._now = threads.now
        self._repeated = threads.every("long-steps", _WATCH_S, self.watch)

    def stop(self) -> None:
        """Ends the thread."""
        if self._repeated is not None:
            self._repeated.stop()

    def watch(self) -> None:
        """Reports and ends long steps; without any it does nothing."""
        try:
            long = dict(self._long())
            if long:
                self._read_requests()
                for view, guard in long.items():
                    self._end(guard, view)
            self._report(list(long))
        except BrokerError as error:  # a full disk, or the server is gone: the instance ends too
            log.warning("instance %s cannot report a long step: %s", self._instance, error)
        except Exception:
            log.exception("the steps of instance %s could not be watched", self._instance)

    def _long(self) -> Iterator[tuple[StepView, StepGuard]]:
        for guard in self._steps.guards():
            view = guard.view()
            if view is not None and view.seconds >= SLOW_S:
                yield view, guard

    def _read_requests(self) -> None:
        for offset, entry in self._control.read(self._next):
            self._next = offset + 1
            if isinstance(entry, EndSteps):
                self._ends.add(entry)

    def _end(self, guard: StepGuard, view: StepView) -> None:
        """Ends the step if it runs an operator of a job that must leave."""
        versions = guard.versions()
        running = {job: versions[job] for job in view.jobs if job in versions}
        entries = self._ends.among(running, guard.graph_version())
        if entries:
            jobs = frozenset(entry.job for entry in entries)
            guard.throw(view.number, StepEnded(entries[0].reason, jobs))

    def _report(self, views: list[StepView]) -> None:
        known = {(view.graph, view.number) for view in views}
        if known == self._reported and (not known or self._now() - self._reported_at < _REPORT_S):
            return
        steps = [
            LongStep(
                int(view.graph.removeprefix(self._prefix)),
                view.number,
                view.seconds,
                view.activity,
                sorted(view.jobs),
                view.rows,
            )
            for view in views
        ]
        self._publish(LongSteps(self._instance, self._pid, steps))
        self._reported, self._reported_at = known, self._now()
