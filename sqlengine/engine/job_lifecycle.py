"""Stops, starts and fails jobs whose texts stay as they are, in the thread that makes changes."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from parser.errors import JobError, SqlError
from sqlengine.connectors.boundary.calls import ConnectorFailed
from sqlengine.engine.change_planning import already_running
from sqlengine.engine.deploying.job_placement import JobPlacement
from sqlengine.engine.draining import Draining
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.migration.keeping import SAVEPOINT, Keeping, start_positions
from sqlengine.engine.pending_changes import PendingChanges
from sqlengine.engine.requests import Outcome
from sqlengine.engine.savepoints import Savepoints, path_in
from sqlengine.graphs.apart import is_apart
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.jobs.job import AT_REST, BEGINS, MAIN, Cause, Job, JobState, with_state
from sqlengine.jobs.planning import PlannedJob
from sqlengine.jobs.restart_strategy import Attempts, strategy_in
from sqlengine.registry import CANNOT_RUN, Registry
from sqlengine.system.words import counted

log = logging.getLogger("sqlengine")
_LOST: Final = "it left its graph without its position and its state"


class JobLifecycle:
    """Stops, starts and fails the jobs of one engine. All methods are called from the thread
    that makes changes, and first finish what a crash has interrupted."""

    def __init__(
        self,
        registry: Registry,
        graphs: GraphManager,
        placement: JobPlacement,
        savepoints: Savepoints,
        keeping: Keeping,
        drains: Draining,
        pending: PendingChanges,
    ) -> None:
        self._registry = registry
        self._graphs = graphs
        self._placement = placement
        self._savepoints = savepoints
        self._keeping = keeping
        self._drains = drains
        self._pending = pending

    def stop(self, job: Job) -> Outcome:
        """Removes a job from its graph. The job stays, and so do its text, its position and its
        state. One of which nothing runs is unchanged."""
        if job.state in AT_REST:
            return Outcome(job.name, "unchanged", job.version)
        self._pending.finish()
        graph = self._graphs.of(job.name)
        if job.name in graph.runner.jobs:
            stopped = with_state(job, JobState.STOPPED, self._registry.clock(), None)
            self.leave(graph, [replace(stopped, restarts=0, failures=())])
        else:
            self._registry.set_state(job, JobState.STOPPED, None, MAIN)
        return Outcome(job.name, JobState.STOPPED.value, job.version)

    def leave(self, graph: ManagedGraph, jobs: Sequence[Job]) -> None:
        """Removes jobs from their graph, with what they keep."""
        try:
            self._keeping.leave(graph, jobs)
        except SqlError as error:
            left = [j for j in jobs if j.name in graph.runner.jobs]
            # A connector that cannot even tell what its table has been keeps no job.
            if not graph.distributed and not isinstance(error, ConnectorFailed):
                raise
            log.warning("jobs leave graph %s without their position: %s", graph.name, error)
            removed = dict.fromkeys((j.name for j in left), 0)
            graph.switch(graph.change(graph.runner.graph, {}, removed, {}))
            self._registry.log.write(
                {j.name: replace(_without_position(j), graph=MAIN, cause=Cause.NONE) for j in left},
                self._registry.clock(),
            )
            self._graphs.retire_idle()

    def fail(
        self,
        names: Collection[str],
        reason: str,
        *,
        lasting: bool = False,
        kept: Mapping[str, str] = MappingProxyType({}),
    ) -> list[Job]:
        """Removes jobs that failed from their graphs, and returns them: they are started again when
        their restart strategies say so, but not after a `lasting` failure. `kept`: what those have
        that a recovery has taken out already."""
        self._pending.finish()
        failed: dict[str, list[Job]] = {}
        for job in (self._registry.job(n) for n in sorted(names)):
            if self._graphs.runs(job.name):
                after = self._failed(job, reason, lasting=lasting)
                failed.setdefault(self._graphs.of(job.name).name, []).append(after)
            elif job.name in kept:
                after = self._failed(job, reason, lasting=lasting)
                after = replace(after, graph=MAIN, cause=Cause.NONE, kept=kept[job.name])
                self._registry.log.write({job.name: after}, self._registry.clock())
            elif job.state in (JobState.RUNNING, JobState.FAILED):
                self._registry.set_state(job, JobState.FAILED, reason, MAIN)
        for graph, jobs in failed.items():
            self._take_out(self._graphs.by_name[graph], jobs)
        self._graphs.retire_idle()
        return [self._registry.job(name) for name in sorted(names)]

    def _take_out(self, graph: ManagedGraph, failed: Sequence[Job]) -> None:
        """Removes jobs that failed from their graph. If its process was given up, those stay that
        are started again: all that they have is there, and only a process can go on with it."""
        stays = self._graphs.is_given_up(graph)
        again = [job for job in failed if stays and job.state is JobState.RESTARTING]
        leaving = [job for job in failed if job not in again]
        try:
            if leaving:
                self.leave(graph, leaving)
        finally:
            if again:
                self._start_process_again(graph, again)

    def _start_process_again(self, graph: ManagedGraph, jobs: Sequence[Job]) -> None:
        now = self._registry.clock()
        self._graphs.start_again(graph, max(0, *(job.next_ms - now for job in jobs)) / 1000)
        running = {job.name: replace(job, state=JobState.RUNNING) for job in jobs}
        self._registry.log.write(running, now)

    def keep(self, kept: Mapping[str, str]) -> None:
        """Logs what jobs have that are being stopped, and that a recovery has taken out already."""
        jobs = {n: replace(self._registry.job(n), kept=key, graph=MAIN) for n, key in kept.items()}
        if jobs:
            self._registry.log.write(jobs, self._registry.clock())

    def keep_departed(self, kept: Mapping[str, str], lasting: Collection[str]) -> None:
        """Logs what jobs have that the recovery at the start of the server has taken out.

        The epoch in which they fail may have been complete before the server died, so that its rows
        are out: what they write from there on may come again, unless they wait apart."""
        for name, key in kept.items():
            job = self._registry.log.jobs.get(name)
            if job is not None and not job.kept and not self._graphs.runs(name):
                reason = job.reason or "its operators fail"
                if is_apart(key):
                    reason = reason.removeprefix(CANNOT_RUN)
                else:
                    reason += "; its last rows may come again"
                after = replace(
                    self._failed(job, reason, lasting=name in lasting), graph=MAIN, kept=key
                )
                self._registry.log.write({name: after}, self._registry.clock())

    def _failed(self, job: Job, reason: str, *, lasting: bool = False) -> Job:
        """Returns the job after a failure that comes now."""
        now = self._registry.clock()
        strategy = strategy_in({**self._registry.settings, **job.settings})
        attempts, again = strategy.failed(Attempts(job.restarts, job.failures), now, job.name)
        state = JobState.FAILED if lasting or again is None else JobState.RESTARTING
        return replace(
            with_state(job, state, now, reason),
            restarts=attempts.count,
            failures=attempts.times,
            next_ms=0 if again is None else again,
        )

    def restart(self, jobs: Sequence[Job]) -> SqlError | None:
        """Starts failed jobs again that left their graph together. Returns why that failed, which
        counts as a failure of theirs."""
        self._pending.finish()
        try:
            if jobs[0].kept:
                self.resume(jobs, apart=True)
            else:
                self._start_anew(jobs[0], None)
                began = f"it began as a new job does: {_LOST}"
                self._registry.set_cause(self._registry.job(jobs[0].name), Cause.NONE, began)
        except SqlError as error:
            # As they are by now: what they keep may be another thing already.
            failed = [self._registry.job(j.name) for j in jobs]
            after = {j.name: self._failed(j, str(error)) for j in failed}
            self._registry.log.write(after, self._registry.clock())
            return error
        return None

    def resume(self, jobs: Sequence[Job], *, apart: bool) -> None:
        """Starts jobs where they were, `apart` from others at first. Logs what they have lost."""
        lost = self._keeping.resume(jobs, apart=apart)
        if lost is not None:
            log.warning("%s: %s", counted([job.name for job in jobs]), lost)
            for job in jobs:
                self._registry.set_cause(self._registry.job(job.name), Cause.NONE, lost)

    def save(self, name: str, folder: str | None = None, *, stop: bool = False) -> Outcome:
        """Writes a savepoint of a job; with `stop` the job stops with it."""
        self._pending.finish()
        job = self._registry.job(name)
        savepoint = self._savepoints.take(job, folder, stop=stop)
        if stop:
            self._graphs.retire_idle()
            self._registry.set_state(
                job, JobState.STOPPED, f"stopped with savepoint {savepoint.path}", MAIN
            )
            stopped = replace(self._registry.job(name), kept=f"{SAVEPOINT}{savepoint.path}")
            self._registry.log.write({name: stopped}, self._registry.clock())
        status = JobState.STOPPED.value if stop else "saved"
        return Outcome(name, status, job.version, savepoint=savepoint.path)

    def save_prepared(self, name: str, folder: str | None) -> Outcome:
        """Returns what a savepoint of a job would come to, without writing it."""
        job = self._registry.job(name)
        self._savepoints.check_take(job, folder)
        return Outcome(name, "valid", job.version)

    def drain(self, name: str, folder: str | None = None) -> Outcome:
        """Ends the sources of a job, so that all its windows fire, and stops it with a
        savepoint."""
        self._pending.finish()
        return self._drains.drain(name, folder)

    def start(
        self, job: Job, savepoint: str | None = None, begin: str | int | None = None
    ) -> Outcome:
        """Starts a stopped or failed job: from a savepoint, else where it was.

        With `begin` it starts as a new job does: at its 'configured' offsets, or those of
        'earliest', 'latest' or a time (ms).
        """
        _check_status(job)
        if job.state in (JobState.RUNNING, JobState.DEFINED):
            if savepoint is not None or begin is not None:
                raise already_running(job.name)
            return Outcome(job.name, "unchanged", job.version)
        self._pending.finish()
        if savepoint is None and begin is None and job.kept:
            if job.kept.startswith(SAVEPOINT):
                return self._start_anew(job, job.kept.removeprefix(SAVEPOINT))
            self.resume([job], apart=False)
            job = self._registry.job(job.name)
            self._registry.log.write(
                {job.name: replace(job, restarts=0, failures=(), next_ms=0)},
                self._registry.clock(),
            )
            return Outcome(job.name, "started", job.version)
        return self._start_anew(job, savepoint, begin)

    def _start_anew(
        self, job: Job, savepoint: str | None, begin: str | int | None = None
    ) -> Outcome:
        """Starts a job from a savepoint, given or named in its text, else as a new job."""
        (plan,) = self._registry.plan([self._registry.text(job)], {job.name})
        if isinstance(plan, SqlError):
            raise plan
        path = path_in(plan.settings) if savepoint is None and begin is None else savepoint
        if path is None:
            job = self._registry.follow(job, plan)
        else:  # the savepoint knows the definitions that the version was submitted with
            plan = self._registry.plan_of(job)
        # A new name with each start: the epoch log still has the records of the graphs before.
        own = self._graphs.targets.own_graph(job)
        if path is not None:
            restoration = self._savepoints.restoration(job.name, plan, path)
            graph = self._graphs.restore(own, job.name, job.version, restoration)
        elif begin in (None, BEGINS[0]):
            graph = self._start_as_new(job, plan, own)
        else:
            graph = self._graphs.get_or_create(own)
            starts = start_positions(self._graphs, plan, begin)
            change = graph.change(graph.runner.graph, {job.name: plan}, {job.name: job.version}, {})
            graph.switch(replace(change, starts=starts))
        self._registry.set_state(
            replace(job, restarts=0, failures=(), next_ms=0), JobState.RUNNING, graph=graph.name
        )
        return Outcome(job.name, "started", job.version, savepoint=path)

    def _start_as_new(self, job: Job, plan: PlannedJob, own: str) -> ManagedGraph:
        """Adds a job to the graph for a new one, that of the name `own` if it gets one alone."""
        try:
            target = self._graphs.targets.of(plan.settings, job.target)
            graph = self._placement.place(plan, own, target)
            versions = {job.name: job.version}
            graph.switch(graph.change(graph.runner.graph, {job.name: plan}, versions, {}))
            return graph
        finally:
            self._placement.release()


def _without_position(job: Job) -> Job:
    """Returns a job that has left its graph with nothing, which its reason says from now on."""
    lost = f"{_LOST}, and begins as a new job does"
    return replace(job, reason=f"{job.reason}; {lost}" if job.reason else lost)


def _check_status(job: Job) -> None:
    """Raises JobError for a rule whose head keeps it from running."""
    if job.state in (JobState.DRAFT, JobState.RETIRED):
        raise JobError(
            f"job '{job.name}' does not start: the head of its text says 'status: {job.state}'",
            hint="write 'status: live' there, and submit it again",
        )
