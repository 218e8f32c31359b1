"""Migrates jobs from graph to graph, with their state, between an epoch of each.

The snapshot of a job is on disk before it leaves a graph, and the migration stands in the job log
until it is complete: after a crash the job is either still in its old graph, or goes on from the
snapshot. It can always go on in a graph of its own. `graph_migration.py` is the migration between
two graphs of this process, `cluster_migration.py` that from and into distributed ones.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from parser.errors import JobError, ServiceError, SqlError
from planner.settings import AGG_PHASES
from sqlengine.cluster.distributed_graph import DistributedGraph
from sqlengine.connectors.registry import declared_capabilities
from sqlengine.engine.deploying.job_placement import JobPlacement
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.migration.cluster_migration import (
    MigrationRequest,
    detach_from_parts,
    migrate_into_parts,
)
from sqlengine.engine.migration.graph_migration import JobMigration, migrate, tolerance_of
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.recovery.repeating import recovering
from sqlengine.executors.sources import RunningSource
from sqlengine.graphs.departures import is_departure
from sqlengine.graphs.host import NotAligned
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.graphs.running import RunningGraph
from sqlengine.jobs.isolation_settings import group_of
from sqlengine.jobs.job import Cause, Job, JobState
from sqlengine.jobs.log import PendingChange
from sqlengine.jobs.planning import PlannedJob
from sqlengine.registry import Registry
from sqlengine.snapshots.job_snapshot import JobSnapshot, nodes_of
from sqlengine.snapshots.migrations import MigrationStore

log = logging.getLogger("sqlengine")

# Rows of state that go into parts in one step, unless a single job has more: they are in memory
# meanwhile.
_MAX_ROWS = 1 << 20
# Seconds that the graph to which a job goes waits for the end of the other graph's epoch.
_PATIENCE_S = 1.0


class Migrations:
    """Migrates jobs of one engine. All methods are called from the thread that makes changes."""

    def __init__(
        self,
        registry: Registry,
        graphs: GraphManager,
        placement: JobPlacement,
        store: MigrationStore,
    ) -> None:
        self._registry = registry
        self._graphs = graphs
        self._placement = placement
        self._store = store

    def move_to_own_graph(self, job: Job, cause: Cause, reason: str | None) -> None:
        """Moves a job into a graph of its own. Raises SqlError if it stays where it is."""
        target = self._graphs.get_or_create(self._graphs.targets.own_graph(job))
        self._move([job], target, cause, reason, None)

    def move_to_shared_graph(self, job: Job) -> None:
        """Moves a job into the graph that it shares with others.

        Raises NotAligned if the offsets of the two graphs are too far apart; nothing has changed
        then.
        """
        if self._graphs.of(job.name).distributed:
            # First out of the parts; from its own graph it is merged once that has read as far.
            self.move_to_own_graph(job, Cause.NONE, "it leaves its parts for others")
            return
        shared = self._placement.shared_graph(job)
        self._move([job], shared, *_cause_in(shared), _PATIENCE_S)

    def move_to_distributed_graph(self, jobs: Sequence[Job], target: DistributedGraph) -> None:
        """Moves jobs of one graph into a distributed one in one step: all or none of them (see
        `movable_together`)."""
        self._move(jobs, target, *_cause_in(target), None)

    def movable_together(self, jobs: Sequence[Job], most: int) -> list[Job]:
        """Returns the first job, and those of the others that can move into parts with it in one
        step: jobs of the same graph, at most `most` of them, with at most _MAX_ROWS rows of state.

        A snapshot names state by the digest of the operation. So jobs with equal operations can
        move together only if they share the node.
        """
        first, *others = jobs
        graph = self._graphs.of(first.name)
        together = [first]
        known = {n.plan.digest: n.id for n in nodes_of(graph.runner.graph, [first.name])}
        rows = _rows(graph, known.values())
        for job in others:
            if len(together) == most:
                break
            if job.name not in graph.runner.jobs or _phases(job) != _phases(first):
                continue
            nodes = {n.plan.digest: n.id for n in nodes_of(graph.runner.graph, [job.name])}
            more = _rows(graph, {*nodes.values()} - {*known.values()})
            if rows + more <= _MAX_ROWS and all(
                known.get(digest, name) == name for digest, name in nodes.items()
            ):
                together.append(job)
                known |= nodes
                rows += more
        return together

    def is_aligned(self, job: Job) -> bool:
        """True if the job's graph has read about as far as the graph that it would share, and no
        table of the job is to take older rows of that one first.

        Where that does not read a source of the job, the job must be near the end of the topic.
        """
        current, shared = self._graphs.of(job.name), self._placement.shared_graph(job)
        if any(graph.distributed and graph.loop.problem for graph in (current, shared)):
            return False  # parts that no instance runs do not answer
        if current.distributed:
            return True
        nodes = current.runner.graph.jobs[job.name]
        sources = [(n, s) for n, s in list(current.runner.inputs.running.items()) if n in nodes]
        close = all(
            _is_close(source, shared.read_positions(name))
            for name, source in sources
            if source.full_cache is None
        )
        return close and self._graphs.owes_rows(shared, self._graphs.sinks(job.name)) is None

    def finish(self) -> None:
        """Completes or rolls back the pending migration that a crash or an error interrupted."""
        change = self._registry.log.pending
        assert change is not None
        (target,) = set(change.graphs.values())
        self._open(target)
        if any(
            change.jobs.keys() & g.runner.jobs.keys()
            for g in self._graphs.by_name.values()
            if g.name != target
        ):
            self._roll_back(change)
            return
        if not any(map(self._graphs.runs, change.jobs)):
            change = self._restore_after_crash(change, target)
        self._complete(change)

    def _open(self, target: str) -> None:
        """Opens the graph to which the jobs go: they may have arrived, and its epoch log says so
        even if it has no checkpoint."""
        try:
            self._graphs.get_or_create(target)
        except SqlError as error:
            log.warning("graph %s cannot be opened: %s", target, error)

    def remove_obsolete(self) -> None:
        """Removes the snapshots that no recovery needs any more."""
        pending = self._registry.log.pending
        needed = {n for g in self._graphs.by_name.values() for n in g.needed_migrations()} | (
            {pending.handover} if pending else set()
        )
        needed |= {job.kept for job in self._registry.log.jobs.values() if job.kept}
        apart = self._graphs.apart
        apart.remove(needed)
        needed |= {name for waiting in apart.stored().values() for name in waiting.handovers}
        for name in self._store.names - needed:
            self._store.remove(name)

    def departed(self) -> dict[str, str]:
        """Returns, by job, the keys of snapshots of jobs that a recovery has taken out of a graph
        and that the log does not know of: the server died in between."""
        jobs = self._registry.log.jobs.values()
        ran = (JobState.RUNNING, JobState.FAILED)
        lost = {j.name: j for j in jobs if j.state in ran and not j.kept}
        lost = {n: j for n, j in lost.items() if not self._graphs.runs(n)} if lost else {}
        found: dict[str, str] = {}
        for key in sorted(filter(is_departure, self._store.names)) if lost else ():
            snapshot = self._store.get(key)
            versions = {} if snapshot is None else snapshot.jobs
            found |= {n: key for n, v in versions.items() if n in lost and lost[n].version == v}
        for name, apart in self._graphs.apart.stored().items() if lost else ():
            versions = apart.jobs
            found |= {n: name for n, v in versions.items() if n in lost and lost[n].version == v}
        return found

    def _move(
        self,
        jobs: Sequence[Job],
        target: ManagedGraph,
        cause: Cause,
        reason: str | None,
        patience_s: float | None,
    ) -> None:
        """Moves jobs to another graph; more than one only into a distributed graph.

        The migration is pending in the job log meanwhile. When it fails it is completed or rolled
        back, and the error is raised.
        """
        first, source = jobs[0].name, self._graphs.of(jobs[0].name)
        if not self._graphs.runs(first) or source is target:
            raise JobError(
                f"job '{first}' cannot go to graph '{target.name}'",
                detail="it does not run elsewhere",
            )
        sinks = (sink for job in jobs for sink in self._graphs.sinks(job.name))
        owed = self._graphs.owes_rows(target, sinks)
        if owed is not None:
            reason = f"table '{owed}' has not taken all rows that this graph wrote before"
            raise NotAligned([job.name for job in jobs], target.name, reason)
        unanswered = source.runner.outputs.uncommitted.unanswered([job.name for job in jobs])
        if unanswered is not None:
            raise unanswered
        handover = self._graphs.targets.own_graph(jobs[0])
        versions = {job.name: job.version for job in jobs}
        graphs = dict.fromkeys(versions, target.name)
        change = PendingChange(versions, graphs, handover=handover, cause=cause, reason=reason)
        request = MigrationRequest(
            self._registry.required_plans(versions),
            versions,
            handover,
            self._store,
            lambda: self._begin(change),
        )
        try:
            self._migrate(request, source, target, patience_s)
        except SqlError:
            # Begun, and not complete: `finish` looks at which graph has the job.
            if self._registry.log.pending is change:
                self.finish()
            raise
        finally:
            self._graphs.retire_idle()
        self._complete(change)

    def _migrate(
        self,
        request: MigrationRequest,
        source: ManagedGraph,
        target: ManagedGraph,
        patience_s: float | None,
    ) -> None:
        """Moves the jobs by the kind of the two graphs."""
        if isinstance(target, DistributedGraph):
            migrate_into_parts(request, source, target)
            return
        assert isinstance(target, RunningGraph)
        with prepared(target, request.plans, request.jobs) as addition:
            if isinstance(source, DistributedGraph):
                job_snapshot = detach_from_parts(request, source)
                target.call(
                    lambda: target.arrivals.attach(addition, job_snapshot, request.handover)
                )
                return
            removal = source.change(source.runner.graph, {}, request.removals, {})
            (job,) = request.jobs
            migration = JobMigration(job, source, target, removal, addition, request.handover)
            request.begin()
            target.call(lambda: migrate(migration, self._store, patience_s))

    def _begin(self, change: PendingChange) -> None:
        self._registry.log.begin(change, (), self._registry.clock())

    def _roll_back(self, change: PendingChange) -> None:
        """Gives up a migration whose jobs have not left their graph."""
        self._registry.log.drop_pending(self._registry.clock())
        self._store.remove(change.handover)
        self._graphs.retire_idle()

    def _complete(self, change: PendingChange) -> None:
        self._registry.complete_migration(change)
        self._graphs.retire_idle()

    def _restore_after_crash(self, change: PendingChange, name: str) -> PendingChange:
        """Restores jobs that have left their graph: in the graph `name`, their target, else in one
        of their own. Returns the change as it is made."""
        job_snapshot, jobs = self._store.get(change.handover), list(change.jobs)
        if job_snapshot is None:
            raise ServiceError(f"what job '{jobs[0]}' had is gone: handover '{change.handover}'")
        plans = self._registry.required_plans(change.jobs)
        try:
            target = self._graphs.get_or_create(name)
            if not isinstance(target, RunningGraph):
                raise NotAligned(jobs, name, "the move was interrupted")
            self._restore(target, plans, job_snapshot, change.handover)
        except SqlError as error:
            log.warning("jobs %s go on in a graph of their own: %s", ", ".join(jobs), error)
            own = self._graphs.targets.own_graph(self._registry.job(jobs[0]))
            change = replace(change, graphs=dict.fromkeys(jobs, own))
            self._registry.log.begin(change, (), self._registry.clock())
            target = self._graphs.get_or_create(own)
            assert isinstance(target, RunningGraph)
            # Jobs whose connectors cannot be opened any more fail, as after a restart.
            with recovering(target.runner):
                self._restore(target, plans, job_snapshot, change.handover)
        return change

    def _restore(
        self,
        target: RunningGraph,
        plans: Mapping[str, PlannedJob],
        job_snapshot: JobSnapshot,
        handover: str,
    ) -> None:
        with prepared(target, plans, job_snapshot.jobs) as addition:
            target.call(lambda: target.arrivals.attach(addition, job_snapshot, handover))


@contextmanager
def prepared(
    target: RunningGraph, plans: Mapping[str, PlannedJob], jobs: Mapping[str, int]
) -> Iterator[GraphChange]:
    """Yields the prepared change that adds jobs to a graph; abandons it if they were not added."""
    addition = target.arrivals.prepare(plans, jobs)
    try:
        yield addition
    except BaseException:
        if not jobs.keys() & target.runner.jobs.keys() and not target.runner.broken:
            addition.abandon()
        raise


def _is_close(source: RunningSource, reached: Mapping[str, int] | None) -> bool:
    """True if the source has read about as far as another graph (`reached`), which None is if that
    does not read it: then about to the end of a topic."""
    positions, most = dict(source.positions), tolerance_of(source)
    if reached is None:
        if not declared_capabilities(source.scan.table).reads_topics:
            return True
        reached = {shard: source.source.end(shard) or 0 for shard in positions}
    return all(abs(reached.get(shard, 0) - at) <= most for shard, at in positions.items())


def _cause_in(graph: ManagedGraph) -> tuple[Cause, str | None]:
    """Returns the cause and the reason why a job is in a shared graph: its isolation group."""
    group = group_of(graph.name)
    return (Cause.NONE, None) if group is None else (Cause.GROUP, f"isolation group '{group}'")


def _rows(graph: ManagedGraph, nodes: Iterable[str]) -> int:
    """Returns the rows of state that these nodes keep."""
    return sum(len(table) for name in nodes for table in graph.executor.tables_of(name).values())


def _phases(job: Job) -> str | None:
    """Returns the job's setting of one- or two-phase aggregation: the digests of its operations
    depend on it."""
    return job.settings.get(AGG_PHASES)
