"""The reports of instances, as the leader of a distributed graph knows them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass

from sqlengine.cluster.control_log import (
    Answer,
    Done,
    InstanceReport,
    LongStep,
    LongSteps,
    Problem,
    SubtaskReport,
)
from sqlengine.executors.job_counts import JobCounts, add_counts, raise_counts

# A busy instance reports every second: an older report says that it is idle.
_FRESH_MS = 3000


@dataclass(frozen=True)
class Totals:
    """Totals of all instances since the server started. `sinks`: rows by the id of the sink;
    `letters`: dead letters by job."""

    sinks: Counter[str]
    letters: Counter[str]
    rows_in: int
    epochs: int
    dead_letters: int


class WorkerReports:
    """Collects reports: one thread records them, any thread reads them.

    An instance that is restarted counts from 0; the totals of its former process are kept.
    `promise` makes the future on which readers wait."""

    def __init__(self, promise: Callable[[], Future[object]]) -> None:
        self._lock = threading.Lock()
        self._promise = promise
        self._recorded = promise()
        self._acks: dict[int, dict[str, Problem | None]] = {}
        self._done: dict[int, dict[int, Done]] = {}
        self._latest: dict[str, InstanceReport] = {}
        self._rates: dict[str, float] = {}
        self._counts: dict[int, dict[str, JobCounts]] = {}  # by subtask
        self._ended: list[InstanceReport] = []  # at most one: the sum of ended processes
        self._long_steps: dict[str, LongSteps] = {}  # by instance
        self.slow_steps = 0  # since the server started

    def record_report(self, report: InstanceReport) -> None:
        """Records the periodic report of an instance, and its rate since the one before."""
        with self._lock:
            last = self._latest.get(report.instance)
            if last is not None and last.pid != report.pid:
                # Another process under the same name counts from 0: what the former one counted
                # must not be lost.
                self._ended = [_sum([*self._ended, last])]
                last = None
            seconds = (report.now_ms - (last.now_ms if last else report.since_ms)) / 1000
            rows = report.rows_in - (last.rows_in if last else 0)
            self._rates[report.instance] = rows / seconds if seconds > 0 else 0.0
            self._latest[report.instance] = report
            for index, subtask in report.subtasks.items():
                # A subtask that is being recovered reports less than it has reported before.
                known = self._counts.get(index, {})
                self._counts[index] = raise_counts(subtask.counts, known)

    def record_long_steps(self, report: LongSteps) -> None:
        """Records the long steps that an instance is in."""
        with self._lock:
            last = self._long_steps.get(report.instance)
            known = {(last.pid, s.part, s.number) for s in last.steps} if last else set()
            now = {(report.pid, s.part, s.number) for s in report.steps}
            self.slow_steps += len(now - known)
            self._long_steps[report.instance] = report

    def long_steps(self, living: Collection[str]) -> list[LongStep]:
        """Returns the long steps that the living instances are in, the longest first."""
        with self._lock:
            reports = [r for name, r in self._long_steps.items() if name in living]
        steps = [step for report in reports for step in report.steps]
        return sorted(steps, key=lambda step: -step.seconds)

    def record_ack(self, ack: Answer) -> None:
        """Records that an instance has prepared a change, or why it cannot."""
        with self._lock:
            for old in [n for n in self._acks if n < ack.number]:
                del self._acks[old]
            self._acks.setdefault(ack.number, {})[ack.instance] = ack.problem
        self._wake()

    def acks(self, number: int, timeout_s: float) -> dict[str, Problem | None]:
        """Returns the acknowledgements of a change so far, by instance; waits at most `timeout_s`
        for the next one."""
        self._wait(timeout_s)
        with self._lock:
            return dict(self._acks.get(number, {}))

    def record_done(self, done: Done) -> None:
        """Records that a subtask has done what a control entry requests."""
        with self._lock:
            for old in [n for n in self._done if n < done.number]:
                del self._done[old]
            self._done.setdefault(done.number, {})[done.subtask] = done
        self._wake()

    def done(self, number: int, timeout_s: float) -> dict[int, Done]:
        """Returns the subtasks that have done what entry `number` requests; waits at most
        `timeout_s` for the next one."""
        self._wait(timeout_s)
        with self._lock:
            return dict(self._done.get(number, {}))

    def _wake(self) -> None:
        # The next future first: a waiter that wakes up and waits again must not get the resolved
        # one.
        recorded, self._recorded = self._recorded, self._promise()
        recorded.set_result(None)

    def _wait(self, timeout_s: float) -> None:
        """Waits until something is recorded, at most `timeout_s`."""
        with suppress(TimeoutError):
            self._recorded.result(timeout_s)

    def latest(self) -> dict[str, InstanceReport]:
        """Returns the last report of each instance."""
        with self._lock:
            return dict(self._latest)

    def rate(self, instance: str, now_ms: int) -> float:
        """Returns rows per second between the last two reports of an instance; 0 if it is idle."""
        last = self._latest.get(instance)
        fresh = last is not None and now_ms - last.now_ms <= _FRESH_MS
        return self._rates.get(instance, 0.0) if fresh else 0.0

    def subtasks(self) -> dict[int, SubtaskReport]:
        """Returns the last report of each subtask."""
        # Oldest first: of a subtask that has moved, the report of its present owner overwrites the
        # other.
        reports = sorted(self.latest().values(), key=lambda r: r.now_ms)
        return {index: report for r in reports for index, report in r.subtasks.items()}

    def counts(self) -> dict[str, JobCounts]:
        """Returns what each job has done in all subtasks."""
        with self._lock:
            return add_counts(self._counts.values())

    def totals(self) -> Totals:
        """Returns the totals of all instances, including processes that have ended."""
        with self._lock:
            total = _sum([*self._ended, *self._latest.values()])
        sinks, letters = map(Counter, (total.sinks, total.letters))
        return Totals(sinks, letters, total.rows_in, total.epochs, total.dead_letters)


def _sum(reports: list[InstanceReport]) -> InstanceReport:
    """Returns the totals of several reports as one that belongs to no instance."""
    sinks: Counter[str] = Counter()
    letters: Counter[str] = Counter()
    for report in reports:
        letters.update(report.letters)
        sinks.update(report.sinks)
    return InstanceReport(
        instance="",
        pid=0,
        since_ms=0,
        now_ms=0,
        subtasks={},
        sinks=dict(sinks),
        rows_in=sum(r.rows_in for r in reports),
        epochs=sum(r.epochs for r in reports),
        dead_letters=sum(r.dead_letters for r in reports),
        letters=dict(letters),
    )
