"""Shows the costs of running jobs, to people who want to make them cheaper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from parser.errors import JobError
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.views.slowest_conditions import SlowestConditions
from sqlengine.executors.job_counts import NOTHING, JobCounts
from sqlengine.executors.measures.conditions import (
    CacheUse,
    ConditionCost,
    cache_uses,
    condition_costs,
)
from sqlengine.executors.measures.job_costs import FREE, JobCost
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.jobs.job import Job, JobState


@dataclass(frozen=True)
class CostView:
    """The cost of a running job since the server started. `share`: its part of what all jobs of its
    graph have cost; `state_bytes`: what its operations keep; `rows`: given to its tables since it
    was first submitted; `cache_hits`: the share of values that caches knew, None where nothing was
    asked for."""

    job: str
    graph: str
    cost: JobCost
    share: float
    state_bytes: int
    rows: int
    cache_hits: float | None


class _Graph:
    """A graph with its costs, for any number of its jobs."""

    def __init__(self, costs: Mapping[str, JobCost], graph: ManagedGraph) -> None:
        self.jobs = list(graph.runner.jobs)
        self._name, self._state = graph.name, graph.state_by_job()
        self._total = sum(costs.get(job, FREE).cpu_s for job in self.jobs)
        self._caches = cache_uses(graph.executor)

    def view(self, job: str, cost: JobCost, counts: JobCounts) -> CostView:
        share = cost.cpu_s / self._total if self._total else 0.0
        state, hits = self._state.get(job, 0), self._caches.get(job, CacheUse()).share
        return CostView(job, self._name, cost, share, state, counts.rows, hits)


class CostViews:
    """Shows what jobs cost. Any thread; waits for no graph that is busy."""

    def __init__(
        self,
        graphs: GraphManager,
        costs: Callable[[], Mapping[str, JobCost]],
        counts: Callable[[], Mapping[str, JobCounts]],
    ) -> None:
        self._graphs = graphs
        self._costs = costs
        self._counts = counts
        self._slowest = SlowestConditions(graphs, costs)

    def all(self, jobs: Iterable[Job]) -> list[CostView]:
        """Returns what each of these jobs costs that runs, the costliest first."""
        costs, counts = self._costs(), self._counts()
        homes = {
            name: graph
            for graph in map(partial(_Graph, costs), list(self._graphs.by_name.values()))
            for name in graph.jobs
        }
        views = [
            homes[job.name].view(job.name, costs.get(job.name, FREE), counts.get(job.name, NOTHING))
            for job in jobs
            if job.state is JobState.RUNNING and job.name in homes
        ]
        return sorted(views, key=lambda v: (-v.cost.cpu_s, v.job))

    def conditions(self, job: Job) -> list[ConditionCost]:
        """Returns what the conditions of a running job's filters cost, the slowest first, measured
        now over rows that came last. JobError where it does not run."""
        return condition_costs(self._graph(job).executor, job.name)

    def slowest(self) -> Mapping[str, ConditionCost]:
        """Returns the slowest condition of each running job, as it was when it was measured last,
        in turn, for a small part of the time; of those whose turn has come."""
        return self._slowest.look()

    def cache_uses(self) -> dict[str, CacheUse]:
        """Returns how running jobs that have filters use caches."""
        graphs = list(self._graphs.by_name.values())
        return {job: use for graph in graphs for job, use in cache_uses(graph.executor).items()}

    def of(self, job: Job) -> CostView:
        """Returns what a job costs. JobError where it does not run."""
        self._graph(job)
        return self.all([job])[0]

    def _graph(self, job: Job) -> ManagedGraph:
        if job.state is not JobState.RUNNING:
            raise JobError(
                f"job '{job.name}' does not run: it costs nothing",
                detail=f"it is {job.state.value}",
                hint="'sql start' starts it",
            )
        return self._graphs.of(job.name)
