"""Measures what each job costs a graph that it shares, and finds jobs that should be isolated."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlengine.broker.errors import TopicFull
from sqlengine.connectors.base import Unanswered
from sqlengine.connectors.registry import declared_capabilities
from sqlengine.executors.measures.node_shares import NodeShares
from sqlengine.executors.steps.answers import SLOW_FACTOR, asked_table
from sqlengine.executors.steps.guard import MAX_SHARERS
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.jobs.isolation_settings import IsolationLimits
from sqlengine.jobs.job import Cause

LimitsOf: TypeAlias = Callable[[str], IsolationLimits]

# A table is slow if this many of its commits, or answers, in _SLOW_WINDOW_S exceed the limit, or if
# one of them exceeds it by `SLOW_FACTOR`.
_SLOW_TIMES, _SLOW_WINDOW_S = 3, 60.0
# Errors and cost are measured over this window; fewer dead letters than this never count.
_WINDOW_S, _MIN_LETTERS = 10.0, 500


@dataclass(frozen=True)
class IsolationTrigger:
    """A job that should leave the graph it shares, and why, for people."""

    job: str
    cause: Cause
    reason: str


@dataclass(frozen=True)
class _Reading:
    """The totals of a graph at a moment: rows read, dead letters and operator seconds by job."""

    at: float
    rows: int
    letters: Counter[str]
    spent: dict[str, float]


@dataclass
class LoadMonitor:
    """Measures one graph. `triggers` must be called regularly: it evaluates the last seconds."""

    graph: ManagedGraph
    _readings: deque[_Reading] = field(default_factory=deque)
    _job_seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._shares = NodeShares(self.graph.executor)

    def triggers(
        self, now: float, limits: LimitsOf, sharing_thread: int = 1
    ) -> Iterator[IsolationTrigger]:
        """Yields the jobs that should be isolated.

        `now`: in s by the clock of commits; `limits`: of a job; `sharing_thread`: how many
        subtasks share the thread in which the graph runs."""
        progress = self.graph.runner.progress
        self._charge_jobs()
        reading = _Reading(
            now, progress.rows_in, Counter(dict(progress.letters)), dict(self._job_seconds)
        )
        self._readings.append(reading)
        yield from self._full_sinks()
        yield from self._slow_sinks(now, limits)
        yield from self._slow_tables(now, limits)
        # A sliding window: the oldest reading goes once it is old enough to be compared with.
        before = self._readings[0]
        if now - before.at >= _WINDOW_S:
            self._readings.popleft()
            yield from self._errors(before, reading, limits)
            yield from self._costs(before, reading, limits, sharing_thread)

    def _full_sinks(self) -> Iterator[IsolationTrigger]:
        """Yields the only job of each sink that waits for space of its own.

        A topic waits for the disk of the broker, which all jobs share, unless the topic itself has
        reached its maximum size."""
        sinks = self.graph.runner.executor.plan.sinks
        for name, error in self.graph.runner.outputs.uncommitted.sinks_without_space().items():
            table = sinks[name].sink.table if name in sinks else None
            own_space = table is not None and (
                not declared_capabilities(table).on_broker or isinstance(error, TopicFull)
            )
            answers = not isinstance(error, Unanswered)  # it fails soon, and could not move
            if table is not None and answers and own_space and len(sinks[name].jobs) == 1:
                (job,) = sinks[name].jobs
                yield IsolationTrigger(
                    job, Cause.SINK, f"sink '{table.display}' waited: {error.reason}"
                )

    def _slow_sinks(self, now: float, limits: LimitsOf) -> Iterator[IsolationTrigger]:
        """Yields the jobs of sinks whose commits took too long."""
        runner = self.graph.runner
        sinks, recent = dict(runner.executor.plan.sinks), dict[str, list[float]]()
        for commit in list(runner.progress.commits):
            if now - commit.at <= _SLOW_WINDOW_S:
                recent.setdefault(commit.sink, []).append(commit.seconds)
        writers: dict[str, set[str]] = {}
        for name, sink in sinks.items() if recent else ():
            table = sink.sink.table
            writers.setdefault(table.display if table is not None else name, set()).update(
                sink.jobs
            )
        for name, durations in recent.items():
            if name not in sinks:
                continue
            sink = sinks[name]
            table = sink.sink.table
            display = table.display if table is not None else name
            if len(writers[display]) > MAX_SHARERS:
                continue
            for job in sorted(sink.jobs):
                what = f"sink '{display}' took {{}} to commit"
                reason = _slowness(what, durations, limits(job).commit_s)
                if reason is not None:
                    yield IsolationTrigger(job, Cause.SINK, reason)

    def _slow_tables(self, now: float, limits: LimitsOf) -> Iterator[IsolationTrigger]:
        """Yields the jobs that ask tables for rows whose answers took too long."""
        found: dict[tuple[str, str], list[float]] = {}
        for answer in list(self.graph.executor.guard.answers.last):
            if now - answer.at <= _SLOW_WINDOW_S and len(answer.node.jobs) <= MAX_SHARERS:
                display = asked_table(answer.node) or ""
                for job in sorted(answer.node.jobs):
                    found.setdefault((job, display), []).append(answer.seconds)
        for (job, display), durations in found.items():
            if job in self.graph.runner.jobs:
                what = f"table '{display}' took {{}} to answer"
                reason = _slowness(what, durations, limits(job).lookup_s)
                if reason is not None:
                    yield IsolationTrigger(job, Cause.LOOKUP, reason)

    def _errors(
        self, before: _Reading, after: _Reading, limits: LimitsOf
    ) -> Iterator[IsolationTrigger]:
        """Yields the jobs with too many dead letters for the rows read."""
        rows = after.rows - before.rows
        for job, number in (after.letters - before.letters).items():
            if (
                number >= _MIN_LETTERS
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
        self, before: _Reading, after: _Reading, limits: LimitsOf, sharing_thread: int
    ) -> Iterator[IsolationTrigger]:
        """Yields the jobs whose operators took too much of the graph's time."""
        seconds = after.at - before.at
        for job, total in after.spent.items():
            spent = total - before.spent.get(job, 0.0)
            if job not in self.graph.runner.jobs:
                continue
            if sharing_thread * spent >= limits(job).cost * seconds:
                alone = sharing_thread == 1
                whose = "their graph's" if alone else f"one of {sharing_thread} parts that share a"
                yield IsolationTrigger(
                    job,
                    Cause.COST,
                    f"its operators took {spent:.1f} of {seconds:.0f} s of {whose} time",
                )

    def _charge_jobs(self) -> None:
        """Adds the seconds that nodes took since the last reading to their jobs."""
        for node, own, rest in self._shares.take():
            parts = dict(own)
            if node is not None and len(node.node.jobs) <= MAX_SHARERS:
                for job in node.node.jobs:
                    parts[job] = parts.get(job, 0.0) + rest / len(node.node.jobs)
            for job, seconds in parts.items():
                self._job_seconds[job] = self._job_seconds.get(job, 0.0) + seconds


def _slowness(what: str, durations: list[float], limit_s: float) -> str | None:
    """Returns why a table is slow by what it took recently, in s; None if it is not. `what`: a
    sentence with a place for the longest."""
    slow = [seconds for seconds in durations if seconds >= limit_s]
    if not slow or (len(slow) < _SLOW_TIMES and max(slow) < SLOW_FACTOR * limit_s):
        return None
    reason = what.format(f"{max(slow):.1f} s")
    if len(slow) == 1:
        return reason
    return f"{reason}, {len(slow)} times in a minute it took {limit_s:g} s or more"
