"""The way of a change, in the one thread that makes changes: sort out, plan, deploy (place,
prepare, switch, write down).

Jobs of one request that cannot be made to run are refused alone."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from parser.errors import JobError, SqlError
from sqlengine.access.principals import NOBODY, Principal
from sqlengine.access.shadow_names import rule_of
from sqlengine.engine.change_planning import ChangePlanner
from sqlengine.engine.deploying.deployment import Deployment
from sqlengine.engine.deploying.job_placement import JobPlacement
from sqlengine.engine.draining import Draining
from sqlengine.engine.expected_versions import check_expected
from sqlengine.engine.graph_manager import GraphManager
from sqlengine.engine.job_lifecycle import JobLifecycle
from sqlengine.engine.migration.keeping import SAVEPOINT, Keeping
from sqlengine.engine.migration.migrations import Migrations
from sqlengine.engine.migration.moves import Moves
from sqlengine.engine.outcomes import Outcomes, log_other_origins, log_warnings
from sqlengine.engine.pending_changes import PendingChanges
from sqlengine.engine.requests import Outcome, Request, check_in_use, defined_only_by
from sqlengine.engine.savepoints import Savepoints
from sqlengine.engine.shadows.promotion import check_promotion
from sqlengine.engine.shadows.routing import ShadowRouting
from sqlengine.engine.work import Work
from sqlengine.graphs.apart import is_apart
from sqlengine.graphs.running import RunningGraph
from sqlengine.jobs.job import Job, JobState, Origin, check_name
from sqlengine.jobs.planning import JobText, PlannedJob
from sqlengine.registry import LIVE, Registry

log = logging.getLogger("sqlengine")


class JobChanges:
    """Makes the changes of jobs of one engine, one after the other. All methods are called from the
    thread that makes changes. `lifecycle` and `moves` change no text; `pending`: what a crash has
    interrupted."""

    def __init__(
        self,
        registry: Registry,
        graphs: GraphManager,
        placement: JobPlacement,
        savepoints: Savepoints,
        migrations: Migrations,
        keeping: Keeping,
    ) -> None:
        self._registry = registry
        self._graphs = graphs
        self._placement = placement
        self._keeping = keeping
        self._planner = ChangePlanner(registry, graphs, savepoints)
        self._deployment = Deployment(registry, graphs, placement, savepoints)
        self._outcomes = Outcomes(registry, graphs)
        self._routing = ShadowRouting(registry)
        drains = Draining(registry, graphs, savepoints, migrations)
        self.pending = PendingChanges(registry, self._deployment, migrations, drains)
        self.moves = Moves(registry, graphs, placement, migrations, self.pending)
        self.lifecycle = JobLifecycle(
            registry, graphs, placement, savepoints, keeping, drains, self.pending
        )

    def change(self, request: Request) -> dict[str, Outcome]:
        """Makes the change that is asked for, and returns the outcome for each job that it names.

        Jobs with an error are refused; the others take effect together. Raises VersionMismatch,
        with nothing changed, where a job is not at the version that the request expects.
        """
        check_expected(request.expected, self._registry.log.jobs)
        routed = self._routing.routed(request)
        return self._routing.told(request, self._change(routed))

    def _change(self, request: Request) -> dict[str, Outcome]:
        if request.dry_run:
            return self._dry_run(Work(request))
        self.pending.finish()
        work = Work(request)
        known = dict(self._registry.log.jobs)
        self._classify(work)
        try:
            while not self._make(work):
                pass
        finally:
            self._placement.release()
        self._start_again(work)
        self._outcomes.add_made(work, known)
        log_warnings(work.ready.values())
        log_other_origins(work, known)
        outcomes = self._outcomes.with_dependents(work)
        outcomes |= self._move(request, outcomes)
        if work.ready:
            # The new jobs may define what others wait for.
            self._retry_waiting(work.ready)
        return outcomes

    def _move(self, request: Request, outcomes: Mapping[str, Outcome]) -> dict[str, Outcome]:
        """Moves the jobs of a request that run elsewhere than they should from now on. Returns the
        outcomes of those whose texts are as they were."""
        moved: dict[str, Outcome] = {}
        for name in request.upserts:
            told, outcome = request.targets.get(name), outcomes[name]
            if outcome.error is None and outcome.status == "unchanged" and told is not None:
                try:
                    moved[name] = self.moves.move(name, told)
                except SqlError as error:
                    moved[name] = replace(outcome, status="refused", error=error)
            elif outcome.error is None:
                self.moves.go_where_told(name)
        return moved

    def check_start(self, job: Job, by: Principal) -> None:
        """Raises Forbidden for a job that may not start again."""
        self._planner.permissions.check_start(job, by)

    def _make(self, work: Work) -> bool:
        """Makes the change with what is not refused yet. False if it was prepared and not made,
        since more of it is refused now."""
        self._planner.plan(work)
        self._admit_secrets(work)
        refused = work.refused
        revived = self._revive(work)
        try:
            prepared = self._deployment.prepare(work)
            accepted = self._planner.accept(work, refused)
            if accepted:
                with self._registry.steps.replacing(self._running(work)):
                    self._deployment.deploy(work, prepared)
            else:
                prepared.abandon()
        finally:
            self._go_on(revived)
        return accepted

    def _admit_secrets(self, work: Work) -> None:
        """Lets secrets that the request has go where its tables are, before these are opened."""
        for name, text in work.texts.items():
            if name in work.ready:
                self._registry.sealing.admit(text.given, work.ready[name])

    def _running(self, work: Work) -> list[str]:
        """Returns the jobs that run and get another version."""
        present = (work.kept.get(name, name) for name in work.ready)
        return [name for name in present if self._graphs.runs(name)]

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
            self._admit_secrets(work)
            refused = work.refused
            self._deployment.dry_run(work)
            if self._planner.accept(work, refused):
                break
        self._outcomes.add_valid(work)
        return self._outcomes.with_dependents(work) | {
            n: Outcome(n, "removed") for n in work.removes
        }

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
        elif is_apart(job.kept):
            error = JobError(
                f"job '{job.name}' cannot be renamed while it waits for a source",
                detail=job.reason,
                hint="rename it once it runs",
            )
            work.refuse(new, error)
        else:
            work.outcomes[new] = Outcome(new, "renamed", self._registry.rename(job, text).version)

    def _classify_upsert(self, work: Work, name: str, text: JobText) -> None:
        registry = self._registry
        check_name(rule_of(name))
        if text.promotes:
            check_promotion(text, registry.log.jobs)
        job = registry.log.jobs.get(name)
        ended = self._routing.ended(text, work.request.origin)
        if ended is not None:
            work.outcomes[name] = Outcome(name, "unchanged", ended.version)
        elif (
            job is not None
            and job.state in LIVE
            and name not in work.request.savepoints
            and not text.promotes
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
                for job in jobs:
                    self.check_start(job, work.request.principal(job.name))
                self.lifecycle.resume(jobs, apart=False)
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
                self.lifecycle.leave(graph, [job])
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
            owners = {j.name: self._owner(j) for j in waiting}
            texts = {j.name: self._unaccepted(j) for j in waiting}
            outcomes = self.change(Request(Origin.FOLDER, texts, owners=owners).signed())
            for job in waiting:  # what is missing now may be something else
                if outcomes[job.name].status == "refused":
                    self._registry.set_state(job, JobState.WAITING, str(outcomes[job.name].error))

    def _owner(self, job: Job) -> Principal:
        return self._registry.access.named(self._registry.version(job).by) or NOBODY

    def _unaccepted(self, job: Job) -> JobText:
        """Returns the text of a job that waits: it has never been planned to its end."""
        text = replace(self._registry.text(job), accepted=False)
        return self._registry.sealing.deferred(text, job.version)


def _has_snapshot(job: Job) -> bool:
    """True if a job that does not run has kept its position and its state."""
    return bool(job.kept) and not job.kept.startswith(SAVEPOINT)
