"""SET 'job.late-rows.table' = 'name': which columns of a late row the table gets, by their
names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from parser.errors import PlanError
from parser.types import Column, Schema
from planner.analysis.time_zones import bind_time_zone
from planner.binder import pool
from planner.binder.expressions import literals
from planner.binder.expressions.calls import function_call
from planner.binder.expressions.casts import implicit_cast
from planner.binder.inserts import writable
from planner.binder.queries.relations import unknown_table
from planner.binder.queries.sources import check_connector
from planner.binder.scope import Context, did_you_mean
from planner.catalog import Table
from planner.logical import LateRows, LateTarget, LogicalPlan, Project, Sink, Stateful
from planner.rewrite import transform
from planner.scalar import ColumnRef, Scalar
from planner.settings import LATE_ROWS, LATE_TABLE, late_table_name, one_of
from udf.casts.coercion import can_assign

_NOWHERE = exp.Null()


def telling_late(plan: Sink, context: Context) -> Sink:
    """The plan with the table at each operation that drops late rows. PlanError where the table has
    a column that is in none of them, or of a type that does not take the row's."""
    table = _table(context)
    if table is None:
        return plan
    if one_of(context.settings, LATE_ROWS, ("DROP", "DEAD-LETTER")) != "DROP":
        raise PlanError(
            f"'{LATE_ROWS}' and '{LATE_TABLE}' both say where late rows go",
            hint=f"reset '{LATE_ROWS}'",
        )
    known: dict[str, None] = {}

    def set_up(node: LogicalPlan) -> LogicalPlan:
        if not isinstance(node, Stateful) or not node.drops_late:
            return node
        rows = [LateRows(node, port) for port in range(len(node.inputs))]
        known.update(dict.fromkeys(n for r in rows for n in r.schema.names))
        return replace(node, late=LateTarget(table, tuple(_items(r, table, context) for r in rows)))

    told = transform(plan, set_up)
    assert isinstance(told, Sink)
    if known:
        _check_known(table, known)
    return told


def _table(context: Context) -> Table | None:
    parts = late_table_name(context.settings)
    if not parts or context.batch:
        return None
    found = context.catalog.get(parts)
    if not isinstance(found, Table):
        raise unknown_table(parts, context, None)
    check_connector(found)
    return found


def _items(rows: LateRows, table: Table, context: Context) -> tuple[tuple[str, Scalar], ...]:
    items = tuple(
        (c.name, _value(c, _source(c.name, rows), rows.schema, table)) for c in writable(table)
    )
    return bind_time_zone(Project(rows, items), context.zone).items


def _source(name: str, rows: LateRows) -> str | None:
    """The row's column of that name, or which had it before the sides of a join got names of their
    own."""
    if name in rows.schema:
        return name
    below = rows.operation.inputs[rows.port]
    items = below.items if isinstance(below, Project) else ()
    renamed = [
        n for n, e in items if isinstance(e, ColumnRef) and e.name == name and n in rows.schema
    ]
    return renamed[0] if renamed else None


def _value(column: Column, source: str | None, row: Schema, table: Table) -> Scalar:
    """The row's column `source`, cast as INSERT casts; NULL where there is none."""
    if source is None:
        if not column.type.nullable:
            raise PlanError(
                f"column '{column.name}' of '{table.display}' is NOT NULL, and late rows have no"
                " such column",
                detail=_there_is(row.names),
            )
        return literals.null(column.type)
    given = row.type(source)
    if not can_assign(given, column.type):
        raise PlanError(
            f"column '{column.name}' of '{table.display}' is {column.type.plain}, but in late rows"
            f" it is {given.plain}",
            hint=f"declare it as {given.plain}",
        )
    value = implicit_cast(pool.column(source, given), column.type, _NOWHERE)
    if column.type.nullable or not given.nullable:
        return value
    return function_call("CHECK NOT NULL", (value, literals.text(column.name)), _NOWHERE)


def _check_known(table: Table, known: Iterable[str]) -> None:
    names = [n for n in known if "$" not in n]
    for column in writable(table):
        if column.name not in names:
            raise PlanError(
                f"late rows have no column '{column.name}', which '{table.display}' has",
                hint=did_you_mean(column.name, names, "column"),
            )


def _there_is(names: Sequence[str]) -> str:
    return "late rows have: " + ", ".join(n for n in names if "$" not in n)
