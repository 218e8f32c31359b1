"""Plans of single statements for tests."""

from __future__ import annotations

from collections.abc import Mapping

from parser.statements import Insert, Query, Statement, StatementSet
from planner import analyze, bind, optimize
from planner.analysis.context import AnalysisContext
from planner.catalog import Catalog
from planner.logical import Sink
from sqlengine.connectors.registry import capabilities_of

# Rows go to a table as the query gives them, whatever its connector takes.
NOT_DELIVERED = frozenset({"deliver"})


def analyzed(
    statement: Statement,
    catalog: Catalog,
    settings: Mapping[str, str] | None = None,
    *,
    job: str = "",
    disabled: frozenset[str] = NOT_DELIVERED,
) -> Sink:
    """The plan of a query or an INSERT before any pass of the optimiser."""
    assert isinstance(statement, Query | Insert | StatementSet)
    (bound,) = bind(statement, catalog, settings or {}, job=job)
    context = AnalysisContext(catalog, settings or {}, capabilities_of)
    return analyze(bound, context, disabled=disabled)


def optimized(
    statement: Statement,
    catalog: Catalog,
    settings: Mapping[str, str] | None = None,
    *,
    job: str = "",
    disabled: frozenset[str] = frozenset(),
) -> Sink:
    """The plan of a query or an INSERT after all passes but `disabled`."""
    return optimize(analyzed(statement, catalog, settings, job=job), disabled=disabled)
