"""Starts jobs again that failed, when their restart strategies say so."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from sqlengine.engine.job_lifecycle import JobLifecycle
from sqlengine.engine.watch.watch import Watch
from sqlengine.jobs.job import Job, JobState
from sqlengine.registry import Registry
from sqlengine.system.words import counted, grouped

EVERY_S: Final = 0.25
log = logging.getLogger("sqlengine")


class Restarts(Watch):
    """Starts the failed jobs of one engine again, all that are due in one turn.

    `before`: called with the names of jobs that are about to start; `made`: restarts by job.
    """

    name = "restarts"
    every_s = EVERY_S
    fault = "failed jobs could not be started again"

    def __init__(
        self, registry: Registry, jobs: JobLifecycle, before: Callable[[frozenset[str]], None]
    ) -> None:
        self._registry = registry
        self._jobs = jobs
        self._before = before
        self.made: Counter[str] = Counter()

    def _due(self) -> list[Job]:
        now = self._registry.clock()
        jobs = list(self._registry.log.jobs.values())
        return [j for j in jobs if j.state is JobState.RESTARTING and j.next_ms <= now]

    def is_due(self) -> bool:
        return bool(self._due())

    def check(self) -> None:
        """Starts all jobs that are due; those that left their graph together together."""
        together: dict[str, list[Job]] = {}
        for job in self._due():
            together.setdefault(job.kept or f"alone {job.name}", []).append(job)
        outcomes: list[tuple[str | None, str]] = []
        for jobs in together.values():
            self._before(frozenset(job.name for job in jobs))
            error = self._jobs.restart(jobs)
            outcomes += [(None if error is None else str(error), job.name) for job in jobs]
            self.made.update(job.name for job in jobs if error is None)
        for reason, names in grouped(outcomes).items():
            if reason is None:
                log.info("%s: started again", counted(names))
            else:
                log.warning("%s cannot be started again now: %s", counted(names), reason)
