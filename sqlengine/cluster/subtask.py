"""One subtask of a distributed graph, run by its owner: opened, stepped, changed and closed.

A subtask is a running graph like any other, over its share of the shards and of the key buckets,
with an epoch log and checkpoints of its own. It moves by being closed in one process and opened in
another. What an owner that died has left is recovered by the next one, as any graph is."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from parser.errors import SqlError
from planner.graph.distribution import SubtaskAssignment
from planner.graph.merge import Graph
from planner.graph.two_phases import in_two_phases, twins
from planner.logical import LogicalPlan
from sqlengine.broker.errors import Fenced
from sqlengine.broker.ownership import Fence
from sqlengine.cluster.subtask_log import Fencing, SubtaskLog, create_subtasks
from sqlengine.cluster.subtask_stores import open_store, subtask_name
from sqlengine.connectors.shuffle import Shuffle
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.runner import GraphRunner
from sqlengine.executors.subtask import SubtaskContext
from sqlengine.graphs.host import GraphHost, PlanOf
from sqlengine.graphs.loop import GraphLoop
from sqlengine.graphs.opening import open_graph
from sqlengine.graphs.running import RunningGraph
from sqlengine.jobs.planning import PlannedJob
from sqlengine.snapshots.job_snapshot import JobSnapshot, with_digests
from sqlengine.snapshots.rescaling import split_snapshot

log = logging.getLogger("sqlengine.parts")


def with_local_aggregates(plan: PlannedJob, parallelism: int) -> PlannedJob:
    """Returns the job with aggregates in two phases, where that is possible and its settings ask
    for it. A single subtask exchanges no rows, so its plan stays."""
    if parallelism == 1:
        return plan
    return replace(plan, sinks=tuple(in_two_phases(s, plan.settings) for s in plan.sinks))


def to_distributed_names(
    snapshot: JobSnapshot, plans: Iterable[PlannedJob], parallelism: int
) -> JobSnapshot:
    """Returns the snapshot with the digests that the operations of its jobs have in subtasks."""
    names = {
        logical.digest: distributed.digest
        for plan in plans
        for logical, distributed in _pairs(plan, parallelism)
    }
    return with_digests(snapshot, names)


def to_logical_names(snapshot: JobSnapshot, plan: PlannedJob, parallelism: int) -> JobSnapshot:
    """Returns the snapshot with the digests of the plan as written: the inverse of the above."""
    names = {
        distributed.digest: logical.digest for logical, distributed in _pairs(plan, parallelism)
    }
    return with_digests(snapshot, names)


def _pairs(plan: PlannedJob, parallelism: int) -> Iterator[tuple[LogicalPlan, LogicalPlan]]:
    """Yields each operation whose plan differs in subtasks, with the one that replaces it."""
    distributed = with_local_aggregates(plan, parallelism)
    for sink, distributed_sink in zip(plan.sinks, distributed.sinks, strict=True):
        yield from twins(sink, distributed_sink)


class Subtask:
    """A running subtask, stepped by `step` or by a thread of its own after `loop.start()`.

    `fenced`: another instance owns it. It does nothing any more, and must be abandoned."""

    def __init__(
        self,
        name: str,
        assignment: SubtaskAssignment,
        graph: RunningGraph,
        epochs: SubtaskLog,
    ) -> None:
        self.name = name
        self.graph = graph
        self._parallelism = assignment.parallelism
        self._epochs = epochs

    @property
    def runner(self) -> GraphRunner:
        """The runner of its graph."""
        return self.graph.runner

    @property
    def loop(self) -> GraphLoop:
        """The loop of its graph."""
        return self.graph.loop

    @property
    def fenced(self) -> bool:
        """True if a write was refused because another instance owns the subtask."""
        return self._epochs.fenced

    def fence(self) -> Fence | None:
        """Returns the proof of owning it."""
        return self._epochs.fence()

    def step(self) -> bool:
        """Runs what other threads have requested, then an epoch. False if there was nothing to
        do."""
        return not self.fenced and self.loop.turn()

    def prepare(
        self,
        graph: Graph,
        plans: Mapping[str, PlannedJob],
        jobs: Mapping[str, int],
        renamed: Mapping[str, str],
    ) -> GraphChange:
        """Prepares a change beside the stream.

        All subtasks must have prepared before one switches. SqlError leaves everything unchanged;
        a change that is not applied must be abandoned (`GraphChange.abandon`)."""
        distributed = {n: with_local_aggregates(p, self._parallelism) for n, p in plans.items()}
        return self.graph.change(graph, distributed, jobs, renamed)

    def switch(self, change: GraphChange) -> None:
        """Applies a change between two epochs of this subtask.

        What it sends from then on is read by the others once they have switched, too. A subtask
        that is found to be fenced does not switch: its next owner does."""
        try:
            self.graph.switch(change)
        except Fenced:
            if not self.fenced:
                raise

    def close(self) -> None:
        """Ends the running epoch and writes a checkpoint, from which the next owner continues."""
        self.graph.close()
        log.info("%s: CheckPoint at epoch %d, RemoveSplit", self.name, self.runner.epoch)

    def abandon(self) -> None:
        """Closes it without a checkpoint: another instance owns it, or it is to be recovered from
        the end of its log."""
        self.graph.abandon()
        log.info("%s: RemoveSplit at epoch %d, without a checkpoint", self.name, self.runner.epoch)


def open_subtask(
    graph: str,
    index: int,
    parallelism: int,
    host: GraphHost,
    plan_of: PlanOf,
    fence: Fencing,
    *,
    left_out: Mapping[tuple[str, int], tuple[int, SqlError]] = MappingProxyType({}),
) -> Subtask:
    """Opens subtask `index` of a graph, recovered from its checkpoint and its log. `left_out`: the
    job versions that it does not recover, as in `SubtaskContext`.

    ServiceError if the graph was created with another parallelism."""
    name, assignment = subtask_name(graph, index), SubtaskAssignment(index, parallelism)
    topic = create_subtasks(host.broker, graph, parallelism)
    epochs = SubtaskLog(host.broker, topic, index, fence)

    def context() -> SubtaskContext:
        shuffle = Shuffle(host.broker, graph, assignment)
        store = open_store(host, graph, index, parallelism, fence)
        return SubtaskContext(assignment, shuffle, epochs, store, left_out)

    def plans(jobs: Mapping[str, int]) -> Mapping[str, PlannedJob | SqlError]:
        return {
            n: with_local_aggregates(p, parallelism) if isinstance(p, PlannedJob) else p
            for n, p in plan_of(jobs).items()
        }

    def stored_snapshot(migration: str) -> JobSnapshot | None:
        """The subtask's share of a stored snapshot; None if a job of it cannot be planned."""
        whole = host.stored_snapshot(migration)
        if whole is None:
            return None
        planned = [plan for plan in plan_of(whole.jobs).values() if isinstance(plan, PlannedJob)]
        if len(planned) < len(whole.jobs):
            return None
        return split_snapshot(to_distributed_names(whole, planned, parallelism), assignment)

    subtask_host = replace(host, stored_snapshot=stored_snapshot)
    running = open_graph(name, subtask_host, plans, None, context)
    log.info("%s: NewSplit, continues after epoch %d", name, running.runner.epoch)
    return Subtask(name, assignment, running, epochs)
