"""Keeps the position and the state of jobs that leave their graph because they failed or were
stopped, and lets them go on from there.

    leave:   log the new state with the key -> write the snapshot -> remove the jobs from the graph
    resume:  log the pending change -> add the jobs, with the snapshot, to a graph of their own

The log comes first: while the jobs still run, a restart finds them running, and what the log says
is corrected. Output that a sink has refused is part of the snapshot, and is committed under its old
epochs, so that the sink drops what it has.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from typing import Final

from parser.errors import JobError, SqlError, TryAgain
from planner.logical import Scan
from sqlengine.cluster.distributed_graph import DistributedGraph
from sqlengine.cluster.pause_coordinator import QUIESCE_TIMEOUT_S
from sqlengine.connectors.base import Source
from sqlengine.engine.deploying.job_placement import JobPlacement
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.migration.cluster_migration import MigrationRequest, detach_from_parts
from sqlengine.engine.migration.migrations import prepared
from sqlengine.engine.table_access import scans
from sqlengine.executors.recovery.repeating import recovering
from sqlengine.graphs.apart import is_apart
from sqlengine.graphs.host import NotAligned
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.graphs.running import RunningGraph
from sqlengine.jobs.job import MAIN, Cause, Job, JobState
from sqlengine.jobs.log import PendingChange
from sqlengine.jobs.planning import PlannedJob
from sqlengine.jobs.targets import is_main
from sqlengine.registry import Registry
from sqlengine.snapshots.job_snapshot import JobSnapshot, SourcePosition, capture, groups_of
from sqlengine.snapshots.migrations import MigrationStore

log = logging.getLogger("sqlengine")

FAILED_TIMEOUT_S: Final = 10.0  # for parts to pause, for a job that failed
# In `Job.kept`, before the path of the savepoint with which a job was stopped.
SAVEPOINT: Final = "savepoint "


class Keeping:
    """Stores what jobs of one engine have when they leave, and restores it. All methods are called
    from the thread that makes changes."""

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

    # ---- jobs that leave -------------------------------------------------------------------------

    def leave(self, graph: ManagedGraph, jobs: Sequence[Job]) -> None:
        """Removes jobs from the graph that runs them. `jobs`: as they are afterwards, but for what
        they keep. Raises SqlError for the first that stays; it runs on then."""
        for together in self._leaving_together(graph, jobs):
            self._leave(graph, together)
        self._graphs.retire_idle()

    def _leave(self, graph: ManagedGraph, jobs: Sequence[Job]) -> None:
        before = {j.name: self._registry.job(j.name) for j in jobs}
        # Parts of a graph number their epochs alone, so the leader's say nothing.
        now = self._registry.clock()
        kept = f"{jobs[0].name}@{jobs[0].version}-{now}-{self._graphs.log_end}-kept"
        after = {j.name: replace(j, kept=kept, graph=MAIN, cause=Cause.NONE) for j in jobs}
        self._registry.log.write(after, now)
        try:
            self._detach(graph, {j.name: j.version for j in before.values()}, kept, jobs[0].state)
        except BaseException:
            if any(name in graph.runner.jobs for name in before):
                self._registry.log.write(before, self._registry.clock())
            raise

    def _detach(
        self, graph: ManagedGraph, versions: Mapping[str, int], kept: str, state: JobState
    ) -> None:
        """Removes jobs from a graph; their snapshot is in the store before."""
        if isinstance(graph, DistributedGraph):
            _require_whole(graph, versions)
            request = MigrationRequest({}, versions, kept, self._store, lambda: None)
            # Parts may never pause that a job which fails keeps busy.
            timeout_s = QUIESCE_TIMEOUT_S if state is JobState.STOPPED else FAILED_TIMEOUT_S
            detach_from_parts(request, graph, timeout_s)
            return
        change = graph.change(graph.runner.graph, {}, dict.fromkeys(versions, 0), {})
        taken: list[JobSnapshot] = []

        def take() -> None:
            taken.append(capture(graph.runner, *versions))
            self._store.put(kept, taken[0])

        graph.switch(replace(change, moved=True), take)
        if taken[0].pending_commits:
            # Without a checkpoint a recovery would write these rows again.
            with suppress(TryAgain):
                graph.call(graph.runner.checkpoint)

    def _leaving_together(
        self, graph: ManagedGraph, jobs: Sequence[Job]
    ) -> Iterator[Sequence[Job]]:
        """Yields jobs whose state fits into one snapshot."""
        if graph.distributed:
            yield from ([job] for job in jobs)
            return
        by_name = {job.name: job for job in jobs}
        for names in groups_of(graph.runner.graph, by_name):
            yield [by_name[name] for name in names]

    # ---- jobs that go on -------------------------------------------------------------------------

    def resume(self, jobs: Sequence[Job], *, apart: bool, paused: bool = False) -> str | None:
        """Starts jobs that left their graph together where they were: in the graph that they share
        with others, if that has read as far, else or with `apart` in one of their own. With
        `paused` it reads nothing until it is told to, and sinks may refuse to be opened.

        Returns a sentence about records that were gone, if any were. Raises SqlError if they cannot
        be started now; what they keep stays as it was.
        """
        if is_apart(jobs[0].kept):
            jobs = self._recovered(jobs)
        by_key: dict[str, list[Job]] = {}
        for job in jobs:
            by_key.setdefault(job.kept, []).append(job)
        lost = [self._resume(together, apart, paused) for together in by_key.values()]
        return "; ".join(filter(None, lost)) or None

    def _recovered(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """Recovers jobs that wait apart from their graph, with those that wait with them. What they
        have then is kept; returns the jobs with it."""
        self._require_sources(jobs)
        name = jobs[0].kept
        waiting = {j.name: j for j in self._registry.jobs() if j.kept == name}
        graph = self._graphs.apart.open(name, waiting)
        try:
            kept = graph.recovered.take_kept()
            for names in groups_of(graph.runner.graph, graph.runner.jobs):
                key = f"{names[0]} of {name}"
                self._store.replace(key, capture(graph.runner, *names))
                kept |= dict.fromkeys(names, key)
        finally:
            graph.abandon()
        for job in waiting.keys() - kept.keys():
            raise graph.lost_jobs[job]
        after = {n: replace(job, kept=kept[n]) for n, job in waiting.items()}
        self._registry.log.write(after, self._registry.clock())
        self._graphs.apart.remove({j.kept for j in self._registry.jobs()})
        return [after[job.name] for job in jobs]

    def _require_sources(self, jobs: Sequence[Job]) -> None:
        """SqlError where a table cannot be opened that these jobs read: before anything else is
        done that takes long."""
        plans = self._registry.required_plans({job.name: job.version for job in jobs})
        for scan in {scan.digest: scan for scan in _scans_of(plans)}.values():
            self._graphs.tables.open_source(scan).close()

    def _resume(self, jobs: Sequence[Job], apart: bool, paused: bool) -> str | None:
        key = jobs[0].kept
        snapshot = self._store.get(key)
        if snapshot is None:
            raise JobError(
                f"the position of job '{jobs[0].name}' is gone",
                hint=f"'sql start {jobs[0].name} --from configured' begins as a new job does",
            )
        versions = {job.name: job.version for job in jobs}
        plans = self._registry.required_plans(versions)
        adjusted, lost = self._without_lost_records(replace(snapshot, jobs=versions), plans)
        others = [j for j in self._registry.jobs() if j.kept == key and j.name not in versions]
        if adjusted != snapshot or others:
            key = f"{key}+{self._registry.clock()}"
            self._store.put(key, adjusted)
        shared = None if apart else self._shared_graph(jobs[0], plans, adjusted)
        try:
            self._attach(versions, plans, adjusted, key, shared, paused=paused)
        except NotAligned:  # in this moment the others have read on
            self._attach(versions, plans, adjusted, key, None)
        if others and snapshot.pending_commits:
            self._keep_without_output(others, snapshot)
        return lost

    def _attach(
        self,
        versions: Mapping[str, int],
        plans: Mapping[str, PlannedJob],
        snapshot: JobSnapshot,
        key: str,
        shared: RunningGraph | None,
        *,
        paused: bool = False,
    ) -> None:
        first = self._registry.job(next(iter(versions)))
        name = self._graphs.targets.own_graph(first) if shared is None else shared.name
        change = PendingChange(dict(versions), dict.fromkeys(versions, name), handover=key)
        self._registry.log.begin(change, (), self._registry.clock())
        try:
            target = self._graphs.get_or_create(name)
            assert isinstance(target, RunningGraph)
            if paused:
                target.call(lambda: target.runner.pause({}))
            with (
                recovering(target.runner) if paused else nullcontext(),
                prepared(target, plans, versions) as addition,
            ):
                target.call(lambda: target.arrivals.attach(addition, snapshot, key))
        except SqlError:
            if not any(map(self._graphs.runs, versions)):
                self._registry.log.drop_pending(self._registry.clock())
                self._graphs.retire_idle()
                raise
        self._registry.complete_migration(change)

    def _shared_graph(
        self, job: Job, plans: Mapping[str, PlannedJob], snapshot: JobSnapshot
    ) -> RunningGraph | None:
        """Returns the graph of this process that the job shares with others, if it has read as far
        as the job and no table is to take older rows of it first; None if not."""
        graph = self._placement.shared_graph_for(plans[job.name], job.target)
        if not isinstance(graph, RunningGraph):
            return None
        reached = all(
            graph.read_positions(digest) == source.positions
            for digest, source in snapshot.sources.items()
            if digest not in snapshot.file_versions
        )
        if not is_main(graph.name) or not (reached or not graph.runner.jobs):
            return None
        sinks = (sink for plan in plans.values() for sink in plan.sinks)
        return graph if self._graphs.owes_rows(graph, sinks, job.kept) is None else None

    def _keep_without_output(self, jobs: Sequence[Job], snapshot: JobSnapshot) -> None:
        """Stores the snapshot of jobs that stay behind anew: the output that their sinks refused
        has left with the others."""
        key = f"{jobs[0].kept}+rest"
        self._store.put(key, replace(snapshot, pending_commits=()))
        kept = {job.name: replace(job, kept=key) for job in jobs}
        self._registry.log.write(kept, self._registry.clock())

    # ---- records that are gone -------------------------------------------------------------------

    def _without_lost_records(
        self, snapshot: JobSnapshot, plans: Mapping[str, PlannedJob]
    ) -> tuple[JobSnapshot, str | None]:
        """Returns the snapshot with positions from which there are still records, and a sentence
        about those that are gone. JobError if a source cannot tell where to go on."""
        sources, sentences = dict(snapshot.sources), []
        by_digest = {scan.digest: scan for scan in _scans_of(plans)}
        for digest, scan in by_digest.items():
            position = sources.get(digest)
            if position is None or position.ended or digest in snapshot.file_versions:
                continue
            with closing(self._graphs.tables.open_source(scan)) as source:
                sources[digest], gone = _readable(source, position, scan.table.display)
            sentences += gone
        return replace(snapshot, sources=sources), "; ".join(sentences) or None


def _require_whole(graph: DistributedGraph, jobs: Iterable[str]) -> None:
    """JobError if a part has lost what one of the jobs had: no pause brings it back."""
    for job in jobs:
        reason = graph.left_out(job)
        if reason is not None:
            raise JobError(f"job '{job}' has lost its state in a part", detail=reason)


def _scans_of(plans: Mapping[str, PlannedJob]) -> Iterator[Scan]:
    return (scan for plan in plans.values() for sink in plan.sinks for scan in scans(sink))


def _readable(
    source: Source, position: SourcePosition, table: str
) -> tuple[SourcePosition, list[str]]:
    """Returns the position, or where it cannot be read on from the first record that is there,
    with a sentence for each shard of which records are gone."""
    source.resume(position.positions, {})
    present, positions, sentences = set(source.shards()), {}, []
    for shard, offset in position.positions.items():
        if shard not in present:
            sentences.append(f"shard {shard} of table '{table}' is not there any more")
            continue
        reason = source.expired(shard, offset)
        first = offset if reason is None else source.first(shard)
        if first is None:
            raise JobError(
                f"table '{table}' cannot be read on where the job was",
                detail=reason,
                hint="'sql start JOB --from configured' begins as a new job does",
            )
        positions[shard] = first
        if first > offset:
            sentences.append(f"{first - offset:,} records of table '{table}' were gone: {reason}")
        elif reason is not None:
            sentences.append(f"table '{table}' is read from its beginning: {reason}")
    return replace(position, positions=positions), sentences


def start_positions(
    graphs: GraphManager, plan: PlannedJob, begin: str | int | None
) -> dict[str, dict[str, int]]:
    """Returns the offsets of 'earliest', 'latest' or a time (ms), by scan and shard. JobError for a
    table that does not know them."""
    starts: dict[str, dict[str, int]] = {}
    for scan in _scans_of({plan.name: plan}):
        with closing(graphs.tables.open_source(scan)) as source:
            if begin is None or source.full_cache is not None:
                continue
            places = {shard: source.at(shard, begin) for shard in source.shards()}
        starts[scan.digest] = {shard: at for shard, at in places.items() if at is not None}
        if len(starts[scan.digest]) < len(places):
            raise JobError(
                f"table '{scan.table.display}' does not know where '{begin}' is",
                hint=f"a table of connector '{scan.table.connector}' begins as its options say",
            )
    return starts
