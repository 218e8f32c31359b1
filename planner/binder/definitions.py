"""CREATE TABLE, CREATE VIEW and CREATE FUNCTION: from text to objects of the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import ColumnError, PlanError, Position, UnsupportedError
from parser.grammar.datatypes import check_type
from parser.statements import (
    ColumnDefinition,
    ColumnKind,
    CreateFunction,
    CreateTable,
    CreateView,
    WatermarkDefinition,
)
from parser.types import INTERVAL_DAY_TIME, Column, DataType, Schema, TimeAttribute
from parser.writer.names import name as quoted
from parser.writer.shown import write_shown
from parser.writer.statements import write
from planner.binder import pool
from planner.binder.derived import expanded
from planner.binder.expressions.calls import function_call
from planner.binder.expressions.scalars import bind_scalar
from planner.binder.queries import ordering
from planner.binder.queries.column_names import renamed
from planner.binder.queries.relations import bind_query
from planner.binder.scope import Context, Field, Place, Scope, check_nodes, did_you_mean
from planner.catalog import Function, MetadataColumn, Table, View, Watermark
from planner.logical import LogicalPlan, Project
from planner.scalar import Literal, Scalar


def bind_table(statement: CreateTable, context: Context) -> Table:
    """The table, its computed columns and its watermark bound over its own columns."""
    name = context.catalog.resolve(statement.name)
    places = {c.name: c.position for c in statement.columns}
    statement = expanded(replace(statement, options=_options(statement.options)), context.catalog)
    _check_keys(statement, places)
    types = _declared(statement)
    computed = _computed(statement, types, name, context)
    types |= {n: e.type for n, e in computed}
    schema = Schema(tuple(Column(c.name, types[c.name]) for c in statement.columns))
    watermark = None
    if statement.watermark is not None:
        watermark = _watermark(statement.watermark, schema, name, context)
        schema = _with_time_attribute(schema, watermark.column)
    return Table(
        name,
        schema,
        Schema(tuple(_columns(statement, ColumnKind.PHYSICAL, types))),
        dict(statement.options),
        tuple(_metadata(statement, types)),
        computed,
        watermark,
        statement.primary_key,
        statement.temporary,
        partition_keys=_partition_keys(statement),
        texts={
            c.name: write_shown(c.expression) for c in statement.columns if c.expression is not None
        },
        definition=write(_in_full(statement, name, types)),
    )


def _in_full(
    statement: CreateTable, name: tuple[str, str, str], types: Mapping[str, DataType]
) -> CreateTable:
    """The statement as it can be repeated anywhere: with full name, and the types that its columns
    have got."""
    columns = (
        replace(c, type=types[c.name] if c.type is not None else None) for c in statement.columns
    )
    return replace(
        statement,
        name=name,
        columns=tuple(columns),
        if_not_exists=False,
        create=True,
        replace=False,
    )


def _partition_keys(statement: CreateTable) -> tuple[str, ...]:
    """The columns of PARTITIONED BY."""
    names = [c.name for c in statement.columns]
    for key in statement.partition_keys:
        if key not in names:
            hint = did_you_mean(key, names, "column")
            raise PlanError(
                f"partition column '{key}' is not in the table",
                hint=hint,
                position=statement.position,
            )
    return statement.partition_keys


def _options(options: Mapping[str, str]) -> Mapping[str, str]:
    """RSQLDB names the connector by 'type'."""
    if "type" not in options or "connector" in options:
        return dict(options)
    return {"connector" if k == "type" else k: v for k, v in options.items()}


def _declared(statement: CreateTable) -> dict[str, DataType]:
    """Types of the columns that have one; those of the primary key are NOT NULL."""
    names = [c.name for c in statement.columns]
    for key in statement.primary_key:
        if key not in names:
            hint = did_you_mean(key, names, "column")
            where = statement.key_position or statement.position
            raise PlanError(
                f"primary key column '{key}' is not in the table", hint=hint, position=where
            )
    types: dict[str, DataType] = {}
    for column in statement.columns:
        if column.name in statement.primary_key and column.kind is not ColumnKind.PHYSICAL:
            message = f"primary key column '{column.name}' is not a physical column"
            raise PlanError(message, position=column.position or statement.position)
        if column.type is not None:
            check_type(column.type, column.type_position)
            types[column.name] = (
                column.type.with_nullable(False)
                if column.name in statement.primary_key
                else column.type
            )
    return types


def _columns(
    statement: CreateTable, kind: ColumnKind, types: Mapping[str, DataType]
) -> Iterable[Column]:
    return (Column(c.name, types[c.name]) for c in statement.columns if c.kind is kind)


def _metadata(statement: CreateTable, types: Mapping[str, DataType]) -> Iterable[MetadataColumn]:
    for c in statement.columns:
        if c.kind is ColumnKind.METADATA:
            yield MetadataColumn(Column(c.name, types[c.name]), c.metadata_key or c.name, c.virtual)


def _check_keys(statement: CreateTable, places: Mapping[str, Position | None]) -> None:
    """Raises ColumnError for two columns of one metadata key, as Flink does. `places`: those of the
    columns that the text names; others come from the table that it is LIKE."""
    columns: dict[str, str] = {}
    for c in statement.columns:
        key = (c.metadata_key or c.name) if c.kind is ColumnKind.METADATA else None
        if key is not None and (first := columns.setdefault(key, c.name)) != c.name:
            raise ColumnError(
                f"columns '{first}' and '{c.name}' of table '{statement.name[-1]}' have both the"
                f" metadata '{key}'",
                hint=f"compute one from the other: {quoted(c.name)} AS {quoted(first)}",
                position=places.get(c.name) or places.get(first) or statement.position,
                subject=c.name,
            )


def _computed(
    statement: CreateTable,
    types: Mapping[str, DataType],
    name: tuple[str, str, str],
    context: Context,
) -> tuple[tuple[str, Scalar], ...]:
    fields = (Field(name, n, pool.column(n, t)) for n, t in types.items())
    place = Place(context, Scope(tuple(fields)), "a computed column")
    return tuple(
        (c.name, _expression(c, place)) for c in statement.columns if c.kind is ColumnKind.COMPUTED
    )


def _expression(column: ColumnDefinition, place: Place) -> Scalar:
    assert column.expression is not None
    return bind_scalar(column.expression, place)


def _watermark(
    definition: WatermarkDefinition, schema: Schema, name: tuple[str, str, str], context: Context
) -> Watermark:
    where = definition.position
    column = ".".join(definition.column)
    if len(definition.column) > 1 or column not in schema:
        hint = did_you_mean(definition.column[-1], schema.names, "column")
        raise PlanError(
            f"watermark column '{column}' is not a column of the table", hint=hint, position=where
        )
    kind = schema.type(column)
    if not kind.is_timestamp or kind.precision > 3:
        raise PlanError(
            f"watermark column '{column}' is {kind}",
            detail="a watermark needs TIMESTAMP(p) or TIMESTAMP_LTZ(p) with p from 0 to 3",
            hint=f"declare a computed column: {column}_time AS CAST({column} AS TIMESTAMP(3))",
            position=where,
        )
    fields = tuple(Field(name, c.name, pool.column(c.name, c.type)) for c in schema)
    expression = _watermark_expression(
        definition.expression, Place(context, Scope(fields), "WATERMARK")
    )
    if not expression.type.is_timestamp or expression.type.precision > 3:
        raise PlanError(
            f"the watermark of '{column}' is {expression.type.plain}, which is no timestamp of at"
            " most 3 digits",
            hint=f"write WATERMARK FOR {column} AS {column} - INTERVAL '5' SECOND",
            position=position_of(definition.expression) or where,
        )
    return Watermark(column, expression, write_shown(definition.expression))


def _watermark_expression(node: exp.Expression, place: Place) -> Scalar:
    """Binds the expression of a watermark, also RSQLDB's WITHOFFSET(time, milliseconds): the time
    less so many milliseconds."""
    if not (isinstance(node, exp.Anonymous) and node.name.upper() == "WITHOFFSET"):
        return bind_scalar(node, place)
    arguments = [bind_scalar(a, place) for a in node.expressions]
    delay = (
        arguments[-1].value if len(arguments) == 2 and isinstance(arguments[-1], Literal) else None
    )
    if not isinstance(delay, int) or isinstance(delay, bool):
        hint = "write WITHOFFSET(time, 1000), or time - INTERVAL '1' SECOND"
        raise PlanError(
            "WITHOFFSET takes a time and a number of milliseconds",
            hint=hint,
            position=position_of(node),
        )
    interval = pool.literal(delay, INTERVAL_DAY_TIME.with_nullable(False))
    return function_call("-", (arguments[0], interval), node)


def _with_time_attribute(schema: Schema, column: str) -> Schema:
    rowtime = TimeAttribute.ROWTIME
    return Schema(
        tuple(
            Column(c.name, c.type.as_attribute(rowtime)) if c.name == column else c for c in schema
        )
    )


def bind_view(statement: CreateView, context: Context) -> View:
    bound = bind_query(statement.query, replace(context, of_view=True))
    query = renamed(bound, statement.columns, statement.query)
    twice = next((n for i, n in enumerate(query.names) if n in query.names[:i]), None)
    if twice is not None:
        raise PlanError(
            f"the view has two columns '{twice}'",
            hint="give each its own name with AS",
            position=statement.position,
        )
    plan: LogicalPlan = query.plan
    check_nodes(plan.size, statement.position)
    if plan.schema.names != query.names:
        columns = zip(query.names, plan.schema, strict=True)
        plan = Project(plan, tuple((n, pool.column(c.name, c.type)) for n, c in columns))
    home = (context.catalog.catalog, context.catalog.database)
    name = context.catalog.resolve(statement.name)
    ordered = plan is bound.plan and ordering.is_only_ordered(statement.query, plan)
    return View(name, plan, write(statement), statement.temporary, home, ordered=ordered)


def bind_function(statement: CreateFunction, context: Context) -> Function:
    """Binds CREATE FUNCTION.

    The context loads what the statement names: nothing of a user's code runs here."""
    if statement.language != "PYTHON":
        raise UnsupportedError(
            f"LANGUAGE {statement.language} is not supported",
            hint=(
                "there is no JVM here: write the function in Python, CREATE FUNCTION … LANGUAGE"
                " PYTHON"
            ),
            position=statement.position,
        )
    if context.load is None:
        raise UnsupportedError(
            "functions of users cannot be loaded here", position=statement.position
        )
    name = context.catalog.resolve_function(statement.name, system=statement.system)
    user = context.load(statement)
    return Function(name, statement.class_name, statement.language, user, statement.temporary)
