"""Says in which graph a job runs.

Jobs share the main graph, one in this process and one on Spark. Where there are instances, those
that can run in parts share a distributed graph in its place. A job that asks to begin earlier than
the shared graph has read gets a graph of its own, and so do isolated jobs and isolation groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing

from planner.graph.distribution import why_not_distributed
from planner.logical import Sink
from sqlengine.cluster.distributed_graph import DistributedGraph
from sqlengine.config import Target
from sqlengine.connectors.registry import declared_capabilities, open_source
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.table_access import scans
from sqlengine.graphs.host import GraphHost
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.graphs.running import RunningGraph
from sqlengine.jobs.isolation_settings import graph_of, group_of, limits_in
from sqlengine.jobs.job import MAIN, Job
from sqlengine.jobs.planning import PlannedJob


class JobPlacement:
    """Places the jobs of one engine in its graphs, in the thread that makes changes."""

    def __init__(self, host: GraphHost, graphs: GraphManager) -> None:
        self._config, self._clock = host.config, host.machine.clock
        self._graphs = graphs
        self._distributable: dict[tuple[str, int], bool] = {}

    def place(self, plan: PlannedJob, name: str, target: Target) -> ManagedGraph:
        """Returns the graph for a new job: that of its isolation group, the distributed one if it
        can run in parts, else the main one of its target.

        When these have read past records that it asks for, or a table has not taken all rows of
        theirs (`OwedRows`), or it cannot run where its group does, the job gets a graph of its own
        under `name`. Until `release` its graph reads none of them.
        """
        graphs, shared = self._graphs, self._shared(plan.settings, plan.sinks, target)
        if group_of(shared.name) is not None:
            unfit = shared.why_unsupported(plan.sinks) or not self._admits(shared, plan)
            return graphs.get_or_create(name) if unfit else shared
        if self._admits(shared, plan):
            return shared
        main = self._main_of(target)
        return main if self._admits(main, plan) else graphs.get_or_create(name)

    def release(self) -> None:
        """Lets graphs read on where a new job was to begin (see `place`)."""
        for graph in self._graphs.by_name.values():
            graph.release()

    def _admits(self, graph: ManagedGraph, plan: PlannedJob) -> bool:
        """True if a new job can begin in the graph."""
        owed = self._graphs.owes_rows(graph, plan.sinks)
        return owed is None and not self._has_read_past(graph, plan)

    def _has_read_past(self, graph: ManagedGraph, plan: PlannedJob) -> bool:
        """True if the graph reads a source of the plan and has passed the offset at which a new job
        would begin."""
        by_digest = {scan.digest: scan for sink in plan.sinks for scan in scans(sink)}
        for scan in (s for digest, s in by_digest.items() if digest in graph.runner.inputs.running):
            environment = self._graphs.tables.environment(graph.name)
            with closing(open_source(scan.table, environment)) as source:
                if graph.has_passed_start(scan, source):
                    return True
        return False

    def shared_graph(self, job: Job) -> ManagedGraph:
        """Returns the graph that a running job shares with others, or would share."""
        target = self._graphs.targets.of_job(job)
        return self._shared(job.settings, self._graphs.sinks(job.name), target)

    def shared_graph_for(self, plan: PlannedJob, told: str) -> ManagedGraph:
        """Returns the graph that a job with this plan would share with others, which is `told`
        where to run."""
        target = self._graphs.targets.of(plan.settings, told)
        return self._shared(plan.settings, plan.sinks, target)

    def _shared(
        self, settings: Mapping[str, str], sinks: Sequence[Sink], target: Target
    ) -> ManagedGraph:
        """Returns the graph of the isolation group, which has a process of its own; else the
        distributed one if the statements can run there; else the main one of the target."""
        group = limits_in(settings).group
        if target != "embedded":
            return self._main_of(target)
        if group is not None:
            return self._graph_of_group(group)
        distributed = self._graphs.distributed
        fits = distributed is not None and sinks and distributed.why_unsupported(sinks) is None
        return distributed if distributed is not None and fits else self._main_of(target)

    def _main_of(self, target: Target) -> RunningGraph:
        """Returns the graph that jobs of a target share, where they run in no parts."""
        graph = self._graphs.get_or_create(self._graphs.targets.graph_name(MAIN, target))
        assert isinstance(graph, RunningGraph)
        return graph

    def _graph_of_group(self, group: str) -> ManagedGraph:
        graphs = self._graphs
        existing = next((g for name, g in graphs.by_name.items() if group_of(name) == group), None)
        if existing is not None:
            return existing
        name = graph_of(group, f"{self._clock()}-{graphs.log_end}")
        return graphs.get_or_create(name, distributed=True)

    def can_distribute(self, job: Job) -> bool:
        """True if a running job can run in parts. Computed once for each version."""
        key = job.name, job.version
        if key not in self._distributable:
            self._distributable[key] = all(
                why_not_distributed(sink, declared_capabilities) is None
                for sink in self._graphs.sinks(job.name)
            )
        return self._distributable[key]

    def describe(self, job: Job, plans: Iterable[Sink]) -> str:
        """Returns a sentence for EXPLAIN: the graph of a job, and why it runs there. Any thread."""
        graph = self._graphs.of(job.name)
        if isinstance(graph, DistributedGraph):
            parts = (
                f"in {graph.parallelism} parts"
                if graph.parallelism > 1
                else "in a process of its own"
            )
            if self._config.places_on_spark and group_of(graph.name) is None:
                parts += " on Spark"
            return f"in graph '{graph.name}', {parts}" + (f": {job.reason}" if job.reason else "")
        if self._graphs.targets.of_graph(graph) == "spark":
            return f"in graph '{graph.name}', on Spark" + (f": {job.reason}" if job.reason else "")
        distributed = self._graphs.distributed
        why = (
            job.reason
            or (distributed and distributed.why_unsupported(plans))
            or "it reads from another position than the others"
        )
        return f"in graph '{graph.name}', in the server's process: {why}"
