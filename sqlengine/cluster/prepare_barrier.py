"""Waits until all instances of a distributed graph have prepared a change."""

from __future__ import annotations

from collections.abc import Callable, Collection

from parser.errors import JobError, ServiceError
from sqlengine.cluster.control_log import Problem
from sqlengine.cluster.worker_reports import WorkerReports
from sqlengine.graphs.host import NotAligned

# A change is abandoned if a living instance has not answered for this long.
PREPARE_TIMEOUT_S = 300.0
_POLL_INTERVAL_S = 0.05


class PrepareBarrier:
    """The barrier between `Prepare` and `Switch` of one graph.

    `members` returns the living instances; `clock` returns monotonic seconds."""

    def __init__(
        self,
        graph: str,
        reports: WorkerReports,
        members: Callable[[], set[str]],
        clock: Callable[[], float],
    ) -> None:
        self._graph = graph
        self._reports = reports
        self._members = members
        self._clock = clock

    def wait(self, number: int, jobs: Collection[str]) -> None:
        """Returns once all members of the group have prepared entry `number`.

        Raises the error of a member that cannot prepare it: NotAligned if a retry may succeed,
        else JobError. A member that dies leaves the group, and is not waited for; ServiceError if
        one that lives does not answer."""
        deadline = self._clock() + PREPARE_TIMEOUT_S
        wait = 0.0
        while True:
            acks = self._reports.acks(number, wait)
            for instance, problem in acks.items():
                if problem is not None:
                    raise self._error(instance, problem, jobs)
            # Asked anew each time: a member that has died is missing from it, one that has joined
            # is waited for.
            silent = self._members() - acks.keys()
            if not silent:
                return
            if self._clock() > deadline:
                timeout = f"{PREPARE_TIMEOUT_S:.0f} s"
                raise ServiceError(
                    f"instance {min(silent)} has not prepared the change for {timeout}",
                    hint="nothing was changed; 'sql instances' shows what it does",
                )
            wait = _POLL_INTERVAL_S

    def _error(
        self, instance: str, problem: Problem, jobs: Collection[str]
    ) -> NotAligned | JobError:
        if problem.transient:
            return NotAligned(jobs, self._graph, problem.detail or problem.message)
        return JobError(
            problem.message,
            detail=problem.detail or f"instance {instance} cannot run it",
            hint=problem.hint,
        )
