"""What the engine knows of its jobs: the log, the catalog that follows from it, and plans of
versions."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace

from parser.errors import JobError, SqlError
from planner.catalog import Catalog
from sqlengine.broker.base import Broker
from sqlengine.catalog.changes import full_name, without
from sqlengine.config import Config
from sqlengine.executors.memory_limits import LIMIT, MemoryLimits, memory_limit
from sqlengine.functions.library import Library
from sqlengine.jobs.isolation_settings import group_of
from sqlengine.jobs.job import Cause, Job, JobState, JobVersion, Origin, with_state
from sqlengine.jobs.log import JobLog, PendingChange
from sqlengine.jobs.planning import JobText, PlannedJob, with_entry_points, with_objects
from sqlengine.machine import Machine

log = logging.getLogger("sqlengine")

LIVE = (JobState.RUNNING, JobState.STOPPED, JobState.DEFINED)


class Registry:
    """Changed by one thread (the one that makes changes), read by all."""

    def __init__(self, broker: Broker, config: Config, machine: Machine) -> None:
        self.log = JobLog(broker, sync=config.fsync == "interval")
        self.clock = machine.clock
        self.library = Library(
            config.data / "modules", (config.functions_folder,), limits=config.function_limits
        )
        self._base = with_entry_points(Catalog(), self.library)
        self.catalog = self._base
        cache = config.data / "plans.sqlite" if config.plan_cache else None
        self.planner = machine.planner(config.settings, self.library, cache)
        self._plans: dict[tuple[str, int], PlannedJob] = {}
        self.memory = MemoryLimits(config.memory_limit)
        self._failing: set[tuple[str, int]] = (
            set()
        )  # job versions that ask to fail at a row in error

    def jobs(self) -> list[Job]:
        """All jobs by name."""
        return sorted(self.log.jobs.values(), key=lambda j: j.name)

    def job(self, name: str) -> Job:
        """One job; JobError if there is none."""
        if name not in self.log.jobs:
            raise JobError(f"job '{name}' does not exist", hint="'sql jobs' lists all")
        return self.log.jobs[name]

    def version(self, job: Job) -> JobVersion:
        """The job's current version."""
        return self.log.version(job.name, job.version)

    def text(self, job: Job) -> JobText:
        """What the job's current version says."""
        return text_of(self.version(job))

    def has_text(self, held: JobVersion, text: JobText, origin: Origin) -> bool:
        """Whether a text says what a version says, down to the contents of the modules that it
        names. The folder shows its texts again at every start, which is no new submit: a restart
        goes on with the modules that there were."""
        if held.sql != text.sql or origin is Origin.FOLDER:
            return held.sql == text.sql
        return (
            text.modules == held.modules if text.modules else self.library.unchanged(held.modules)
        )

    def modules(self) -> set[str]:
        """Contents of modules that jobs may call."""
        live = (
            j for j in self.log.jobs.values() if j.state in (JobState.RUNNING, JobState.DEFINED)
        )
        return {c for j in live for c in self.log.version(j.name, j.version).modules.values()}

    def next_version(self, text: JobText, origin: Origin) -> JobVersion:
        """A version that is not in the log yet."""
        return JobVersion(
            text.name, self.log.next_version(text.name), text.sql, origin, self.clock(), text.file
        )

    def next_versions(
        self,
        texts: Mapping[str, JobText],
        plans: Mapping[str, PlannedJob],
        origin: Origin,
        kept: Mapping[str, str],
    ) -> dict[str, JobVersion]:
        """Versions of planned jobs, each with those that it needs: of the same change, or those
        that are there. Renamed jobs (`kept`: new name to old) stay at theirs."""
        fresh = {
            name: (
                self.log.renamed(self.job(kept[name]), name, texts[name].file)[0]
                if name in kept
                else self.next_version(texts[name], origin)
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

    def earlier_versions(self, renamed: Mapping[str, str]) -> list[JobVersion]:
        """What goes with jobs to their new names (new name to old), besides the versions that
        run."""
        return [
            v for new, old in renamed.items() for v in self.log.renamed(self.job(old), new, None)[1]
        ]

    def rename(self, job: Job, text: JobText) -> Job:
        """Gives a job that no graph runs another name and file. All else stays: versions, state,
        what it defines."""
        version, others = self.log.renamed(job, text.name, text.file)
        held = replace(job, name=text.name, version=version.version)
        self.log.rename([version, *others], {job.name: held}, self.clock())
        return held

    def set_state(
        self, job: Job, state: JobState, reason: str | None = None, graph: str | None = None
    ) -> None:
        """Writes down that the job is in another state."""
        held = replace(
            with_state(job, state, self.clock(), reason), graph=graph or job.graph, cause=Cause.NONE
        )
        self.log.write({job.name: held}, self.clock())

    def private_objects(self, jobs: Collection[str]) -> set[str]:
        """Objects that only these jobs define and use: they may be defined anew."""
        names = {n for j in jobs if j in self.log.jobs for n in self.log.jobs[j].defines}
        if not names:
            return set()
        others = [j for j in self.log.jobs.values() if j.name not in jobs]
        return names.difference(*(j.defines for j in others), *(j.uses for j in others))

    def catalog_for(self, jobs: Collection[str]) -> Catalog:
        """The catalog in which these jobs are planned: without what only they define."""
        return without(self.catalog, self.private_objects(jobs))

    def plan(
        self, texts: Collection[JobText], jobs: Collection[str]
    ) -> list[PlannedJob | SqlError]:
        """Plans texts in the catalog for `jobs`."""
        alone = not any(j.state is JobState.RUNNING for j in self.log.jobs.values())
        return self.planner.plan(list(texts), self.catalog_for(jobs), alone=alone)

    def register_policies(self, version: int, plan: PlannedJob) -> None:
        """Remembers what a version says of its rows in error and of its memory, before it runs: it
        may run again in a replay, when the job has another one."""
        if plan.settings.get("job.on-error") == "fail":
            self._failing.add((plan.name, version))
        if LIMIT in plan.settings:
            self.memory.set_limit(plan.name, version, memory_limit(plan.settings))

    def fails_on_error(self, job: str, version: int) -> bool:
        """Whether a row in error stops the job; in place of that it can become a dead letter."""
        return (job, version) in self._failing

    def complete_change(self, change: PendingChange, plans: Mapping[str, PlannedJob]) -> None:
        """Writes down that a change has taken effect, and the catalog that follows from it."""
        self.catalog = without(self.catalog, self.private_objects({*plans, *change.removes}))
        jobs = {}
        for name, plan in plans.items():
            self.catalog = with_objects(self.catalog, plan)
            jobs[name] = self._deployed_job(
                self.log.version(name, change.jobs[name]), plan, change.graphs[name]
            )
        self.log.complete(jobs, change.removes, self.clock())

    def _deployed_job(self, version: JobVersion, plan: PlannedJob, graph: str) -> Job:
        held, group = self.log.jobs.get(version.name), group_of(graph)
        cause, reason = (
            (Cause.NONE, None) if group is None else (Cause.GROUP, f"isolation group '{group}'")
        )
        if held is not None and held.state is JobState.RUNNING and held.graph == graph:
            cause, reason = held.cause, held.reason
        return Job(
            version.name,
            version.version,
            JobState.RUNNING if plan.sinks else JobState.DEFINED,
            version.origin,
            self.clock(),
            reason,
            graph,
            defines=tuple(full_name(o.name) for o in plan.objects),
            uses=tuple(sorted(map(full_name, plan.uses))),
            settings=dict(plan.settings),
            cause=cause,
        )

    def complete_migration(self, change: PendingChange) -> None:
        """Writes down that jobs have come to another graph."""
        now = self.clock()
        there = {
            name: with_state(self.job(name), JobState.RUNNING, now, change.reason)
            for name in change.jobs
        }
        there = {
            name: replace(held, graph=change.graphs[name], cause=change.cause)
            for name, held in there.items()
        }
        self.log.complete(there, (), now)

    def complete_pending(self, job: Job, graph: str) -> None:
        """Writes down that the pending change of one job has taken effect."""
        self.log.complete({job.name: replace(job, graph=graph, cause=Cause.NONE)}, (), self.clock())

    def set_cause(self, job: Job, cause: Cause, reason: str | None) -> None:
        """Writes down why a job that runs is where it is."""
        if (job.cause, job.reason) != (cause, reason):
            self.log.write({job.name: replace(job, cause=cause, reason=reason)}, self.clock())

    # ---- recovery --------------------------------------------------------------------------------

    def recover(self) -> None:
        """Plans all jobs as they were, which gives the catalog; the plans are kept for the graphs
        that come next."""
        jobs = [j for j in self.jobs() if j.state is not JobState.WAITING]
        # In this process: no stream runs yet that planning could hold up.
        plans = self.planner.plan([self.text(j) for j in jobs], self._base, child=False)
        for job, plan in zip(jobs, plans, strict=True):
            if isinstance(plan, SqlError):
                log.error("job %s cannot be planned any more: %s", job.name, plan)
                continue
            self.catalog = with_objects(self.catalog, plan)
            self._plans[job.name, job.version] = plan
            self.register_policies(job.version, plan)

    def recovered(self) -> None:
        """The plans that were kept for the recovery are of no more use."""
        self._plans.clear()

    def plans_of(self, jobs: Mapping[str, int]) -> dict[str, PlannedJob | SqlError]:
        """Plans of some versions of jobs, each with the definitions of its own time; the reason
        where there is none."""
        found: dict[str, PlannedJob | SqlError] = {
            n: self._plans[n, v] for n, v in jobs.items() if (n, v) in self._plans
        }
        groups: dict[frozenset[tuple[str, int]], list[str]] = {}
        for name, version in jobs.items():
            if name not in found:
                needs = {n: v for n, v in self._needs(name, version).items() if n != name}
                groups.setdefault(frozenset(needs.items()), []).append(name)
        for needed, names in groups.items():
            versions = [*sorted(needed), *((n, jobs[n]) for n in names)]
            texts = [text_of(self.log.version(n, v)) for n, v in versions]
            plans = self.planner.plan(texts, self._base, child=False)
            found |= zip(names, plans[len(needed) :], strict=True)
        for name, plan in found.items():
            if isinstance(plan, PlannedJob):
                self.register_policies(jobs[name], plan)
        return found

    def _needs(self, name: str, version: int) -> dict[str, int]:
        """All job versions that define what this one names, and what they name: of two of one job
        the later."""
        found: dict[str, int] = {}
        waiting = [(name, version)]
        while waiting:
            for need, number in self.log.version(*waiting.pop()).needs.items():
                if found.get(need, 0) < number:
                    found[need] = number
                    waiting.append((need, number))
        return found

    def reconcile(
        self, running: Mapping[str, tuple[str, int]], lost: Mapping[str, SqlError]
    ) -> None:
        """The graphs are the truth about what runs (job -> graph, version): a crash may have come
        between a switch and the log's entry. `lost`: jobs that ran and cannot run any more."""
        changed = {}
        for job in self.jobs():
            if job.name in lost:
                reason = f"it cannot run any more: {lost[job.name]}"
                changed[job.name] = with_state(job, JobState.FAILED, self.clock(), reason)
            elif job.name in running:
                graph, version = running[job.name]
                if (job.state, job.graph, job.version) != (JobState.RUNNING, graph, version):
                    held = with_state(job, JobState.RUNNING, self.clock())
                    changed[job.name] = replace(held, graph=graph, version=version)
            elif job.state is JobState.RUNNING:
                reason = "the server died while the job was started or stopped"
                changed[job.name] = with_state(job, JobState.STOPPED, self.clock(), reason)
        self.log.write(changed, self.clock())


def text_of(version: JobVersion) -> JobText:
    """What a version says, with the modules that it was submitted with."""
    return JobText(version.name, version.sql, version.file, version.modules)
