"""The targets of one engine: jobs and graphs run in its process, or in tasks of Spark (ADR 20)."""

from __future__ import annotations

from collections.abc import Mapping

from parser.errors import UnsupportedError
from planner.graph.distribution import why_not_distributed
from sqlengine.config import Target
from sqlengine.connectors.registry import declared_capabilities
from sqlengine.executors.epochs import EPOCHS
from sqlengine.executors.spark.supported import check_statements
from sqlengine.graphs.host import GraphHost
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.jobs.isolation_settings import limits_in
from sqlengine.jobs.job import Job
from sqlengine.jobs.planning import PlannedJob
from sqlengine.jobs.targets import LATENCY, graph_for, latency_in, target_in, target_of


class Targets:
    """The targets of one engine's jobs, and the names of graphs that run there."""

    def __init__(self, host: GraphHost) -> None:
        self._host = host

    def of(self, settings: Mapping[str, str], told: str = "") -> Target:
        """Returns where a job runs: where it was `told` to, or as its settings or the server's
        say. In instances on Spark that is the embedded executor."""
        named = self._named(settings, told)
        return "embedded" if self._is_placed(settings, named) else named

    def _named(self, settings: Mapping[str, str], told: str) -> Target:
        return target_of(told) if told else target_in(settings, self._host.config.target)

    def _is_placed(self, settings: Mapping[str, str], named: Target) -> bool:
        low = named == "spark" and latency_in(settings) == "low"
        return low and self._host.config.places_on_spark

    def of_job(self, job: Job) -> Target:
        """Returns where a job should run."""
        return self.of(job.settings, job.target)

    def of_graph(self, graph: ManagedGraph) -> Target:
        """Returns where a graph runs. Parts have the embedded executor, wherever they are."""
        return "embedded" if graph.distributed else self._host.target(graph.name)

    def graph_name(self, name: str, target: Target) -> str:
        """Returns the name of a graph that runs on `target`."""
        return graph_for(name, target, self._host.config.target)

    def own_graph(self, job: Job) -> str:
        """Returns a name for a graph of its own that no graph has had, since the epoch log keeps
        the records of those that are gone."""
        log_end = self._host.broker.end_offset(EPOCHS, 0)
        name = f"{job.name}@{job.version}-{self._host.machine.clock()}-{log_end}"
        return self.graph_name(name, self.of_job(job))

    def check(self, plan: PlannedJob, told: str) -> None:
        """Raises SqlError where a job cannot run where it is `told`, or where its settings say."""
        if self._named(plan.settings, told) != "spark":
            return
        if limits_in(plan.settings).group is not None:
            hint = "leave out 'job.isolation', which names a process of this machine"
            raise UnsupportedError("isolation groups do not run on Spark", hint=hint)
        if latency_in(plan.settings) == "low":
            self._check_parts(plan)
        else:
            self._host.require_spark()
            check_statements(plan.sinks)

    def _check_parts(self, plan: PlannedJob) -> None:
        """Raises UnsupportedError where a job cannot run in instances on Spark."""
        if not self._host.config.places_on_spark:
            hint = "start the server with --instances N --instances-on spark"
            message = f"'{LATENCY}' = 'low' needs instances on Spark, and there are none"
            raise UnsupportedError(message, hint=hint)
        reasons = (why_not_distributed(sink, declared_capabilities) for sink in plan.sinks)
        if reason := next(filter(None, reasons), None):
            message = "the job cannot run in parts on Spark"
            hint = f"leave out '{LATENCY}' = 'low': then it runs in micro-batches"
            raise UnsupportedError(message, detail=reason, hint=hint)
