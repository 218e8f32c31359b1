"""Migrates a job from one graph to another of this process, between an epoch of each (ADR 10).

both graphs' threads wait -> both read to the same offsets -> write the job's snapshot -> remove
the job from the source graph -> add it to the target graph
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from parser.errors import TryAgain
from sqlengine.connectors.registry import declared_capabilities
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.sources import Positions, RunningSource
from sqlengine.graphs.host import NotAligned
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.graphs.running import RunningGraph
from sqlengine.snapshots.job_snapshot import JobSnapshot, capture, common_positions, obstacles
from sqlengine.snapshots.migrations import MigrationStore

# Two graphs are aligned by reading at most MAX_EPOCHS epochs, and only if their offsets differ by
# no more than this in each shard: records of a topic, bytes of a file.
MAX_EPOCHS, MAX_RECORDS, MAX_BYTES = 8, 4096, 1 << 20
APART = "its sources are not read as far"


@dataclass(frozen=True)
class JobMigration:
    """A migration of one job: both graphs, and the prepared change of each. `handover` is the key
    of the job's snapshot in the store."""

    job: str
    source: ManagedGraph
    target: RunningGraph
    removal: GraphChange
    addition: GraphChange
    handover: str

    def refused(self, reason: str) -> NotAligned:
        """Returns the error that the job cannot be added to the target now."""
        return NotAligned([self.job], self.target.name, reason)


def migrate(migration: JobMigration, store: MigrationStore, patience_s: float | None) -> None:
    """Moves the job. Runs in the target's thread; the source's thread does its part meanwhile.

    Waits at most `patience_s` for each answer of the source. Raises NotAligned if the two graphs
    are too far apart; the job has not moved then.
    """
    source, target = migration.source, migration.target
    target.runner.complete()
    try:
        aligned = source.loop.call(lambda: _align_source(migration), patience_s)
        if not target.runner.reach(aligned, MAX_EPOCHS):
            raise migration.refused(APART)
        job_snapshot = source.call(lambda: _detach(migration, aligned, store), patience_s)
    finally:
        # In any case: a source graph that keeps its bounds would read nothing any more.
        source.runner.inputs.bounds = {}
    target.arrivals.attach(migration.addition, job_snapshot, migration.handover)


def aligned_offsets(
    jobs: Collection[str],
    target: str,
    running: Mapping[str, RunningSource],
    reached: Positions,
    tolerance: Callable[[RunningSource], int],
) -> Positions:
    """Returns the offsets at which jobs change over: in each shard the later of both graphs.

    `running`: the sources of the graph that they leave; `reached`: the offsets of the graph
    `target`, for the sources that both read. Raises NotAligned if two differ by more than
    `tolerance`, or in their shards.
    """
    aligned = {}
    for name, offsets in reached.items():
        own, most = running[name].positions, tolerance(running[name])
        if own.keys() != offsets.keys() or any(
            abs(own[shard] - offset) > most for shard, offset in offsets.items()
        ):
            raise NotAligned(jobs, target, APART)
        # The later one, as nobody can read backwards.
        aligned[name] = {shard: max(own[shard], offset) for shard, offset in offsets.items()}
    return aligned


def tolerance_of(source: RunningSource) -> int:
    """Returns how far two graphs may be apart in a shard of the source: records or bytes."""
    counted = declared_capabilities(source.scan.table).counts_records
    return MAX_RECORDS if counted else MAX_BYTES


def _align_source(migration: JobMigration) -> Positions:
    """Returns the offsets for both graphs. From now on the source graph reads no further. Runs in
    its thread."""
    inputs = migration.source.runner.inputs
    reached = common_positions(migration.addition.graph, migration.target.runner, migration.job)
    inputs.bounds = aligned_offsets(
        [migration.job], migration.target.name, inputs.running, reached, tolerance_of
    )
    return inputs.bounds


def _detach(migration: JobMigration, aligned: Positions, store: MigrationStore) -> JobSnapshot:
    """Removes the job from the source graph, in its thread, and returns the snapshot, which is in
    the store before."""
    runner = migration.source.runner
    if not runner.reach(aligned, MAX_EPOCHS):
        raise migration.refused(APART)
    job_snapshot = capture(runner, migration.job)
    obstacle = next(
        obstacles(job_snapshot, migration.addition.graph, migration.target.runner), None
    )
    if obstacle is not None:
        raise migration.refused(obstacle)
    # Before the job leaves: from the removal on, the snapshot is all that there is of its state.
    store.put(migration.handover, job_snapshot)
    runner.apply(replace(migration.removal, moved=True))
    if job_snapshot.pending_commits:
        # Without a checkpoint a recovery would write these rows again, and wait for space.
        with suppress(TryAgain):
            runner.checkpoint()
    return job_snapshot
