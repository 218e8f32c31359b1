"""What the engine knows of its jobs: the log, the catalog that follows from it, and plans of versions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from parser.errors import JobError, SqlError
from planner.catalog import Catalog
from sqlengine.broker.base import Broker
from sqlengine.changes import defined_only_by, full_name, without
from sqlengine.config import Config
from sqlengine.jobs import Job, JobLog, JobState, JobVersion, Origin, moved
from sqlengine.planning import JobText, PlannedJob, with_objects
from sqlengine.workers import plan_texts

log = logging.getLogger("sqlengine")

LIVE = (JobState.RUNNING, JobState.STOPPED, JobState.DEFINED)


class Registry:
    """Changed by one thread (the one that makes changes), read by all."""

    def __init__(self, broker: Broker, config: Config, clock: Callable[[], int]) -> None:
        self.log = JobLog(broker)
        self.catalog = Catalog()
        self.clock = clock
        self._settings = config.settings
        self._plans: dict[tuple[str, int], PlannedJob] = {}

    def jobs(self) -> list[Job]:
        """All jobs by name."""
        return sorted(self.log.jobs.values(), key=lambda j: j.name)

    def job(self, name: str) -> Job:
        """One job; JobError if there is none."""
        if name not in self.log.jobs:
            raise JobError(f"job '{name}' does not exist", hint="'sql jobs' lists all")
        return self.log.jobs[name]

    def text(self, job: Job) -> JobText:
        """What the job's current version says."""
        version = self.log.version(job.name, job.version)
        return JobText(job.name, version.sql, version.file)

    def next_version(self, text: JobText, origin: Origin) -> JobVersion:
        """A version that is not in the log yet."""
        return JobVersion(text.name, self.log.next_version(text.name), text.sql, origin, self.clock(), text.file)

    def move(self, job: Job, state: JobState, reason: str | None = None, graph: str | None = None) -> None:
        """Writes down that the job is in another state."""
        moved_job = moved(job, state, self.clock(), reason)
        self.log.write({}, {job.name: replace(moved_job, graph=graph or job.graph)}, self.clock())

    def private(self, jobs: Collection[str]) -> set[str]:
        """Objects that only these jobs define and use: they may be defined anew."""
        names = {n for j in jobs if j in self.log.jobs for n in defined_only_by(self.log.jobs[j], self.jobs())}
        return {n for n in names if not any(n in j.uses for j in self.jobs() if j.name not in jobs)}

    def catalog_for(self, jobs: Collection[str]) -> Catalog:
        """The catalog in which these jobs are planned: without what only they define."""
        return without(self.catalog, self.private(jobs))

    def plan(self, texts: Collection[JobText], jobs: Collection[str]) -> list[PlannedJob | SqlError]:
        """Plans texts in the catalog for `jobs`."""
        return plan_texts(list(texts), self.catalog_for(jobs), self._settings)

    def settle(
        self,
        plans: Mapping[str, PlannedJob],
        versions: Mapping[str, JobVersion],
        graphs: Mapping[str, str],
        removes: Collection[str],
    ) -> None:
        """Writes down what has taken effect, and the catalog that follows from it."""
        self.catalog = without(self.catalog, self.private({*plans, *removes}))
        jobs = {}
        for name, plan in plans.items():
            self.catalog = with_objects(self.catalog, plan)
            jobs[name] = self._settled(versions[name], plan, graphs[name])
        self.log.write({}, jobs, self.clock())
        for name in removes:
            self.log.remove(name, self.clock())

    def _settled(self, version: JobVersion, plan: PlannedJob, graph: str) -> Job:
        return Job(
            version.name,
            version.version,
            JobState.RUNNING if plan.sinks else JobState.DEFINED,
            version.origin,
            self.clock(),
            graph=graph,
            defines=tuple(full_name(o.name) for o in plan.objects),
            uses=tuple(sorted(map(full_name, plan.uses))),
            settings=dict(plan.settings),
        )

    # ---- recovery ----------------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Plans all jobs as they were, which gives the catalog; the plans are kept for the graphs that come next."""
        jobs = [j for j in self.jobs() if j.state in LIVE]
        # In this process: no stream runs yet that planning could hold up.
        plans = plan_texts([self.text(j) for j in jobs], Catalog(), self._settings, child=False)
        for job, plan in zip(jobs, plans, strict=True):
            if isinstance(plan, SqlError):
                log.error("job %s cannot be planned any more: %s", job.name, plan)
                continue
            self.catalog = with_objects(self.catalog, plan)
            self._plans[job.name, job.version] = plan

    def recovered(self) -> None:
        """The plans that were kept for the recovery are of no more use."""
        self._plans.clear()

    def plans_of(self, jobs: Mapping[str, int]) -> dict[str, PlannedJob]:
        """Plans of some versions of jobs, from the log's texts."""
        found = {n: self._plans[n, v] for n, v in jobs.items() if (n, v) in self._plans}
        missing = [self.log.version(n, v) for n, v in jobs.items() if n not in found]
        texts = [JobText(v.name, v.sql, v.file) for v in missing]
        for text, plan in zip(texts, self.plan(texts, jobs.keys()), strict=True):
            if isinstance(plan, SqlError):
                raise plan
            found[text.name] = plan
        return found

    def reconcile(self, running: Mapping[str, tuple[str, int]]) -> None:
        """The graphs are the truth about what runs (job -> graph, version): a crash may have come between a switch and
        the log's entry."""
        changed = {}
        for job in self.jobs():
            graph, version = running.get(job.name, ("", 0))
            if version and (job.state is not JobState.RUNNING or (job.graph, job.version) != (graph, version)):
                held = moved(job, JobState.RUNNING, self.clock())
                changed[job.name] = replace(held, version=version, graph=graph)
            elif not version and job.state is JobState.RUNNING:
                changed[job.name] = moved(job, JobState.STOPPED, self.clock(), "the server died while it started")
        self.log.write({}, changed, self.clock())
