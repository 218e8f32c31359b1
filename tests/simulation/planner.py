"""Plans of texts, made once for all lives: they depend on the text, the settings and what the
catalog defines alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from parser.errors import SqlError
from planner.catalog import Catalog, Table
from sqlengine.functions.library import Library
from sqlengine.jobs.planning import JobText, PlannedJob, plan_job, plan_jobs
from sqlengine.jobs.workers import Planner

made: dict[object, PlannedJob | SqlError] = {}


class RememberingPlanner(Planner):
    """Every text by itself, and catalogs by their content: a life has its jobs in an order of its
    own, and what is kept must not grow with the number of lives."""

    def plan(
        self,
        jobs: Sequence[JobText],
        catalog: Catalog,
        *,
        child: bool | None = None,
        alone: bool = False,
        limited: bool = True,
    ) -> list[PlannedJob | SqlError]:
        return plan_jobs(jobs, catalog, self.settings, self.library, _remembered)


def _remembered(
    job: JobText, catalog: Catalog, settings: Mapping[str, str], library: Library | None = None
) -> PlannedJob:
    key = (
        job.name,
        job.sql,
        frozenset(map(_content, catalog.objects.values())),
        frozenset(settings.items()),
    )
    if key not in made:
        try:
            made[key] = plan_job(job, catalog, settings, library)
        except SqlError as error:
            made[key] = error
    plan = made[key]
    if isinstance(plan, SqlError):
        raise plan
    return plan


def _content(item: object) -> tuple[object, str]:
    assert isinstance(item, Table), "a life defines nothing but tables"
    return item.name, item.definition
