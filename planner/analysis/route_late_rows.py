"""SET 'job.late-rows.table' = 'name': late rows go to a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from parser.errors import PlanError
from parser.types import Column, Schema
from planner.analysis.context import AnalysisContext
from planner.analysis.time_zones import with_zone
from planner.binder import pool
from planner.binder.expressions import literals
from planner.binder.expressions.calls import function_call
from planner.binder.expressions.casts import implicit_cast
from planner.binder.inserts import writable
from planner.binder.metadata import as_written
from planner.binder.queries.relations import unknown_table
from planner.binder.queries.sources import check_connector
from planner.binder.scope import Context, did_you_mean
from planner.catalog import Table
from planner.logical import LateRows, LateTarget, LogicalPlan, Project, Sink, Stateful
from planner.rewrite import transform_sink
from planner.scalar import ColumnRef, Scalar
from planner.settings import LATE_ROWS, LATE_TABLE, late_table_name, one_of
from udf.casts.coercion import can_assign

_NOWHERE = exp.Null()


def route_late_rows(sink: Sink, context: AnalysisContext) -> Sink:
    """Sets the table of 'job.late-rows.table' at each operation that drops late rows, with the
    values of the table's columns: those of the row that have the same names.

    >>> from planner.examples import show
    >>> show('route_late_rows', '''
    ... SET 'job.late-rows.table' = 'late';
    ... SELECT COUNT(*) AS n
    ... FROM TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '1' HOUR)
    ... GROUP BY window_start, window_end''')
    WindowAggregate by window_start, window_end: COUNT(*) AS aggregate$0
      Project window_start, window_end, window_time, k, v
    -->
    WindowAggregate by window_start, window_end: COUNT(*) AS aggregate$0  [late rows to late]
      Project window_start, window_end, window_time, k, v

    PlanError where the table has a column that no late row has, or of a type that does not take the
    row's. The sinks themselves come after all passes (`planner.analysis.late_rows`).
    """
    table = _table(context)
    if table is None:
        return sink
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

    routed = transform_sink(sink, set_up)
    if known:
        _check_known(table, known)
    return routed


def _table(context: AnalysisContext) -> Table | None:
    """The table of the setting; None where it is not set, and in batch mode, where nothing is
    late."""
    parts = late_table_name(context.settings)
    if not parts or context.batch:
        return None
    table = context.catalog.get(parts)
    if not isinstance(table, Table):
        raise unknown_table(parts, Context(context.catalog, context.settings), None)
    check_connector(table)
    return table


def _items(
    rows: LateRows, table: Table, context: AnalysisContext
) -> tuple[tuple[str, Scalar], ...]:
    """The values of the table's writable columns, over a late row."""

    def value(column: Column) -> Scalar:
        source = _source(column.name, rows)
        found = as_written(column.name, _value(column, source, rows.schema, table), table)
        return with_zone(found, context.zone)

    return tuple((c.name, value(c)) for c in writable(table))


def _source(name: str, rows: LateRows) -> str | None:
    """The row's column of that name, or the one that had it before a join renamed its sides'
    columns; None where there is none."""
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
                detail=_columns_of(row.names),
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
    """PlanError for a column of the table that the late rows of no operation have."""
    names = [n for n in known if "$" not in n]
    for column in writable(table):
        if column.name not in names:
            raise PlanError(
                f"late rows have no column '{column.name}', which '{table.display}' has",
                hint=did_you_mean(column.name, names, "column"),
            )


def _columns_of(names: Sequence[str]) -> str:
    return "late rows have: " + ", ".join(n for n in names if "$" not in n)
