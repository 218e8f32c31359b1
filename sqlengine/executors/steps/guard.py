"""Watches the steps of one graph: a step is the work of one epoch, from its rows to its commits.

The graph's thread says which operator runs, and asks at every slice of output whether it must end.
Other threads see what it does (`view`). The clock ends a step or lets it
run; it never decides what an epoch contains, because a step that is ended is repeated as a whole.
"""

from __future__ import annotations

import textwrap
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from types import MappingProxyType
from typing import Final

from planner.graph.physical import PhysicalNode
from planner.graph.rule_sets import RulesPlan
from planner.wording import named
from sqlengine.executors.failures import FamilyFailed, StepEnded, StepFailed
from sqlengine.executors.measures.own_seconds import OwnSeconds
from sqlengine.executors.steps.answers import NEVER, SlowAnswers, asked_table
from sqlengine.system.interrupts import Interrupts

# The setting of a job, and the seconds of its default.
STEP_TIMEOUT: Final = "job.step-timeout"
# Seconds between two looks at the limits.
_LOOK_S: Final = 0.1
# Rows of output between two measurements of memory.
_LOOK_ROWS: Final = 1 << 16
# A node that more jobs share is charged to none of them: one that left would read all rows once
# more, and wait for the same table as those that stay. A set of rules is charged to those alone
# whose own expressions it computes.
MAX_SHARERS: Final = 8
_SHOWN: Final = 70  # characters of an operation
_NOBODY: Final[Mapping[str, int]] = MappingProxyType({})


class StepInterrupted(BaseException):
    """Unwinds a step that must end. `StepGuard.failure` says why.

    A BaseException, because operators and functions turn any Exception into an error of a row."""


@dataclass(frozen=True)
class StepView:
    """A step that runs now.

    `activity`: what it is doing, for people. `jobs`: the jobs of the operator that runs, none
    outside of operators. `rows`: the rows that operators have put out in this step. `part`: of a
    graph that runs in parts, None for any other. `patience`: how many times the seconds that steps
    are given elsewhere."""

    graph: str
    number: int
    seconds: float
    activity: str
    jobs: frozenset[str]
    rows: int
    part: int | None = None
    patience: float = 1.0

    def lasts(self, seconds: float) -> bool:
        """True if the step takes longer than so many seconds, times its patience."""
        return self.seconds >= seconds * self.patience

    def __str__(self) -> str:
        """The step for people, as in `graph 'main' is in one step for 12 s: Join of job 'hog'`."""
        whose = ", ".join(map(repr, sorted(self.jobs)[:3])) + (", …" if len(self.jobs) > 3 else "")
        jobs = f" of job {whose}" if len(self.jobs) == 1 else f" of jobs {whose}" if whose else ""
        where = "" if self.part is None else f"part {self.part} of "
        return (
            f"{where}graph '{self.graph}' is in one step for {self.seconds:.0f} s:"
            f" {self.activity}{jobs}"
        )


@dataclass(frozen=True)
class StepLimits:
    """The limits of a graph's steps.

    `timeout_of` returns the seconds that the operators of a job's version may take in one step,
    None for any; `shortest` a lower bound of all of them. `ended` returns why a step must end that
    nobody is at fault for. `patience_of` returns the seconds that others may wait in one step for
    the answers of a table that a version asks."""

    timeout_of: Callable[[str, int], float | None]
    shortest: Callable[[], float | None]
    ended: Callable[[StepView], StepEnded | None]
    patience_of: Callable[[str, int], float] = lambda job, version: NEVER


class StepGuard:
    """The guard of one graph's steps; without `limits` it only watches.

    `step` to `check` belong to the graph's thread, the other methods to any. `versions` returns the
    running version of each job, `graph_version` that of the graph, `measure` why its memory ends a
    step. `seconds`: time of each operator by node, with that of handing its rows on, without that
    of the nodes behind it; `own`: the parts of it that are of single jobs. `activity`: what the
    step does while no operator runs. `failure`: why
    the step was ended. `abandoned`: nobody waits for it any more. `now`: the monotonic clock, in s.
    `cut_short` ends a call outside of this process in which the step is, so that it comes back.
    `rest` lets others go before, at a slice of output.
    `patience`: see `StepView`. `answers`: of tables that are asked, those that took long.

    `interrupts` are permitted while the thread runs code of an operator, which may be interrupted
    anywhere: the memory of the graph is thrown away then. Nothing else may be, above all no
    sink."""

    def __init__(
        self,
        graph: str = "",
        limits: StepLimits | None = None,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self.graph = graph
        self.activity = ""
        self.failure: Exception | None = None
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.own = OwnSeconds()
        self.answers = SlowAnswers()
        self.abandoned = False
        self.versions: Callable[[], Mapping[str, int]] = dict
        self.graph_version: Callable[[], int] = int
        self.measure: Callable[[StepView], Exception | None] | None = None
        self.cut_short: Callable[[], None] = lambda: None
        self.rest: Callable[[], None] = lambda: None
        self.patience = 1.0
        self._limits = limits
        self.now = now
        self._number = 0
        self._began: float | None = None
        self._node: PhysicalNode | None = None
        self._since = 0.0
        # Of this step, by node.
        self._spent: dict[str, float] = {}
        self._nodes: dict[str, PhysicalNode] = {}
        self._own: Mapping[str, int] = _NOBODY
        self._own_since = 0.0
        self._own_spent: defaultdict[str, float] = defaultdict(float)
        # The jobs for which something outside of this process works, and since when.
        self._called: frozenset[str] = frozenset()
        self._called_since = 0.0
        self._rows = 0
        self._due = self._measure_due = 0.0
        self._measured_rows = 0
        self._lock = threading.Lock()
        self.interrupts = Interrupts(StepInterrupted)

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
            self.answers.note(self._spent, self._nodes, self.now())
        finally:
            with self._lock:
                self._began, self._node = None, None
            self.interrupts.end()

    def _begin(self, activity: str) -> None:
        with self._lock:
            self.activity, self._called = activity, frozenset()
            self.failure = None
            self.interrupts.begin()
            self._number += 1
            self._rows = self._measured_rows = 0
            self._began = self._since = self.now()
            self._due = self._began + _LOOK_S
        self._spent.clear()
        self._nodes.clear()
        self._own_spent.clear()

    def enter(self, node: PhysicalNode) -> PhysicalNode | None:
        """Begins to run an operator; returns the one that waits meanwhile, for `leave`."""
        outer = self._node
        self._charge()
        self._node = self._nodes[node.id] = node
        self.interrupts.permit()
        return outer

    def leave(self, outer: PhysicalNode | None) -> None:
        """Ends the run of an operator; goes on with the one that `enter` returned."""
        self.interrupts.forbid()
        self._charge()
        self._node = outer

    def charge(self, rows: Mapping[str, int]) -> None:
        """Says whose own expressions a set of rules computes from now on, with the rows of each
        job; none: those of all."""
        now, node = self.now(), self._node
        if self._own and node is not None:
            spent = now - self._own_since
            self.own.add(node.id, self._own, spent)
            for job in self._own if _is_shared_by_many(node) else ():
                self._own_spent[job] += spent
        self._own, self._own_since = rows, now

    def wrote(self, rows: Mapping[str, int], began: float) -> None:
        """Says whose rows a sink has taken since `began`, by job."""
        self.own.add("" if self._node is None else self._node.id, rows, self.now() - began)

    def emitted(self, rows: int) -> None:
        """Checks the step at a slice of output, which is handed on before `resume`."""
        self.interrupts.forbid()
        self._rows += rows
        self.check()
        self.rest()
        # Not in `check`, where an operator may be half-way in its tables.
        if self.measure is not None and self._measured_rows + _LOOK_ROWS <= self._rows:
            self._measure(self.measure)

    def resume(self) -> None:
        """Goes back to the operator, which puts out its next slice."""
        self.interrupts.permit()

    def _charge(self) -> None:
        now, node = self.now(), self._node
        if node is not None:
            seconds = now - self._since
            self.seconds[node.id] += seconds
            self._spent[node.id] = self._spent.get(node.id, 0.0) + seconds
        self._since = now
        if self._own:
            self.charge(_NOBODY)

    def timeouts(self) -> dict[str, float]:
        """Returns the timeout (s) of each running job that has one."""
        if self._limits is None:
            return {}
        of = {job: self._limits.timeout_of(job, v) for job, v in self.versions().items()}
        return {job: seconds for job, seconds in of.items() if seconds is not None}

    @property
    def operator_seconds(self) -> float:
        """The seconds that operators have taken in the running step, or in the last one."""
        return sum(self._spent.values())

    def tell(self, activity: str, jobs: frozenset[str] = frozenset()) -> None:
        """Says what the step does outside of operators, and for which jobs, where that is all that
        their operators do."""
        self.activity, self._called, self._called_since = activity, jobs, self.now()

    def check(self) -> None:
        """Raises StepInterrupted if the step must end. Cheap: reads the clock."""
        if self.interrupts.asked:
            raise StepInterrupted
        now = self.now()
        if now >= self._due:
            self._due = now + _LOOK_S
            self._end_with(self.failure or self.due_failure())

    def _measure(self, measure: Callable[[StepView], Exception | None]) -> None:
        """Measures the memory of the step; for a tenth of its time at most."""
        now, view = self.now(), self.view()
        if view is not None and now >= self._measure_due:
            self._measured_rows = self._rows
            failure = measure(view)
            ended = self.now()
            self._measure_due = ended + 10 * (ended - now)
            self._end_with(failure)

    def _end_with(self, failure: Exception | None) -> None:
        self.failure = failure
        if failure is not None:
            raise StepInterrupted

    def due_failure(self) -> Exception | None:
        """Why the running step must end: its time, or a request; None if it may go on."""
        limits, view, now = self._limits, self.view(), self.now()
        if limits is None or view is None:
            return None
        ended, shortest = limits.ended(view) or self._held_up(limits, now), limits.shortest()
        if ended is not None or shortest is None or view.seconds < shortest:
            return ended
        if (family := self._slow_family(shortest, now)) is not None:
            return family
        exceeded = dict(self._exceeded(limits, now))
        return self._timeout(limits, exceeded, now) if exceeded else None

    def _held_up(self, limits: StepLimits, now: float) -> StepEnded | None:
        """Returns why a step ends in which others wait too long for a table that few jobs ask."""
        node = self._node
        table = None if node is None else asked_table(node)
        versions = self.versions()
        if node is None or table is None or len(node.jobs) > MAX_SHARERS:
            return None
        if versions.keys() <= node.jobs:
            return None
        seconds = self._seconds_by_node(now).get(node.id, 0.0)
        if seconds < max((limits.patience_of(j, versions.get(j, 0)) for j in node.jobs), default=0):
            return None
        why = f"table '{table}' has not answered for {seconds:.1f} s, and other jobs wait"
        return StepEnded(f"{why}; it goes on apart from them", node.jobs, lasting=False)

    def _slow_family(self, shortest: float, now: float) -> FamilyFailed | None:
        """Returns the failure of a family that took longer in this step than a job of it may."""
        for name, seconds in self._seconds_by_node(now).items():
            node = self._nodes.get(name)
            if node is not None and node.family is not None and seconds >= shortest:
                reason = f"{describe(node)} of {len(node.jobs)} jobs took {seconds:.1f} s"
                return FamilyFailed(node.family, f"{reason} in one step")
        return None

    def _exceeded(self, limits: StepLimits, now: float) -> Iterator[tuple[str, float]]:
        """The jobs beyond their limit, with the seconds that they have taken in this step."""
        versions = self.versions()
        for job, seconds in self._seconds_by_job(now).items():
            timeout = limits.timeout_of(job, versions.get(job, 0))
            if timeout is not None and seconds >= timeout:
                yield job, seconds

    def _seconds_by_job(self, now: float) -> Mapping[str, float]:
        """The seconds of this step by job; an operator counts for each job that shares it."""
        seconds: defaultdict[str, float] = defaultdict(float)
        for name, taken in self._seconds_by_node(now).items():
            node = self._nodes.get(name)
            for job in node.jobs if node and not _is_shared_by_many(node) else ():
                seconds[job] += taken
        for job, taken in dict(self._own_spent).items():
            seconds[job] += taken
        since = self._own_since
        for job in self._limited():
            seconds[job] += now - since
        if len(called := self._called) == 1:  # of several nobody knows which
            seconds[next(iter(called))] += now - self._called_since
        return seconds

    def _limited(self) -> frozenset[str]:
        """The jobs whose own expressions count for their limits now."""
        own, node = self._own, self._node
        shared = node is not None and _is_shared_by_many(node)
        return frozenset(own) if shared else frozenset()

    def _seconds_by_node(self, now: float) -> dict[str, float]:
        spent, node = dict(self._spent), self._node
        if node is not None:
            spent[node.id] = spent.get(node.id, 0.0) + now - self._since
        return spent

    def _timeout(self, limits: StepLimits, exceeded: Mapping[str, float], now: float) -> StepFailed:
        """The failure of jobs that took too long, with the operator that took most."""
        job = max(exceeded, key=lambda name: exceeded[name])
        spent = self._seconds_by_node(now)
        nodes = (n for n in spent if job in self._nodes[n].jobs)
        slowest = max(nodes, key=spent.__getitem__, default=None)
        most = (
            "a job on Spark took it"
            if slowest is None
            else f"{describe(self._nodes[slowest])} took {spent[slowest]:.1f} s"
        )
        limit = limits.timeout_of(job, self.versions().get(job, 0)) or 0.0
        many = f"{len(exceeded)} jobs that share operators"
        whose = f"job '{job}'" if len(exceeded) == 1 else many
        return StepFailed(
            frozenset(exceeded),
            f"{whose} took {exceeded[job]:.1f} s in one step, '{STEP_TIMEOUT}' is {limit:g} s:"
            f" {most}, {self._rows:,} rows came out so far"
            f" (narrower windows or keys need less; SET '{STEP_TIMEOUT}' = '…' allows more)",
        )

    # ---- other threads ---------------------------------------------------------------------------

    def view(self) -> StepView | None:
        """The step that runs now; None between two steps."""
        with self._lock:
            began, node, number = self._began, self._node, self._number
        if began is None:
            return None
        seconds = self.now() - began
        jobs = self._called if node is None else self._limited() or node.jobs
        activity = self.activity if node is None else describe(node)
        rows, patience = self._rows, self.patience
        return StepView(self.graph, number, seconds, activity, jobs, rows, patience=patience)

    @property
    def working(self) -> bool:
        """True while the graph's thread is in a step."""
        return self._began is not None

    @property
    def stuck(self) -> bool:
        """True while the graph's thread is in an operator that was interrupted, and has not come
        back from a call since."""
        return self.abandoned and self.interrupts.permitted

    def throw(self, number: int, failure: Exception) -> None:
        """Ends step `number`, also within an operator that puts out nothing and asks for nothing:
        at the next instruction of its Python code. A call into a library is not cut short, one of
        another program is."""
        with self._lock:
            if self._began is not None and self._number == number:
                self.failure = self.failure or failure
                self.interrupts.ask()
                self.cut_short()


def _is_shared_by_many(node: PhysicalNode) -> bool:
    """True for a set of rules of many jobs, whose time is that of all its conditions, and for a
    family, which is taken apart first."""
    return node.family is not None or (
        isinstance(node.plan, RulesPlan) and len(node.jobs) > MAX_SHARERS
    )


def describe(node: PhysicalNode) -> str:
    """The operation of a node for people: `GroupAggregate by host`."""
    if isinstance(node.plan, RulesPlan):
        return "the set of rules"
    return textwrap.shorten(named(node.plan), _SHOWN, placeholder=" …")
