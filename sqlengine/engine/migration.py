"""Takes a job from one graph to another, with its state, between an epoch of the one and an epoch
of the other.

    hold both -> read to the same place -> write down what the job has -> it leaves the one -> it
    comes to the other

What the job has is on disk before it leaves, and the move stands in the job log until it has come:
after a crash it is either still where it was, or goes on with what was written down. Into a graph
of its own it can always go."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from parser.errors import JobError, ServiceError, SqlError, TryAgain
from planner.settings import AGG_PHASES
from sqlengine.cluster.distributed_graph import DistributedGraph
from sqlengine.engine.cluster_migration import EPOCHS, NEAR, Leaving, into_parts, out_of_parts
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.recovery import recovering
from sqlengine.executors.sources import Positions, RunningSource
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.graphs.running import NotTogether, RunningGraph
from sqlengine.jobs.isolation_settings import group_of
from sqlengine.jobs.job import Cause, Job
from sqlengine.jobs.log import PendingChange
from sqlengine.jobs.planning import PlannedJob
from sqlengine.registry import Registry
from sqlengine.snapshots.job_snapshot import (
    JobSnapshot,
    common_positions,
    nodes_of,
    obstacles,
    snapshot,
)
from sqlengine.snapshots.migrations import MigrationStore

log = logging.getLogger("sqlengine")

# So many bytes of a file may be between the two.
_NEAR_BYTES = 1 << 20
# Rows of state that go into parts at once, if they are not those of one job: they are in memory
# meanwhile.
_MOST_ROWS = 1 << 20
# How long the graph that the job comes to waits for the other one's epoch to end.
_PATIENCE_S = 1.0


@dataclass(frozen=True)
class _Migration:
    """One move on its way: both graphs, and the change of each."""

    job: str
    source: ManagedGraph
    target: RunningGraph
    leaving: GraphChange
    coming: GraphChange
    handover: str


class Migrations:
    """Moves the jobs of one engine. All methods are called from the thread that makes changes."""

    def __init__(self, registry: Registry, graphs: GraphManager, store: MigrationStore) -> None:
        self._registry = registry
        self._graphs = graphs
        self._store = store

    def move_to_own_graph(self, job: Job, cause: Cause, reason: str | None) -> None:
        """Into a graph of its own. SqlError where it stays where it is."""
        self._move(
            [job], self._graphs.get_or_create(self._own_graph_name(job)), cause, reason, None
        )

    def move_to_shared_graph(self, job: Job) -> None:
        """Into the graph that the job shares with others. NotTogether where the two do not stand
        near enough to each other: nothing has changed."""
        if self._graphs.of(
            job.name
        ).distributed:  # it goes on from there once it has left the parts
            self.move_to_own_graph(job, Cause.NONE, "it leaves its parts for others")
            return
        home = self._graphs.shared_graph(job)
        group = group_of(home.name)
        cause = Cause.NONE if group is None else Cause.GROUP
        self._move(
            [job], home, cause, None if group is None else f"isolation group '{group}'", _PATIENCE_S
        )

    def move_to_distributed_graph(self, jobs: Sequence[Job], home: DistributedGraph) -> None:
        """Jobs of one graph into the parts that they are to share, in one step: all of them, or
        none (see `movable_together`)."""
        group = group_of(home.name)
        cause, reason = (
            (Cause.NONE, None) if group is None else (Cause.GROUP, f"isolation group '{group}'")
        )
        self._move(jobs, home, cause, reason, None)

    def movable_together(self, jobs: Sequence[Job], most: int) -> list[Job]:
        """The first of some jobs and, of the others, those that can go into parts with it in one
        step: no more than so many jobs, with no more than so much state, of the same graph. What
        they have is known by what it computes, so of two jobs with equal operations only those go
        together that share them."""
        first, *others = jobs
        graph = self._graphs.of(first.name)
        found = [first]
        known = {n.plan.digest: n.id for n in nodes_of(graph.runner.graph, [first.name])}
        rows = _rows(graph, known.values())
        for job in others:
            if len(found) == most:
                break
            if job.name not in graph.runner.jobs or _phases(job) != _phases(first):
                continue
            nodes = {n.plan.digest: n.id for n in nodes_of(graph.runner.graph, [job.name])}
            more = _rows(graph, {*nodes.values()} - {*known.values()})
            if rows + more <= _MOST_ROWS and all(
                known.get(digest, name) == name for digest, name in nodes.items()
            ):
                found.append(job)
                known |= nodes
                rows += more
        return found

    def is_aligned(self, job: Job) -> bool:
        """Whether the job reads about where the graph reads that it would share with others, or
        where what only the job reads ends."""
        held, home = self._graphs.of(job.name), self._graphs.shared_graph(job)
        if any(
            g.distributed and g.loop.problem for g in (held, home)
        ):  # parts that nobody runs do not answer
            return False
        if held.distributed:
            return True
        mine = held.runner.graph.jobs[job.name]
        for name, source in [
            (n, s) for n, s in list(held.runner.inputs.running.items()) if n in mine
        ]:
            if source.full_cache is not None:
                continue
            at, near = dict(source.positions), _near(source)
            theirs = home.read_positions(name)
            if theirs is not None:
                there = theirs
            elif source.scan.table.connector == "topic":
                there = {shard: source.source.end(shard) or 0 for shard in at}
            else:
                there = at
            if any(abs(there.get(shard, 0) - offset) > near for shard, offset in at.items()):
                return False
        return True

    def finish(self) -> None:
        """Makes what is missing of a move that a crash or an error interrupted."""
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
        """The graph to which jobs go may have taken them up, and read on: its epochs say so where
        it has no checkpoint."""
        try:
            self._graphs.get_or_create(target)
        except SqlError as error:
            log.warning("graph %s cannot be opened: %s", target, error)

    def remove_obsolete(self) -> None:
        """Removes what no recovery needs any more."""
        pending = self._registry.log.pending
        needed = {n for g in self._graphs.by_name.values() for n in g.needed_migrations()} | (
            {pending.handover} if pending else set()
        )
        for name in self._store.names - needed:
            self._store.remove(name)

    def _own_graph_name(self, job: Job) -> str:
        """A name that no graph has had: that of one that was is followed by its records in the log
        of epochs."""
        return f"{job.name}@{job.version}-{self._registry.clock()}-{self._graphs.log_end}"

    def _move(
        self,
        jobs: Sequence[Job],
        target: ManagedGraph,
        cause: Cause,
        reason: str | None,
        patience_s: float | None,
    ) -> None:
        """Many of them only into parts."""
        first, source = jobs[0].name, self._graphs.of(jobs[0].name)
        if not self._graphs.runs(first) or source is target:
            raise JobError(
                f"job '{first}' cannot go to graph '{target.name}'",
                detail="it does not run elsewhere",
            )
        handover = self._own_graph_name(jobs[0])
        versions = {job.name: job.version for job in jobs}
        graphs = dict.fromkeys(versions, target.name)
        change = PendingChange(versions, graphs, handover=handover, cause=cause, reason=reason)
        plans = self._plans(versions)
        parts = Leaving(plans, versions, handover, self._store, lambda: self._begin(change))
        try:
            if isinstance(target, DistributedGraph):
                into_parts(parts, source, target)
            elif isinstance(source, DistributedGraph):
                assert isinstance(target, RunningGraph)
                with _prepared(target, plans, versions) as coming:
                    has = out_of_parts(parts, source)
                    target.call(lambda: target.attach(coming, has, handover))
            else:
                assert isinstance(target, RunningGraph)
                with _prepared(target, plans, versions) as coming:
                    leaving = source.change(source.runner.graph, {}, parts.going, {})
                    move = _Migration(first, source, target, leaving, coming, handover)
                    self._begin(change)
                    target.call(lambda: _attach(move, self._store, patience_s))
        except SqlError:
            if self._registry.log.pending is change:
                self.finish()
            raise
        finally:
            self._graphs.retire_idle()
        self._complete(change)

    def _begin(self, change: PendingChange) -> None:
        self._registry.log.begin(change, (), self._registry.clock())

    def _plans(self, versions: Mapping[str, int]) -> dict[str, PlannedJob]:
        plans = {}
        for name, plan in self._registry.plans_of(versions).items():
            if isinstance(plan, SqlError):
                raise plan
            plans[name] = plan
        return plans

    def _roll_back(self, change: PendingChange) -> None:
        """The job has not left its graph."""
        self._registry.log.drop_pending(self._registry.clock())
        self._store.remove(change.handover)
        self._graphs.retire_idle()

    def _complete(self, change: PendingChange) -> None:
        self._registry.complete_migration(change)
        self._graphs.retire_idle()

    def _restore_after_crash(self, change: PendingChange, name: str) -> PendingChange:
        """The jobs have left their graph: they go on in the one of that name, where they were to
        go, or else in one of their own."""
        job_snapshot, jobs = self._store.get(change.handover), list(change.jobs)
        if job_snapshot is None:
            raise ServiceError(f"what job '{jobs[0]}' had is gone: handover '{change.handover}'")
        plans = self._plans(change.jobs)
        try:
            target = self._graphs.get_or_create(name)
            if not isinstance(target, RunningGraph):
                raise NotTogether(jobs, name, "the move was interrupted")
            self._restore(target, plans, job_snapshot, change.handover)
        except SqlError as error:
            log.warning("jobs %s go on in a graph of their own: %s", ", ".join(jobs), error)
            own = self._own_graph_name(self._registry.job(jobs[0]))
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
        with _prepared(target, plans, job_snapshot.jobs) as coming:
            target.call(lambda: target.attach(coming, job_snapshot, handover))


@contextmanager
def _prepared(
    target: RunningGraph, plans: Mapping[str, PlannedJob], jobs: Mapping[str, int]
) -> Iterator[GraphChange]:
    """The change that brings jobs to a graph; abandoned where they did not come."""
    coming = target.prepare_attach(plans, jobs)
    try:
        yield coming
    except BaseException:
        if not jobs.keys() & target.runner.jobs.keys() and not target.runner.broken:
            coming.abandon()
        raise


def _attach(move: _Migration, store: MigrationStore, patience_s: float | None) -> None:
    """What is done in the thread of the graph to which the job comes; that of the other one does
    its part meanwhile."""
    move.target.runner.complete()
    try:
        aligned = move.source.loop.call(lambda: _align_offsets(move), patience_s)
        if not move.target.runner.reach(aligned, EPOCHS):
            raise NotTogether([move.job], move.target.name, "its sources are not read as far")
        job_snapshot = move.source.call(lambda: _detach(move, aligned, store), patience_s)
    finally:
        move.source.runner.inputs.bounds = {}
    move.target.attach(move.coming, job_snapshot, move.handover)


def _align_offsets(move: _Migration) -> Positions:
    """Where both have read to when the job goes over; the graph that it leaves reads no further
    from now on."""
    theirs = common_positions(move.coming.graph, move.target.runner, move.job)
    inputs = move.source.runner.inputs
    aligned = {}
    for name, shards in theirs.items():
        mine = inputs.running[name].positions
        near = _near(inputs.running[name])
        if mine.keys() != shards.keys() or any(
            abs(mine[s] - at) > near for s, at in shards.items()
        ):
            raise NotTogether([move.job], move.target.name, "its sources are not read as far")
        aligned[name] = {s: max(mine[s], at) for s, at in shards.items()}
    inputs.bounds = aligned
    return aligned


def _rows(graph: ManagedGraph, nodes: Iterable[str]) -> int:
    """Of state that these nodes keep."""
    return sum(len(table) for name in nodes for table in graph.executor.tables_of(name).values())


def _phases(job: Job) -> str | None:
    """In how many steps parts add up for the job: it decides what its operations are called
    there."""
    return job.settings.get(AGG_PHASES)


def _near(source: RunningSource) -> int:
    return NEAR if source.scan.table.connector == "topic" else _NEAR_BYTES


def _detach(
    move: _Migration, aligned: Mapping[str, Mapping[str, int]], store: MigrationStore
) -> JobSnapshot:
    runner = move.source.runner
    if not runner.reach(aligned, EPOCHS):
        raise NotTogether([move.job], move.target.name, "its sources are not read as far")
    job_snapshot = snapshot(runner, move.job)
    why_not = next(obstacles(job_snapshot, move.coming.graph, move.target.runner), None)
    if why_not is not None:
        raise NotTogether([move.job], move.target.name, why_not)
    store.put(move.handover, job_snapshot)
    runner.apply(replace(move.leaving, moved=True))
    if job_snapshot.unsent:  # or a recovery would write them again, and wait for space
        with suppress(TryAgain):
            runner.checkpoint()
    return job_snapshot
