"""The graphs of an engine, and the placement of jobs in them.

Jobs share the main graph, one in this process and one on Spark. Where there are instances, those
that can run in parts share a distributed graph in its place. A job that asks to begin earlier than
the shared graph has read gets a graph of its own, and so do isolated jobs and isolation groups.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Final

import msgspec

from parser.errors import JobError, SqlError
from planner.graph.distribution import why_not_distributed
from planner.logical import Sink
from sqlengine.cluster.distributed_graph import DistributedGraph
from sqlengine.cluster.instance_groups import InstanceGroups
from sqlengine.cluster.subtask_log import subtask_count
from sqlengine.cluster.subtask_stores import subtask_name
from sqlengine.config import Target
from sqlengine.connectors.registry import (
    declared_capabilities,
    open_source,
)
from sqlengine.engine.savepoint_sources import lookup_positions
from sqlengine.engine.table_access import TableAccess, scans
from sqlengine.engine.views.retired_counts import RetiredCounts
from sqlengine.executors.epochs import EPOCHS, TopicEpochLog
from sqlengine.executors.job_counts import JobCounts, add_counts
from sqlengine.executors.steps.guard import StepView
from sqlengine.graphs.apart import is_apart, keep_waiting, stored_apart
from sqlengine.graphs.host import Faults, GraphHost, PlanOf
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.graphs.opening import open_graph
from sqlengine.graphs.owed_rows import OwedRows
from sqlengine.graphs.running import RunningGraph
from sqlengine.graphs.targets import Targets
from sqlengine.graphs.totals import GraphTotals
from sqlengine.jobs.isolation_settings import graph_of, group_of, limits_in
from sqlengine.jobs.job import MAIN, Job
from sqlengine.jobs.planning import PlannedJob
from sqlengine.jobs.targets import is_main
from sqlengine.snapshots.checkpoints import Apart
from sqlengine.snapshots.savepoints import Restoration

log = logging.getLogger("sqlengine")

# Name of the distributed graph of all jobs that can run in parts. A graph with another number of
# parts than the first one has that number behind the name: shared.4.
SHARED: Final = "shared"


def is_shared(graph: str) -> bool:
    """True if `graph` is the name of a distributed graph for all jobs, of any number of parts."""
    return graph == SHARED or (
        graph.startswith(f"{SHARED}.") and graph.removeprefix(f"{SHARED}.").isdigit()
    )


class GraphManager:
    """Opens, places jobs in, and closes the graphs of one engine.

    `by_name` always has MAIN. Only the thread that makes changes adds or removes graphs; others
    read a copy. `tables` opens tables beside the graphs, `targets` says where these run.
    """

    def __init__(self, host: GraphHost, plan_of: PlanOf, instances: InstanceGroups) -> None:
        self._host = host
        self.tables = TableAccess(host)
        self.targets = Targets(host)
        self._plan_of = plan_of
        self._instances = instances
        self._started = False
        self._retired_counts = RetiredCounts(host.broker)
        self._distributable: dict[tuple[str, int], bool] = {}
        self.by_name: dict[str, ManagedGraph] = {}
        self._closed = GraphTotals()
        # Closed to be recovered, which did not work yet.
        self._unopened: set[str] = set()
        self._apart: dict[str, Apart | None] = {}
        self._owed: OwedRows | None = None

    def watch(self, owed: OwedRows) -> None:
        """Sets what knows of rows that are owed: before the first graph is opened."""
        self._owed = owed

    def owes_rows(
        self, graph: ManagedGraph, sinks: Iterable[Sink], besides: str = ""
    ) -> str | None:
        """Returns a table that nobody may write to in the graph for now, see `OwedRows.table`."""
        if self._owed is None:
            return None
        writers = {graph.name}
        if isinstance(graph, DistributedGraph):
            writers = {subtask_name(graph.name, index) for index in range(graph.parallelism)}
        return self._owed.table(graph, writers, sinks, list(self.by_name.values()), besides)

    def recover(self, names: Iterable[str]) -> None:
        """Opens the graphs that ran before a restart: those that jobs name, and those that have a
        checkpoint (a crash may have come before their job was in the log).

        A shared distributed graph with another number of parts than configured is opened only if
        jobs still run in it: they migrate to the configured one.
        """
        broker = self._host.broker
        stored = [n for n in self._host.stores.names() if not is_apart(n)]
        names = list(names)
        left = [
            n
            for n in stored
            if n not in names and group_of(n) is None and subtask_count(broker, n) is not None
        ]
        self._choose_distributed()
        shared = () if self._distributed_name is None else (self._distributed_name,)
        for name in dict.fromkeys((MAIN, *shared, *names, *(n for n in stored if n not in left))):
            self.by_name[name] = self._open(
                name, distributed=name in shared or subtask_count(broker, name) is not None
            )

    def _choose_distributed(self) -> None:
        """Sets the name and the number of parts of the shared distributed graph.

        The number of parts is fixed for the life of a graph: another number needs another graph.
        Each part has epochs of its own, which cost more than their rows: hence few by default.
        """
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

    def _open(
        self,
        name: str,
        *,
        distributed: bool,
        without: Faults | None = None,
        failed_epoch: int = 0,
    ) -> ManagedGraph:
        if not distributed:
            return open_graph(name, self._host, self._plan_of, without, failed_epoch=failed_epoch)
        parts = (
            self._parts
            if name == self._distributed_name
            else subtask_count(self._host.broker, name) or 1
        )
        return DistributedGraph(name, self._host, self._plan_of, without or {}, parts)

    def open_apart(self, name: str, waiting: Collection[str]) -> RunningGraph:
        """Recovers jobs that wait for a source apart from their graph, up to where that has logged
        them; those of them alone that are `waiting` still. The graph runs nothing, and is to be
        abandoned. SourceAway where the source has not come back."""
        keep_waiting(self._host.stores, name, waiting)
        self._apart.pop(name, None)
        return open_graph(name, self._host, self._plan_of)

    def apart(self) -> dict[str, Apart]:
        """Returns what is stored of jobs that wait for a source, by the name of their graph."""
        stores = self._host.stores
        names = [name for name in stores.names() if is_apart(name)]
        # With its tables: it is read once.
        self._apart |= {n: stored_apart(stores, n) for n in names if n not in self._apart}
        found = ((name, self._apart[name]) for name in names)
        return {name: apart for name, apart in found if apart is not None}

    def remove_apart(self, needed: Collection[str]) -> None:
        """Removes what is stored of jobs that waited for a source, but for the `needed` names."""
        for name in filter(is_apart, self._host.stores.names()):
            if name not in needed:
                self._apart.pop(name, None)
                self._host.stores.remove(name)
                self._host.steps.forget(name)

    def taken_out(self) -> dict[str, str]:
        """Returns, by job, the keys of the snapshots of jobs that recoveries have taken out, once:
        what becomes of them is in the job log from then on."""
        kept: dict[str, str] = {}
        for graph in self.by_name.values():
            if isinstance(graph, RunningGraph):
                kept |= graph.recovered.take_kept()
        return kept

    def lost(self) -> dict[str, SqlError]:
        """Returns jobs that ran and cannot be planned any more, or whose operators raise."""
        return {name: error for g in self.by_name.values() for name, error in g.lost_jobs.items()}

    @property
    def main(self) -> RunningGraph:
        main = self.by_name[MAIN]
        assert isinstance(main, RunningGraph)
        return main

    def of(self, job: str) -> ManagedGraph:
        """Returns the graph in which the job runs; the main one for a job that does not run."""
        for graph in list(self.by_name.values()):
            if job in graph.runner.jobs:
                return graph
        return self.main

    def runs(self, job: str) -> bool:
        return any(job in g.runner.jobs for g in self.by_name.values())

    def running(self) -> dict[str, tuple[str, int]]:
        """Returns the graph and the version of each job that runs."""
        return {job: (g.name, v) for g in self.by_name.values() for job, v in g.runner.jobs.items()}

    @property
    def log_end(self) -> int:
        """End offset of the epoch log of all graphs."""
        return self._host.broker.end_offset(EPOCHS, 0)

    def long_steps(self) -> list[StepView]:
        """Returns the long steps that parts of graphs are in, the longest of each graph first."""
        graphs = [g for g in list(self.by_name.values()) if isinstance(g, DistributedGraph)]
        return [step for graph in graphs for step in graph.long_steps()]

    def slow_step_counts(self) -> dict[str, int]:
        """Returns the number of slow steps in the parts of each graph since the start."""
        graphs = [g for g in list(self.by_name.values()) if isinstance(g, DistributedGraph)]
        return {graph.name: graph.worker_reports.slow_steps for graph in graphs}

    def place(self, plan: PlannedJob, name: str, target: Target) -> ManagedGraph:
        """Returns the graph for a new job: that of its isolation group, the distributed one if it
        can run in parts, else the main one of its target.

        When these have read past records that it asks for, or a table has not taken all rows of
        theirs (`OwedRows`), or it cannot run where its group does, the job gets a graph of its own
        under `name`. Until `release` its graph reads none of them.
        """
        shared = self._shared_graph(plan.settings, plan.sinks, target)
        if group_of(shared.name) is not None:
            unfit = shared.why_unsupported(plan.sinks) or not self._admits(shared, plan)
            return self.get_or_create(name) if unfit else shared
        if self._admits(shared, plan):
            return shared
        main = self._main_of(target)
        return main if self._admits(main, plan) else self.get_or_create(name)

    def _admits(self, graph: ManagedGraph, plan: PlannedJob) -> bool:
        """True if a new job can begin in the graph."""
        return self.owes_rows(graph, plan.sinks) is None and not self._has_read_past(graph, plan)

    def _main_of(self, target: Target) -> RunningGraph:
        """Returns the graph that jobs of a target share, where they run in no parts."""
        graph = self.get_or_create(self.targets.graph_name(MAIN, target))
        assert isinstance(graph, RunningGraph)
        return graph

    @property
    def distributed(self) -> ManagedGraph | None:
        """The graph shared by all jobs that can run in parts; None without instances."""
        return None if self._distributed_name is None else self.by_name[self._distributed_name]

    def shared_graph(self, job: Job) -> ManagedGraph:
        """Returns the graph that a running job shares with others, or would share."""
        return self._shared_graph(job.settings, self.sinks(job.name), self.targets.of_job(job))

    def can_distribute(self, job: Job) -> bool:
        """True if a running job can run in parts. Computed once for each version."""
        key = job.name, job.version
        if key not in self._distributable:
            self._distributable[key] = all(
                why_not_distributed(sink, declared_capabilities) is None
                for sink in self.sinks(job.name)
            )
        return self._distributable[key]

    def sinks(self, job: str) -> list[Sink]:
        """Returns the statements of a running job, as sinks of its graph."""
        graph = self.of(job).runner.graph
        return [
            n.plan
            for n in map(graph.nodes.__getitem__, graph.jobs.get(job, ()))
            if isinstance(n.plan, Sink)
        ]

    def shared_graph_for(self, plan: PlannedJob, told: str) -> ManagedGraph:
        """Returns the graph that a job with this plan would share with others, which is `told`
        where to run."""
        target = self.targets.of(plan.settings, told)
        return self._shared_graph(plan.settings, plan.sinks, target)

    def _shared_graph(
        self, settings: Mapping[str, str], sinks: Sequence[Sink], target: Target
    ) -> ManagedGraph:
        """Returns the graph of the isolation group, which has a process of its own; else the
        distributed one if the statements can run there; else the main one of the target."""
        group = limits_in(settings).group
        if target != "embedded":
            return self._main_of(target)
        if group is None:
            distributed = self.distributed
            fits = distributed is not None and sinks and distributed.why_unsupported(sinks) is None
            return distributed if distributed is not None and fits else self._main_of(target)
        existing = next((name for name in self.by_name if group_of(name) == group), None)
        if existing is not None:
            return self.by_name[existing]
        name = graph_of(group, f"{self._host.machine.clock()}-{self.log_end}")
        return self.get_or_create(name, distributed=True)

    def get_or_create(self, name: str, *, distributed: bool = False) -> ManagedGraph:
        """Returns the graph of that name, opened and started if there is none."""
        if name not in self.by_name:
            self.by_name[name] = self._open(name, distributed=distributed)
            self._run(self.by_name[name])
        return self.by_name[name]

    def _run(self, graph: ManagedGraph) -> None:
        """Starts the graph and the processes that run its parts, unless the engine waits for
        `start`."""
        if self._started:
            graph.loop.start()
            if isinstance(graph, DistributedGraph):
                self._instances.run(graph)

    def is_given_up(self, graph: ManagedGraph) -> bool:
        """True if the process of an isolation group has died so often that it is not restarted."""
        return self._instances.is_given_up(graph.name)

    def start_again(self, graph: ManagedGraph, pause_s: float) -> None:
        """Starts a process that was given up after a pause: it goes on exactly where it was."""
        self._instances.start_again(graph.name, pause_s)

    @property
    def delivers_once(self) -> bool:
        """True if the server is configured for exactly-once delivery."""
        return self._host.config.delivery == "exactly-once"

    def restore(self, name: str, job: str, version: int, restoration: Restoration) -> ManagedGraph:
        """Opens a graph of its own for a job that starts from a savepoint.

        Its first checkpoint is written from the savepoint, whole or not at all. Raises SqlError if
        the graph cannot be opened; nothing is left of it then.
        """
        if name in self.by_name:  # a crash came before its checkpoint
            self.by_name.pop(name).close()
        broker, stores = self._host.broker, self._host.stores
        stores.remove(name)
        try:
            TopicEpochLog(broker, name)  # makes the topic
            store = stores.open(name)
            try:
                lookups = lookup_positions(restoration, self.tables.environment(name))
                position = restoration.position(
                    name, job, version, broker.end_offset(EPOCHS, 0), lookups
                )
                store.put(msgspec.to_builtins(position), restoration.tables)
            finally:
                store.close()
            return self.get_or_create(name)
        except SqlError:
            stores.remove(name)
            raise

    def reopen(self, graph: ManagedGraph, without: Faults, *, keeps: bool = False) -> None:
        """Recovers a failed graph from its last checkpoint, without the jobs at fault: with `keeps`
        these are taken out just before the epoch in which they failed, with what they have. If it
        raises, it may be called again for the same graph."""
        failed_epoch = graph.runner.epoch if keeps and not graph.distributed else 0
        if graph.name not in self._unopened:
            self._close_for_recovery(graph)
        try:
            self.by_name[graph.name] = self._open(
                graph.name,
                distributed=graph.distributed,
                without=without,
                failed_epoch=failed_epoch,
            )
        except Exception as error:
            graph.loop.problem = f"it cannot be recovered: {error}"
            raise
        self._unopened.remove(graph.name)
        self._run(self.by_name[graph.name])

    def _close_for_recovery(self, graph: ManagedGraph) -> None:
        self._keep_counts(graph)
        self._closed = self._closed.plus_closed(graph)
        self._unopened.add(graph.name)
        self._instances.end(graph.name)
        graph.close()

    def release(self) -> None:
        """Lets graphs read on where a new job was to begin (see `place`)."""
        for graph in self.by_name.values():
            graph.release()

    def _has_read_past(self, graph: ManagedGraph, plan: PlannedJob) -> bool:
        """True if the graph reads a source of the plan and has passed the offset at which a new job
        would begin."""
        by_digest = {scan.digest: scan for sink in plan.sinks for scan in scans(sink)}
        for scan in (s for digest, s in by_digest.items() if digest in graph.runner.inputs.running):
            source = open_source(scan.table, self.tables.environment(graph.name))
            try:
                if graph.has_passed_start(scan, source):
                    return True
            finally:
                source.close()
        return False

    def describe_placement(self, job: Job, plans: Iterable[Sink]) -> str:
        """Returns a sentence for EXPLAIN: the graph of a job, and why it runs there."""
        graph = self.of(job.name)
        if isinstance(graph, DistributedGraph):
            parts = (
                f"in {graph.parallelism} parts"
                if graph.parallelism > 1
                else "in a process of its own"
            )
            if self._host.config.places_on_spark and group_of(graph.name) is None:
                parts += " on Spark"
            return f"in graph '{graph.name}', {parts}" + (f": {job.reason}" if job.reason else "")
        if self.targets.of_graph(graph) == "spark":
            return f"in graph '{graph.name}', on Spark" + (f": {job.reason}" if job.reason else "")
        why = (
            job.reason
            or (self.distributed and self.distributed.why_unsupported(plans))
            or "it reads from another position than the others"
        )
        return f"in graph '{graph.name}', in the server's process: {why}"

    def local_graph_of(self, job: str, what: str) -> RunningGraph:
        """Returns the graph in which the job runs, if that is in this process.

        Raises JobError if it runs in instances: `what`, which was asked for, is not possible there.
        """
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
        """Closes and removes graphs without jobs, except the main and the distributed ones. Their
        names are never used again."""
        own = [n for n in self.by_name if not is_main(n) and n != self._distributed_name]
        for name in [
            n for n in own if not self.by_name[n].runner.jobs and not self.by_name[n].runner.broken
        ]:
            self._keep_counts(self.by_name[name])
            self._closed = self._closed.plus_closed(self.by_name[name])
            graph = self.by_name.pop(name)
            self._instances.end(name)
            graph.close()
            if is_shared(name):
                continue  # one day there may be as many parts again
            if isinstance(graph, DistributedGraph):
                graph.remove()
            self._host.stores.remove(name)
            self._host.forget_tasks(name)
            self._host.steps.forget(name)

    def start(self) -> None:
        self._started = True
        for graph in self.by_name.values():
            self._run(graph)

    def close(self) -> None:
        """Closes all graphs; raises the first error once that is done."""
        opened = [g for name, g in self.by_name.items() if name not in self._unopened]
        for graph in opened:
            if graph.distributed:  # its parts tell what they counted only while they run
                self._keep_counts(graph)
        with ExitStack() as stack:
            for graph in opened:
                stack.callback(graph.close)
            stack.callback(self._instances.stop)

    def abandon(self) -> None:
        """Closes all graphs without a checkpoint, since a recovery failed."""
        for graph in self.by_name.values():
            graph.runner.broken = True
        self.close()

    def counts(self) -> dict[str, JobCounts]:
        """Returns what each job did, over all graphs that it was in, in this process and in those
        before. Any thread."""
        retired = self._retired_counts
        graphs = {n: g for n, g in dict(self.by_name).items() if n not in self._unopened}
        running = [retired.raised(name, graph.counts()) for name, graph in graphs.items()]
        return add_counts([*running, retired.outside(graphs)])

    def totals(self) -> GraphTotals:
        """Returns what all graphs did since the process started, also closed ones. Any thread."""
        graphs = list(self.by_name.values())  # before the sums of closed graphs are looked at
        return self._closed.plus_open(graphs)

    def _keep_counts(self, graph: ManagedGraph) -> None:
        existing = {*self.by_name, *self._host.stores.names()}
        now = self._host.machine.clock()
        self._retired_counts.keep(graph.name, graph.counts(), existing, now)

    def callers(self, identity: str) -> frozenset[str]:
        """Returns the jobs whose plans call the function with this identity."""
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
        """Error of a graph that makes no progress; None if all do."""
        return next((g.loop.problem for g in list(self.by_name.values()) if g.loop.problem), None)

    @property
    def broken(self) -> bool:
        """True if a graph stands still after an internal error."""
        graphs = list(self.by_name.values())
        return any(g.loop.broken and not g.loop.unavailable for g in graphs)

    def unavailable(self) -> list[str]:
        """Returns the graphs that stand still until what runs their operators is there. Any
        thread."""
        return [g.name for g in list(self.by_name.values()) if g.loop.unavailable]

    def reopen_unavailable(self) -> None:
        """Recovers these graphs, whose operators can run again, or stand still again."""
        for name in self.unavailable():
            self.reopen(self.by_name[name], {})

    @property
    def alive(self) -> bool:
        return all(g.loop.running for g in list(self.by_name.values()))
