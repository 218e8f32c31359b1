"""The targets of one engine: jobs and graphs run in its process, or in tasks of Spark (ADR 20)."""

from __future__ import annotations

from collections.abc import Mapping

from parser.errors import UnsupportedError
from sqlengine.config import Target
from sqlengine.executors.epochs import EPOCHS
from sqlengine.executors.spark.supported import check_statements
from sqlengine.graphs.host import GraphHost
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.jobs.isolation_settings import limits_in
from sqlengine.jobs.job import Job
from sqlengine.jobs.planning import PlannedJob
from sqlengine.jobs.targets import graph_for, target_in, target_of


class Targets:
    """The targets of one engine's jobs, and the names of graphs that run there."""

    def __init__(self, host: GraphHost) -> None:
        self._host = host

    def of(self, settings: Mapping[str, str], told: str = "") -> Target:
        """Returns where a job runs: where it was `told` to, or as its settings or the server's
        say."""
        return target_of(told) if told else target_in(settings, self._host.config.target)

    def of_job(self, job: Job) -> Target:
        """Returns where a job should run."""
        return self.of(job.settings, job.target)

    def of_graph(self, graph: ManagedGraph) -> Target:
        """Returns where a graph runs."""
        return self._host.target(graph.name)

    def graph_name(self, name: str, target: Target) -> str:
        """Returns the name of a graph that runs on `target`."""
        return graph_for(name, target, self._host.config.target)

    def own_graph(self, job: Job) -> str:
        """Returns a name for a graph of its own that no graph has had, since the epoch log keeps
        the records of those that are gone."""
        log_end = self._host.broker.end_offset(EPOCHS, 0)
        name = f"{job.name}@{job.version}-{self._host.machine.clock()}-{log_end}"
        return self.graph_name(name, self.of_job(job))

    def check(self, plan: PlannedJob, target: Target) -> None:
        """Raises SqlError where a job cannot run on `target`."""
        if target == "spark":
            if limits_in(plan.settings).group is not None:
                hint = "leave out 'job.isolation', which names a process of this machine"
                raise UnsupportedError("isolation groups do not run on Spark", hint=hint)
            self._host.require_spark()
            check_statements(plan.sinks)
