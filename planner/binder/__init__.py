"""The binder: makes typed plans of statements, with names resolved and implicit casts added.

Pure functions. Nothing of the parsed statement is needed afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, overload

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
from planner.binder.definitions import bind_function, bind_table, bind_view
from planner.binder.derived import table_of_query
from planner.binder.expressions import (
    calls,
    json_calls,
    nested,
    operators,
    rule_calls,
    watermarks,
)
from planner.binder.inserts import bind_insert
from planner.binder.queries import new_terms
from planner.binder.queries.relations import bind_query
from planner.binder.scope import Context, Load
from planner.binder.subqueries import expressions as subqueries
from planner.binder.unsupported import refuse
from planner.binder.windows import over, pattern_values
from planner.binder.windows.emits import check_emitted, emitting
from planner.catalog import Catalog, Function, Table, View
from planner.logical import Sink

__all__ = ["Bound", "bind", "bind_create_as"]

for _module in (
    operators,
    calls,
    json_calls,
    nested,
    new_terms,
    over,
    pattern_values,
    rule_calls,
    subqueries,
    watermarks,
):
    _module.register_binders()

# Plans of a query or of INSERTs, or what a CREATE statement adds to the catalog.
Bound: TypeAlias = tuple[Sink, ...] | Table | View | Function


@overload
def bind(
    statement: Query | Insert | StatementSet,
    catalog: Catalog,
    settings: Mapping[str, str],
    *,
    job: str = ...,
    place: int = ...,
) -> tuple[Sink, ...]: ...


@overload
def bind(
    statement: CreateTable, catalog: Catalog, settings: Mapping[str, str], *, job: str = ...
) -> Table: ...


@overload
def bind(
    statement: CreateView, catalog: Catalog, settings: Mapping[str, str], *, job: str = ...
) -> View: ...


@overload
def bind(
    statement: CreateFunction,
    catalog: Catalog,
    settings: Mapping[str, str],
    *,
    job: str = ...,
    load: Load | None,
) -> Function: ...


@overload
def bind(
    statement: Statement,
    catalog: Catalog,
    settings: Mapping[str, str],
    *,
    job: str = ...,
    place: int = ...,
    load: Load | None = ...,
) -> Bound: ...


def bind(
    statement: Statement,
    catalog: Catalog,
    settings: Mapping[str, str],
    *,
    job: str = "",
    place: int = 0,
    load: Load | None = None,
) -> Bound:
    """The plans or the object that a statement stands for: names resolved, types found, implicit
    casts made. `place` is the number of its (first) INSERT in the job: it is part of the identity
    of sinks; `load` finds what CREATE FUNCTION names. Raises PlanError or UnsupportedError with the
    position in the script.

    The sink of a query has no table; that of an INSERT has a plan whose columns are the table's
    writable ones. `planner.plan` analyses it next."""
    try:
        refuse(statement)
        return _bind(statement, Context(catalog, settings, job, place, load=load))
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
