"""Windows as table functions: TUMBLE, HOP, CUMULATE, SESSION; and what their arguments may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
    Cumulate,
    Hop,
    LogicalPlan,
    Session,
    SessionAssign,
    Tumble,
    Window,
    WindowAssign,
)
from planner.scalar import ColumnRef, Literal, Scalar

TableArgument: TypeAlias = Callable[[exp.Expression, Context], Query]
_Arguments: TypeAlias = Mapping[str, exp.Expression]


@dataclass(frozen=True)
class _Function:
    """A window table function: its parameters in order, and how to write it. OFFSET is the only one
    that may lack."""

    parameters: tuple[str, ...]
    usage: str


_START = "TABLE t, DESCRIPTOR(time column), "
_FUNCTIONS = {
    "TUMBLE": _Function(
        ("DATA", "TIMECOL", "SIZE", "OFFSET"), f"TUMBLE({_START}INTERVAL '1' MINUTE)"
    ),
    "HOP": _Function(
        ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
        f"HOP({_START}INTERVAL '1' MINUTE, INTERVAL '5' MINUTE)",
    ),
    "CUMULATE": _Function(
        ("DATA", "TIMECOL", "STEP", "SIZE", "OFFSET"),
        f"CUMULATE({_START}INTERVAL '1' HOUR, INTERVAL '1' DAY)",
    ),
    "SESSION": _Function(
        ("DATA", "TIMECOL", "GAP"),
        "SESSION(TABLE t PARTITION BY key, DESCRIPTOR(time column), INTERVAL '1' MINUTE)",
    ),
}


def is_window_function(node: exp.Expression) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() in _FUNCTIONS


def bind_table_function(node: exp.Expression, context: Context, table: TableArgument) -> Query:
    """TUMBLE(TABLE t, DESCRIPTOR(ts), size [, offset]) and its siblings, arguments by position or
    by name."""
    if not isinstance(node, exp.Anonymous) or node.name.upper() not in _FUNCTIONS:
        raise refusals.of_table_function(node)
    name = node.name.upper()
    arguments = _arguments(name, node)
    _check_table(name, arguments["DATA"], node)
    query = table(arguments["DATA"], context)
    time = _descriptor(name, arguments["TIMECOL"], query, context)
    place = Place(context, Scope(), name)
    zone = context.zone if time.type.root is Root.TIMESTAMP_LTZ else "UTC"
    window = _window(name, arguments, time.name, zone, place)
    start, end, last = distinct_names(WINDOW_COLUMNS, query.plan.schema.names)
    plan: LogicalPlan
    if isinstance(window, Session):
        keys = _partition(arguments["DATA"], query, context)
        window = Session(window.time_column, window.gap_ms, keys, zone)
        plan = SessionAssign(query.plan, window, (start, end, last))
    else:
        plan = WindowAssign(query.plan, window, (start, end, last))
    return Query(plan, query.names + WINDOW_COLUMNS)


def _check_table(name: str, data: exp.Expression, node: exp.Expression) -> None:
    if data.args.get("partition") and name != "SESSION":
        hint = "put the columns into GROUP BY"
        raise UnsupportedError(
            f"PARTITION BY of {name} is not supported", hint=hint, position=position_of(node)
        )
    if data.args.get("order"):
        hint = "leave it out: windows take rows in any order"
        raise UnsupportedError(
            f"ORDER BY of {name} is not supported", hint=hint, position=position_of(node)
        )


def _arguments(name: str, node: exp.Anonymous) -> _Arguments:
    parameters = _FUNCTIONS[name].parameters
    found: dict[str, exp.Expression] = {}
    for position, argument in enumerate(node.expressions):
        named = isinstance(argument, exp.Kwarg)
        given = (
            argument.this.name
            if named
            else parameters[position]
            if position < len(parameters)
            else "more"
        )
        if given not in parameters or given in found:
            raise _usage(
                name,
                f"{name} has no argument '{given}'" if named else f"{name} has too many arguments",
                argument,
            )
        found[given] = argument.args["expression"] if named else argument
    missing = [p for p in parameters if p not in found and p != "OFFSET"]
    if missing:
        raise _usage(name, f"{name} lacks its argument {missing[0]}", node)
    return found


def _usage(name: str, message: str, node: exp.Expression) -> PlanError:
    return PlanError(message, hint=f"write {_FUNCTIONS[name].usage}", position=position_of(node))


def _descriptor(name: str, node: exp.Expression, query: Query, context: Context) -> ColumnRef:
    if (
        not isinstance(node, exp.Anonymous)
        or node.name.upper() != "DESCRIPTOR"
        or not node.expressions
    ):
        raise _usage(name, f"{name} names its time column with DESCRIPTOR(column)", node)
    columns = [
        bind_scalar(e, Place(context, query.scope(()), "DESCRIPTOR")) for e in node.expressions
    ]
    return check_time_attribute(
        columns[0], node, context.batch
    )  # as in Flink the others mean nothing


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


def _window(name: str, arguments: _Arguments, time: str, zone: str, place: Place) -> Window:
    offset = arguments.get("OFFSET")
    offset_ms = 0 if offset is None else milliseconds(offset, place)
    if name == "SESSION":
        return Session(time, positive(arguments["GAP"], place, "gap"), (), zone)
    size_ms = positive(arguments["SIZE"], place, "size")
    if name == "HOP":
        return Hop(time, positive(arguments["SLIDE"], place, "slide"), size_ms, offset_ms, zone)
    if name == "TUMBLE":
        if offset is not None and abs(offset_ms) >= size_ms:
            raise PlanError(
                "the offset of a window must be smaller than its size", position=position_of(offset)
            )
        return Tumble(time, size_ms, offset_ms, zone)
    step_ms = positive(arguments["STEP"], place, "step")
    if size_ms % step_ms:
        message = (
            f"the size of CUMULATE must be a multiple of its step, but {size_ms} ms is none of"
            f" {step_ms} ms"
        )
        raise PlanError(message, position=position_of(arguments["SIZE"]))
    return Cumulate(time, step_ms, size_ms, offset_ms, zone)


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


def positive(node: exp.Expression, place: Place, what: str) -> int:
    """A length of time in ms. PlanError where it is none, or not positive."""
    found = milliseconds(node, place, what)
    if found <= 0:
        raise PlanError(f"the {what} of a window must be positive", position=position_of(node))
    return found


def milliseconds(node: exp.Expression, place: Place, what: str = "offset") -> int:
    """An interval of days to seconds, in ms."""
    value = bind_scalar(node, place)
    if (
        not isinstance(value, Literal)
        or value.type.root is not Root.INTERVAL_DAY_TIME
        or not isinstance(value.value, int)
    ):
        raise PlanError(
            f"the {what} of a window must be an interval of days to seconds, but '{value}' is"
            f" {value.type}",
            hint="write INTERVAL '1' MINUTE",
            position=position_of(node),
        )
    return value.value
