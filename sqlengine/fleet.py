"""The graphs of an engine: the main one, which all jobs share that read at its position, and one of its own for jobs that
ask to begin earlier than the shared position is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack

import msgspec

from parser.errors import SqlError
from planner.logical import LogicalPlan, Scan, Sink
from sqlengine.connectors.base import Environment
from sqlengine.connectors.registry import open_source
from sqlengine.executors.epochs import EPOCHS, TopicEpochLog
from sqlengine.executors.savepoints import Restoration
from sqlengine.graphs import Faults, GraphHost, PlanOf, RunningGraph, open_graph
from sqlengine.jobs import MAIN
from sqlengine.planning import PlannedJob


class Fleet:
    """Changed by the thread that makes changes; `graphs` always has MAIN."""

    def __init__(self, host: GraphHost, plan_of: PlanOf) -> None:
        self._host = host
        self._plan_of = plan_of
        self._started = False
        self.graphs: dict[str, RunningGraph] = {}

    def recover(self, names: Iterable[str]) -> None:
        """Brings back the graphs that ran: those that jobs name, and those that have a folder (the job may not stand in
        the log yet)."""
        for name in dict.fromkeys((MAIN, *names, *self._host.stores.names())):
            self.graphs[name] = open_graph(name, self._host, self._plan_of)

    def lost(self) -> dict[str, SqlError]:
        """Jobs that ran and cannot be planned any more, or whose operators raise."""
        return {name: error for g in self.graphs.values() for name, error in g.lost.items()}

    @property
    def main(self) -> RunningGraph:
        return self.graphs[MAIN]

    def of(self, job: str) -> RunningGraph:
        """The graph in which the job runs; MAIN for a job that does not."""
        for graph in list(self.graphs.values()):
            if job in graph.runner.jobs:
                return graph
        return self.main

    def runs(self, job: str) -> bool:
        return any(job in g.runner.jobs for g in self.graphs.values())

    def running(self) -> dict[str, tuple[str, int]]:
        """Job -> graph and version."""
        return {job: (g.name, v) for g in self.graphs.values() for job, v in g.runner.jobs.items()}

    def place(self, plan: PlannedJob, name: str) -> RunningGraph:
        """Where a new job runs: in the main graph, or alone under `name` when it asks for records that the main graph
        has read already."""
        if not any(self._passed(scan) for sink in plan.sinks for scan in scans(sink)):
            return self.main
        return self.graph(name)

    def graph(self, name: str) -> RunningGraph:
        """The graph of that name, made if there is none."""
        if name not in self.graphs:
            self.graphs[name] = graph = open_graph(name, self._host, self._plan_of)
            if self._started:
                graph.loop.start()
        return self.graphs[name]

    def restore(self, name: str, job: str, version: int, restoration: Restoration) -> RunningGraph:
        """A graph of its own for a job that goes on from a savepoint. The checkpoint that it begins with is written whole or
        not at all; where it cannot be opened nothing is left of it."""
        if name in self.graphs:  # a crash came before its checkpoint
            self.graphs.pop(name).close()
        broker, stores = self._host.broker, self._host.stores
        stores.remove(name)
        try:
            TopicEpochLog(broker, name)  # makes the topic
            store = stores.open(name)
            try:
                position = restoration.position(name, job, version, broker.end_offset(EPOCHS, 0))
                store.put(msgspec.to_builtins(position), restoration.tables)
            finally:
                store.close()
            return self.graph(name)
        except SqlError:
            stores.remove(name)
            raise

    def reopen(self, graph: RunningGraph, without: Faults) -> None:
        """Recovers a graph that stands still from what is on disk, without jobs that are at fault."""
        graph.close()
        self.graphs[graph.name] = opened = open_graph(graph.name, self._host, self._plan_of, without)
        if self._started:
            opened.loop.start()

    def _passed(self, scan: Scan) -> bool:
        """Whether the main graph reads this source and is behind the place where a new job would begin."""
        running = self.main.runner.inputs.running.get(scan.digest)
        if running is None or not any(running.positions.values()):
            return False
        source = open_source(scan.table, Environment(self._host.broker, self._host.machine.clock, MAIN))
        try:
            return any(source.start(shard) < at for shard, at in list(running.positions.items()))
        finally:
            source.close()

    def retire_idle(self) -> None:
        """Closes graphs of their own that have no job any more. Their names are never used again."""
        for name in [n for n, g in self.graphs.items() if n != MAIN and not g.runner.jobs and not g.runner.broken]:
            graph = self.graphs.pop(name)
            graph.close()
            self._host.stores.remove(name)

    def start(self) -> None:
        self._started = True
        for graph in self.graphs.values():
            graph.loop.start()

    def close(self) -> None:
        """Closes all; raises the first error once that is done."""
        with ExitStack() as stack:
            for graph in self.graphs.values():
                stack.callback(graph.close)

    def abandon(self) -> None:
        """Closes all without a checkpoint: a recovery failed."""
        for graph in self.graphs.values():
            graph.runner.broken = True
        self.close()

    def rows_by_job(self) -> Counter[str]:
        """Rows that each job has given to sinks since the server started."""
        rows: Counter[str] = Counter()
        for graph in list(self.graphs.values()):
            rows.update(graph.executor.rows_by_job())
        return rows

    def callers(self, identity: str) -> frozenset[str]:
        """Jobs whose plans call a function."""
        graphs = [g.runner.graph for g in list(self.graphs.values())]
        return frozenset(j for g in graphs for n in g.nodes.values() if identity in n.plan.functions for j in n.jobs)

    @property
    def problem(self) -> str | None:
        """Why a graph stands still, if one does."""
        return next((g.loop.problem for g in list(self.graphs.values()) if g.loop.problem), None)

    @property
    def broken(self) -> bool:
        return any(g.loop.broken for g in list(self.graphs.values()))

    @property
    def alive(self) -> bool:
        return all(g.loop.running for g in list(self.graphs.values()))


def scans(plan: Sink) -> Iterator[Scan]:
    """The sources below a sink."""
    waiting: list[LogicalPlan] = [plan]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Scan):
            yield node
        waiting += node.inputs
