"""INSERT: the query's columns by position to those of the table, cast where Flink casts without
being asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError
from parser.statements import Insert
from parser.types import Column
from planner.binder import pool
from planner.binder.expressions import literals
from planner.binder.expressions.calls import function_call
from planner.binder.expressions.casts import implicit_cast
from planner.binder.expressions.scalars import bind_scalar
from planner.binder.metadata import as_written
from planner.binder.queries.relations import bind_query, unknown_table
from planner.binder.queries.sources import check_connector
from planner.binder.queries.table_hints import with_hints
from planner.binder.scope import Context, Place, Query, Scope, did_you_mean
from planner.binder.windows.emits import check_emitted, emitting
from planner.catalog import Table, View
from planner.logical import Project, Sink
from planner.scalar import ColumnRef, Scalar
from planner.settings import NOT_NULL, one_of
from udf.casts.cast import instead_of_cast
from udf.casts.coercion import can_assign, can_cast


def bind_insert(statement: Insert, context: Context) -> Sink:
    """A sink whose input has the writable columns of the table, in their order and with their
    types (of metadata that of the connector). A value that may be NULL can stand in a NOT NULL
    column: the sink refuses the row when it is."""
    context = emitting(statement.emit, context)
    table = _target(statement, context)
    columns = writable(table)
    query = bind_query(statement.query, context)
    check_emitted(statement.emit, query.plan)
    fixed = _partition(statement, table, context)
    targets = _targets(statement, [c for c in columns if c.name not in fixed])
    _check_count(statement, table, query, targets)
    given = dict(zip((c.name for c in targets), query.plan.schema, strict=True))
    places = _places(statement, targets)
    drops = one_of(context.settings, NOT_NULL, ("ERROR", "DROP")) == "DROP"
    items = tuple(
        (c.name, as_written(c.name, value, table))
        for c in columns
        for value in [fixed.get(c.name) or _value(c, given.get(c.name), table, places, drops)]
    )
    unchanged = [c.name for c in query.plan.schema] == [c.name for c in columns] and all(
        isinstance(e, ColumnRef) and e.name == n for n, e in items
    )
    plan = (
        query.plan if unchanged else Project(query.plan, items, context.salt(e for _, e in items))
    )
    return Sink(
        plan, table, context.job, context.place, statement.on_conflict or "", statement.overwrite
    )


def writable(table: Table) -> tuple[Column, ...]:
    """Physical columns and metadata columns that are not VIRTUAL, in the order of the
    declaration."""
    written = {c.name for c in table.physical} | {
        m.column.name for m in table.metadata if not m.virtual
    }
    return tuple(c for c in table.schema if c.name in written)


def _target(statement: Insert, context: Context) -> Table:
    target = context.catalog.get(statement.target)
    if isinstance(target, Table):
        target = with_hints(target, statement.hints)
        try:
            check_connector(target)
        except PlanError as error:
            raise error.at(statement.subject or statement.position) from None
        return target
    if isinstance(target, View):
        raise PlanError(
            f"'{target.name[2]}' is a view, and rows go into tables", position=statement.subject
        )
    raise unknown_table(statement.target, context, None).at(statement.subject or statement.position)


def _partition(statement: Insert, table: Table, context: Context) -> dict[str, Scalar]:
    """The values that PARTITION (column = value) gives to columns."""
    values: dict[str, Scalar] = {}
    for part in statement.partition:
        if part.name not in table.partition_keys:
            hint = (
                did_you_mean(part.name, list(table.partition_keys), "column")
                if table.partition_keys
                else None
            )
            raise PlanError(
                f"'{part.name}' is no partition column of table '{table.display}'",
                hint=hint,
                position=statement.subject,
            )
        assert part.value is not None
        value = bind_scalar(part.value, Place(context, Scope(), "PARTITION"))
        values[part.name] = implicit_cast(value, table.schema.type(part.name), part.value)
    return values


def _targets(statement: Insert, columns: Sequence[Column]) -> list[Column]:
    if not statement.columns:
        return list(columns)
    known = {c.name: c for c in columns}
    names = [".".join(name) for name in statement.columns]
    for index, (name, place) in enumerate(zip(names, statement.places, strict=True)):
        if name not in known:
            hint = did_you_mean(name, list(known), "column")
            raise PlanError(f"unknown target column '{name}'", hint=hint, position=place)
        if name in names[:index]:
            raise PlanError(f"target column '{name}' is named twice", position=place)
    return [known[name] for name in names]


def _check_count(statement: Insert, table: Table, query: Query, targets: Sequence[Column]) -> None:
    given, written = len(query.names), [c.name for c in targets]
    if given != len(written):
        first = ", ".join(f"`{name}`" for name in written[:given])
        hint = f"name the columns that it writes: INSERT INTO {table.display} ({first}) …"
        raise PlanError(
            f"the query has {given} column{'s' * (given != 1)}, but {len(written)} are written to"
            f" '{table.display}'",
            detail=f"query: {', '.join(map(_shown, query.names))}; table: {', '.join(written)}",
            hint=hint if given < len(written) and not statement.columns else None,
            position=position_of(statement.query) or statement.position,
        )


def _places(statement: Insert, targets: Sequence[Column]) -> dict[str, exp.Expression]:
    """Returns the node in the text for each target's value: its item in the select list, or else
    the query."""
    query = statement.query
    items = query.expressions if isinstance(query, exp.Select) else _first_row(query)
    if len(items) != len(targets):
        items = [query] * len(targets)
    return dict(zip((c.name for c in targets), items, strict=True)) | {"": query}


def _first_row(query: exp.Expression) -> list[exp.Expression]:
    """The values of the first row of VALUES."""
    row = query.expressions[0] if isinstance(query, exp.Values) else None
    return list(row.expressions) if isinstance(row, exp.Tuple) else []


def _value(
    target: Column,
    given: Column | None,
    table: Table,
    places: Mapping[str, exp.Expression],
    drops: bool,
) -> Scalar:
    """Returns the value for a column of the sink: the query's, cast if need be, or NULL where the
    text does not name the column. `drops`: rows with NULL where it may not be are left out before
    the sink."""
    if given is None:
        if not target.type.nullable:
            message = f"column '{target.name}' of '{table.display}' is NOT NULL and gets no value"
            raise PlanError(
                message, hint="name it in the column list", position=position_of(places[""])
            )
        return literals.null(target.type)
    if not can_assign(given.type, target.type):
        raise PlanError(
            f"column '{target.name}' of '{table.display}' is {target.type.plain}, but the query"
            f" gives {given.type.plain}",
            hint=_cast_hint(places[target.name], given, target),
            position=position_of(places[target.name]),
        )
    place = places[target.name]
    value = implicit_cast(pool.column(given.name, given.type), target.type, place)
    if target.type.nullable or not given.type.nullable or drops:
        return value
    return function_call("CHECK NOT NULL", (value, literals.text(target.name)), place)


def _shown(name: str) -> str:
    """A column of a query as people call it: those without a name have only a number inside."""
    return "…" if name.startswith("EXPR$") else name


def _cast_hint(place: exp.Expression, given: Column, target: Column) -> str:
    """Returns a hint with the cast to write, where the value has an item of its own in the text, or
    with what to write where there is no such cast."""
    value = place.this if isinstance(place, exp.Alias) else place
    if not can_cast(given.type, target.type):
        hint = instead_of_cast(given.type, target.type)
        if hint is None:
            return f"write a value of type {target.type.plain}: there is no such cast"
        return hint.format(value.name if isinstance(value, exp.Column) else "value")
    if isinstance(value, exp.Column) and not isinstance(value.this, exp.Star):
        return f"write CAST({value.name} AS {target.type.plain})"
    if isinstance(value, exp.Query | exp.Values):
        return f"put CAST(… AS {target.type.plain}) around what is written to '{target.name}'"
    return f"put CAST(… AS {target.type.plain}) around it"
