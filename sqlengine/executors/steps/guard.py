"""Watches the steps of one graph: a step is the work of one epoch, from its rows to its commits.

The graph's thread says which operator runs, and asks at every slice of output whether it must end.
Other threads see what it does (`view`). The clock ends a step or lets it
run; it never decides what an epoch contains, because a step that is ended is repeated as a whole.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from planner.graph.physical import PhysicalNode
from planner.graph.rule_sets import RulesPlan
from planner.graph.takeover import name_of
from sqlengine.executors.failures import StepEnded, StepFailed

# The setting of a job, and the seconds of its default.
STEP_TIMEOUT: Final = "job.step-timeout"
# Seconds between two looks at the limits.
_LOOK_S: Final = 0.1
# Rows of output after which memory is measured, however soon after the last time.
_LOOK_ROWS: Final = 1 << 16
# An operator that more jobs share is charged to none of them, as for isolation.
_MAX_SHARERS: Final = 8


class StepInterrupted(BaseException):
    """Unwinds a step that must end. `StepGuard.failure` says why.

    A BaseException, because operators and functions turn any Exception into an error of a row."""


@dataclass(frozen=True)
class StepView:
    """A step that runs now.

    `activity`: what it is doing, for people. `jobs`: the jobs of the operator that runs, none
    outside of operators. `rows`: the rows that operators have put out in this step."""

    graph: str
    number: int
    seconds: float
    activity: str
    jobs: frozenset[str]
    rows: int


@dataclass(frozen=True)
class StepLimits:
    """The limits of a graph's steps.

    `timeout_of` returns the seconds that the operators of a job's version may take in one step,
    None for any; `shortest` a lower bound of all of them. `ended` returns why a step must end that
    nobody is at fault for. `measure` returns what exceeds a limit of memory, by job, or nothing."""

    timeout_of: Callable[[str, int], float | None]
    shortest: Callable[[], float | None]
    ended: Callable[[StepView], StepEnded | None]
    measure: Callable[[], Mapping[str, str]] = dict


class StepGuard:
    """The guard of one graph's steps; without `limits` it only watches.

    `step`, `enter`, `leave` and `check` belong to the graph's thread, `view` and
    `due_failure` to any. `versions` returns the running version of each job. `seconds`: time of
    each operator by node, with that of handing its rows on, without that of the nodes behind it.
    `activity`: what the step does while no operator runs. `failure`: why the step was ended."""

    def __init__(
        self,
        graph: str = "",
        limits: StepLimits | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.graph = graph
        self.activity = ""
        self.failure: Exception | None = None
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.versions: Callable[[], Mapping[str, int]] = dict
        self._limits = limits
        self._clock = clock
        self._number = 0
        self._began: float | None = None
        self._node: PhysicalNode | None = None
        self._since = 0.0
        # Of this step, by node.
        self._spent: dict[str, float] = {}
        self._nodes: dict[str, PhysicalNode] = {}
        self._rows = 0
        self._due, self._rows_due = 0.0, _LOOK_ROWS
        self._lock = threading.Lock()

    # ---- the graph's thread ----------------------------------------------------------------------

    @contextmanager
    def step(self, activity: str) -> Iterator[None]:
        """Runs the body as one step. Steps within a step belong to it."""
        if self._began is not None:
            yield
            return
        self._begin(activity)
        try:
            yield
        finally:
            with self._lock:
                self._began, self._node = None, None

    def _begin(self, activity: str) -> None:
        with self._lock:
            self.activity = activity
            self.failure = None
            self._number += 1
            self._rows, self._rows_due = 0, _LOOK_ROWS
            self._began = self._since = self._clock()
            self._due = self._began + _LOOK_S
        self._spent.clear()
        self._nodes.clear()

    def enter(self, node: PhysicalNode) -> PhysicalNode | None:
        """Begins to run an operator; returns the one that waits meanwhile, for `leave`."""
        outer = self._node
        self._charge()
        self._node = self._nodes[node.id] = node
        return outer

    def leave(self, outer: PhysicalNode | None) -> None:
        """Ends the run of an operator; goes on with the one that `enter` returned."""
        self._charge()
        self._node = outer

    def _charge(self) -> None:
        now, node = self._clock(), self._node
        if node is not None:
            seconds = now - self._since
            self.seconds[node.id] += seconds
            self._spent[node.id] = self._spent.get(node.id, 0.0) + seconds
        self._since = now

    def check(self, rows: int = 0) -> None:
        """Raises StepInterrupted if the step must end. `rows`: that came out since the last
        call. Cheap: reads the clock."""
        self._rows += rows
        if self.failure is not None:
            raise StepInterrupted
        now = self._clock()
        if now >= self._due or self._rows >= self._rows_due:
            self._due, self._rows_due = now + _LOOK_S, self._rows + _LOOK_ROWS
            self._look(now)

    def _look(self, now: float) -> None:
        if self._limits is None:
            return
        self.failure = self.due_failure(now)
        if self.failure is None and (reasons := self._limits.measure()):
            self.failure = StepFailed(frozenset(reasons), next(iter(reasons.values())))
        if self.failure is not None:
            raise StepInterrupted

    def due_failure(self, now: float) -> Exception | None:
        """Why the running step must end: its time, or a request; None if it may go on. Any
        thread."""
        limits, view = self._limits, self.view()
        if limits is None or view is None:
            return None
        ended, shortest = limits.ended(view), limits.shortest()
        if ended is not None or shortest is None or view.seconds < shortest:
            return ended
        exceeded = dict(self._exceeded(limits, now))
        return self._timeout(limits, exceeded, now) if exceeded else None

    def _exceeded(self, limits: StepLimits, now: float) -> Iterator[tuple[str, float]]:
        """The jobs beyond their limit, with the seconds that they have taken in this step."""
        versions = self.versions()
        for job, seconds in self._seconds_by_job(now).items():
            timeout = limits.timeout_of(job, versions.get(job, 0))
            if timeout is not None and seconds >= timeout:
                yield job, seconds

    def _seconds_by_job(self, now: float) -> Mapping[str, float]:
        """The seconds of this step by job; operators of few jobs count for each of them."""
        seconds: defaultdict[str, float] = defaultdict(float)
        for name, taken in self._seconds_by_node(now).items():
            node = self._nodes.get(name)
            for job in node.jobs if node and len(node.jobs) <= _MAX_SHARERS else ():
                seconds[job] += taken
        return seconds

    def _seconds_by_node(self, now: float) -> dict[str, float]:
        spent, node = dict(self._spent), self._node
        if node is not None:
            spent[node.id] = spent.get(node.id, 0.0) + now - self._since
        return spent

    def _timeout(self, limits: StepLimits, exceeded: Mapping[str, float], now: float) -> StepFailed:
        """The failure of jobs that took too long, with the operator that took most."""
        job = max(exceeded, key=lambda name: exceeded[name])
        spent = self._seconds_by_node(now)
        slowest = max((n for n in spent if job in self._nodes[n].jobs), key=spent.__getitem__)
        limit = limits.timeout_of(job, self.versions().get(job, 0)) or 0.0
        return StepFailed(
            frozenset(exceeded),
            f"job '{job}' took {exceeded[job]:.1f} s in one step, '{STEP_TIMEOUT}' is {limit:g} s:"
            f" {describe(self._nodes[slowest])} took {spent[slowest]:.1f} s,"
            f" {self._rows:,} rows came out so far"
            f" (narrower windows or keys need less; SET '{STEP_TIMEOUT}' = '…' allows more)",
        )

    # ---- other threads ---------------------------------------------------------------------------

    def view(self) -> StepView | None:
        """The step that runs now; None between two steps."""
        with self._lock:
            began, node, number = self._began, self._node, self._number
        if began is None:
            return None
        seconds = self._clock() - began
        jobs = frozenset[str]() if node is None else node.jobs
        activity = self.activity if node is None else describe(node)
        return StepView(self.graph, number, seconds, activity, jobs, self._rows)


def describe(node: PhysicalNode) -> str:
    """The operation of a node for people: `GroupAggregate by host`."""
    return "the set of rules" if isinstance(node.plan, RulesPlan) else name_of(node.plan)
