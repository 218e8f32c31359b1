"""Migrates a job from a distributed graph into one of this process, and jobs, many at once, from
such a graph into a distributed one. All parts are paused meanwhile (ADR 11).

    out of parts:  pause the parts -> write the job's snapshot -> remove it -> (caller) restore it
    into parts:    pause the parts -> align the offsets of both graphs -> write the jobs' snapshot
                   -> all parts prepare -> remove the jobs from one graph -> add them to the other
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from parser.errors import SqlError
from planner.graph.merge import Graph
from planner.logical import Scan
from sqlengine.cluster.distributed_graph import DistributedGraph
from sqlengine.cluster.pause_coordinator import QUIESCE_TIMEOUT_S
from sqlengine.engine.migration.graph_migration import (
    APART,
    MAX_EPOCHS,
    MAX_RECORDS,
    aligned_offsets,
)
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.sources import Positions
from sqlengine.graphs.host import NotAligned
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.jobs.planning import PlannedJob
from sqlengine.snapshots.job_snapshot import JobSnapshot, capture, nodes_of
from sqlengine.snapshots.migrations import MigrationStore


@dataclass(frozen=True)
class MigrationRequest:
    """Jobs (name -> version) that migrate. `begin` logs the migration as pending; `handover` is the
    key of their snapshot in the `store`."""

    plans: Mapping[str, PlannedJob]
    jobs: Mapping[str, int]
    handover: str
    store: MigrationStore
    begin: Callable[[], None]

    @property
    def removals(self) -> dict[str, int]:
        """The jobs as a change of the source graph names them: version 0 removes a job."""
        return dict.fromkeys(self.jobs, 0)


def detach_from_parts(
    request: MigrationRequest, source: DistributedGraph, timeout_s: float = QUIESCE_TIMEOUT_S
) -> JobSnapshot:
    """Removes the one job of the request from all parts, and returns its snapshot.

    The snapshot is in the store before the job is removed. Raises SqlError if that fails; the job
    is where it was then, or the migration is pending.
    """
    (job,) = request.jobs
    change = source.change(source.runner.graph, {}, request.removals, {})
    try:
        with source.pauses.quiesce(timeout_s):
            job_snapshot = source.snapshot(job)
            request.begin()
            request.store.put(request.handover, job_snapshot)
            # A crash before this line rolls back, one behind it restores the job from the stored
            # snapshot.
            source.switch(replace(change, moved=True))
    except SqlError:
        change.abandon()
        raise
    return job_snapshot


def migrate_into_parts(
    request: MigrationRequest, source: ManagedGraph, target: DistributedGraph
) -> None:
    """Moves the jobs of the request from `source` into all parts of `target`.

    Raises NotAligned if the offsets of the two graphs are too far apart; nothing has changed then.
    """
    inputs = source.runner.inputs
    nodes = (node.id for node in nodes_of(source.runner.graph, request.jobs))
    common = [name for name in nodes if target.read_positions(name) is not None]

    def stop_reading() -> None:
        inputs.bounds = {name: dict(inputs.running[name].positions) for name in common}

    # The source graph stops where it is, before the parts do: they may be behind it, and read up to
    # it.
    source.loop.call(stop_reading)
    try:
        with target.pauses.quiesce() as positions:
            reached = {name: positions[name] for name in common}
            aligned = aligned_offsets(
                request.jobs, target.name, inputs.running, reached, lambda _: MAX_RECORDS
            )
            if any(reached[name] != offsets for name, offsets in aligned.items()):
                target.pauses.advance_to(aligned)
            removal = source.change(source.runner.graph, {}, request.removals, {})
            addition = target.change(target.runner.graph, request.plans, request.jobs, {})
            prepared = _PreparedMigration(aligned, removal, addition)
            source.call(lambda: _migrate(request, source, target, prepared), None)
    finally:
        inputs.bounds = {}


@dataclass(frozen=True)
class _PreparedMigration:
    """The offsets at which both graphs switch, and the prepared change of each."""

    aligned: Positions
    removal: GraphChange
    addition: GraphChange


def _migrate(
    request: MigrationRequest,
    source: ManagedGraph,
    target: DistributedGraph,
    prepared: _PreparedMigration,
) -> None:
    """Switches both graphs. Runs in the thread of the source graph, which waits until all parts
    have prepared."""
    try:
        job_snapshot = _snapshot_at(request.jobs, source, target, prepared.aligned)
        request.begin()
        request.store.put(request.handover, job_snapshot)
    except SqlError:
        prepared.addition.abandon()
        raise
    positions = _source_positions(job_snapshot, prepared.addition.graph)
    target.switch_with_migration(
        prepared.addition,
        request.handover,
        positions,
        # All parts have prepared by then: the job leaves this graph only if they can take it.
        lambda: source.runner.apply(prepared.removal),
    )


def _snapshot_at(
    jobs: Collection[str], source: ManagedGraph, target: DistributedGraph, aligned: Positions
) -> JobSnapshot:
    """Reads the source graph up to the aligned offsets, and returns the snapshot of the jobs."""
    if not source.runner.reach(aligned, MAX_EPOCHS):
        raise NotAligned(jobs, target.name, APART)
    job_snapshot = capture(source.runner, *jobs)
    if job_snapshot.pending_commits:
        raise NotAligned(jobs, target.name, "it has rows for which there is no space")
    return job_snapshot


def _source_positions(job_snapshot: JobSnapshot, graph: Graph) -> Positions:
    """Returns the positions of the snapshot's sources, by the scans of `graph`, which has the
    jobs."""
    scans = (node for node in job_snapshot.nodes(graph) if isinstance(node.plan, Scan))
    return {scan.id: job_snapshot.sources[scan.plan.digest].positions for scan in scans}
