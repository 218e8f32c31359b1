"""Budgets of jobs: who costs more than it may is told, isolated or stopped."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from parser.errors import SqlError
from sqlengine.access.principals import Budget, Exceeded
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.job_lifecycle import JobLifecycle
from sqlengine.engine.migration.moves import Moves
from sqlengine.engine.watch.watch import Watch
from sqlengine.executors.measures.job_costs import FREE, JobCost
from sqlengine.executors.memory_limits import megabytes
from sqlengine.jobs.budget_settings import CPU, STATE, budget_in
from sqlengine.jobs.job import Cause, Job, JobState
from sqlengine.jobs.targets import is_main
from sqlengine.registry import Registry

EVERY_S: Final = 10.0
# The cost of an event is that of so many, at least.
_EVENTS: Final = 1000
_ANY: Final = Budget()
log = logging.getLogger("sqlengine")


class Budgets(Watch):
    """Looks at what jobs cost that have a budget, by their settings or by their principals.

    `costs` returns what each job has cost. `over`: why jobs are over their budgets."""

    name = "budgets"
    every_s = EVERY_S
    fault = "budgets of jobs could not be checked"

    def __init__(
        self,
        registry: Registry,
        graphs: GraphManager,
        lifecycle: JobLifecycle,
        moves: Moves,
        costs: Callable[[], Mapping[str, JobCost]],
    ) -> None:
        self._registry = registry
        self._graphs = graphs
        self._lifecycle = lifecycle
        self._moves = moves
        self._costs = costs
        self.over: Mapping[str, str] = {}
        self._before: dict[str, JobCost] = {}
        self._us: dict[str, float] = {}  # by job, of the last events

    def check(self) -> None:
        """Looks at all jobs that have a budget, in the thread that makes changes."""
        costs = self._costs()  # in any case: what was spent is charged to the jobs of the moment
        jobs = [j for j in self._registry.log.jobs.values() if j.state is JobState.RUNNING]
        budgets = {job.name: self.of(job) for job in jobs}
        watched = [job for job in jobs if budgets[job.name] != _ANY]
        if not watched:
            self.over = {}
            return
        state = self._state()
        over: dict[str, str] = {}
        for job in watched:
            budget = budgets[job.name]
            us = self._us_per_event(job.name, costs.get(job.name, FREE))
            reason = next(_excesses(budget, us, state.get(job.name, 0)), None)
            if reason is not None:
                over[job.name] = reason
        # Before any leaves: those that stop are not told twice.
        self.over = over
        for job in watched:
            if job.name in over:
                self._act(job, budgets[job.name].exceeded, over[job.name])

    def of(self, job: Job) -> Budget:
        """Returns the budget of a job: the lesser of its own, and that of its principal."""
        own = budget_in(job.settings)
        by = self._registry.version(job).by
        principal = self._registry.access.named(by) if by else None
        return own if principal is None else own.within(principal.budget)

    def _state(self) -> dict[str, int]:
        graphs = list(self._graphs.by_name.values())
        return {job: size for graph in graphs for job, size in graph.state_by_job().items()}

    def _us_per_event(self, job: str, cost: JobCost) -> float | None:
        """Returns the cost of the last events, as soon as there are enough of them."""
        more = cost.since(self._before.get(job, FREE))
        if more.events >= _EVENTS and (us := more.us_per_event) is not None:
            self._us[job], self._before[job] = us, cost
        return self._us.get(job)

    def _act(self, job: Job, exceeded: Exceeded, reason: str) -> None:
        if exceeded is Exceeded.STOP:
            log.warning("job %s is stopped: %s", job.name, reason)
            self._us.pop(job.name, None)
            self._lifecycle.fail([job.name], reason, lasting=True)
        elif exceeded is Exceeded.ISOLATE and is_main(self._graphs.of(job.name).name):
            try:
                self._moves.isolate(job.name, Cause.COST, reason)
            except SqlError as error:
                log.warning("job %s stays where it is for now (%s): %s", job.name, reason, error)


def _excesses(budget: Budget, us: float | None, state: int) -> Iterator[str]:
    if budget.cpu_us is not None and us is not None and us > budget.cpu_us:
        most = f"{budget.cpu_us:g} ('{CPU}')"
        yield f"it costs {us:,.1f} µs of the CPU an event, its budget is {most}"
    if budget.state is not None and state > budget.state:
        most = f"{megabytes(budget.state)} ('{STATE}')"
        yield f"its state takes {megabytes(state)}, its budget is {most}"
