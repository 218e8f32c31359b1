"""The window functions of GROUP BY (TUMBLE(time, size), HOP, SESSION), and the aggregates that they
group: the older form of windows, with early and late results (`table.exec.emit`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import UnsupportedError
from parser.types import Root
from planner.binder import pool
from planner.binder.expressions.scalars import bind_scalar
from planner.binder.scope import Context, Place
from planner.binder.windows.table_functions import check_time_attribute, positive
from planner.logical import (
    AggregateCall,
    AlignedWindow,
    EmittingAggregate,
    LogicalPlan,
    Project,
    Session,
    Window,
    WindowAggregate,
    WindowAssign,
)
from planner.scalar import Scalar, columns_of
from planner.settings import ALLOW_LATENESS, EARLY_FIRE, LATE_FIRE, duration_ms, flag

# What the functions beside them give: the start, end or time of the window, or the processing time.
_ROLES = {"START": 0, "END": 1, "ROWTIME": 2, "PROCTIME": 3}
ROWTIME_ROLE, PROCTIME_ROLE = 2, 3
_RESET = f"reset '{EARLY_FIRE}.enabled' and '{LATE_FIRE}.enabled'"


def is_group_window(node: exp.Expression) -> bool:
    """True if it is TUMBLE(…), HOP(…) or SESSION(…) of GROUP BY."""
    return isinstance(node, exp.Anonymous) and _lengths(node.name.upper()) is not None


def _lengths(name: str) -> tuple[str, ...] | None:
    """The lengths that GROUP BY name(time, …) takes; None if there is no such function."""
    kind = Window.kinds().get(name)
    return None if kind is None else kind.group_lengths


def bound_of(name: str) -> tuple[str, int] | None:
    """The window function that a name such as HOP_START belongs to, and what it gives; None for
    other names."""
    window, _, role = name.partition("_")
    known = role in _ROLES and _lengths(window) is not None
    return (window, _ROLES[role]) if known else None


def group_window(name: str, node: exp.Expression, place: Place) -> Window:
    """The window that TUMBLE(ts, size) or TUMBLE_START(ts, size) names; `name` is that of the
    window function."""
    takes = _lengths(name) or ()
    if len(node.expressions) != 1 + len(takes):
        words = " and ".join(f"a {t.lower()}" for t in takes)
        hint = f"use TABLE({name}(TABLE t, DESCRIPTOR(ts), …)) for windows with an offset"
        raise UnsupportedError(
            f"{node.name} takes a time column{',' if len(takes) > 1 else ' and'} {words}",
            hint=hint if name != "SESSION" else None,
            position=position_of(node),
        )
    time = check_time_attribute(
        bind_scalar(node.expressions[0], place), node.expressions[0], place.context.batch
    )
    zone = place.context.zone if time.type.root is Root.TIMESTAMP_LTZ else "UTC"
    pairs = zip(takes, node.expressions[1:], strict=True)
    lengths = {t: positive(e, place, t.lower()) for t, e in pairs}
    return Window.kinds()[name].of_lengths(time.name, zone, lengths)


def check_no_early_or_late_fire(context: Context) -> None:
    """UnsupportedError where settings want early or late results, which windows of table functions
    do not have."""
    if context.batch or all(
        _delay(context.settings, prefix) is None for prefix in (EARLY_FIRE, LATE_FIRE)
    ):
        return
    raise UnsupportedError(
        "early and late results of a window table function are not supported",
        hint=f"{_RESET}, or write GROUP BY TUMBLE(time, size)",
    )


def _delay(settings: Mapping[str, str], prefix: str) -> int | None:
    return (
        duration_ms(settings, f"{prefix}.delay")
        if flag(settings, f"{prefix}.enabled", default=False)
        else None
    )


def _emitting(
    below: LogicalPlan,
    keys: tuple[str, ...],
    calls: tuple[AggregateCall, ...],
    names: tuple[str, str, str],
    window: Window,
    times: tuple[int | None, int | None, int],
) -> LogicalPlan:
    if isinstance(window, Session) or below.changes:
        what = "SESSION" if isinstance(window, Session) else "a window over rows that change"
        raise UnsupportedError(
            f"early and late results of {what} are not supported",
            hint=f"{_RESET}, or leave EMIT out",
        )
    plan = _unsliced(below)
    early_ms, late_ms, lateness_ms = times
    return EmittingAggregate(
        plan,
        keys,
        calls,
        names,
        early_ms=early_ms,
        late_ms=late_ms,
        lateness_ms=lateness_ms if late_ms is not None else 0,
    )


def _unsliced(plan: LogicalPlan) -> LogicalPlan:
    if isinstance(plan, WindowAssign):
        return replace(plan, sliced=False)
    return plan.with_inputs([_unsliced(source) for source in plan.inputs])


def legacy_plan(plan: LogicalPlan, window: AlignedWindow, names: Sequence[str]) -> LogicalPlan:
    """The input of an aggregate that groups by a window function: rows with the columns of their
    window or slice."""
    start, end, time = names
    return WindowAssign(plan, window, (start, end, time), sliced=window.may_overlap)


def narrowed(plan: LogicalPlan, items: tuple[tuple[str, Scalar], ...]) -> LogicalPlan:
    """A window of GROUP BY over the columns that are read of its input: in Flink it is a part of
    the aggregate, so that projections alone stand below it. A window of TABLE(…) takes whole
    rows."""
    if not isinstance(plan, WindowAssign) or not isinstance(plan.input, Project):
        return plan
    read = {plan.window.time_column}.union(*(columns_of(value) for _, value in items))
    columns = tuple(
        (c.name, pool.column(c.name, c.type)) for c in plan.input.schema if c.name in read
    )
    return replace(plan, input=Project(plan.input, columns))


def legacy_aggregate(
    below: LogicalPlan,
    keys: tuple[str, ...],
    calls: tuple[AggregateCall, ...],
    names: tuple[str, str, str],
    window: Window,
    context: Context,
) -> LogicalPlan:
    """The aggregate that groups by a window function. Settings may say that it tells of windows
    more than once."""
    settings = context.settings
    early, late = (_delay(settings, prefix) for prefix in (EARLY_FIRE, LATE_FIRE))
    if early is not None or late is not None:
        return _emitting(
            below, keys, calls, names, window, (early, late, duration_ms(settings, ALLOW_LATENESS))
        )
    if isinstance(window, Session):
        return WindowAggregate(below, keys, calls, names, session=replace(window, keys=keys))
    assert isinstance(window, AlignedWindow)
    if window.may_overlap:  # Flink puts the panes of these together from the earliest on
        return WindowAggregate(below, keys, calls, names, shared=window, earliest_first=True)
    return WindowAggregate(below, keys, calls, names)
