"""SUPPRESSION: the alerts of a table, of which some are held back, with a row for these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError, UnsupportedError
from parser.types import Root
from planner.binder.expressions.scalars import bind_scalar
from planner.binder.scope import Context, Place, Query, Scope, distinct_names
from planner.binder.windows.table_functions import check_time_attribute, positive
from planner.logical import AlertPeriods
from planner.scalar import ColumnRef, Literal

TableArgument: TypeAlias = Callable[[exp.Expression, Context], Query]

NAME: Final = "SUPPRESSION"
_COLUMN = "suppressed"
_FORM: Final = (
    f"write TABLE({NAME}(TABLE t PARTITION BY host, DESCRIPTOR(ts), INTERVAL '1' HOUR, 1))"
)


def is_alert_function(node: exp.Expression) -> bool:
    """True if it is SUPPRESSION(…)."""
    return isinstance(node, exp.Anonymous) and node.name.upper() == NAME


def bind_alert_function(node: exp.Expression, context: Context, table: TableArgument) -> Query:
    """SUPPRESSION(TABLE t PARTITION BY key, DESCRIPTOR(time), period, rows): the rows of the table
    with one column more. PlanError for other arguments, UnsupportedError for rows that are
    updated."""
    arguments = node.expressions
    if len(arguments) != 4 or any(isinstance(a, exp.Kwarg) for a in arguments):
        raise _error(f"{NAME} takes a table, a time, a period and a number of rows", node)
    query = table(arguments[0], context)
    if query.plan.changes:
        raise UnsupportedError(
            f"{NAME} over rows that are updated is not supported",
            hint="ask it of the rows before they are grouped or joined",
            position=position_of(node),
        )
    place = Place(context, Scope(), NAME)
    time = _time(arguments[1], query, context)
    (name,) = distinct_names((_COLUMN,), query.plan.schema.names)
    plan = AlertPeriods(
        query.plan,
        _partition(arguments[0], query, context),
        positive(arguments[2], place, "period"),
        _rows(arguments[3], place),
        name,
        None if time.type.is_proctime else time.name,
        position_of(node),
    )
    return Query(plan, (*query.names, _COLUMN))


def _error(message: str, node: exp.Expression) -> PlanError:
    return PlanError(message, hint=_FORM, position=position_of(node))


def _time(node: exp.Expression, query: Query, context: Context) -> ColumnRef:
    named = isinstance(node, exp.Anonymous) and node.name.upper() == "DESCRIPTOR"
    if not named or len(node.expressions) != 1:
        raise _error(f"{NAME} names its time column with DESCRIPTOR(column)", node)
    value = bind_scalar(node.expressions[0], Place(context, query.scope(()), "DESCRIPTOR"))
    return check_time_attribute(value, node, context.batch)


def _partition(data: exp.Expression, query: Query, context: Context) -> tuple[str, ...]:
    partition = data.args.get("partition")
    keys: dict[str, None] = {}
    for node in partition.expressions if partition is not None else ():
        value = bind_scalar(node, Place(context, query.scope(()), "PARTITION BY"))
        if not isinstance(value, ColumnRef):
            raise _error(f"PARTITION BY of {NAME} takes columns", node)
        keys[value.name] = None
    return tuple(keys)


def _rows(node: exp.Expression, place: Place) -> int:
    value = bind_scalar(node, place)
    rows = value.value if isinstance(value, Literal) and value.type.root is Root.INT else 0
    if not isinstance(rows, int) or rows < 1:
        raise _error(f"{NAME} lets a number of rows pass, from 1 on", node)
    return rows
