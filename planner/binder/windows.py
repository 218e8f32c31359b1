"""Tumbling windows: as table function, as legacy GROUP BY, and found again through the queries above them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError, UnsupportedError
from parser.types import Root
from planner.binder import pool, refusals
from planner.binder.scalars import bind_scalar
from planner.binder.scope import Context, Place, Query, Scope, distinct_names
from planner.logical import WINDOW_COLUMNS, Filter, LogicalPlan, Project, Tumble, WindowAggregate, WindowAssign
from planner.scalar import ColumnRef, Literal, Scalar

TableArgument = Callable[[exp.Expression, Context], Query]
_PARAMETERS = ("DATA", "TIMECOL", "SIZE", "OFFSET")
_START, _END, _TIME = range(3)


def bind_table_function(node: exp.Expression, context: Context, table: TableArgument) -> Query:
    """TUMBLE(TABLE t, DESCRIPTOR(ts), size [, offset]), its arguments by position or by name."""
    if not isinstance(node, exp.Anonymous) or node.name.upper() != "TUMBLE":
        raise refusals.of_table_function(node)
    arguments = _arguments(node)
    if isinstance(arguments["DATA"], exp.Table) and arguments["DATA"].args.get("partition"):
        raise UnsupportedError(
            "PARTITION BY of TUMBLE is not supported", hint="put the columns into GROUP BY", position=position_of(node)
        )
    if arguments["DATA"].args.get("order"):
        hint = "leave it out: windows take rows in any order"
        raise UnsupportedError("ORDER BY of TUMBLE is not supported", hint=hint, position=position_of(node))
    query = table(arguments["DATA"], context)
    time = _descriptor(arguments["TIMECOL"], query, context)
    place = Place(context, Scope(), "TUMBLE")
    offset = arguments.get("OFFSET")
    window = tumble(time, arguments["SIZE"], offset, place)
    names = distinct_names(WINDOW_COLUMNS, query.plan.schema.names)
    plan = WindowAssign(query.plan, window, (names[0], names[1], names[2]))
    return Query(plan, query.names + WINDOW_COLUMNS)


def _arguments(node: exp.Anonymous) -> Mapping[str, exp.Expression]:
    found: dict[str, exp.Expression] = {}
    for position, argument in enumerate(node.expressions):
        named = isinstance(argument, exp.Kwarg)
        name = argument.this.name if named else _PARAMETERS[position] if position < len(_PARAMETERS) else "more"
        if name not in _PARAMETERS or name in found:
            raise _usage(f"TUMBLE has no argument '{name}'" if named else "TUMBLE has too many arguments", argument)
        found[name] = argument.args["expression"] if named else argument
    missing = [p for p in _PARAMETERS[:3] if p not in found]
    if missing:
        raise _usage(f"TUMBLE lacks its argument {missing[0]}", node)
    return found


def _usage(message: str, node: exp.Expression) -> PlanError:
    hint = "write TUMBLE(TABLE t, DESCRIPTOR(time column), INTERVAL '1' MINUTE)"
    return PlanError(message, hint=hint, position=position_of(node))


def _descriptor(node: exp.Expression, query: Query, context: Context) -> Scalar:
    if not isinstance(node, exp.Anonymous) or node.name.upper() != "DESCRIPTOR" or len(node.expressions) != 1:
        raise _usage("TUMBLE names its time column with DESCRIPTOR(column)", node)
    column = bind_scalar(node.expressions[0], Place(context, query.scope(()), "DESCRIPTOR"))
    return check_time_attribute(column, node)


def check_time_attribute(value: Scalar, node: exp.Expression) -> ColumnRef:
    """The row-time column; PlanError for anything else."""
    if value.type.is_proctime:
        raise UnsupportedError(
            "windows over processing time are not supported",
            hint="declare a WATERMARK on a time column",
            position=position_of(node),
        )
    if not isinstance(value, ColumnRef) or not value.type.is_rowtime:
        raise PlanError(
            f"a window needs a time attribute, but '{value}' is {value.type}",
            detail="a time attribute is a column with a WATERMARK, and stays one while it is only handed on",
            hint="declare WATERMARK FOR column AS … in CREATE TABLE",
            position=position_of(node),
        )
    return value


def tumble(time: Scalar, size: exp.Expression, offset: exp.Expression | None, place: Place) -> Tumble:
    assert isinstance(time, ColumnRef)
    size_ms = _milliseconds(size, place)
    offset_ms = 0 if offset is None else _milliseconds(offset, place)
    if size_ms <= 0:
        raise PlanError("the size of a window must be positive", position=position_of(size))
    if offset is not None and abs(offset_ms) >= size_ms:
        raise PlanError("the offset of a window must be smaller than its size", position=position_of(offset))
    zone = place.context.zone if time.type.root is Root.TIMESTAMP_LTZ else "UTC"
    return Tumble(time.name, size_ms, offset_ms, zone)


def _milliseconds(node: exp.Expression, place: Place) -> int:
    value = bind_scalar(node, place)
    if (
        not isinstance(value, Literal)
        or value.type.root is not Root.INTERVAL_DAY_TIME
        or not isinstance(value.value, int)
    ):
        raise PlanError(
            f"the size of a window must be an interval of days to seconds, but '{value}' is {value.type}",
            hint="write INTERVAL '1' MINUTE",
            position=position_of(node),
        )
    return value.value


def role_of(plan: LogicalPlan, column: str) -> int | None:
    """Which bound of the nearest window below `column` is: 0 its start, 1 its end, 2 its time; None if none."""
    while True:
        match plan:
            case WindowAssign():
                return plan.names.index(column) if column in plan.names else None
            case WindowAggregate():
                return plan.window_columns.index(column) if column in plan.window_columns else None
            case Filter():
                plan = plan.input
            case Project():
                item = dict(plan.items)[column]
                if not isinstance(item, ColumnRef):
                    return None
                plan, column = plan.input, item.name
            case _:
                return None


def with_bound(plan: LogicalPlan, role: int) -> tuple[LogicalPlan, str]:
    """The plan with a column that is the window's bound, and its name: projections that dropped it hand it on."""
    match plan:
        case WindowAssign():
            return plan, plan.names[role]
        case WindowAggregate():
            return plan, plan.window_columns[role]
        case Filter():
            below, name = with_bound(plan.input, role)
            return replace(plan, input=below), name
        case Project():
            return _handed_on(plan, role)
    raise AssertionError("there is no window below")


def _handed_on(plan: Project, role: int) -> tuple[LogicalPlan, str]:
    below, inner = with_bound(plan.input, role)
    for name, item in plan.items:
        if isinstance(item, ColumnRef) and item.name == inner:
            return plan, name
    (name,) = distinct_names((WINDOW_COLUMNS[role],), plan.schema.names)
    item = pool.column(inner, below.schema.type(inner))
    return replace(plan, input=below, items=(*plan.items, (name, item))), name
