"""Plans of texts, made once for all lives: they depend on the text and the catalog alone."""

from __future__ import annotations

from collections.abc import Sequence

from parser.errors import SqlError
from planner.catalog import Catalog
from sqlengine.jobs.planning import JobText, PlannedJob
from sqlengine.jobs.workers import Planner

_made: dict[object, tuple[Catalog, list[PlannedJob | SqlError]]] = {}


class RememberingPlanner(Planner):
    """Objects of catalogs come from plans that are remembered, and so are known by their identity."""

    def plan(
        self, jobs: Sequence[JobText], catalog: Catalog, *, child: bool | None = None, alone: bool = False
    ) -> list[PlannedJob | SqlError]:
        held = frozenset((name, id(item)) for name, item in catalog.objects.items())
        key = (tuple((j.name, j.sql) for j in jobs), held)
        if key not in _made:
            _made[key] = catalog, super().plan(jobs, catalog, child=False)
        return list(_made[key][1])
