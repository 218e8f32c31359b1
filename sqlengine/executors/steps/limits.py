"""The guards of all graphs of one engine, and the limits of their steps: 'job.step-timeout'."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from parser.errors import OptionError, PlanError
from planner.settings import duration_ms
from sqlengine.executors.failures import StepEnded
from sqlengine.executors.steps.answers import PATIENCE_S
from sqlengine.executors.steps.by_version import ByVersion
from sqlengine.executors.steps.guard import STEP_TIMEOUT, StepGuard, StepLimits, StepView
from sqlengine.system.threads import Repeated, Threads

OFF: Final = "off"
# A step that takes longer is slow: it is shown, and a job that it runs may be removed from it.
SLOW_S: Final = 1.0
# A step has so long before it is ended for a new version of a job that it runs.
HELD_S: Final = 3.0
# How often steps are watched, and how long a step that must end has before it is interrupted
# anywhere, and before its thread is given up.
WATCH_S: Final = 0.25
_PATIENCE_S: Final = 0.5
_STUCK_S: Final = 5.0

log = logging.getLogger("sqlengine.steps")


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


@dataclass
class Watched:
    """The step of a graph that was seen last. `shown_s`: seconds at which it is shown next;
    `due_s`: at which it was first found that it must end."""

    number: int = 0
    shown_s: float = SLOW_S
    due_s: float | None = None
    stuck: bool = False
    slow_steps: int = 0

    def look(self, guard: StepGuard, on_stuck: Callable[[StepGuard, Exception], None]) -> None:
        """Logs the step that runs now if it is slow, and ends it if it must end."""
        view = guard.view()
        if view is None or view.number != self.number:
            self.number, self.shown_s, self.due_s, self.stuck = -1, SLOW_S, None, False
        if view is None or not view.lasts(SLOW_S):
            return
        if self.number != view.number:
            self.number = view.number
            self.slow_steps += 1
        if view.seconds >= self.shown_s:
            self.shown_s = 2 * view.seconds
            log.warning("%s, %s rows came out so far", view, f"{view.rows:,}")
        self._end(guard, view, on_stuck)

    def _end(
        self, guard: StepGuard, view: StepView, on_stuck: Callable[[StepGuard, Exception], None]
    ) -> None:
        failure = guard.failure or guard.due_failure()
        if failure is None:
            return
        if self.due_s is None:  # most operators see it themselves
            self.due_s = view.seconds
        elif view.seconds - self.due_s >= _PATIENCE_S:
            guard.throw(view.number, failure)
            if view.seconds - self.due_s >= _STUCK_S and not self.stuck:
                self.stuck = True
                log.error("%s, and does not come back from a call", view)
                on_stuck(guard, failure)


class Steps:
    """The steps of all graphs of one engine, and their limits. Any thread.

    `default`: seconds that the operators of a job may take in one step, for jobs that set no
    timeout; None for any time. `now`: the clock of the machine that runs the graphs."""

    def __init__(self, default: float | None, now: Callable[[], float]) -> None:
        self.default = default
        self._now = now
        self.stopping = False
        self._timeouts: ByVersion[float | None] = ByVersion()
        self._patience: ByVersion[float] = ByVersion()
        # None: to be found among the timeouts again.
        self._shortest: tuple[float | None] | None = None
        self._guards: dict[str, StepGuard] = {}
        self._leaving: Counter[str] = Counter()
        self._replaced: Counter[str] = Counter()
        self._watched: dict[str, Watched] = {}
        self._on_stuck: Callable[[StepGuard, Exception], None] = lambda guard, failure: None
        self._repeated: Repeated | None = None

    # ---- limits ----------------------------------------------------------------------------------

    def set_timeout(self, job: str, version: int, seconds: float | None) -> None:
        """Sets the timeout of a job's version."""
        self._timeouts.set(job, version, seconds)
        self._shortest = None

    def timeout_of(self, job: str, version: int) -> float | None:
        """The timeout of a job's version in seconds; None if it has none."""
        return self._timeouts.get(job, version, self.default)

    def set_patience(self, job: str, version: int, seconds: float) -> None:
        """Sets for how long others may wait in one step for a table that a job's version asks."""
        self._patience.set(job, version, seconds)

    def patience_of(self, job: str, version: int) -> float:
        """Returns how long (s) others may wait for a table that a job's version asks."""
        return self._patience.get(job, version, PATIENCE_S)

    def shortest(self) -> float | None:
        """The shortest timeout of any job in seconds; None if none has any."""
        known = self._shortest
        if known is None:
            timeouts = (*self._timeouts.values(), self.default)
            self._shortest = known = (min((t for t in timeouts if t is not None), default=None),)
        return known[0]

    def retain(self, job: str, versions: Collection[int]) -> None:
        """Forgets the timeouts of the job's other versions."""
        self._timeouts.retain(job, versions)
        self._patience.retain(job, versions)
        self._shortest = None

    def versions(self, job: str) -> set[int]:
        """The versions of a job that run in graphs, or that are being recovered."""
        running = (guard.versions().get(job) for guard in self.guards())
        return {version for version in running if version is not None}

    # ---- guards ----------------------------------------------------------------------------------

    def guard(self, graph: str) -> StepGuard:
        """A guard for a graph that is opened; it takes the place of the one before."""
        limits = StepLimits(self.timeout_of, self.shortest, self.ended, self.patience_of)
        self._guards[graph] = guard = StepGuard(graph, limits, self._now)
        return guard

    def close(self, guard: StepGuard) -> None:
        """Forgets the guard of a graph that is closed."""
        if self._guards.get(guard.graph) is guard:
            del self._guards[guard.graph]

    def forget(self, graph: str) -> None:
        """Forgets how often a graph was slow, which is closed and never opened again."""
        self._watched.pop(graph, None)

    def guards(self) -> list[StepGuard]:
        """The guards of all graphs that are open or are being recovered."""
        return list(self._guards.values())

    def some(self) -> bool:
        """True while any graph is in a step."""
        return any(guard.working for guard in self.guards())

    def slow(self) -> list[StepView]:
        """The steps that run for longer than `SLOW_S` now."""
        views = (guard.view() for guard in self.guards())
        return [view for view in views if view is not None and view.seconds >= SLOW_S]

    def slow_steps(self) -> dict[str, int]:
        """The number of slow steps of each graph since the start."""
        return {graph: watched.slow_steps for graph, watched in list(self._watched.items())}

    # ---- watching --------------------------------------------------------------------------------

    def start(self, threads: Threads, on_stuck: Callable[[StepGuard, Exception], None]) -> None:
        """Starts to watch steps from outside, in a thread of its own. `on_stuck` is called for a
        graph whose operator does not come back from a call."""
        self._on_stuck = on_stuck
        self._repeated = threads.every("steps", WATCH_S, self.watch)

    def close_watch(self) -> None:
        """Ends the watch."""
        if self._repeated is not None:
            self._repeated.stop()

    def watch(self) -> None:
        """Logs slow steps, and ends those that must end and do not ask themselves."""
        for guard in self.guards():
            try:
                self._watched.setdefault(guard.graph, Watched()).look(guard, self._on_stuck)
            except Exception:
                log.exception("the step of graph %s could not be looked at", guard.graph)

    # ---- ends ------------------------------------------------------------------------------------

    @contextmanager
    def leaving(self, jobs: Collection[str]) -> Iterator[None]:
        """While the body runs, these jobs are being removed: slow steps that run their operators
        end, and are repeated without them."""
        with _counted(self._leaving, jobs):
            yield

    @contextmanager
    def replacing(self, jobs: Collection[str]) -> Iterator[None]:
        """While the body runs, these jobs get new versions: steps that run their operators for
        longer than HELD_S, times their patience, end, and their jobs leave with what they had
        before."""
        with _counted(self._replaced, jobs):
            yield

    @property
    def any_leaving(self) -> bool:
        """True if jobs are being removed or replaced."""
        return bool(self._leaving or self._replaced)

    def jobs_leaving(self) -> frozenset[str]:
        """The jobs that are being removed."""
        return frozenset(dict(self._leaving))

    def stop(self) -> None:
        """Ends all steps: the next start repeats them."""
        self.stopping = True

    def ended(self, view: StepView) -> StepEnded | None:
        """Returns why a step must end for which nobody is at fault; None if it may go on."""
        if self.stopping:
            return StepEnded("the server stops; its next start repeats the step")
        leaving = view.jobs & self.jobs_leaving()
        if leaving and view.lasts(SLOW_S):
            return StepEnded("a job leaves that took long in one step", leaving)
        replaced = view.jobs & frozenset(dict(self._replaced))
        if replaced and view.lasts(HELD_S):
            why = f"ended in a step of {view.seconds:.0f} s, which held up a new version"
            return StepEnded(why, replaced, lasting=False)
        return None


@contextmanager
def _counted(counts: Counter[str], jobs: Collection[str]) -> Iterator[None]:
    counts.update(jobs)
    try:
        yield
    finally:
        counts.subtract(jobs)
        for job in [job for job in jobs if counts[job] <= 0]:
            del counts[job]
