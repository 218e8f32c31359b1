"""Takes a job out of parts into a graph of this process, and jobs into parts, many at once: while
they stand still.

hold the parts -> write down what the job has in all of them -> it leaves -> it comes to the other
graph hold the parts -> read both to the same place -> write down what jobs have -> all parts
prepare -> they leave -> they come"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from parser.errors import SqlError
from planner.graph.merge import Graph
from planner.logical import Scan
from sqlengine.cluster.distributed_graph import DistributedGraph
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.sources import Positions
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.graphs.running import NotTogether
from sqlengine.jobs.planning import PlannedJob
from sqlengine.snapshots.job_snapshot import JobSnapshot, nodes_of, snapshot
from sqlengine.snapshots.migrations import MigrationStore

# So many epochs may be between the two, of so many records in a shard.
EPOCHS, NEAR = 8, 4096


@dataclass(frozen=True)
class Leaving:
    """What the two ways have in common. `begin` writes down that the move is on its way."""

    plans: Mapping[str, PlannedJob]
    jobs: Mapping[str, int]
    handover: str
    handovers: MigrationStore
    begin: Callable[[], None]

    @property
    def going(self) -> dict[str, int]:
        """The change of the graph that they leave."""
        return dict.fromkeys(self.jobs, 0)


def out_of_parts(leaving: Leaving, source: DistributedGraph) -> JobSnapshot:
    """The one job leaves; what it has is written down."""
    (job,) = leaving.jobs
    change = source.change(source.runner.graph, {}, leaving.going, {})
    try:
        with source.pauses.quiesce():
            belongings = source.snapshot(job)
            leaving.begin()
            leaving.handovers.put(leaving.handover, belongings)
            source.switch(replace(change, moved=True))
    except SqlError:
        change.abandon()
        raise
    return belongings


def into_parts(leaving: Leaving, source: ManagedGraph, target: DistributedGraph) -> None:
    """The jobs go over. NotTogether where they do not stand near enough to the others: nothing has
    changed."""
    inputs = source.runner.inputs
    mine = (node.id for node in nodes_of(source.runner.graph, leaving.jobs))
    common = [name for name in mine if target.read_positions(name) is not None]

    def hold() -> None:
        inputs.bounds = {name: dict(inputs.running[name].positions) for name in common}

    source.loop.call(hold)
    try:
        with target.pauses.quiesce() as there:
            meeting = _meeting(leaving.jobs, source, target, {name: there[name] for name in common})
            if any(there[name] != at for name, at in meeting.items()):
                target.pauses.advance_to(meeting)
            going = source.change(source.runner.graph, {}, leaving.going, {})
            coming = target.change(target.runner.graph, leaving.plans, leaving.jobs, {})
            source.call(
                lambda: _give(leaving, source, target, _Ready(meeting, going, coming)), None
            )
    finally:
        inputs.bounds = {}


def _meeting(
    jobs: Collection[str], source: ManagedGraph, target: DistributedGraph, theirs: Positions
) -> Positions:
    """Where both have read to when the jobs go over."""
    meeting = {}
    for name, shards in theirs.items():
        mine = source.runner.inputs.running[name].positions
        if mine.keys() != shards.keys() or any(
            abs(mine[s] - at) > NEAR for s, at in shards.items()
        ):
            raise NotTogether(jobs, target.name, "its sources are not read as far")
        meeting[name] = {s: max(mine[s], at) for s, at in shards.items()}
    return meeting


@dataclass(frozen=True)
class _Ready:
    """What is ready when the jobs go over."""

    meeting: Positions
    going: GraphChange
    coming: GraphChange


def _give(leaving: Leaving, source: ManagedGraph, target: DistributedGraph, ready: _Ready) -> None:
    """In the thread of the graph that the jobs leave, which waits until all parts have prepared."""
    try:
        belongings = _belongings(leaving.jobs, source, target, ready.meeting)
        leaving.begin()
        leaving.handovers.put(leaving.handover, belongings)
    except SqlError:
        ready.coming.abandon()
        raise
    positions = _positions(belongings, ready.coming.graph)
    target.switch_with_migration(
        ready.coming, leaving.handover, positions, lambda: source.runner.apply(ready.going)
    )


def _belongings(
    jobs: Collection[str], source: ManagedGraph, target: DistributedGraph, meeting: Positions
) -> JobSnapshot:
    if not source.runner.reach(meeting, EPOCHS):
        raise NotTogether(jobs, target.name, "its sources are not read as far")
    belongings = snapshot(source.runner, *jobs)
    if belongings.unsent:
        raise NotTogether(jobs, target.name, "it has rows for which there is no space")
    return belongings


def _positions(belongings: JobSnapshot, graph: Graph) -> Positions:
    """By the scans of `graph`, which has the jobs."""
    scans = (node for node in belongings.nodes(graph) if isinstance(node.plan, Scan))
    return {scan.id: belongings.sources[scan.plan.digest].positions for scan in scans}
