"""What a job costs the graph that it shares with others, measured beside the stream, and when that
is too much."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sqlengine.broker.errors import TopicFull
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.jobs.isolation_settings import IsolationLimits
from sqlengine.jobs.job import Cause
from sqlengine.operators.rules import RulesOperator

# A sink is slow when so many of its commits in a minute are too long, or one of them is so many
# times too long.
_COMMITS, _MINUTE_S, _TIMES = 3, 60.0, 5
# Errors and cost are those of so long; so few dead letters are no trouble.
_WINDOW_S, _LETTERS = 10.0, 500
# What more jobs than that share is nobody's cost.
_SHARED_BY = 8


@dataclass(frozen=True)
class IsolationTrigger:
    """A job that should not share its graph, and why, for people."""

    job: str
    cause: Cause
    reason: str


@dataclass(frozen=True)
class _Reading:
    """What a graph had counted at a moment."""

    at: float
    rows: int
    letters: Counter[str]
    spent: dict[str, float]


@dataclass
class LoadMonitor:
    """Of one graph. `look` is called again and again; it takes what has happened in the last
    seconds."""

    graph: ManagedGraph
    _readings: deque[_Reading] = field(default_factory=deque)
    _jobs: dict[str, float] = field(default_factory=dict)  # seconds so far
    _spent: dict[str, float] = field(default_factory=dict)  # by node, when it was looked at last
    _tested: dict[RulesOperator, Counter[str]] = field(default_factory=dict)

    def look(
        self, now: float, limits: Callable[[str], IsolationLimits], parts: int = 1
    ) -> Iterator[IsolationTrigger]:
        """`now` by the clock of commits; `limits` of a job; `parts`: so many graphs share the
        thread in which it runs."""
        runner = self.graph.runner
        self._count()
        reading = _Reading(
            now, runner.progress.rows_in, Counter(dict(runner.progress.letters)), dict(self._jobs)
        )
        self._readings.append(reading)
        yield from self._full_sinks()
        yield from self._slow_sinks(now, limits)
        before = self._readings[0]
        if now - before.at >= _WINDOW_S:
            self._readings.popleft()
            yield from self._errors(before, reading, limits)
            yield from self._costs(before, reading, limits, parts)

    def _full_sinks(self) -> Iterator[IsolationTrigger]:
        """Those that wait for space where others have some: not on the broker's disk, but where a
        topic is as large as it may be. Each with its only job."""
        sinks = self.graph.runner.executor.plan.sinks
        for name, error in self.graph.runner.outputs.sinks_without_space().items():
            table = sinks[name].sink.table if name in sinks else None
            others = table is not None and (
                table.connector != "topic" or isinstance(error, TopicFull)
            )
            if table is not None and others and len(sinks[name].jobs) == 1:
                (job,) = sinks[name].jobs
                yield IsolationTrigger(
                    job, Cause.SINK, f"sink '{table.display}' waits: {error.message}"
                )

    def _slow_sinks(
        self, now: float, limits: Callable[[str], IsolationLimits]
    ) -> Iterator[IsolationTrigger]:
        runner = self.graph.runner
        recent = [c for c in list(runner.progress.commits) if now - c.at <= _MINUTE_S]
        for name in dict.fromkeys(c.sink for c in recent):
            sink = runner.executor.plan.sinks.get(name)
            for job in sorted(sink.jobs) if sink is not None else ():
                least = limits(job).commit_s
                slow = [c.seconds for c in recent if c.sink == name and c.seconds >= least]
                if (
                    sink is not None
                    and slow
                    and (len(slow) >= _COMMITS or max(slow) >= _TIMES * least)
                ):
                    table = sink.sink.table
                    what = (
                        f"sink '{table.display if table is not None else name}' took"
                        f" {max(slow):.1f} s to commit"
                    )
                    often = (
                        ""
                        if len(slow) == 1
                        else f", {len(slow)} times in a minute it took {least:g} s or more"
                    )
                    yield IsolationTrigger(job, Cause.SINK, what + often)

    def _errors(
        self, before: _Reading, after: _Reading, limits: Callable[[str], IsolationLimits]
    ) -> Iterator[IsolationTrigger]:
        rows = after.rows - before.rows
        for job, number in (after.letters - before.letters).items():
            if (
                number >= _LETTERS
                and job in self.graph.runner.jobs
                and number >= limits(job).error_rate * rows
            ):
                seconds = after.at - before.at
                yield IsolationTrigger(
                    job,
                    Cause.ERRORS,
                    f"{number:,} errors in {rows:,} rows that were read in {seconds:.0f} s",
                )

    def _costs(
        self,
        before: _Reading,
        after: _Reading,
        limits: Callable[[str], IsolationLimits],
        parts: int,
    ) -> Iterator[IsolationTrigger]:
        seconds = after.at - before.at
        for job, total in after.spent.items():
            spent = total - before.spent.get(job, 0.0)
            if job in self.graph.runner.jobs and parts * spent >= limits(job).cost * seconds:
                whose = "their graph's" if parts == 1 else f"one of {parts} parts that share a"
                yield IsolationTrigger(
                    job,
                    Cause.COST,
                    f"its operators took {spent:.1f} of {seconds:.0f} s of {whose} time",
                )

    def _count(self) -> None:
        """Adds to the jobs what the nodes have taken since."""
        spent = dict(self.graph.executor.seconds)
        for name, total in spent.items():
            node = self.graph.executor.running.get(name)
            seconds = total - self._spent.get(name, 0.0)
            if node is None or seconds <= 0:
                continue
            if isinstance(node.operator, RulesOperator):
                self._share_rules(node.operator, seconds)
            elif len(node.node.jobs) <= _SHARED_BY:
                for job in node.node.jobs:
                    self._charge(job, seconds / len(node.node.jobs))
        self._spent = spent
        operators = [n.operator for n in list(self.graph.executor.running.values())]
        running = {operator for operator in operators if isinstance(operator, RulesOperator)}
        self._tested = {
            operator: tested for operator, tested in self._tested.items() if operator in running
        }

    def _charge(self, job: str, seconds: float) -> None:
        self._jobs[job] = self._jobs.get(job, 0.0) + seconds

    def _share_rules(self, operator: RulesOperator, seconds: float) -> None:
        """By the rows that each rule had to be evaluated for, one by one: what an index answers
        costs nothing to speak of."""
        tested = Counter(dict(operator.tested))
        new = tested - self._tested.get(operator, Counter())
        self._tested[operator] = tested
        for rule, rows in new.items():
            planned = operator.compiled.plan.rules.get(rule)
            for job in planned.owners if planned is not None else ():
                self._charge(job, seconds * rows / new.total())
