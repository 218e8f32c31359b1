"""One part of a divided graph, run by whoever owns it: opened, stepped, changed, and closed or
lost.

A part is a running graph like any other, over a share of the shards and buckets, with an epoch log
and a checkpoint of its own. It moves by being closed in one place and opened in another; what an
owner that died has left is recovered by the next one as any graph is."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from parser.errors import SqlError
from planner.graph.division import SubtaskAssignment
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
from sqlengine.graphs.loop import GraphLoop
from sqlengine.graphs.running import Faults, GraphHost, PlanOf, RunningGraph, open_graph
from sqlengine.jobs.planning import PlannedJob
from sqlengine.snapshots.job_snapshot import JobSnapshot, renamed
from sqlengine.snapshots.rescaling import split_snapshot

log = logging.getLogger("sqlengine.parts")


def in_parts(plan: PlannedJob, parts: int) -> PlannedJob:
    """The job with rows put together before they cross, where they can be and its settings want it.
    One part alone has nobody to send them to."""
    if parts == 1:
        return plan
    return replace(plan, sinks=tuple(in_two_phases(s, plan.settings) for s in plan.sinks))


def named_in_parts(belongings: JobSnapshot, plans: Iterable[PlannedJob], parts: int) -> JobSnapshot:
    """What jobs have, by the names that their operations have in parts."""
    return renamed(
        belongings,
        {one.digest: other.digest for plan in plans for one, other in _pairs(plan, parts)},
    )


def named_as_written(belongings: JobSnapshot, plan: PlannedJob, parts: int) -> JobSnapshot:
    """The same by the names that they have in a graph that is not divided."""
    return renamed(belongings, {other.digest: one.digest for one, other in _pairs(plan, parts)})


def _pairs(plan: PlannedJob, parts: int) -> Iterator[tuple[LogicalPlan, LogicalPlan]]:
    for sink, divided in zip(plan.sinks, in_parts(plan, parts).sinks, strict=True):
        yield from twins(sink, divided)


class Subtask:
    """Stepped by `step`, or by a thread of its own after `loop.start()`. `lost`: it belongs to
    somebody else by now; it does nothing any more, and whoever had it lets go of it with
    `abandon`."""

    def __init__(
        self, name: str, share: SubtaskAssignment, graph: RunningGraph, epochs: SubtaskLog
    ) -> None:
        self.name = name
        self.graph = graph
        self._parts = share.parts
        self._epochs = epochs

    @property
    def runner(self) -> GraphRunner:
        return self.graph.runner

    @property
    def loop(self) -> GraphLoop:
        return self.graph.loop

    @property
    def fenced(self) -> bool:
        return self._epochs.fenced

    def fence(self) -> Fence | None:
        """The proof of owning it."""
        return self._epochs.fence()

    def step(self) -> bool:
        """What others want between two epochs, then an epoch. False when there was nothing to
        do."""
        return not self.fenced and self.loop.turn()

    def prepare(
        self,
        graph: Graph,
        plans: Mapping[str, PlannedJob],
        jobs: Mapping[str, int],
        renamed: Mapping[str, str],
    ) -> GraphChange:
        """Makes a change ready beside the stream. All parts must have made theirs ready before one
        switches. SqlError leaves everything as it was; a change that does not come is to be
        abandoned (`GraphChange.abandon`)."""
        return self.graph.change(
            graph, {n: in_parts(p, self._parts) for n, p in plans.items()}, jobs, renamed
        )

    def switch(self, change: GraphChange) -> None:
        """Puts it in place between two epochs of this part. Until all parts have done so, those
        that have wait with what they send to others, who read it once they have. A part that turns
        out to be lost makes no change: its next owner does."""
        try:
            self.graph.switch(change)
        except Fenced:
            if not self.fenced:
                raise

    def close(self) -> None:
        """Ends the epoch that runs and writes a checkpoint: who opens the part next goes on from
        there."""
        self.graph.close()
        log.info("%s: CheckPoint at epoch %d, RemoveSplit", self.name, self.runner.epoch)

    def abandon(self) -> None:
        """Lets go without a checkpoint: the part is somebody else's already, or is to be taken up
        where its log ends."""
        self.graph.abandon()
        log.info("%s: RemoveSplit at epoch %d, without a checkpoint", self.name, self.runner.epoch)


def open_part(
    graph: str,
    index: int,
    parts: int,
    host: GraphHost,
    plan_of: PlanOf,
    fence: Fencing,
    *,
    without: Faults | None = None,
) -> Subtask:
    """Part `index` of `parts` of the graph of that name, recovered from its checkpoint and its log.
    ServiceError where the graph was made with another number of parts."""
    name, share = subtask_name(graph, index), SubtaskAssignment(index, parts)
    epochs = SubtaskLog(host.broker, create_subtasks(host.broker, graph, parts), index, fence)
    shuffle = Shuffle(host.broker, graph, share)
    portion = SubtaskContext(share, shuffle, epochs, open_store(host, graph, index, parts, fence))

    def plans(jobs: Mapping[str, int]) -> Mapping[str, PlannedJob | SqlError]:
        return {
            n: in_parts(p, parts) if isinstance(p, PlannedJob) else p
            for n, p in plan_of(jobs).items()
        }

    def belongings(handover: str) -> JobSnapshot | None:
        whole = host.belongings(handover)
        if whole is None:
            return None
        found = [plan for plan in plan_of(whole.jobs).values() if isinstance(plan, PlannedJob)]
        return (
            split_snapshot(named_in_parts(whole, found, parts), share)
            if len(found) == len(whole.jobs)
            else None
        )

    part_host = replace(host, belongings=belongings)
    part = Subtask(name, share, open_graph(name, part_host, plans, without, portion), epochs)
    log.info("%s: NewSplit, goes on behind epoch %d", name, part.runner.epoch)
    return part
