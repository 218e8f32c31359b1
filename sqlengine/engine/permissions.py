"""Decides what the principals of a request may run, when its texts are planned.

A plan may touch what its owner may touch: for a text of the request that is who asks; for a job
that is planned again, since it uses what the request defines differently, that is the principal of
its version. So nobody gets another's job to read or write anything for him."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from parser.errors import JobError, SqlError
from planner.catalog import CatalogObject, Identifier
from sqlengine.access.groups import check_group
from sqlengine.access.plans import check_new_topics, check_plans
from sqlengine.access.policy import Forbidden
from sqlengine.access.principals import Principal
from sqlengine.engine.requests import Request
from sqlengine.engine.table_access import TableAccess
from sqlengine.engine.work import Work
from sqlengine.jobs.job import Job
from sqlengine.jobs.planning import JobText, PlannedJob
from sqlengine.registry import Registry


class Permissions:
    """Checks plans and numbers of jobs, in the thread that makes changes."""

    def __init__(self, registry: Registry, tables: TableAccess) -> None:
        self._registry = registry
        self._tables = tables

    def permitted(
        self,
        request: Request,
        texts: Mapping[str, JobText],
        plans: Mapping[str, PlannedJob | SqlError],
    ) -> dict[str, PlannedJob | SqlError]:
        """Returns the plans, with a refusal in the place of each that its owner may not run."""
        if not self._registry.access.told_apart:
            return dict(plans)
        defined = {
            o.name: o for p in plans.values() if isinstance(p, PlannedJob) for o in p.objects
        }
        return {
            name: self._refusal(self._owner(request, texts[name]), plan, defined) or plan
            for name, plan in plans.items()
        }

    def _owner(self, request: Request, text: JobText) -> Principal:
        """Returns whose rights a text has. Those of a principal that is not known any more are the
        rights of who makes the change."""
        if text.name in request.upserts:
            return request.principal(text.name)
        return self._registry.access.named(text.by) or request.by

    def _refusal(
        self,
        owner: Principal,
        plan: PlannedJob | SqlError,
        defined: Mapping[Identifier, CatalogObject],
    ) -> Forbidden | None:
        if isinstance(plan, SqlError) or owner.is_admin:
            return None
        known = self._registry.catalog.objects
        # Also what is named and optimised away: dead letters of a table go to the jobs that use it.
        used = [o for u in plan.uses if (o := defined.get(u) or known.get(u)) is not None]
        try:
            self._check(owner, plan, (*plan.objects, *used))
        except Forbidden as error:
            return error
        return None

    def _check(self, owner: Principal, plan: PlannedJob, objects: Iterable[CatalogObject]) -> None:
        for group in sorted(check_plans(owner, plan.sinks, objects).groups):
            check_group(owner, group, self._registry.broker)
        check_new_topics(owner, self._new_topics(plan))

    def _new_topics(self, plan: PlannedJob) -> list[str]:
        try:
            return [topic.name for topic in self._tables.missing_topics(plan)]
        except SqlError:  # options that are wrong: the job is refused for them
            return []

    def check_start(self, job: Job, by: Principal) -> None:
        """Raises Forbidden for a job that its principal may not run any more: it does not start
        again. One whose principal is not known any more starts for who could submit it."""
        version = self._registry.version(job)
        owner = self._registry.access.named(version.by) or by
        if self._registry.access.told_apart and not owner.is_admin:
            plan = self._registry.plan_of(job)
            self._check(owner, plan, plan.objects)

    # ---- numbers of jobs -------------------------------------------------------------------------

    def owned(self) -> Counter[str]:
        """Returns the number of jobs of each principal, where there are several."""
        if not self._registry.access.told_apart:
            return Counter()
        return Counter(self._registry.version(job).by for job in self._registry.jobs())

    def check_number(self, work: Work, name: str, owned: Counter[str]) -> None:
        """Raises JobError for a job too many of its principal, and counts it otherwise."""
        by, job = work.request.principal(name), self._registry.log.jobs.get(name)
        if by.quota.jobs is None or name in work.kept:
            return
        if job is not None and self._registry.version(job).by == by.name:
            return
        if owned[by.name] >= by.quota.jobs:
            raise JobError(
                f"{by.shown} has {owned[by.name]} jobs, and may have {by.quota.jobs}",
                hint="remove some of them, or let the administrator raise quota.jobs",
            )
        owned[by.name] += 1
