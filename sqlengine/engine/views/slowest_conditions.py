"""The slowest condition of each job, measured a little at a time beside the stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from time import perf_counter, thread_time
from typing import Final

from sqlengine.engine.graph_manager import GraphManager
from sqlengine.executors.measures.conditions import ConditionCost, condition_costs
from sqlengine.executors.measures.job_costs import FREE, JobCost

# The part of one CPU that measuring takes, whoever asks how often, and what it takes at once (s).
SHARE: Final = 0.005
_AT_ONCE_S: Final = 0.1
# Another condition is told as the slowest one if it takes so many times as long.
_CLEARLY: Final = 1.25


@dataclass(frozen=True)
class _Seen:
    """A version of a job that was measured as the one number `turn`, and its slowest condition."""

    version: int
    turn: int
    slowest: ConditionCost | None


class SlowestConditions:
    """Measures the conditions of running jobs in turn, whenever somebody looks: new ones first, and
    of these the costliest; nothing where nobody looks. Any thread.

    Conditions with functions of users are left out: these are called for rows of the stream, and
    where somebody asks for one job. `now`: the time in s."""

    def __init__(
        self,
        graphs: GraphManager,
        costs: Callable[[], Mapping[str, JobCost]],
        now: Callable[[], float] = perf_counter,
    ) -> None:
        self._graphs, self._costs, self._now = graphs, costs, now
        self._seen: dict[str, _Seen] = {}
        self._turns = 0
        self._allowed_at = float("-inf")
        self._lock = Lock()

    def look(self) -> Mapping[str, ConditionCost]:
        """Returns the slowest condition of each running job that was measured, and measures some
        more if it is time to."""
        with self._lock:
            running = {job: version for job, (_, version) in self._graphs.running().items()}
            self._seen = {j: s for j, s in self._seen.items() if running.get(j) == s.version}
            if self._now() >= self._allowed_at:
                spent_s = self._measure(running)
                self._allowed_at = self._now() + spent_s / SHARE
            return {job: s.slowest for job, s in self._seen.items() if s.slowest is not None}

    def _measure(self, running: Mapping[str, int]) -> float:
        """Measures jobs for a while; returns the CPU time (s)."""
        began, costs = thread_time(), self._costs()

        def order(job: str) -> tuple[int, float]:
            turn = self._seen[job].turn if job in self._seen else 0
            return turn, -costs.get(job, FREE).cpu_s

        for job in sorted(running, key=order):
            self._turns += 1
            before = self._seen.get(job)
            slowest = self._slowest(job, None if before is None else before.slowest)
            self._seen[job] = _Seen(running[job], self._turns, slowest)
            if thread_time() - began > _AT_ONCE_S:
                break
        return thread_time() - began

    def _slowest(self, job: str, before: ConditionCost | None) -> ConditionCost | None:
        """Returns the slowest condition now: the same as before, unless another one clearly is."""
        costs = condition_costs(self._graphs.of(job).executor, job, calling_users=False)
        if not costs or before is None:
            return costs[0] if costs else None
        same = next((c for c in costs if c.condition == before.condition), costs[0])
        return costs[0] if costs[0].us_per_row > _CLEARLY * same.us_per_row else same
