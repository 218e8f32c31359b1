"""Windows as table functions: TUMBLE, HOP, CUMULATE, SESSION; and what their arguments may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError, UnsupportedError
from parser.types import Root, TimeAttribute
from planner.binder import refusals
from planner.binder.expressions.scalars import bind_scalar
from planner.binder.scope import Context, Place, Query, Scope, distinct_names
from planner.logical import (
    WINDOW_COLUMNS,
    AlignedWindow,
    LogicalPlan,
    Session,
    SessionAssign,
    Window,
    WindowAssign,
)
from planner.scalar import ColumnRef, Literal, Scalar

TableArgument: TypeAlias = Callable[[exp.Expression, Context], Query]
_Arguments: TypeAlias = Mapping[str, exp.Expression]


# The parameters that come first in every window table function.
_FIRST = ("DATA", "TIMECOL")


def is_window_function(node: exp.Expression) -> bool:
    """True if it is TUMBLE(…) or another window table function."""
    return _kind(node) is not None


def _kind(node: exp.Expression) -> type[Window] | None:
    return Window.kinds().get(node.name.upper()) if isinstance(node, exp.Anonymous) else None


def bind_table_function(node: exp.Expression, context: Context, table: TableArgument) -> Query:
    """TUMBLE(TABLE t, DESCRIPTOR(ts), size [, offset]) and its siblings (FLIP-145), arguments by
    position or by name."""
    kind = _kind(node)
    if kind is None:
        raise refusals.of_table_function(node)
    arguments = _arguments(kind, node)
    _check_table(kind, arguments["DATA"], node)
    query = table(arguments["DATA"], context)
    time = _descriptor(kind, arguments["TIMECOL"], query, context)
    zone = context.zone if time.type.root is Root.TIMESTAMP_LTZ else "UTC"
    window = _window(kind, arguments, time.name, zone, Place(context, Scope(), kind.name))
    names = distinct_names(WINDOW_COLUMNS, query.plan.schema.names)
    plan = _assigned(window, arguments["DATA"], query, context, (names[0], names[1], names[2]))
    return Query(plan, query.names + WINDOW_COLUMNS)


def _assigned(
    window: Window,
    data: exp.Expression,
    query: Query,
    context: Context,
    names: tuple[str, str, str],
) -> LogicalPlan:
    if isinstance(window, Session):
        session = replace(window, keys=_partition(data, query, context))
        return SessionAssign(query.plan, session, names)
    assert isinstance(window, AlignedWindow), f"windows of {window.name} need an operator"
    return WindowAssign(query.plan, window, names)


def _check_table(kind: type[Window], data: exp.Expression, node: exp.Expression) -> None:
    if data.args.get("partition") and not kind.function.partitioned:
        hint = "put the columns into GROUP BY"
        raise UnsupportedError(
            f"PARTITION BY of {kind.name} is not supported", hint=hint, position=position_of(node)
        )
    if data.args.get("order"):
        hint = "leave it out: windows take rows in any order"
        raise UnsupportedError(
            f"ORDER BY of {kind.name} is not supported", hint=hint, position=position_of(node)
        )


def _arguments(kind: type[Window], node: exp.Expression) -> _Arguments:
    parameters = (*_FIRST, *kind.function.lengths)
    arguments: dict[str, exp.Expression] = {}
    for position, argument in enumerate(node.expressions):
        named = isinstance(argument, exp.Kwarg)
        if named:
            parameter = argument.this.name
        else:
            parameter = parameters[position] if position < len(parameters) else ""
        if parameter not in parameters or parameter in arguments:
            what = f"has no argument '{parameter}'" if named else "has too many arguments"
            raise _usage(kind, f"{kind.name} {what}", argument)
        arguments[parameter] = argument.args["expression"] if named else argument
    missing = [p for p in parameters if p not in arguments and p != "OFFSET"]
    if missing:
        raise _usage(kind, f"{kind.name} lacks its argument {missing[0]}", node)
    return arguments


def _usage(kind: type[Window], message: str, node: exp.Expression) -> PlanError:
    return PlanError(message, hint=f"write {kind.function.usage}", position=position_of(node))


def _descriptor(
    kind: type[Window], node: exp.Expression, query: Query, context: Context
) -> ColumnRef:
    name = node.name.upper() if isinstance(node, exp.Anonymous) else ""
    if name != "DESCRIPTOR" or not node.expressions:
        raise _usage(kind, f"{kind.name} names its time column with DESCRIPTOR(column)", node)
    place = Place(context, query.scope(()), "DESCRIPTOR")
    columns = [bind_scalar(e, place) for e in node.expressions]
    # As in Flink the columns behind the first mean nothing.
    return check_time_attribute(columns[0], node, context.batch)


def _partition(data: exp.Expression, query: Query, context: Context) -> tuple[str, ...]:
    """The columns of PARTITION BY."""
    partition = data.args.get("partition")
    keys: dict[str, None] = {}
    for node in partition.expressions if partition is not None else ():
        value = bind_scalar(node, Place(context, query.scope(()), "PARTITION BY"))
        if not isinstance(value, ColumnRef):
            hint = "compute it in a query below"
            raise PlanError(
                "PARTITION BY of SESSION takes columns", hint=hint, position=position_of(node)
            )
        keys[value.name] = None
    return tuple(keys)


def _window(
    kind: type[Window], arguments: _Arguments, time: str, zone: str, place: Place
) -> Window:
    """The window with the lengths that the arguments give. PlanError for one that is no interval,
    is not positive (but the offset), or does not go with the others."""
    unit = kind.function.unit
    lengths: dict[str, int] = {}
    for parameter in reversed(kind.function.lengths):
        if parameter == "OFFSET":
            if parameter in arguments:
                lengths[parameter] = length(arguments[parameter], place, "offset", unit)
        else:
            lengths[parameter] = positive(arguments[parameter], place, parameter.lower(), unit)
    window = kind.of_lengths(time, zone, lengths)
    fault = window.fault()
    if fault is not None:
        parameter, message = fault
        raise PlanError(message, position=position_of(arguments[parameter]))
    return window


def check_time_attribute(value: Scalar, node: exp.Expression, batch: bool = False) -> ColumnRef:
    """The row-time or processing-time column; PlanError for anything else. In batch mode it is any
    timestamp, and no processing time."""
    if batch:
        return _check_timestamp(value, node)
    if not isinstance(value, ColumnRef) or not (value.type.is_rowtime or value.type.is_proctime):
        raise PlanError(
            f"a window needs a time attribute, but '{value}' is"
            f" {value.type.as_attribute(TimeAttribute.NONE)}",
            detail=(
                "a time attribute is a column with a WATERMARK, and stays one while it is only"
                " handed on"
            ),
            hint="declare WATERMARK FOR column AS … in CREATE TABLE",
            position=position_of(node),
        )
    return value


def _check_timestamp(value: Scalar, node: exp.Expression) -> ColumnRef:
    if not isinstance(value, ColumnRef) or not value.type.is_timestamp:
        message = (
            f"a window needs a TIMESTAMP or TIMESTAMP_LTZ column, but '{value}' is {value.type}"
        )
        raise PlanError(message, position=position_of(node))
    if value.type.is_proctime:
        hint = "SET 'execution.runtime-mode' = 'streaming'"
        message = "windows of processing time are not supported in batch mode"
        raise UnsupportedError(message, hint=hint, position=position_of(node))
    return value


def positive(
    node: exp.Expression, place: Place, what: str, unit: Root = Root.INTERVAL_DAY_TIME
) -> int:
    """A length of time in ms, or in months. PlanError where it is none, or not positive."""
    value = length(node, place, what, unit)
    if value <= 0:
        raise PlanError(f"the {what} of a window must be positive", position=position_of(node))
    return value


def length(
    node: exp.Expression, place: Place, what: str, unit: Root = Root.INTERVAL_DAY_TIME
) -> int:
    """An interval of days to seconds in ms, or of years to months in months, as `unit` says.
    PlanError for anything else."""
    value = bind_scalar(node, place)
    if (
        not isinstance(value, Literal)
        or value.type.root is not unit
        or not isinstance(value.value, int)
    ):
        units, example = _UNITS[unit]
        raise PlanError(
            f"the {what} of a window must be an interval of {units}, but '{value}' is {value.type}",
            hint=f"write INTERVAL '1' {example}",
            position=position_of(node),
        )
    return value.value


_UNITS = {
    Root.INTERVAL_DAY_TIME: ("days to seconds", "MINUTE"),
    Root.INTERVAL_YEAR_MONTH: ("years to months", "MONTH"),
}
