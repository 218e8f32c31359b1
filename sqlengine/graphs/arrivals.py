"""Takes jobs that come from another graph into one that runs, with what they had there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.graph.merge import Graph, merge
from sqlengine.executors.epochs import EPOCHS
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.runner import GraphRunner
from sqlengine.graphs.host import GraphHost, NotAligned
from sqlengine.jobs.planning import PlannedJob
from sqlengine.snapshots.checkpoints import Checkpoints
from sqlengine.snapshots.job_snapshot import JobSnapshot, bind, obstacles, restore_file_versions
from sqlengine.snapshots.rescaling import exchange_times


class Arrivals:
    """Takes jobs into the graph of a runner. Their snapshots are stored, each by the name of the
    migration that brings it."""

    def __init__(
        self, graph: str, host: GraphHost, runner: GraphRunner, checkpoints: Checkpoints
    ) -> None:
        self._graph = graph
        self._host = host
        self._runner = runner
        self._checkpoints = checkpoints
        # By migration: the epoch that restored it, and the offset in the log after that epoch.
        self._migrations: dict[str, tuple[int, int]] = {}

    def prepare(self, plans: Mapping[str, PlannedJob], jobs: Mapping[str, int]) -> GraphChange:
        """Prepares a change that attaches jobs, before their snapshot exists."""
        with self._runner.outputs.opener.deferring_opens():
            sinks = {name: plan.sinks for name, plan in plans.items()}
            return self._runner.prepare(merge(self._runner.graph, sinks), jobs)

    def attach(self, change: GraphChange, snapshot: JobSnapshot, migration: str) -> None:
        """Applies a change that attaches jobs with their snapshot (graph thread).

        NotAligned if their positions or watermarks differ; the caller must abandon the change."""
        runner = self._runner
        obstacle = next(obstacles(snapshot, change.graph, runner), None)
        if obstacle is not None:
            raise NotAligned(snapshot.jobs, self._graph, obstacle)
        lookups = restore_file_versions(snapshot, change.sources, runner)
        if lookups is None:
            reason = "rows are looked up in another version of a file"
            raise NotAligned(snapshot.jobs, self._graph, reason)
        # After all that may refuse: it opens sinks for pending commits.
        restored = bind(snapshot, change.graph, runner, migration)
        starts = {**restored.positions, **lookups}
        runner.apply(replace(change, restored=restored, starts=starts))
        self._remember(migration)

    def prepare_logged(
        self,
        graph: Graph,
        plans: Mapping[str, PlannedJob],
        jobs: Mapping[str, int],
        snapshot: JobSnapshot,
        migration: str,
    ) -> GraphChange:
        """Prepares a change that a log records, and that attaches jobs with their snapshot."""
        runner = self._runner
        self._remember(migration)
        change = runner.prepare(merge(graph, {n: p.sinks for n, p in plans.items()}), jobs)
        times = exchange_times(snapshot, change.graph, change.prepared.operators)
        return replace(change, restored=bind(snapshot, change.graph, runner, migration, times))

    def check(self, change: GraphChange, migration: str) -> None:
        """NotAligned if the jobs of a migration cannot be attached between two epochs now."""
        snapshot = self._host.stored_snapshot(migration)
        obstacle: str | None = "it is gone"
        if snapshot is not None:
            obstacle = next(obstacles(snapshot, change.graph, self._runner), None)
        if obstacle is not None:
            raise NotAligned(change.jobs, self._graph, obstacle)

    def _remember(self, migration: str) -> None:
        self._migrations[migration] = (self._runner.epoch, self._runner.epochs.log_offset)

    def needed(self) -> set[str]:
        """Returns the names of the stored migrations that a recovery would read again.

        These are later than the last checkpoint. If power may be lost, and the last checkpoints
        with it, all migrations in the epoch log are needed."""
        stored, begin = self._checkpoints.stored_epoch, self._host.broker.begin_offset(EPOCHS, 0)
        recovers_from_power_loss = self._host.config.fsync != "none"
        return {
            name
            for name, (epoch, offset) in list(self._migrations.items())
            if epoch > stored or (recovers_from_power_loss and offset > begin)
        }
