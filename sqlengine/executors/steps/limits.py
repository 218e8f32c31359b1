"""The guards of all graphs of one engine, and the limits of their steps: 'job.step-timeout'."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from parser.errors import OptionError, PlanError
from planner.settings import duration_ms
from sqlengine.executors.failures import StepEnded
from sqlengine.executors.steps.guard import STEP_TIMEOUT, StepGuard, StepLimits, StepView

OFF: Final = "off"
# A step that takes longer is slow: it is shown, and a job that it runs may be removed from it.
SLOW_S: Final = 1.0


def step_timeout(settings: Mapping[str, str]) -> float | None:
    """The value of 'job.step-timeout' in s, None for 'off' or 0; it must be set. OptionError if it
    is no time."""
    if settings[STEP_TIMEOUT].strip().lower() == OFF:
        return None
    try:
        return duration_ms(settings, STEP_TIMEOUT) / 1000 or None
    except PlanError:
        raise OptionError(
            f"'{STEP_TIMEOUT}' cannot be '{settings[STEP_TIMEOUT]}'",
            hint=f"it is a time such as '30 s' or '5 min', or '{OFF}'",
        ) from None


class Steps:
    """The steps of all graphs of one engine, and their limits. Any thread.

    `default`: seconds that the operators of a job may take in one step, for jobs that set no
    timeout; None for any time."""

    def __init__(self, default: float | None = None) -> None:
        self.default = default
        self.stopping = False
        self._timeouts: dict[tuple[str, int], float | None] = {}
        self._shortest = default
        self._guards: dict[str, StepGuard] = {}
        self._leaving: Counter[str] = Counter()

    # ---- limits ----------------------------------------------------------------------------------

    def set_timeout(self, job: str, version: int, seconds: float | None) -> None:
        """Sets the timeout of a job's version."""
        self._timeouts[job, version] = seconds
        if seconds is not None:
            self._shortest = min(seconds, self._shortest or seconds)

    def timeout_of(self, job: str, version: int) -> float | None:
        """The timeout of a job's version in seconds; None if it has none."""
        return self._timeouts.get((job, version), self.default)

    # ---- guards ----------------------------------------------------------------------------------

    def guard(self, graph: str) -> StepGuard:
        """A guard for a graph that is opened; it takes the place of the one before."""
        limits = StepLimits(self.timeout_of, lambda: self._shortest, self._ended)
        self._guards[graph] = guard = StepGuard(graph, limits)
        return guard

    def close(self, guard: StepGuard) -> None:
        """Forgets the guard of a graph that is closed."""
        if self._guards.get(guard.graph) is guard:
            del self._guards[guard.graph]

    def guards(self) -> list[StepGuard]:
        """The guards of all graphs that are open or are being recovered."""
        return list(self._guards.values())

    def slow(self) -> list[StepView]:
        """The steps that run for longer than `SLOW_S` now."""
        views = (guard.view() for guard in self.guards())
        return [view for view in views if view is not None and view.seconds >= SLOW_S]

    # ---- ends ------------------------------------------------------------------------------------

    @contextmanager
    def leaving(self, jobs: Collection[str]) -> Iterator[None]:
        """While the body runs, these jobs are being removed: slow steps that run their operators
        end, and are repeated without them."""
        self._leaving.update(jobs)
        try:
            yield
        finally:
            self._leaving.subtract(jobs)
            self._leaving += Counter()  # without those that came to zero

    def jobs_leaving(self) -> frozenset[str]:
        """The jobs that are being removed."""
        return frozenset(dict(self._leaving))

    def stop(self) -> None:
        """Ends all steps: the next start repeats them."""
        self.stopping = True

    def _ended(self, view: StepView) -> StepEnded | None:
        if self.stopping:
            return StepEnded("the server stops; its next start repeats the step")
        leaving = view.jobs & self.jobs_leaving()
        if not leaving or view.seconds < SLOW_S:
            return None
        return StepEnded("a job is removed that took long in one step", leaving)
