"""From statements to typed plans: names resolved, types found, implicit casts made. Pure functions;
what was parsed is not needed any more afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from parser.errors import PlanError, Position
from parser.statements import (
    CreateFunction,
    CreateTable,
    CreateView,
    Insert,
    Query,
    Statement,
    StatementSet,
)
from planner.analysis.batch_mode import use_final_results
from planner.analysis.empty_aggregates import fold_empty_aggregates
from planner.analysis.time_zones import bind_time_zone
from planner.analysis.top_n import recognize_top_n
from planner.analysis.two_step_windows import unmark_one_step_windows
from planner.binder.definitions import bind_function, bind_table, bind_view
from planner.binder.derived import table_of_query
from planner.binder.expressions import calls, json_calls, nested, operators, watermarks
from planner.binder.inserts import bind_insert
from planner.binder.late_rows import telling_late
from planner.binder.queries.relations import bind_query
from planner.binder.scope import Context, Load
from planner.binder.subqueries import expressions as subqueries
from planner.binder.unsupported import refuse
from planner.binder.windows import over, pattern_values
from planner.binder.windows.emits import check_emitted, emitting
from planner.catalog import Catalog, Function, Table, View
from planner.logical import Sink
from planner.settings import configure_operators

__all__ = ["Bound", "bind", "bind_create_as"]

for _module in (operators, calls, json_calls, nested, over, pattern_values, subqueries, watermarks):
    _module.install()

# Plans of a query or of INSERTs, or what a CREATE statement adds to the catalog.
Bound: TypeAlias = tuple[Sink, ...] | Table | View | Function


def bind(
    statement: Statement,
    catalog: Catalog,
    settings: Mapping[str, str],
    *,
    job: str = "",
    place: int = 0,
    load: Load | None = None,
) -> Bound:
    """What the statement means. `place` is the number of its (first) INSERT in the job: it is part
    of the identity of sinks; `load` finds what CREATE FUNCTION names. Raises PlanError or
    UnsupportedError with the position in the script.

    The sink of a query has no table; that of an INSERT has a plan whose columns are the table's
    writable ones."""
    try:
        refuse(statement)
        context = Context(catalog, settings, job, place, load=load)
        bound = _bind(statement, context)
        if not isinstance(bound, tuple):
            return bound
        found = (
            use_final_results(s) if context.batch else recognize_top_n(fold_empty_aggregates(s))
            for s in bound
        )
        zoned = (
            unmark_one_step_windows(
                configure_operators(bind_time_zone(s, context.zone), settings), settings
            )
            for s in found
        )
        return tuple(telling_late(s, context) for s in zoned)
    except RecursionError:
        raise too_deep(statement.position) from None


def bind_create_as(
    statement: CreateTable, catalog: Catalog, settings: Mapping[str, str], *, job: str = ""
) -> tuple[CreateTable, Insert]:
    """CREATE TABLE … AS as the two statements that it stands for: the table, then the INSERT of the
    query."""
    assert statement.query is not None
    refuse(statement)
    plan = _result(
        Query(statement.query, position=statement.position), Context(catalog, settings, job)
    )
    return table_of_query(statement, {c.name: c.type for c in plan.schema})


def _bind(statement: Statement, context: Context) -> Bound:
    match statement:
        case Query():
            return (_result(statement, emitting(statement.emit, context)),)
        case Insert():
            return (bind_insert(statement, context),)
        case StatementSet():
            places = enumerate(statement.inserts, context.place)
            return tuple(bind_insert(s, context.at_place(p)) for p, s in places)
        case CreateTable():
            return bind_table(statement, context)
        case CreateView():
            return bind_view(statement, context)
        case CreateFunction():
            return bind_function(statement, context)
    raise TypeError(f"{type(statement).__name__} has nothing to bind")


def _result(statement: Query, context: Context) -> Sink:
    query = bind_query(statement.query, context)
    check_emitted(statement.emit, query.plan)
    return Sink(query.plan, None, context.job, context.place)


def too_deep(position: Position) -> PlanError:
    return PlanError(
        "the statement is nested too deeply",
        hint="put a part of it into a view, or use IN",
        position=position,
    )
