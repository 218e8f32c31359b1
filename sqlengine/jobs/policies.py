"""Keeps what job versions ask for in their settings: the end of a job by a row in error, and limits
of memory and of time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from sqlengine.executors.memory_limits import LIMIT, MemoryLimits, memory_limit
from sqlengine.executors.steps.answers import NEVER, PATIENCE_S
from sqlengine.executors.steps.by_version import ByVersion
from sqlengine.executors.steps.guard import STEP_TIMEOUT
from sqlengine.executors.steps.limits import Steps, step_timeout
from sqlengine.jobs.isolation_settings import patience_in
from sqlengine.jobs.planning import PlannedJob

_ON_ERROR: Final = "job.on-error"


class Policies:
    """The policies of the job versions of one engine, by version: a recovery may replay one when
    the job already has another.

    `settings`: those of the server; `isolates`: it isolates jobs that hold up others."""

    def __init__(
        self, settings: Mapping[str, str], memory: MemoryLimits, steps: Steps, *, isolates: bool
    ) -> None:
        self._settings = settings
        self._memory = memory
        self._steps = steps
        self._isolates = isolates
        # Job versions that ask to fail at a row in error.
        self._failing: ByVersion[bool] = ByVersion()

    def fails_on_error(self, job: str, version: int) -> bool:
        """True if a row in error fails the job; otherwise it becomes a dead letter."""
        return self._failing.get(job, version, False)

    def register(self, version: int, plan: PlannedJob) -> None:
        """Registers what a version asks for, before it runs."""
        settings, job = plan.settings, plan.name
        self.retain(job, {version, *self._steps.versions(job)})
        if settings.get(_ON_ERROR) == "fail":
            self._failing.set(job, version, True)
        if LIMIT in settings:
            self._memory.set_limit(job, version, memory_limit(settings))
        patience = patience_in({**self._settings, **settings}) if self._isolates else NEVER
        if patience != PATIENCE_S:
            self._steps.set_patience(job, version, patience)
        if STEP_TIMEOUT in settings:
            self._steps.set_timeout(job, version, step_timeout(settings))

    def retain(self, job: str, versions: Collection[int] | None = None) -> None:
        """Forgets what is registered of the job's other versions than these, none of which runs:
        by default than those that run."""
        kept = self._steps.versions(job) if versions is None else versions
        for policies in (self._failing, self._memory, self._steps):
            policies.retain(job, kept)
