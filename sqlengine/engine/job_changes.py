"""The way of a change, in the one thread that makes changes: sort out, plan, deploy (place,
prepare, switch, write down).

Jobs of one request that cannot be made to run are refused alone."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType

from parser.errors import SqlError
from planner.logical import Sink
from sqlengine.engine.change_planning import ChangePlanner, already_running
from sqlengine.engine.deploying import Deployment, Work
from sqlengine.engine.draining import Draining
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.keeping import SAVEPOINT, Keeping, start_positions
from sqlengine.engine.migration import Migrations
from sqlengine.engine.requests import (
    Outcome,
    Request,
    check_in_use,
    defined_only_by,
)
from sqlengine.engine.savepoints import Savepoints, path_in
from sqlengine.executors.replays import statements_of
from sqlengine.graphs.host import NotAligned
from sqlengine.graphs.managed import ManagedGraph
from sqlengine.graphs.running import RunningGraph
from sqlengine.graphs.takeover import unchanged_report
from sqlengine.jobs.deliveries import Delivery, deliveries_of
from sqlengine.jobs.isolation_settings import group_of
from sqlengine.jobs.job import BEGINS, MAIN, Cause, Job, JobState, Origin, check_name, with_state
from sqlengine.jobs.planning import JobText, PlannedJob
from sqlengine.jobs.restart_strategy import Attempts, strategy_in
from sqlengine.registry import LIVE, Registry
from sqlengine.system.words import counted

log = logging.getLogger("sqlengine")

# So many jobs of a change are logged one by one.
_LOGGED = 20
log = logging.getLogger("sqlengine")


class JobChanges:
    """Makes the changes of jobs of one engine, one after the other. All methods are called from the
    thread that makes changes."""

    def __init__(
        self,
        registry: Registry,
        graphs: GraphManager,
        savepoints: Savepoints,
        migrations: Migrations,
        keeping: Keeping,
    ) -> None:
        self._registry = registry
        self._graphs = graphs
        self._savepoints = savepoints
        self._migrations = migrations
        self._keeping = keeping
        self._planner = ChangePlanner(registry, graphs, savepoints)
        self._deployment = Deployment(registry, graphs, savepoints)
        self._drains = Draining(registry, graphs, savepoints, migrations)

    def finish(self) -> None:
        """Rolls forward a pending change that a crash or a full disk interrupted."""
        pending = self._registry.log.pending
        if pending is not None and pending.handover:
            self._migrations.finish()
        elif pending is not None and pending.drains:
            self._drains.finish(pending)
        else:
            self._deployment.finish()

    def change(self, request: Request) -> dict[str, Outcome]:
        """Makes the change that is asked for, and returns the outcome for each job that it names.

        Jobs with an error are refused; the others take effect together.
        """
        if request.dry_run:
            return self._dry_run(Work(request))
        self.finish()
        work = Work(request)
        known = dict(self._registry.log.jobs)
        self._classify(work)
        while not self._make(work):
            pass
        self._start_again(work)
        for name in work.asked:
            status = "renamed" if name in work.kept else "replaced" if name in known else "added"
            version = self._registry.job(name).version
            work.outcomes[name] = Outcome(
                name,
                status,
                version,
                state=work.reports.get(name, ()),
                savepoint=work.restores.get(name),
                topics=work.topics.get(name, ()),
                warnings=work.ready[name].warnings,
            )
        _log_warnings(work.ready.values())
        for name in work.removes:
            work.outcomes[name] = Outcome(name, "removed")
        _log_other_origins(work, known)
        outcomes = self._with_dependents(work)
        if work.ready:
            # The new jobs may define what others wait for.
            self._retry_waiting(work.ready)
        return outcomes

    def _make(self, work: Work) -> bool:
        """Makes the change with what is not refused yet. False if it was prepared and not made,
        since more of it is refused now."""
        self._planner.plan(work)
        refused = work.refused
        revived = self._revive(work)
        try:
            prepared = self._deployment.prepare(work)
            accepted = self._planner.accept(work, refused)
            if accepted:
                self._deployment.deploy(work, prepared)
            else:
                prepared.abandon()
        finally:
            self._go_on(revived)
        return accepted

    def removable(self, request: Request) -> set[str]:
        """Returns the jobs that the request will remove, as far as can be told now. Any thread."""
        work = Work(request)
        for name in () if request.dry_run else request.removes:
            with suppress(SqlError):
                self._classify_removal(work, name)
        return work.removes

    def _dry_run(self, work: Work) -> dict[str, Outcome]:
        """Returns the outcomes of the change without making it: 'valid' for jobs that would be
        added, replaced or unchanged."""
        self._classify(work)
        while True:
            self._planner.plan(work)
            refused = work.refused
            self._deployment.dry_run(work)
            if self._planner.accept(work, refused):
                break
        for name in work.asked:
            version = self._registry.log.next_version(name)
            work.outcomes[name] = Outcome(
                name,
                "valid",
                version,
                state=work.reports.get(name, ()),
                deliveries=self._deliveries(work.ready[name].sinks),
                topics=work.topics.get(name, ()),
                warnings=work.ready[name].warnings,
            )
        for name, outcome in work.outcomes.items():
            if outcome.status == "unchanged":
                graph = self._graphs.of(name).runner.graph
                work.outcomes[name] = Outcome(
                    name,
                    "valid",
                    outcome.version,
                    state=unchanged_report(graph, name),
                    deliveries=self._deliveries(statements_of(graph, name)),
                )
        return self._with_dependents(work) | {n: Outcome(n, "removed") for n in work.removes}

    def _with_dependents(self, work: Work) -> dict[str, Outcome]:
        """Returns the outcomes of what was asked for, each with those of the jobs that use what it
        defines differently."""
        by_cause: dict[str, list[Outcome]] = {}
        outcomes = dict(work.outcomes)
        for name in sorted({*work.dependents, *work.unchanged}):
            outcome = self._of_dependent(work, name)
            for cause in work.blamed(self._registry.job(name).uses):
                by_cause.setdefault(cause, []).append(outcome)
            if name in outcomes and outcomes[name].status in ("unchanged", "valid"):
                status = outcomes[name].status if work.request.dry_run else outcome.status
                told = replace(outcomes[name], status=status, version=outcome.version)
                outcomes[name] = replace(told, state=outcome.state or told.state)
        return {n: replace(o, dependents=tuple(by_cause.get(n, ()))) for n, o in outcomes.items()}

    def _of_dependent(self, work: Work, name: str) -> Outcome:
        """Returns the outcome for a job that uses what others define differently now."""
        log_ = self._registry.log
        version = log_.jobs[name].version
        if name in work.unchanged:
            return Outcome(name, "unchanged", version)
        version = log_.next_version(name) if work.request.dry_run else version
        return Outcome(name, "replanned", version, state=work.reports.get(name, ()))

    def _deliveries(self, sinks: Iterable[Sink]) -> tuple[Delivery, ...]:
        return deliveries_of(sinks, once=self._graphs.delivers_once)

    def stop(self, job: Job, state: JobState, reason: str | None = None) -> Outcome:
        """Removes a job from its graph. The job stays, stopped or failed, and so do its text, its
        position and its state. Nothing runs of a job that only defines: it is unchanged."""
        if job.state is JobState.DEFINED:
            return Outcome(job.name, "unchanged", job.version)
        self.finish()
        graph = self._graphs.of(job.name)
        if job.name in graph.runner.jobs:
            stopped = with_state(job, state, self._registry.clock(), reason)
            self._leave(graph, [replace(stopped, restarts=0, failures=())])
        else:
            self._registry.set_state(job, state, reason, MAIN)
        return Outcome(job.name, state.value, job.version)

    def _leave(self, graph: ManagedGraph, jobs: Sequence[Job]) -> None:
        """Removes jobs from their graph, with what they keep."""
        try:
            self._keeping.leave(graph, jobs)
        except SqlError as error:
            left = [j for j in jobs if j.name in graph.runner.jobs]
            if not graph.distributed:
                raise
            log.warning("jobs leave graph %s without their position: %s", graph.name, error)
            removed = dict.fromkeys((j.name for j in left), 0)
            graph.switch(graph.change(graph.runner.graph, {}, removed, {}))
            self._registry.log.write(
                {j.name: replace(j, graph=MAIN, cause=Cause.NONE) for j in left},
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
        self.finish()
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
            self._leave(self._graphs.by_name[graph], jobs)
        self._graphs.retire_idle()
        return [self._registry.job(name) for name in sorted(names)]

    def keep_departed(self, kept: Mapping[str, str], lasting: Collection[str]) -> None:
        """Logs what jobs have that the recovery at the start of the server has taken out.

        The epoch in which they fail may have been complete before the server died, so that its rows
        are out: what they write from there on may come again."""
        for name, key in kept.items():
            job = self._registry.log.jobs.get(name)
            if job is not None and not job.kept and not self._graphs.runs(name):
                reason = f"{job.reason or 'its operators fail'}; its last rows may come again"
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

    def restart(self, jobs: Sequence[Job]) -> bool:
        """Starts failed jobs again that left their graph together. Returns False if that failed,
        which counts as a failure of theirs."""
        self.finish()
        names = ", ".join(job.name for job in jobs[:5]) + (", …" if len(jobs) > 5 else "")
        try:
            if jobs[0].kept:
                self._resume(jobs, apart=True)
            else:
                self._start_anew(jobs[0], None)
        except SqlError as error:
            log.warning("%s cannot be started again now: %s", names, error)
            after = {j.name: self._failed(j, str(error)) for j in jobs}
            self._registry.log.write(after, self._registry.clock())
            return False
        log.info("%s: started again", names)
        return True

    def _resume(self, jobs: Sequence[Job], *, apart: bool) -> None:
        lost = self._keeping.resume(jobs, apart=apart)
        if lost is not None:
            log.warning("%s: %s", jobs[0].name, lost)
            for job in jobs:
                self._registry.set_cause(self._registry.job(job.name), Cause.NONE, lost)

    def save(self, name: str, folder: str | None = None, *, stop: bool = False) -> Outcome:
        """Writes a savepoint of a job; with `stop` the job stops with it."""
        self.finish()
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

    def drain(self, name: str, folder: str | None = None) -> Outcome:
        """Ends the sources of a job, so that all its windows fire, and stops it with a
        savepoint."""
        self.finish()
        return self._drains.drain(name, folder)

    def start(
        self, job: Job, savepoint: str | None = None, begin: str | int | None = None
    ) -> Outcome:
        """Starts a stopped or failed job: from a savepoint, else where it was.

        With `begin` it starts as a new job does: at its 'configured' offsets, or those of
        'earliest', 'latest' or a time (ms).
        """
        if job.state in (JobState.RUNNING, JobState.DEFINED):
            if savepoint is not None or begin is not None:
                raise already_running(job.name)
            return Outcome(job.name, "unchanged", job.version)
        self.finish()
        if savepoint is None and begin is None and job.kept:
            if job.kept.startswith(SAVEPOINT):
                return self._start_anew(job, job.kept.removeprefix(SAVEPOINT))
            self._resume([job], apart=False)
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
        own = f"{job.name}@{job.version}-{self._registry.clock()}"
        if path is not None:
            restoration = self._savepoints.restoration(job.name, plan, path)
            graph = self._graphs.restore(own, job.name, job.version, restoration)
        elif begin in (None, BEGINS[0]):
            graph = self._graphs.place(plan, own)
            graph.switch(
                graph.change(graph.runner.graph, {job.name: plan}, {job.name: job.version}, {})
            )
        else:
            graph = self._graphs.get_or_create(own)
            starts = start_positions(self._graphs, plan, begin)
            change = graph.change(graph.runner.graph, {job.name: plan}, {job.name: job.version}, {})
            graph.switch(replace(change, starts=starts))
        self._registry.set_state(
            replace(job, restarts=0, failures=(), next_ms=0), JobState.RUNNING, graph=graph.name
        )
        return Outcome(job.name, "started", job.version, savepoint=path)

    def isolate(
        self, name: str, cause: Cause = Cause.COMMAND, reason: str | None = None
    ) -> Outcome:
        """Migrates a job with its state into a graph of its own; one that is in its own stays."""
        self.finish()
        job = self._registry.job(name)
        reason = reason or "isolated by a command"
        graph = self._graphs.of(name)
        shared = graph is self._graphs.main or graph.distributed or group_of(graph.name) is not None
        if shared or len(graph.runner.jobs) > 1:
            self._migrations.move_to_own_graph(job, cause, reason)
        else:
            self._registry.set_cause(job, cause, reason)
        return Outcome(name, "isolated", job.version)

    def merge(self, name: str) -> Outcome:
        """Migrates a job with its state into the graph that it shares with others.

        Done at once ('merged'), or as soon as both graphs have read to the same offsets
        ('merging').
        """
        self.finish()
        job = self._registry.job(name)
        if self._graphs.of(name) is self._graphs.shared_graph(job):
            return Outcome(name, "unchanged", job.version)
        try:
            self._migrations.move_to_shared_graph(job)
        except NotAligned as error:
            self._registry.set_cause(job, Cause.NONE, f"it waits to be merged: {error.detail}")
            return Outcome(name, "merging", job.version)
        return Outcome(name, "merged", job.version)

    # ---- before anything is planned --------------------------------------------------------------

    def _classify(self, work: Work) -> None:
        """Sorts what the request names: texts to plan, removals, renames, and outcomes that are
        known without planning."""
        for old, new in work.request.renames.items():
            if old in self._registry.log.jobs and new not in self._registry.log.jobs:
                self._rename(work, self._registry.job(old), new)
        for name, text in work.request.upserts.items():
            if name in work.kept or name in work.outcomes:
                continue
            try:
                self._classify_upsert(work, name, text)
            except SqlError as error:
                work.refuse(name, error)
        for name in work.request.removes:
            try:
                self._classify_removal(work, name)
            except SqlError as error:
                work.refuse(name, error)

    def _rename(self, work: Work, job: Job, new: str) -> None:
        """Renames a job: one that runs with a change of its graph, any other in the job log
        alone."""
        old, given = self._registry.text(job), work.request.upserts.get(new)
        text = replace(old, name=new, file=given.file if given else old.file)
        if self._graphs.runs(job.name):
            work.texts[new] = text
            work.kept[new] = job.name
        else:
            work.outcomes[new] = Outcome(new, "renamed", self._registry.rename(job, text).version)

    def _classify_upsert(self, work: Work, name: str, text: JobText) -> None:
        registry = self._registry
        job = registry.log.jobs.get(check_name(name))
        if (
            job is not None
            and job.state in LIVE
            and name not in work.request.savepoints
            and registry.has_text(registry.version(job), text, work.request.origin)
        ):
            work.outcomes[name] = Outcome(name, "unchanged", job.version)
        elif job is not None and job.state is JobState.FAILED and self._starts(work, job, text):
            work.starts.append(job)
        else:
            work.texts[name] = text

    def _starts(self, work: Work, job: Job, text: JobText) -> bool:
        """True if a failed job goes on where it was: it is submitted with the text that it has."""
        registry, request = self._registry, work.request
        return (
            _has_snapshot(job)
            and not request.dry_run
            and job.name not in request.savepoints
            and registry.has_text(registry.version(job), text, request.origin)
        )

    def _start_again(self, work: Work) -> None:
        """Starts failed jobs that were submitted again as they are."""
        together: dict[str, list[Job]] = {}
        for job in work.starts:
            together.setdefault(job.kept, []).append(job)
        for jobs in together.values():
            try:
                self._resume(jobs, apart=False)
            except SqlError as error:
                for job in jobs:
                    work.refuse(job.name, error)
            else:
                for job in jobs:
                    work.outcomes[job.name] = Outcome(job.name, "started", job.version)

    def _revive(self, work: Work) -> list[Job]:
        """Brings jobs that do not run, and get another text, back into graphs of their own, which
        are paused: their new version replaces one that runs, and takes over its state.

        Returns the jobs as they were."""
        revived = []
        for name, plan in work.ready.items():
            job = self._registry.log.jobs.get(name)
            starts_elsewhere = name in work.restores or name in work.kept or not plan.sinks
            if job is None or not _has_snapshot(job) or starts_elsewhere:
                continue
            try:
                self._keeping.resume([job], apart=True, paused=True)
            except SqlError as error:
                log.warning("%s begins as a new job, not where it was: %s", name, error)
            else:
                revived.append(job)
        return revived

    def _go_on(self, revived: Sequence[Job]) -> None:
        """Lets revived jobs run whose new version was taken; others become what they were."""
        for job in revived:
            graph = self._graphs.of(job.name)
            if self._registry.job(job.name).version == job.version:
                self._leave(graph, [job])
            elif isinstance(graph, RunningGraph):
                graph.call(graph.runner.resume)

    def _classify_removal(self, work: Work, name: str) -> None:
        job = self._registry.job(name)
        if job.defines:
            jobs = self._registry.jobs()
            going = {*work.request.removes, *work.texts}
            check_in_use(defined_only_by(job, jobs), jobs, going, f"removing '{name}'")
        work.removes.add(name)

    def _retry_waiting(self, changed: Mapping[str, PlannedJob]) -> None:
        """Submits again jobs of the folder whose table was missing, once something new is
        defined."""
        defines = any(p.objects for p in changed.values())
        jobs = self._registry.jobs() if defines else ()
        waiting = [j for j in jobs if j.state is JobState.WAITING and j.name not in changed]
        if waiting:
            outcomes = self.change(
                Request(Origin.FOLDER, {j.name: self._unaccepted(j) for j in waiting})
            )
            for job in waiting:  # what is missing now may be something else
                if outcomes[job.name].status == "refused":
                    self._registry.set_state(job, JobState.WAITING, str(outcomes[job.name].error))

    def _unaccepted(self, job: Job) -> JobText:
        """Returns the text of a job that waits: it has never been planned to its end."""
        return replace(self._registry.text(job), accepted=False)


def _log_warnings(plans: Iterable[PlannedJob]) -> None:
    """Logs each warning of a change once, with the jobs that it is about."""
    jobs: dict[str, list[str]] = {}
    for plan in plans:
        for warning in plan.warnings:
            jobs.setdefault(warning, []).append(plan.name)
    for warning, names in jobs.items():
        log.warning("%s: %s", counted(names), warning)


def _log_other_origins(work: Work, known: Mapping[str, Job]) -> None:
    """Logs the jobs that came by another way than the one that has changed them now."""
    origin = work.request.origin
    others = [n for n in (*work.asked, *work.removes) if n in known and known[n].origin != origin]
    for name in others[:_LOGGED]:
        log.info("job %s: %s", name, _overriding(work.outcomes[name], known[name], origin))
    if len(others) > _LOGGED:
        log.info("and %d more jobs, which %s changed too", len(others) - _LOGGED, origin.value)


def _overriding(outcome: Outcome, before: Job, origin: Origin) -> str:
    old = f"version {before.version} of {before.origin.value}"
    if outcome.status == "removed":
        return f"{origin.value} removed {old}"
    return f"version {outcome.version} of {origin.value} replaces {old}"


def _has_snapshot(job: Job) -> bool:
    """True if a job that does not run has kept its position and its state."""
    return bool(job.kept) and not job.kept.startswith(SAVEPOINT)
