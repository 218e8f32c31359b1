"""The graphs of an engine: opens, recovers, retires and closes them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

import msgspec

from parser.errors import JobError, SqlError
from planner.logical import Sink
from sqlengine.cluster.distributed_graph import DistributedGraph
from sqlengine.cluster.instance_groups import InstanceGroups
from sqlengine.cluster.shared_graph import SharedGraph, is_shared, shared_graph
from sqlengine.cluster.subtask_log import subtask_count
from sqlengine.cluster.subtask_stores import subtask_name
from sqlengine.engine.savepoint_sources import lookup_positions
from sqlengine.engine.table_access import TableAccess
from sqlengine.engine.views.retired_counts import RetiredCounts
from sqlengine.executors.epochs import EPOCHS, TopicEpochLog
from sqlengine.executors.job_counts import JobCounts, add_counts
from sqlengine.executors.steps.guard import StepView
from sqlengine.graphs.apart import is_apart
from sqlengine.graphs.apart_graphs import ApartGraphs
from sqlengine.graphs.host import Faults, GraphHost, PlanOf
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.graphs.opening import open_graph
from sqlengine.graphs.owed_rows import OwedRows
from sqlengine.graphs.running import RunningGraph
from sqlengine.graphs.targets import Targets
from sqlengine.graphs.totals import GraphTotals
from sqlengine.jobs.isolation_settings import group_of
from sqlengine.jobs.job import MAIN
from sqlengine.jobs.targets import is_main
from sqlengine.snapshots.savepoints import Restoration


class GraphManager:
    """Opens and closes the graphs of one engine.

    `by_name` always has MAIN. Only the thread that makes changes adds or removes graphs; others
    read a copy. `tables` opens tables beside the graphs, `targets` says where these run, `apart`
    has those of jobs that wait for a source.
    """

    def __init__(
        self, host: GraphHost, plan_of: PlanOf, instances: InstanceGroups, owed: OwedRows
    ) -> None:
        self._host = host
        self.tables = TableAccess(host)
        self.targets = Targets(host)
        self.apart = ApartGraphs(host, plan_of)
        self._plan_of = plan_of
        self._instances = instances
        self._started = False
        self._retired_counts = RetiredCounts(host.broker)
        self.by_name: dict[str, ManagedGraph] = {}
        self._closed = GraphTotals()
        # Closed to be recovered, which did not work yet.
        self._unopened: set[str] = set()
        self._owed = owed
        self._shared: SharedGraph | None = None

    def owes_rows(
        self, graph: ManagedGraph, sinks: Iterable[Sink], besides: str = ""
    ) -> str | None:
        """Returns a table that nobody may write to in the graph for now, see `OwedRows.table`."""
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
        self._shared = shared_graph(self._host.config, broker)
        shared = () if self._shared is None else (self._shared.name,)
        for name in dict.fromkeys((MAIN, *shared, *names, *(n for n in stored if n not in left))):
            self.by_name[name] = self._open(
                name, distributed=name in shared or subtask_count(broker, name) is not None
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
            self._shared.parts
            if self._shared is not None and name == self._shared.name
            else subtask_count(self._host.broker, name) or 1
        )
        return DistributedGraph(name, self._host, self._plan_of, without or {}, parts)

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

    @property
    def distributed(self) -> ManagedGraph | None:
        """The graph shared by all jobs that can run in parts; None without instances."""
        return None if self._shared is None else self.by_name[self._shared.name]

    def sinks(self, job: str) -> list[Sink]:
        """Returns the statements of a running job, as sinks of its graph."""
        graph = self.of(job).runner.graph
        return [
            n.plan
            for n in map(graph.nodes.__getitem__, graph.jobs.get(job, ()))
            if isinstance(n.plan, Sink)
        ]

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
        shared = None if self._shared is None else self._shared.name
        own = [n for n in self.by_name if not is_main(n) and n != shared]
        runners = {n: self.by_name[n].runner for n in own}
        for name in [n for n, runner in runners.items() if not runner.jobs and not runner.broken]:
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
