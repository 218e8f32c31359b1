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
from sqlengine.executors.memory_limits import (
    LIMIT,
    MemoryLimits,
    memory_limit,
    standard_limit,
)
from sqlengine.executors.steps.answers import NEVER, PATIENCE_S
from sqlengine.executors.steps.by_version import ByVersion
from sqlengine.executors.steps.guard import STEP_TIMEOUT
from sqlengine.executors.steps.limits import Steps, step_timeout
from sqlengine.formats.options import did_you_mean
from sqlengine.functions.library import Library
from sqlengine.jobs.isolation_settings import group_of, patience_in
from sqlengine.jobs.job import AT_REST, Cause, Job, JobState, JobVersion, Origin, with_state
from sqlengine.jobs.log import JobLog, PendingChange
from sqlengine.jobs.planning import JobText, PlannedJob, with_entry_points, with_objects
from sqlengine.jobs.sealing import Sealing
from sqlengine.jobs.shadow_plans import Beside, as_shadow
from sqlengine.jobs.targets import TARGET
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
        self.settings, self._isolates = config.settings, config.isolation
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
        # Job versions that ask to fail at a row in error.
        self._failing: ByVersion[bool] = ByVersion()

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

    def next_version(self, text: JobText, origin: Origin) -> JobVersion:
        """Returns the next version of a job, which is not in the log yet."""
        return JobVersion(
            rule_of(text.name),
            self.log.next_version(text.name),
            text.sql,
            origin,
            self.clock(),
            text.file,
            by=text.by,
        )

    def next_versions(
        self,
        texts: Mapping[str, JobText],
        plans: Mapping[str, PlannedJob],
        origin: Origin,
        kept: Mapping[str, str],
    ) -> dict[str, JobVersion]:
        """Returns the versions of planned jobs, each with the versions that define what it uses: of
        the same change, else of the catalog. Renamed jobs (`kept`: new name -> old) keep theirs,
        and so do shadows that become live."""
        fresh = {
            name: (
                self.log.renamed(self.job(kept[name]), name, texts[name].file)[0]
                if name in kept
                else self._next_version(texts[name], origin, plans)
            )
            for name in plans
        }
        defining = sorted(
            (j for j in self.log.jobs.values() if j.defines), key=lambda j: j.name, reverse=True
        )
        definers = {o: (j.name, j.version) for j in defining for o in j.defines}
        for name, plan in plans.items():
            definers |= {full_name(o.name): (name, fresh[name].version) for o in plan.objects}
        needs = {
            n: dict(definers[o] for o in map(full_name, p.uses) if o in definers)
            for n, p in plans.items()
        }
        return {
            n: replace(v, needs=needs[n], modules=dict(plans[n].modules)) for n, v in fresh.items()
        }

    def _next_version(
        self, text: JobText, origin: Origin, plans: Mapping[str, PlannedJob]
    ) -> JobVersion:
        """Returns the version of a planned job: of one that is promoted that of its shadow."""
        if text.promotes:
            return self.log.version(text.name, text.promotes)
        version = self.next_version(text, origin)
        if not is_shadow(text.name):
            return version
        beside = self.version_beside(text.name, plans)
        number = self.number_of_shadow(text.name, plans)
        return replace(version, version=number, shadow=True, beside=beside)

    def number_of_shadow(self, name: str, plans: Collection[str]) -> int:
        """Returns the number of a shadow's next version; `plans`: the jobs that get new ones."""
        return self.log.next_version(name) + (rule_of(name) in plans)

    def version_beside(self, name: str, plans: Collection[str]) -> int:
        """Returns the live version beside a new shadow; 0 where there is none."""
        live = self.log.jobs.get(rule_of(name))
        if live is None or live.state in AT_REST:
            return 0
        return self.log.next_version(name) if live.name in plans else live.version

    def is_stale(self, job: Job) -> bool:
        """True if a job that its version needs has another version now: what runs of it, or what it
        keeps, knows the definitions of before."""
        jobs = self.log.jobs
        needs = self._needs(job.name, job.version)
        return any(n not in jobs or jobs[n].version != v for n, v in needs.items())

    def follow(self, job: Job, plan: PlannedJob) -> Job:
        """Gives a job that does not run a version that knows the present definitions, if its own
        does not. Returns the job with it."""
        if not self.is_stale(job):
            return job
        text = self.text(job)
        version = self.next_versions({job.name: text}, {job.name: plan}, job.origin, {})[job.name]
        follows = tuple(sorted(self.version(job).needs))
        followed = replace(job, version=version.version)
        self.log.add_waiting(replace(version, follows=follows), followed, self.clock())
        return followed

    def following(
        self,
        versions: Mapping[str, JobVersion],
        dependents: Collection[str],
        causes: Mapping[str, Collection[str]],
    ) -> dict[str, JobVersion]:
        """Returns the versions of jobs that are planned again because others define differently
        what they use: each keeps its origin. `causes`: the jobs that define an object so."""
        found = {}
        for name in dependents:
            if name in versions:
                job = self.job(name)
                by = sorted({cause for item in job.uses for cause in causes.get(item, ())})
                found[name] = replace(versions[name], origin=job.origin, follows=tuple(by))
        return found

    def earlier_versions(self, renamed: Mapping[str, str]) -> list[JobVersion]:
        """Returns the history that renamed jobs take along (new name -> old), without the versions
        that run."""
        return [
            v for new, old in renamed.items() for v in self.log.renamed(self.job(old), new, None)[1]
        ]

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

    def register_policies(self, version: int, plan: PlannedJob) -> None:
        """Registers the error policy and the limits of a version, before it runs.

        By version, since a recovery may replay one when the job already has another.
        """
        self._retain_policies(plan.name, {version, *self.steps.versions(plan.name)})
        if plan.settings.get("job.on-error") == "fail":
            self._failing.set(plan.name, version, True)
        if LIMIT in plan.settings:
            self.memory.set_limit(plan.name, version, memory_limit(plan.settings))
        patience = patience_in({**self.settings, **plan.settings}) if self._isolates else NEVER
        if patience != PATIENCE_S:
            self.steps.set_patience(plan.name, version, patience)
        if STEP_TIMEOUT in plan.settings:
            self.steps.set_timeout(plan.name, version, step_timeout(plan.settings))

    def fails_on_error(self, job: str, version: int) -> bool:
        """True if a row in error fails the job; otherwise it becomes a dead letter."""
        return self._failing.get(job, version, False)

    def _retain_policies(self, job: str, versions: Collection[int]) -> None:
        """Forgets what is registered of the job's other versions, none of which runs."""
        for policies in (self._failing, self.memory, self.steps):
            policies.retain(job, versions)

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
            self._retain_policies(name, self.steps.versions(name))

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
            if not self.is_stale(job):
                self._plans[job.name, job.version] = plan
            self.register_policies(job.version, plan)

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
                needs = {n: v for n, v in self._needs(name, version).items() if n != name}
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
                self.register_policies(jobs[name], plan)
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

    def _needs(self, name: str, version: int) -> dict[str, int]:
        """Returns the job versions that define what this one uses, and transitively what those use:
        of two versions of a job the later."""
        needs: dict[str, int] = {}
        waiting = [(name, version)]
        while waiting:
            for need, number in self.log.version(*waiting.pop()).needs.items():
                if needs.get(need, 0) < number:
                    needs[need] = number
                    waiting.append((need, number))
        return needs

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
