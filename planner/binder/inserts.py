"""INSERT: the query's columns by position to those of the table, cast where Flink casts without being asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError
from parser.statements import Insert
from parser.types import Column
from planner.binder import literals, pool
from planner.binder.relations import bind_query, unknown_table
from planner.binder.scalars import function_call, implicit_cast
from planner.binder.scope import Context, Query, did_you_mean
from planner.catalog import Table, View
from planner.logical import Project, Sink
from planner.scalar import ColumnRef, Scalar
from udf.coercion import can_assign


def bind_insert(statement: Insert, context: Context) -> Sink:
    """A sink whose input has the writable columns of the table, in their order and with their types. A value that may
    be NULL can stand in a NOT NULL column: the sink refuses the row when it is."""
    table = _target(statement, context)
    columns = writable(table)
    query = bind_query(statement.query, context)
    targets = _targets(statement, columns)
    _check_count(statement, table, query, targets)
    given = dict(zip((c.name for c in targets), query.plan.schema, strict=True))
    places = _places(statement, targets)
    items = tuple((c.name, _value(c, given.get(c.name), table, places)) for c in columns)
    unchanged = [c.name for c in query.plan.schema] == [c.name for c in columns] and all(
        isinstance(e, ColumnRef) and e.name == n for n, e in items
    )
    plan = query.plan if unchanged else Project(query.plan, items, context.salt(e for _, e in items))
    return Sink(plan, table, context.job, context.place)


def writable(table: Table) -> tuple[Column, ...]:
    """Physical columns and metadata columns that are not VIRTUAL, in the order of the declaration."""
    written = {c.name for c in table.physical} | {m.column.name for m in table.metadata if not m.virtual}
    return tuple(c for c in table.schema if c.name in written)


def _target(statement: Insert, context: Context) -> Table:
    found = context.catalog.get(statement.target)
    if isinstance(found, Table):
        return found
    if isinstance(found, View):
        raise PlanError(f"'{found.name[2]}' is a view, and rows go into tables", position=statement.position)
    raise unknown_table(statement.target, context, None).at(statement.position)


def _targets(statement: Insert, columns: Sequence[Column]) -> list[Column]:
    if not statement.columns:
        return list(columns)
    known = {c.name: c for c in columns}
    for index, name in enumerate(statement.columns):
        if name not in known:
            hint = did_you_mean(name, list(known), "column")
            raise PlanError(f"unknown target column '{name}'", hint=hint, position=statement.position)
        if name in statement.columns[:index]:
            raise PlanError(f"target column '{name}' is named twice", position=statement.position)
    return [known[name] for name in statement.columns]


def _check_count(statement: Insert, table: Table, query: Query, targets: Sequence[Column]) -> None:
    if len(query.names) != len(targets):
        raise PlanError(
            f"the query has {len(query.names)} columns, but {len(targets)} are written to '{table.display}'",
            detail=f"query: {', '.join(query.names)}; table: {', '.join(c.name for c in targets)}",
            position=position_of(statement.query) or statement.position,
        )


def _places(statement: Insert, targets: Sequence[Column]) -> dict[str, exp.Expression]:
    """Where each target's value stands in the text: its item in the select list, or else the query."""
    query = statement.query
    items = query.expressions if isinstance(query, exp.Select) else []
    if len(items) != len(targets):
        items = [query] * len(targets)
    return dict(zip((c.name for c in targets), items, strict=True)) | {"": query}


def _value(target: Column, given: Column | None, table: Table, places: Mapping[str, exp.Expression]) -> Scalar:
    """What is written to the column: the query's value, cast if need be, or NULL where the text does not name it."""
    if given is None:
        if not target.type.nullable:
            message = f"column '{target.name}' of '{table.display}' is NOT NULL and gets no value"
            raise PlanError(message, hint="name it in the column list", position=position_of(places[""]))
        return literals.null(target.type)
    if not can_assign(given.type, target.type):
        raise PlanError(
            f"column '{target.name}' of '{table.display}' is {target.type.plain}, but the query gives {given.type.plain}",
            hint=f"write CAST({given.name} AS {target.type.plain})",
            position=position_of(places[target.name]),
        )
    place = places[target.name]
    value = implicit_cast(pool.column(given.name, given.type), target.type, place)
    if target.type.nullable or not given.type.nullable:
        return value
    return function_call("CHECK NOT NULL", (value, literals.text(target.name)), place)
