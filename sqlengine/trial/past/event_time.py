"""The time of the event that an alert is of, carried through a plan beside its columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from parser.types import DataType, TimeAttribute, timestamp
from planner.logical import (
    AssignWatermark,
    Filter,
    LogicalPlan,
    LookupJoin,
    Project,
    Scan,
    TableFunction,
)
from planner.scalar import ColumnRef, Literal, Scalar
from sqlengine.trial.past.tables import TIME

_UNKNOWN: Final = Literal(None, timestamp(3))


def with_time(plan: LogicalPlan) -> Project:
    """Returns the plan of alerts with the column `TIME` behind theirs: the time of the event, or of
    what comes of several (a window, a join) its row time, else the first time that it has; NULL
    where it has none."""
    carried = _carried(plan)
    below, name = (plan, None) if carried is None else carried
    if isinstance(below, Project):  # with another one above it, it would not be made by its filter
        made = {**dict(below.items), "": _UNKNOWN}
        items = [(n, made[n]) for n in plan.schema.names]
        return replace(below, items=(*items, (TIME, made[name or ""])))
    time: Scalar = _UNKNOWN if name is None else ColumnRef(name, _plain(below.schema.type(name)))
    columns = [(c.name, ColumnRef(c.name, c.type)) for c in plan.schema]
    return Project(below, (*columns, (TIME, time)))


def _first_time(plan: LogicalPlan) -> tuple[LogicalPlan, str] | None:
    """Returns a plan with its column that has a time, by preference the row time."""
    times = sorted(
        (c for c in plan.schema if c.type.is_timestamp), key=lambda c: not c.type.is_rowtime
    )
    return (plan, times[0].name) if times else None


def _plain(type_: DataType) -> DataType:
    return type_.as_attribute(TimeAttribute.NONE)


def _carried(plan: LogicalPlan) -> tuple[LogicalPlan, str] | None:
    """Returns the plan with a column that has the time of the event, or of what comes of several,
    and its name; None where there is none."""
    match plan:
        case AssignWatermark():
            return plan, plan.watermark.column
        case Scan():
            return (plan, TIME) if TIME in plan.schema.names else None
        case Filter() | TableFunction():
            below = _carried(plan.input)
            return None if below is None else (replace(plan, input=below[0]), below[1])
        case LookupJoin():
            below = _carried(plan.left)
            return None if below is None else (replace(plan, left=below[0]), below[1])
        case Project():
            return _through(plan)
    return _first_time(plan)


def _through(plan: Project) -> tuple[LogicalPlan, str] | None:
    below = _carried(plan.input)
    if below is None:
        return None
    lower, name = below
    for made, item in plan.items:
        if isinstance(item, ColumnRef) and item.name == name:
            return replace(plan, input=lower), made
    time = ColumnRef(name, _plain(lower.schema.type(name)))
    return replace(plan, input=lower, items=(*plan.items, (TIME, time))), TIME
