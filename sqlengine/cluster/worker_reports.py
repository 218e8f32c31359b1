"""What the leader of a divided graph has heard of its instances."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass

from sqlengine.cluster.control_log import Answer, Done, InstanceReport, Problem, SubtaskReport

# Who does anything reports every second.
_FRESH_MS = 3000


@dataclass(frozen=True)
class Totals:
    """What all instances have done since the server started; `jobs`, `sinks`: rows by job and by
    the id of the sink; `letters`: dead letters by job."""

    jobs: Counter[str]
    sinks: Counter[str]
    letters: Counter[str]
    rows_in: int
    epochs: int
    dead_letters: int


class WorkerReports:
    """Written by the leader's thread, read by all. An instance that starts again counts from 0:
    what its former life did stays. `promise` makes what others wait for."""

    def __init__(self, promise: Callable[[], Future[object]]) -> None:
        self._lock = threading.Lock()
        self._promise = promise
        self._news = promise()
        self._answers: dict[int, dict[str, Problem | None]] = {}
        self._done: dict[int, dict[int, Done]] = {}
        self._latest: dict[str, InstanceReport] = {}
        self._rates: dict[str, float] = {}
        self._before: list[InstanceReport] = []

    def record_report(self, report: InstanceReport) -> None:
        with self._lock:
            held = self._latest.get(report.instance)
            if held is not None and held.pid != report.pid:
                self._before = [_sum([*self._before, held])]
            same = held is not None and held.pid == report.pid
            seconds = (report.now_ms - (held.now_ms if held and same else report.since_ms)) / 1000
            rows = report.rows_in - (held.rows_in if held and same else 0)
            self._rates[report.instance] = rows / seconds if seconds > 0 else 0.0
            self._latest[report.instance] = report

    def record_ack(self, answer: Answer) -> None:
        with self._lock:
            for old in [n for n in self._answers if n < answer.number]:
                del self._answers[old]
            self._answers.setdefault(answer.number, {})[answer.instance] = answer.problem
        self._wake()

    def acks(self, number: int, timeout_s: float) -> dict[str, Problem | None]:
        """The answers to a change so far, by instance; waits for the next one at most so long."""
        self._wait(timeout_s)
        with self._lock:
            return dict(self._answers.get(number, {}))

    def record_done(self, done: Done) -> None:
        with self._lock:
            for old in [n for n in self._done if n < done.number]:
                del self._done[old]
            self._done.setdefault(done.number, {})[done.part] = done
        self._wake()

    def done(self, number: int, timeout_s: float) -> dict[int, Done]:
        """What parts have done so far of what an entry asks; waits for the next one at most so
        long."""
        self._wait(timeout_s)
        with self._lock:
            return dict(self._done.get(number, {}))

    def _wake(self) -> None:
        news, self._news = self._news, self._promise()
        news.set_result(None)

    def _wait(self, timeout_s: float) -> None:
        """Until there is an answer, or something was done."""
        with suppress(TimeoutError):
            self._news.result(timeout_s)

    def latest(self) -> dict[str, InstanceReport]:
        """The last report of each instance."""
        with self._lock:
            return dict(self._latest)

    def rate(self, instance: str, now_ms: int) -> float:
        """Rows a second that it read between its last two reports; 0 where it has nothing to
        report."""
        held = self._latest.get(instance)
        fresh = held is not None and now_ms - held.now_ms <= _FRESH_MS
        return self._rates.get(instance, 0.0) if fresh else 0.0

    def subtasks(self) -> dict[int, SubtaskReport]:
        """The last report of each part."""
        reports = sorted(self.latest().values(), key=lambda r: r.now_ms)
        return {index: part for report in reports for index, part in report.parts.items()}

    def totals(self) -> Totals:
        with self._lock:
            total = _sum([*self._before, *self._latest.values()])
        jobs, sinks, letters = map(Counter, (total.jobs, total.sinks, total.letters))
        return Totals(jobs, sinks, letters, total.rows_in, total.epochs, total.dead_letters)


def _sum(reports: list[InstanceReport]) -> InstanceReport:
    jobs: Counter[str] = Counter()
    sinks: Counter[str] = Counter()
    letters: Counter[str] = Counter()
    for report in reports:
        letters.update(report.letters)
        jobs.update(report.jobs)
        sinks.update(report.sinks)
    return InstanceReport(
        "",
        0,
        0,
        0,
        {},
        dict(jobs),
        dict(sinks),
        sum(r.rows_in for r in reports),
        sum(r.epochs for r in reports),
        sum(r.dead_letters for r in reports),
        letters=dict(letters),
    )
