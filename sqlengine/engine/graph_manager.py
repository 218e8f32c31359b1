"""The graphs of an engine: the main one, which all jobs share that read at its position, and one of
its own for jobs that ask to begin earlier than the shared position is. Where there are instances,
jobs that can run in parts have a divided graph in the place of the main one."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Final

import msgspec

from parser.errors import JobError, SqlError
from planner.graph.division import why_not_distributed
from planner.logical import LogicalPlan, Scan, Sink
from sqlengine.cluster.distributed_graph import DistributedGraph
from sqlengine.cluster.instance_groups import InstanceGroups
from sqlengine.cluster.subtask_log import subtask_count
from sqlengine.connectors.base import Environment
from sqlengine.connectors.registry import open_scan, open_source
from sqlengine.executors.epochs import EPOCHS, TopicEpochLog
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.graphs.running import Faults, GraphHost, PlanOf, RunningGraph, open_graph
from sqlengine.jobs.isolation_settings import graph_of, group_of, limits_in
from sqlengine.jobs.job import MAIN, Job
from sqlengine.jobs.planning import PlannedJob
from sqlengine.snapshots.savepoints import Restoration

log = logging.getLogger("sqlengine")

# The divided graph that all jobs share which can run in parts; that of another number of parts has
# it behind its name.
SHARED: Final = "shared"


def is_shared(graph: str) -> bool:
    """Whether all jobs share the graph that can run in parts, or did."""
    return graph == SHARED or (
        graph.startswith(f"{SHARED}.") and graph.removeprefix(f"{SHARED}.").isdigit()
    )


class GraphManager:
    """Changed by the thread that makes changes; `graphs` always has MAIN."""

    def __init__(self, host: GraphHost, plan_of: PlanOf, instances: InstanceGroups) -> None:
        self._host = host
        self._plan_of = plan_of
        self._instances = instances
        self._started = False
        self._divisible: dict[tuple[str, int], bool] = {}
        self.by_name: dict[str, ManagedGraph] = {}

    def recover(self, names: Iterable[str]) -> None:
        """Brings back the graphs that ran: those that jobs name, and those that have a checkpoint
        (the job may not stand in the log yet). Of graphs in parts that jobs share those of other
        numbers of parts are brought back with their jobs alone: these go over to the one there is
        now."""
        broker, stored = self._host.broker, self._host.stores.names()
        names = list(names)
        left = [
            n
            for n in stored
            if n not in names and group_of(n) is None and subtask_count(broker, n) is not None
        ]
        self._choose_shared()
        shared = () if self._distributed_name is None else (self._distributed_name,)
        for name in dict.fromkeys((MAIN, *shared, *names, *(n for n in stored if n not in left))):
            self.by_name[name] = self._open(
                name, distributed=name in shared or subtask_count(broker, name) is not None
            )

    def _choose_shared(self) -> None:
        """The number of parts of a graph is fixed for its life: for another number there is another
        graph. Every part has epochs of its own, which cost more than their rows: so few are
        made."""
        config, broker = self._host.config, self._host.broker
        first = subtask_count(broker, SHARED)
        self._parts = config.parts or first or max(2, config.instances)
        self._distributed_name: str | None = None
        if config.instances:
            self._distributed_name = (
                SHARED if first in (None, self._parts) else f"{SHARED}.{self._parts}"
            )
            if self._parts < config.instances:
                most = (self._parts, config.instances)
                log.warning(
                    "graph %s has %d parts, so of %d instances only as many start",
                    self._distributed_name,
                    *most,
                )

    def _open(self, name: str, *, distributed: bool, without: Faults | None = None) -> ManagedGraph:
        if not distributed:
            return open_graph(name, self._host, self._plan_of, without)
        parts = (
            self._parts
            if name == self._distributed_name
            else subtask_count(self._host.broker, name) or 1
        )
        return DistributedGraph(name, self._host, self._plan_of, without or {}, parts)

    def lost(self) -> dict[str, SqlError]:
        """Jobs that ran and cannot be planned any more, or whose operators raise."""
        return {name: error for g in self.by_name.values() for name, error in g.lost_jobs.items()}

    @property
    def main(self) -> RunningGraph:
        main = self.by_name[MAIN]
        assert isinstance(main, RunningGraph)
        return main

    def of(self, job: str) -> ManagedGraph:
        """The graph in which the job runs; MAIN for a job that does not."""
        for graph in list(self.by_name.values()):
            if job in graph.runner.jobs:
                return graph
        return self.main

    def runs(self, job: str) -> bool:
        return any(job in g.runner.jobs for g in self.by_name.values())

    def running(self) -> dict[str, tuple[str, int]]:
        """Job -> graph and version."""
        return {job: (g.name, v) for g in self.by_name.values() for job, v in g.runner.jobs.items()}

    @property
    def log_end(self) -> int:
        """Behind the last record of all graphs' epochs."""
        return self._host.broker.end_offset(EPOCHS, 0)

    def place(self, plan: PlannedJob, name: str) -> ManagedGraph:
        """Where a new job runs: with its group, in parts if it can, else in the main graph; or
        alone under `name` when it asks for records that these have read already, or cannot run
        where its group does."""
        home = self._shared_graph(plan.settings, plan.sinks)
        if group_of(home.name) is not None:
            return (
                self.get_or_create(name)
                if home.why_unsupported(plan.sinks) or self._has_read_past(home, plan)
                else home
            )
        if home is not self.main and not self._has_read_past(home, plan):
            return home
        return self.get_or_create(name) if self._has_read_past(self.main, plan) else self.main

    @property
    def distributed(self) -> ManagedGraph | None:
        """The graph in parts that all jobs share which can run there; None without instances."""
        return None if self._distributed_name is None else self.by_name[self._distributed_name]

    def shared_graph(self, job: Job) -> ManagedGraph:
        """The graph that a job which runs shares with others, or would."""
        return self._shared_graph(job.settings, self.sinks(job.name))

    def can_divide(self, job: Job) -> bool:
        """Whether a job that runs can do so in parts: what is known of its version once."""
        key = job.name, job.version
        if key not in self._divisible:
            self._divisible[key] = all(
                why_not_distributed(sink) is None for sink in self.sinks(job.name)
            )
        return self._divisible[key]

    def sinks(self, job: str) -> list[Sink]:
        """The statements of a job that runs."""
        graph = self.of(job).runner.graph
        return [
            n.plan
            for n in map(graph.nodes.__getitem__, graph.jobs.get(job, ()))
            if isinstance(n.plan, Sink)
        ]

    def _shared_graph(self, settings: Mapping[str, str], sinks: Sequence[Sink]) -> ManagedGraph:
        """That of its isolation group, which has a process of its own; the one in parts if there is
        one and the job can run there; or the main one."""
        group = limits_in(settings).group
        if group is None:
            shared = self.distributed
            return (
                shared
                if shared is not None and sinks and shared.why_unsupported(sinks) is None
                else self.main
            )
        held = next((name for name in self.by_name if group_of(name) == group), None)
        if held is not None:
            return self.get_or_create(held)
        name = graph_of(group, f"{self._host.machine.clock()}-{self.log_end}")
        return self.get_or_create(name, distributed=True)

    def get_or_create(self, name: str, *, distributed: bool = False) -> ManagedGraph:
        """The graph of that name, made if there is none."""
        if name not in self.by_name:
            self.by_name[name] = self._open(name, distributed=distributed)
            self._run(self.by_name[name])
        return self.by_name[name]

    def _run(self, graph: ManagedGraph) -> None:
        """Starts it, and the processes that run its parts, once all are started."""
        if self._started:
            graph.loop.start()
            if isinstance(graph, DistributedGraph):
                self._instances.run(graph)

    @property
    def delivers_once(self) -> bool:
        """True if the server is configured for exactly-once delivery."""
        return self._host.config.delivery == "exactly-once"

    def restore(self, name: str, job: str, version: int, restoration: Restoration) -> ManagedGraph:
        """A graph of its own for a job that goes on from a savepoint. The checkpoint that it begins
        with is written whole or not at all; where it cannot be opened nothing is left of it."""
        if name in self.by_name:  # a crash came before its checkpoint
            self.by_name.pop(name).close()
        broker, stores = self._host.broker, self._host.stores
        stores.remove(name)
        try:
            TopicEpochLog(broker, name)  # makes the topic
            store = stores.open(name)
            try:
                taken_up = self._lookup_positions(name, restoration)
                position = restoration.position(
                    name, job, version, broker.end_offset(EPOCHS, 0), taken_up
                )
                store.put(msgspec.to_builtins(position), restoration.tables)
            finally:
                store.close()
            return self.get_or_create(name)
        except SqlError:
            stores.remove(name)
            raise

    def _lookup_positions(self, graph: str, restoration: Restoration) -> dict[str, dict[str, int]]:
        """Where sources go on in which rows are looked up: behind the version that they had."""
        environment = Environment(self._host.broker, self._host.machine.clock, graph)
        found = {}
        for name, lines in restoration.versions.items():
            scan = restoration.graph.nodes[name].plan
            assert isinstance(scan, Scan)
            with closing(open_scan(scan, environment)) as source:
                assert source.full_cache is not None
                at = source.full_cache.restore(lines, exclusive=True)
                assert at is not None
                found[name] = dict.fromkeys(source.shards(), at)
        return found

    def why_unreadable(self, scan: Scan, positions: Mapping[str, int]) -> str | None:
        """Why a table cannot be read on from where a savepoint was made; None where it can."""
        source = open_scan(
            scan, Environment(self._host.broker, self._host.machine.clock, "savepoint")
        )
        try:
            there = set(source.shards())
            for shard, offset in positions.items():
                if shard not in there:
                    return f"'{shard}' is not there any more"
                if (reason := source.expired(shard, offset)) is not None:
                    return reason
        finally:
            source.close()
        return None

    def reopen(self, graph: ManagedGraph, without: Faults) -> None:
        """Recovers a graph that stands still from what is on disk, without jobs that are at
        fault."""
        self._instances.end(graph.name)
        graph.close()
        self.by_name[graph.name] = self._open(
            graph.name, distributed=graph.distributed, without=without
        )
        self._run(self.by_name[graph.name])

    def _has_read_past(self, graph: ManagedGraph, plan: PlannedJob) -> bool:
        """Whether a graph reads a source of the plan and is behind the place where a new job would
        begin."""
        found = {scan.digest: scan for sink in plan.sinks for scan in scans(sink)}
        for scan in (s for digest, s in found.items() if digest in graph.runner.inputs.running):
            source = open_source(
                scan.table, Environment(self._host.broker, self._host.machine.clock, graph.name)
            )
            try:
                if graph.has_passed_start(scan, source):
                    return True
            finally:
                source.close()
        return False

    def describe_placement(self, job: Job, plans: Iterable[Sink]) -> str:
        """Where a job runs, and why there."""
        graph = self.of(job.name)
        if isinstance(graph, DistributedGraph):
            parts = (
                f"in {graph.parallelism} parts"
                if graph.parallelism > 1
                else "in a process of its own"
            )
            return f"in graph '{graph.name}', {parts}" + (f": {job.reason}" if job.reason else "")
        why = (
            job.reason
            or (self.distributed and self.distributed.why_unsupported(plans))
            or "it reads from another position than the others"
        )
        return f"in graph '{graph.name}', in the server's process: {why}"

    def local_graph_of(self, job: str, what: str) -> RunningGraph:
        """The graph in which the job runs, in this process; JobError says that `what` is asked for
        is not possible where it is in others."""
        graph = self.of(job)
        if not isinstance(graph, RunningGraph):
            raise JobError(
                f"{what} is not possible: job '{job}' runs in instances",
                detail=f"its rows and its state are in the parts of graph '{graph.name}'",
                hint=(
                    f"'sql isolate {job}' takes it into the server's process, 'sql merge {job}'"
                    " back"
                ),
            )
        return graph

    def retire_idle(self) -> None:
        """Closes graphs of their own that have no job any more. Their names are never used
        again."""
        own = [n for n in self.by_name if n not in (MAIN, self._distributed_name)]
        for name in [
            n for n in own if not self.by_name[n].runner.jobs and not self.by_name[n].runner.broken
        ]:
            graph = self.by_name.pop(name)
            self._instances.end(name)
            graph.close()
            if is_shared(name):
                continue  # one day there may be as many parts again
            if isinstance(graph, DistributedGraph):
                graph.remove()
            self._host.stores.remove(name)

    def start(self) -> None:
        self._started = True
        for graph in self.by_name.values():
            self._run(graph)

    def close(self) -> None:
        """Closes all; raises the first error once that is done."""
        with ExitStack() as stack:
            for graph in self.by_name.values():
                stack.callback(graph.close)
            stack.callback(self._instances.stop)

    def abandon(self) -> None:
        """Closes all without a checkpoint: a recovery failed."""
        for graph in self.by_name.values():
            graph.runner.broken = True
        self.close()

    def rows_by_job(self) -> Counter[str]:
        """Rows that each job has given to sinks since the server started."""
        rows: Counter[str] = Counter()
        for graph in list(self.by_name.values()):
            rows.update(graph.rows_by_job())
        return rows

    def callers(self, identity: str) -> frozenset[str]:
        """Jobs whose plans call a function."""
        graphs = [g.runner.graph for g in list(self.by_name.values())]
        return frozenset(
            j
            for g in graphs
            for n in g.nodes.values()
            if identity in n.plan.functions
            for j in n.jobs
        )

    @property
    def problem(self) -> str | None:
        """Why a graph stands still, if one does."""
        return next((g.loop.problem for g in list(self.by_name.values()) if g.loop.problem), None)

    @property
    def broken(self) -> bool:
        return any(g.loop.broken for g in list(self.by_name.values()))

    @property
    def alive(self) -> bool:
        return all(g.loop.running for g in list(self.by_name.values()))


def scans(plan: Sink) -> Iterator[Scan]:
    """The sources below a sink."""
    waiting: list[LogicalPlan] = [plan]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Scan):
            yield node
        waiting += node.inputs
