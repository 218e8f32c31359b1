"""The job registry: the event log of jobs, the catalog derived from it, and plans of versions."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from parser.errors import JobError, SqlError
from planner.catalog import Catalog
from planner.rule_settings import Status, rule_in
from planner.setting_keys import check_settings
from sqlengine.access.identity import OPEN, Access
from sqlengine.access.shadow_names import is_shadow, rule_of
from sqlengine.broker.base import Broker
from sqlengine.catalog.changes import full_name, without
from sqlengine.config import Config
from sqlengine.executors.memory_limits import MemoryLimits, standard_limit
from sqlengine.executors.steps.limits import Steps
from sqlengine.formats.options import did_you_mean
from sqlengine.functions.library import Library
from sqlengine.jobs.isolation_settings import group_of
from sqlengine.jobs.job import AT_REST, Cause, Job, JobState, JobVersion, Origin, with_state
from sqlengine.jobs.log import JobLog, PendingChange
from sqlengine.jobs.planning import JobText, PlannedJob, with_entry_points, with_objects
from sqlengine.jobs.policies import Policies
from sqlengine.jobs.sealing import Sealing
from sqlengine.jobs.shadow_plans import Beside, as_shadow
from sqlengine.jobs.targets import TARGET
from sqlengine.jobs.versions import Versions
from sqlengine.jobs.workers import is_long
from sqlengine.machine import Machine
from sqlengine.system.memory import usable_bytes
from sqlengine.system.sealed_values import SealedValues

log = logging.getLogger("sqlengine")

CANNOT_RUN: Final = "it cannot run any more: "
LIVE = (JobState.RUNNING, JobState.STOPPED, *AT_REST, JobState.RESTARTING)


class Registry:
    """Jobs, their versions and what they define. Every change is an entry of the job log first.

    Changed by one thread (the one that makes changes), read by all.
    """

    def __init__(
        self,
        broker: Broker,
        config: Config,
        machine: Machine,
        steps: Steps | None = None,
        access: Access = OPEN,
    ) -> None:
        self.access = access
        self.broker = broker
        self.log = JobLog(broker, sync=config.fsync == "interval")
        self.clock = machine.clock
        self.versions = Versions(self.log, machine.clock)
        self.settings = config.settings
        self.library = Library(
            config.data / "modules", (config.functions_folder,), limits=config.function_limits
        )
        self.sealing = Sealing(SealedValues(config.sealed_folder))
        self._base = with_entry_points(Catalog(), self.library)
        self.catalog = self._base
        for note in check_settings(config.settings):
            log.warning("settings of the server: %s", note)
        cache = config.data / "plans.sqlite" if config.plan_cache else None
        self.planner = machine.planner(config.settings, self.library, cache)
        self._plans: dict[tuple[str, int], PlannedJob] = {}
        step_output = config.step_output_limit or usable_bytes() // 8
        self.memory = MemoryLimits(config.memory_limit, step_output, standard_limit())
        self.memory.quota_of, self.memory.has_quotas = self._quota_of, access.has_state_quotas
        self.steps = steps or Steps(config.step_timeout_s, machine.threads.now)
        self.policies = Policies(
            config.settings, self.memory, self.steps, isolates=config.isolation
        )

    def jobs(self) -> list[Job]:
        """Returns all jobs by name."""
        return sorted(self.log.jobs.values(), key=lambda j: j.name)

    def job(self, name: str) -> Job:
        """Returns a job. Raises JobError if there is none."""
        if name not in self.log.jobs:
            hint = did_you_mean(name, self.log.jobs) or "'sql jobs' lists all"
            raise JobError(f"job '{name}' does not exist", hint=hint)
        return self.log.jobs[name]

    def version(self, job: Job) -> JobVersion:
        """Returns the job's current version."""
        return self.log.version(job.name, job.version)

    def text(self, job: Job) -> JobText:
        """Returns the text of the job's current version."""
        return replace(text_of(self.version(job)), name=job.name)

    def has_text(self, version: JobVersion, text: JobText, origin: Origin) -> bool:
        """True if a version has this text, with the same contents of the modules that it names.

        The folder submits its texts again at every start. That is no new version even if a module
        has changed: a restart keeps the modules of the version.
        """
        if version.sql != text.sql or origin is Origin.FOLDER:
            return version.sql == text.sql
        if text.modules:
            return text.modules == version.modules
        return self.library.unchanged(version.modules)

    def modules(self) -> set[str]:
        """Returns the content hashes of modules that jobs may call."""
        live = (j for j in self.log.jobs.values() if j.state in (JobState.RUNNING, *AT_REST))
        return {c for j in live for c in self.log.version(j.name, j.version).modules.values()}

    def follow(self, job: Job, plan: PlannedJob) -> Job:
        """Gives a job that does not run a version that knows the present definitions, if its own
        does not. Returns the job with it."""
        if not self.versions.is_stale(job):
            return job
        texts, plans = {job.name: self.text(job)}, {job.name: plan}
        version = self.versions.planned(texts, plans, job.origin, {})[job.name]
        follows = tuple(sorted(self.version(job).needs))
        followed = replace(job, version=version.version)
        self.log.add_waiting(replace(version, follows=follows), followed, self.clock())
        return followed

    def rename(self, job: Job, text: JobText) -> Job:
        """Gives a job that no graph runs another name and file. All else stays: versions, state,
        definitions."""
        version, others = self.log.renamed(job, text.name, text.file)
        renamed = replace(job, name=text.name, version=version.version)
        self.log.rename([version, *others], {job.name: renamed}, self.clock())
        return renamed

    def set_state(
        self, job: Job, state: JobState, reason: str | None = None, graph: str | None = None
    ) -> None:
        """Logs a new state of a job. One that runs keeps nothing from before."""
        changed = with_state(job, state, self.clock(), reason)
        kept = "" if state is JobState.RUNNING else job.kept
        changed = replace(changed, graph=graph or job.graph, cause=Cause.NONE, kept=kept)
        self.log.write({job.name: changed}, self.clock())

    def private_objects(self, jobs: Collection[str]) -> set[str]:
        """Returns the objects that only these jobs define: they may be redefined."""
        names = {n for j in jobs if j in self.log.jobs for n in self.log.jobs[j].defines}
        if not names:
            return set()
        others = [j for j in self.log.jobs.values() if j.name not in jobs]
        return names.difference(*(j.defines for j in others))

    def catalog_for(self, jobs: Collection[str]) -> Catalog:
        """Returns the catalog in which these jobs are planned: without what only they define."""
        return without(self.catalog, self.private_objects(jobs))

    def plan(
        self, texts: Collection[JobText], jobs: Collection[str]
    ) -> list[PlannedJob | SqlError]:
        """Plans texts in the catalog for `jobs`, those of shadows as if they were live. An error
        takes the place of its plan."""
        alone = not any(j.state is JobState.RUNNING for j in self.log.jobs.values())
        rules = list(map(_of_rule, texts))
        plans = self.planner.plan(rules, self.catalog_for(jobs), alone=alone)
        return [_named(t.name, p) for t, p in zip(texts, plans, strict=True)]

    def plan_ahead(self, text: JobText, jobs: Collection[str]) -> None:
        """Plans a long text before its change, so that other changes need not wait. Any thread."""
        if is_long(text):
            self.planner.plan_ahead(_of_rule(text), self.catalog_for(jobs))

    def _quota_of(self, job: str, version: int) -> tuple[str, int | None]:
        """Returns the principal of a job's version, and the state that it may have."""
        known = self.log.versions_of(job).get(version)
        by = "" if known is None else known.by
        principal = self.access.named(by) if by else None
        return by, None if principal is None else principal.quota.state

    def complete_change(self, change: PendingChange, plans: Mapping[str, PlannedJob]) -> None:
        """Logs that a change has taken effect, and updates the catalog."""
        self.catalog = without(self.catalog, self.private_objects({*plans, *change.removes}))
        jobs = {}
        for name, plan in plans.items():
            self.catalog = with_objects(self.catalog, plan)
            jobs[name] = self._deployed_job(
                name,
                self.log.version(name, change.jobs[name]),
                plan,
                change.graphs[name],
                change.targets.get(name) or self.told(change.renamed.get(name, name), plan),
            )
        for name in change.dormant:
            self._redefine(self.job(name))
        self.log.complete(jobs, change.removes, self.clock())
        for name in change.removes:
            self.policies.retain(name)

    def _redefine(self, job: Job) -> None:
        """Updates what a job that does not run defines over definitions that have changed."""
        if job.defines:
            (plan,) = self.plan([self.text(job)], {job.name})
            if isinstance(plan, PlannedJob):
                self.catalog = with_objects(self.catalog_for({job.name}), plan)

    def told(self, name: str, plan: PlannedJob) -> str:
        """Returns where a job was told to run, if a new version of this plan goes on with that: its
        text says nothing new."""
        job = self.log.jobs.get(name)
        if job is None or plan.settings.get(TARGET) != job.settings.get(TARGET):
            return ""
        return job.target

    def _deployed_job(
        self, name: str, version: JobVersion, plan: PlannedJob, graph: str, target: str
    ) -> Job:
        previous, group = self.log.jobs.get(name), group_of(graph)
        cause, reason = (
            (Cause.NONE, None) if group is None else (Cause.GROUP, f"isolation group '{group}'")
        )
        if previous is not None and (previous.state, previous.graph) == (JobState.RUNNING, graph):
            cause, reason = previous.cause, previous.reason
        return Job(
            name,
            version.version,
            JobState.RUNNING if plan.sinks else _resting_state(plan),
            version.origin,
            self.clock(),
            reason,
            graph,
            defines=tuple(full_name(o.name) for o in plan.objects),
            uses=tuple(sorted(map(full_name, plan.uses))),
            settings=dict(plan.settings),
            cause=cause,
            target=target,
        )

    def complete_migration(self, change: PendingChange) -> None:
        """Logs that jobs run in another graph."""
        now = self.clock()
        migrated = {}
        for name in change.jobs:
            job = with_state(self.job(name), JobState.RUNNING, now, change.reason)
            migrated[name] = replace(job, graph=change.graphs[name], cause=change.cause, kept="")
        self.log.complete(migrated, (), now)

    def complete_pending(self, job: Job, graph: str) -> None:
        """Logs that the pending change of a single job has taken effect."""
        self.log.complete({job.name: replace(job, graph=graph, cause=Cause.NONE)}, (), self.clock())

    def set_cause(self, job: Job, cause: Cause, reason: str | None) -> None:
        """Logs the reason why a running job is in its graph, if it is a new one."""
        if (job.cause, job.reason) != (cause, reason):
            self.log.write({job.name: replace(job, cause=cause, reason=reason)}, self.clock())

    # ---- recovery --------------------------------------------------------------------------------

    def recover(self) -> None:
        """Plans all jobs of the log, which rebuilds the catalog. The plans are kept for the graphs,
        which are recovered next."""
        self.sealing.begin([self.version(j).sql for j in self.jobs()], self.log.texts())
        # Shadows, which define nothing, are planned when their graphs ask for them.
        jobs = [j for j in self.jobs() if j.state is not JobState.WAITING and not is_shadow(j.name)]
        # In this process: no stream runs yet that planning could hold up.
        texts = [self.text(j) for j in jobs]
        # What was accepted may have been so under other limits.
        plans = self.planner.plan(texts, self._base, child=False, limited=False)
        for job, plan in zip(jobs, plans, strict=True):
            if isinstance(plan, SqlError):
                log.error("job %s cannot be planned any more: %s", job.name, plan)
                continue
            self.catalog = with_objects(self.catalog, plan)
            if not self.versions.is_stale(job):
                self._plans[job.name, job.version] = plan
            self.policies.register(job.version, plan)

    def recovered(self) -> None:
        """Drops the plans that were kept for the recovery of the graphs."""
        self._plans.clear()

    def plans_of(self, jobs: Mapping[str, int]) -> dict[str, PlannedJob | SqlError]:
        """Plans some versions of jobs, each with the definitions that it was submitted with.

        An error takes the place of a plan that cannot be made any more.
        """
        planned: dict[str, PlannedJob | SqlError] = {
            n: self._plans[n, v] for n, v in jobs.items() if (n, v) in self._plans
        }
        groups: dict[frozenset[tuple[str, int]], list[str]] = {}
        for name, version in jobs.items():
            if name not in planned:
                needs = {n: v for n, v in self.versions.needs(name, version).items() if n != name}
                groups.setdefault(frozenset(needs.items()), []).append(name)
        for needed, names in groups.items():
            versions = [*sorted(needed), *((n, jobs[n]) for n in names)]
            texts = [text_of(self.log.version(n, v)) for n, v in versions]
            plans = self.planner.plan(texts, self._base, child=False, limited=False)
            planned |= zip(names, plans[len(needed) :], strict=True)
        for name in filter(is_shadow, planned):
            planned[name] = self._as_shadow(name, jobs[name], planned[name])
        for name, plan in planned.items():
            if isinstance(plan, PlannedJob):
                self.policies.register(jobs[name], plan)
        return planned

    def _as_shadow(
        self, name: str, version: int, plan: PlannedJob | SqlError
    ) -> PlannedJob | SqlError:
        """Returns what runs of a shadow, beside the live version that it began with."""
        beside = self.log.version(name, version).beside
        if isinstance(plan, SqlError) or not beside:
            return plan if isinstance(plan, SqlError) else as_shadow(plan, version)
        live = self.plans_of({rule_of(name): beside})[rule_of(name)]
        return (
            live if isinstance(live, SqlError) else as_shadow(plan, version, Beside(beside, live))
        )

    def plan_of(self, job: Job) -> PlannedJob:
        """Plans the present version of a job with the definitions that it was submitted with.
        Raises the SqlError of one that cannot be planned any more."""
        return self.required_plans({job.name: job.version})[job.name]

    def required_plans(self, jobs: Mapping[str, int]) -> dict[str, PlannedJob]:
        """Plans some versions of jobs as `plans_of` does. Raises the SqlError of one that cannot be
        planned any more."""
        plans = {}
        for name, plan in self.plans_of(jobs).items():
            if isinstance(plan, SqlError):
                raise plan
            plans[name] = plan
        return plans

    def reconcile(
        self,
        running: Mapping[str, tuple[str, int]],
        lost: Mapping[str, SqlError],
        standing: Collection[str] = (),
    ) -> None:
        """Corrects the log by what the graphs run (job -> graph, version): a crash may have come
        between the switch of a graph and the entry of the log.

        `lost`: jobs that ran and cannot run any more; they become failed. Nothing is known of the
        graphs that are `standing` still, before they were recovered.
        """
        changed = {}
        for job in (j for j in self.jobs() if j.graph not in standing):
            if job.name in lost and job.name not in running and job.state is JobState.RUNNING:
                reason = f"{CANNOT_RUN}{lost[job.name]}"
                changed[job.name] = with_state(job, JobState.FAILED, self.clock(), reason)
            elif job.name in running:
                graph, version = running[job.name]
                if (job.state, job.graph, job.version) != (JobState.RUNNING, graph, version):
                    restored = with_state(job, JobState.RUNNING, self.clock())
                    changed[job.name] = replace(restored, graph=graph, version=version, kept="")
            elif job.state is JobState.RUNNING:
                reason = "the server died while the job was started or stopped"
                changed[job.name] = with_state(job, JobState.STOPPED, self.clock(), reason)
        self.log.write(changed, self.clock())


def text_of(version: JobVersion) -> JobText:
    """Returns the text of a version, with the modules that it was submitted with."""
    return JobText(
        version.name, version.sql, version.file, version.modules, accepted=True, by=version.by
    )


def _of_rule(text: JobText) -> JobText:
    """Returns the text of a shadow as that of its rule."""
    return replace(text, name=rule_of(text.name)) if is_shadow(text.name) else text


def _named(job: str, plan: PlannedJob | SqlError) -> PlannedJob | SqlError:
    return replace(plan, name=job) if isinstance(plan, PlannedJob) and plan.name != job else plan


def _resting_state(plan: PlannedJob) -> JobState:
    """The state of a job of which nothing runs."""
    rule = rule_in(plan.settings)
    if rule is None or rule.status not in (Status.DRAFT, Status.RETIRED):
        return JobState.DEFINED
    return JobState(rule.status.value)
