"""Which columns of a plan are the bounds of a window, handed on from where rows got them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from planner.logical import (
    BinaryJoin,
    Expand,
    Filter,
    Join,
    JoinKind,
    LogicalPlan,
    Over,
    Project,
    Rank,
    SessionAssign,
    TableFunction,
    Union,
    Window,
    WindowAggregate,
    WindowAssign,
    WindowJoin,
    WindowRank,
)
from planner.scalar import ColumnRef, Scalar


def role_of(plan: LogicalPlan, column: str) -> int | None:
    """Which bound of the nearest window below `column` is: 0 its start, 1 its end, 2 its time; None
    if none."""
    while True:
        match plan:
            case WindowAssign() | SessionAssign():
                return plan.names.index(column) if column in plan.names else None
            case WindowAggregate():
                return plan.window_columns.index(column) if column in plan.window_columns else None
            case Union():
                return _role_in_all(plan, column)
        source = _source(plan, column)
        if source is None:
            return None
        plan, column = source


def _source(plan: LogicalPlan, column: str) -> tuple[LogicalPlan, str] | None:
    """The input that hands the column on, and what it is called there."""
    match plan:
        case Filter():
            return plan.input, column
        case Expand():
            return (plan.input, plan.sources[column]) if column in plan.sources else None
        case Project():
            item = dict(plan.items)[column]
            return (plan.input, item.name) if isinstance(item, ColumnRef) else None
        case WindowRank() if column != plan.rank_name:
            return plan.input, column
        case TableFunction() if column in plan.input.schema:
            return plan.input, column
        case Over() if column in plan.input.schema:  # it may become a rank within windows
            return (
                None if bounds_among(plan.input, plan.partition) is None else (plan.input, column)
            )
        case WindowJoin():
            side = 0 if column in plan.left.schema else 1
            return None if plan.kind.keeps(1 - side) else (plan.inputs[side], column)
    return None


def _role_in_all(plan: Union, column: str) -> int | None:
    """Windows of one kind stay windows where rows of several inputs come together."""
    place = plan.schema.index(column)
    roles = {role_of(b, b.schema.names[place]) for b in plan.branches}
    return (
        roles.pop()
        if len(roles) == 1 and len({windows_of(b) for b in plan.branches}) == 1
        else None
    )


def windows_of(plan: LogicalPlan) -> Window | None:
    """The windows whose columns the rows carry, whatever their time is called."""
    while plan.inputs:
        window = (
            plan.window
            if isinstance(plan, WindowAssign | SessionAssign)
            else getattr(plan, "session", None)
        )
        if isinstance(window, Window):
            return replace(window, time_column="")
        plan = plan.inputs[0]
    return None


def bounds_among(plan: LogicalPlan, columns: Iterable[str]) -> tuple[str, str] | None:
    """The first of the columns that are the start and the end of one window; None where one of the
    two is missing."""
    found: dict[int, str] = {}
    for column in columns:
        role = role_of(plan, column)
        if role is not None:
            found.setdefault(role, column)
    return (found[0], found[1]) if {0, 1} <= found.keys() else None


def of_windows(rank: Rank) -> Rank:
    """A rank within windows, whose rows only come: their first rows are known when they are
    over."""
    bounds = None if rank.input.changes else bounds_among(rank.input, rank.partition)
    if bounds is None:
        return rank
    return WindowRank(
        rank.input, rank.partition, rank.order, rank.start, rank.end, rank.rank_name, bounds=bounds
    )


def made(left: LogicalPlan, right: LogicalPlan, kind: JoinKind, condition: Scalar) -> LogicalPlan:
    """The join of two inputs that have no name in common: window by window where its condition says
    so."""
    return window_join(left, right, kind, condition) or Join(left, right, kind, condition)


def window_join(
    left: LogicalPlan, right: LogicalPlan, kind: JoinKind, condition: Scalar
) -> WindowJoin | None:
    """The join, if its condition says that rows of both sides are in the same window of the same
    kind."""
    if left.changes or right.changes:
        return None
    plain = BinaryJoin(left, right, kind, condition)
    pairs: dict[int, tuple[str, str]] = {}
    for pair in plain.equalities:
        role = role_of(left, pair.left)
        if role is not None and role == role_of(right, pair.right):
            pairs.setdefault(role, pair.sides)
    if not {0, 1} <= pairs.keys() or windows_of(left) != windows_of(right):
        return None
    return WindowJoin(left, right, kind, condition, pairs[0], pairs[1])
