"""The costs of a graph's jobs: the time of their operators, and of what all of them need."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.measures.growth import Growth
from sqlengine.executors.measures.node_shares import NodeShares
from sqlengine.executors.progress import Progress


@dataclass(frozen=True)
class JobCost:
    """The cost of a job. `seconds`: time of its operators; `cpu_s`: CPU time of these, of the
    commits of its rows, and its part of what the epochs of its graph need besides; `events`: rows
    that came meanwhile in the tables that it reads."""

    seconds: float = 0.0
    cpu_s: float = 0.0
    events: int = 0

    def plus(self, other: JobCost) -> JobCost:
        """Returns the cost in two graphs."""
        return JobCost(
            self.seconds + other.seconds, self.cpu_s + other.cpu_s, self.events + other.events
        )

    def since(self, before: JobCost) -> JobCost:
        """Returns the cost since an earlier one."""
        return JobCost(
            self.seconds - before.seconds, self.cpu_s - before.cpu_s, self.events - before.events
        )

    @property
    def us_per_event(self) -> float | None:
        """The CPU time (µs) for an event; None before the first."""
        return 1e6 * self.cpu_s / self.events if self.events else None


FREE = JobCost()


class CostedRunner(Protocol):
    """A runner of a graph, as far as its costs need it."""

    @property
    def progress(self) -> Progress: ...
    @property
    def jobs(self) -> Mapping[str, int]: ...
    @property
    def executor(self) -> EmbeddedExecutor: ...


class JobCosts:
    """The costs of a graph's jobs since it was opened. Any thread.

    What was spent since the last look is charged to the jobs that the graph has now: to those for
    whom it was, where that is known, else in equal parts to all who share it."""

    def __init__(self, runner: Callable[[], CostedRunner]) -> None:
        self._runner = runner
        self._costs: dict[str, JobCost] = {}
        self._shares: NodeShares | None = None
        self._growth = Growth()
        self._lock = Lock()

    def read(self) -> dict[str, JobCost]:
        """Returns the cost of each job that had any."""
        with self._lock:
            runner = self._runner()
            self._look(runner)
            own = runner.executor.own_seconds()
            found = {j: self._costs.get(j, FREE) for j in self._costs | own}
            return {j: c.plus(JobCost(own.get(j, 0.0), own.get(j, 0.0))) for j, c in found.items()}

    def _look(self, runner: CostedRunner) -> None:
        seconds = self._operators(runner.executor)
        spent, jobs = runner.progress.spent, list(runner.jobs)
        wall_s = self._growth.of("operators", spent.operators_s)
        cpu_s = self._growth.of("CPU of operators", spent.operators_cpu_s)
        # Nothing is known of tasks that run elsewhere: their seconds are those of the CPU.
        busy = cpu_s / wall_s if wall_s else 1.0
        cpu = self._commits(runner)
        for job, spent_s in seconds.items():
            cpu[job] += busy * spent_s
        rest = self._growth.of("epochs", spent.shared_s) / max(1, len(jobs))
        events = self._events(runner)
        for job in {*jobs, *seconds, *cpu}:
            present = job in runner.jobs
            more = JobCost(seconds[job], cpu[job] + rest * present, events.get(job, 0))
            self._costs[job] = self._costs.get(job, FREE).plus(more)

    def _operators(self, executor: EmbeddedExecutor) -> defaultdict[str, float]:
        """Returns the seconds of operators since the last look, by job."""
        self._shares = self._shares or NodeShares(executor)
        seconds: defaultdict[str, float] = defaultdict(float)
        for node, own, rest in self._shares.take():
            for job, part in own.items():
                seconds[job] += part
            jobs = frozenset[str]() if node is None else node.node.jobs
            for job in jobs:
                seconds[job] += rest / len(jobs)
        return seconds

    def _commits(self, runner: CostedRunner) -> defaultdict[str, float]:
        """Returns the CPU time of commits since the last look: of a table of several jobs by the
        rows of each."""
        cpu: defaultdict[str, float] = defaultdict(float)
        sinks = runner.executor.plan.sinks
        written = self._written(runner)
        for name, total in dict(runner.progress.spent.commits).items():
            jobs = sinks[name].jobs if name in sinks else ()
            parts = {job: written[job] for job in jobs if written[job]} or dict.fromkeys(jobs, 1)
            spent, whole = self._growth.of(f"commit {name}", total), sum(parts.values())
            for job, part in parts.items():
                cpu[job] += spent * part / whole
        return cpu

    def _written(self, runner: CostedRunner) -> Counter[str]:
        rows = runner.executor.counts.rows_by_job()
        return Counter({j: int(self._growth.of(f"rows {j}", n)) for j, n in rows.items()})

    def _events(self, runner: CostedRunner) -> dict[str, int]:
        """Returns the rows since the last look that each job has read."""
        read = dict(runner.progress.rows_read)
        new = {scan: int(self._growth.of(f"read {scan}", rows)) for scan, rows in read.items()}
        nodes = runner.executor.plan.nodes
        events: Counter[str] = Counter()
        for scan, rows in new.items():
            jobs: Collection[str] = nodes[scan].jobs if scan in nodes else ()
            events.update(dict.fromkeys(runner.jobs if not scan else jobs, rows))
        return events
