"""GROUP BY and windows: the functions TUMBLE, HOP and SESSION of GROUP BY, windows of table
functions found again through the queries above them, and how the aggregate over them is planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError, UnsupportedError
from parser.types import Column, Root, Schema
from planner.analysis.window_columns import role_of
from planner.binder import pool
from planner.binder.expressions.scalars import bind_scalar
from planner.binder.scope import Context, Place, distinct_names
from planner.binder.windows.table_functions import check_time_attribute, positive
from planner.logical import (
    WINDOW_COLUMNS,
    AggregateCall,
    Aligned,
    Cumulate,
    EmittingAggregate,
    Expand,
    Filter,
    GroupAggregate,
    Hop,
    JoinKind,
    LogicalPlan,
    Over,
    Project,
    Session,
    SessionAssign,
    TableFunction,
    Tumble,
    Union,
    Window,
    WindowAggregate,
    WindowAssign,
    WindowJoin,
    WindowRank,
)
from planner.scalar import ColumnRef, Literal, Scalar, columns_of, is_deterministic
from planner.settings import ALLOW_LATENESS, EARLY_FIRE, LATE_FIRE, duration_ms, flag

# The functions of GROUP BY with what they take behind the time column.
_TAKES = {"TUMBLE": ("size",), "HOP": ("slide", "size"), "SESSION": ("gap",)}
# What the functions beside them give: the start, end or time of the window, or the processing time.
_ROLES = {"START": 0, "END": 1, "ROWTIME": 2, "PROCTIME": 3}
ROWTIME_ROLE, PROCTIME_ROLE = 2, 3
_RESET = f"reset '{EARLY_FIRE}.enabled' and '{LATE_FIRE}.enabled'"


def is_group_window(node: exp.Expression) -> bool:
    """Whether it is TUMBLE(…), HOP(…) or SESSION(…) of GROUP BY."""
    return isinstance(node, exp.Anonymous) and node.name.upper() in _TAKES


def bound_of(name: str) -> tuple[str, int] | None:
    """The window function that a name such as HOP_START belongs to, and what it gives; None for
    other names."""
    window, _, role = name.partition("_")
    return (window, _ROLES[role]) if window in _TAKES and role in _ROLES else None


def group_window(name: str, node: exp.Expression, place: Place) -> Window:
    """The window that TUMBLE(ts, size) or TUMBLE_START(ts, size) names; `name` is that of the
    window function."""
    takes = _TAKES[name]
    if len(node.expressions) != 1 + len(takes):
        words = " and ".join(f"a {t}" for t in takes)
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
    lengths = [positive(e, place, t) for e, t in zip(node.expressions[1:], takes, strict=True)]
    match name:
        case "TUMBLE":
            return Tumble(time.name, lengths[0], 0, zone)
        case "HOP":
            return Hop(time.name, lengths[0], lengths[1], 0, zone)
    return Session(time.name, lengths[0], (), zone)


def with_bound(plan: LogicalPlan, role: int, taken: Sequence[str] = ()) -> tuple[LogicalPlan, str]:
    """The plan with a column that is the window's bound, and its name, which is none of `taken`:
    projections that dropped it hand it on."""
    match plan:
        case WindowAssign() | SessionAssign():
            return plan, plan.names[role]
        case WindowAggregate():
            return plan, plan.window_columns[role]
        case Filter() | WindowRank() | Over() | TableFunction():
            own = set(plan.schema.names) - set(plan.input.schema.names)
            below, name = with_bound(plan.input, role, (*taken, *own))
            return replace(plan, input=below), name
        case Project():
            below, inner = with_bound(plan.input, role)
            return _handed_on(plan, below, inner, WINDOW_COLUMNS[role], taken)
        case WindowJoin():
            side = 1 if plan.kind is JoinKind.RIGHT else 0
            others = plan.inputs[1 - side]
            below, name = with_bound(plan.inputs[side], role, (*taken, *others.schema.names))
            return plan.with_inputs([others, below] if side else [below, others]), name
        case Union():
            return _in_all(plan, role, taken)
    raise AssertionError("there is no window below")


def _in_all(plan: Union, role: int, taken: Sequence[str]) -> tuple[LogicalPlan, str]:
    """Every branch with the bound behind its columns."""
    (name,) = distinct_names((WINDOW_COLUMNS[role],), (*plan.schema.names, *taken))
    branches = []
    for branch in plan.branches:
        below, inner = with_bound(branch, role)
        (own,) = distinct_names((WINDOW_COLUMNS[role],), branch.schema.names)
        items = ((n, pool.column(n, branch.schema.type(n))) for n in branch.schema.names)
        branches.append(
            Project(below, (*items, (own, pool.column(inner, below.schema.type(inner)))))
        )
    kind = branches[0].schema.columns[-1].type
    return Union(tuple(branches), Schema((*plan.schema.columns, Column(name, kind)))), name


def _handed_on(
    plan: Project, below: LogicalPlan, inner: str, wish: str, taken: Sequence[str] = ()
) -> tuple[Project, str]:
    """The projection over `below`, with a column that is `inner` there; and its name."""
    for name, item in plan.items:
        if isinstance(item, ColumnRef) and item.name == inner:
            return replace(plan, input=below), name
    (name,) = distinct_names((wish,), (*plan.schema.names, *taken))
    item = pool.column(inner, below.schema.type(inner))
    return replace(plan, input=below, items=(*plan.items, (name, item))), name


def fits_sessions(plan: LogicalPlan, grouped: Sequence[Scalar], single: bool) -> bool:
    """Whether rows of one session are those of one group: there is a `single` grouping set, and the
    columns that are grouped besides the window's are those by which sessions are made. True for
    windows of other kinds."""
    keys = _session_keys(plan)
    if keys is None:
        return True
    if not single:
        return False
    others = [g for g in grouped if not isinstance(g, Literal)]
    names = [g.name if isinstance(g, ColumnRef) else "" for g in others]
    return keys == {n for n in names if not n or role_of(plan, n) is None}


def _session_keys(plan: LogicalPlan) -> frozenset[str] | None:
    """The columns by which the sessions are made that the rows carry, by their names in `plan` (' '
    for one that is not handed on). None for all other windows."""
    match plan:
        case SessionAssign():
            return frozenset(plan.window.keys)
        case Filter() | TableFunction():
            return _session_keys(plan.input)
        case Project():
            below = _session_keys(plan.input)
            names = {i.name: n for n, i in reversed(plan.items) if isinstance(i, ColumnRef)}
            return None if below is None else frozenset(names.get(k, " ") for k in below)
    return None


def aggregated(
    below: LogicalPlan,
    keys: tuple[str, ...],
    calls: tuple[AggregateCall, ...],
    names: tuple[str, str, str],
    batch: bool,
) -> LogicalPlan:
    """The aggregate over rows that carry the window columns `names`. Where nothing below it asks
    for the bounds of a row's window, rows go into slices, and sessions are made where they are
    aggregated. `batch`: HOP may be of any size."""
    read = {*keys, *(c for call in calls for c in call.columns)}
    assign = None if read & set(names) else _assignment(below, frozenset(names))
    if isinstance(assign, SessionAssign):
        plan, time = _without_session(below)
        session = replace(assign.window, time_column=time, keys=keys)
        return WindowAggregate(plan, keys, calls, names, session=session)
    if assign is None or not isinstance(assign.window, Hop | Cumulate):
        return WindowAggregate(below, keys, calls, names)
    if _is_uneven(assign.window, batch) or assign.window.slice_ms == assign.window.size_ms:
        return WindowAggregate(below, keys, calls, names)
    return WindowAggregate(_sliced(below), keys, calls, names, shared=assign.window)


def distinct(plan: LogicalPlan, batch: bool) -> LogicalPlan:
    """The plan's rows, equal ones once: window by window where they carry the start and end of
    one."""
    columns = [pool.column(c.name, c.type) for c in plan.schema]
    roles = {c.name: role_of(plan, c.name) for c in columns}
    if not {0, 1} <= set(roles.values()) or not fits_sessions(plan, columns, single=True):
        return GroupAggregate(plan, plan.schema.names, ())
    below, time = with_bound(plan, 2)
    named = {role: name for name, role in reversed(roles.items()) if role is not None}
    names = (named[0], named[1], named.get(2, time))
    keys = tuple(name for name, role in roles.items() if role is None)
    items = tuple((n, pool.column(n, below.schema.type(n))) for n in (*keys, *names))
    made = aggregated(Project(below, items), keys, (), names, batch)
    sources = {name: name if role is None else names[role] for name, role in roles.items()}
    return Project(
        made, tuple((n, pool.column(s, made.schema.type(s))) for n, s in sources.items())
    )


def _is_uneven(window: Window, batch: bool) -> bool:
    """Whether windows of HOP end between the beginnings of others; PlanError if they do over a
    stream."""
    if not isinstance(window, Hop) or not window.size_ms % window.slide_ms:
        return False
    if not batch:
        raise PlanError(
            f"aggregates over HOP need a size that is a multiple of the slide, but {window.size_ms}"
            f" ms is none of {window.slide_ms} ms",
            hint="GROUP BY HOP(ts, slide, size) takes any",
        )
    return True


def _assignment(plan: LogicalPlan, names: frozenset[str]) -> WindowAssign | SessionAssign | None:
    """Where the window columns come from, if they are only handed on until then; `names` are what
    they are called."""
    match plan:
        case WindowAssign() | SessionAssign():
            return plan
        case Filter() if (
            is_deterministic(plan.predicate) and not columns_of(plan.predicate) & names
        ):
            return _assignment(plan.input, names)
        case Project():
            items = [i for _, i in plan.items if columns_of(i) & _below(plan, names)]
            handed = all(isinstance(i, ColumnRef) for i in items)
            return _assignment(plan.input, _below(plan, names)) if handed else None
        case Expand():
            assign = _assignment(
                plan.input, frozenset(plan.sources[n] for n in names if n in plan.sources)
            )
            return None if isinstance(assign, SessionAssign) else assign
        case Union():
            found = [_assignment(b, _same_places(plan, b, names)) for b in plan.branches]
            windows = {replace(f.window, time_column="") if f is not None else None for f in found}
            return (
                found[0] if len(windows) == 1 and not isinstance(found[0], SessionAssign) else None
            )
    return None


def _same_places(plan: Union, branch: LogicalPlan, names: frozenset[str]) -> frozenset[str]:
    pairs = zip(plan.schema.names, branch.schema.names, strict=True)
    return frozenset(own for name, own in pairs if name in names)


def _below(plan: Project, names: frozenset[str]) -> frozenset[str]:
    """All names that the window columns have under the projection."""
    roles = (n for n in plan.input.schema.names if role_of(plan.input, n) is not None)
    return frozenset(
        i.name for n, i in plan.items if n in names and isinstance(i, ColumnRef)
    ) | frozenset(roles)


def _sliced(plan: LogicalPlan) -> LogicalPlan:
    """The same over slices."""
    if isinstance(plan, WindowAssign):
        return replace(plan, sliced=True)
    return plan.with_inputs([_sliced(source) for source in plan.inputs])


def _without_session(plan: LogicalPlan) -> tuple[LogicalPlan, str]:
    """The same without session and its columns, but with the time from which it is made; and its
    name."""
    if isinstance(plan, SessionAssign):
        return plan.input, plan.window.time_column
    if isinstance(plan, Filter):
        below, time = _without_session(plan.input)
        return replace(plan, input=below), time
    assert isinstance(plan, Project)
    below, time = _without_session(plan.input)
    gone = {n for n in plan.schema.names if role_of(plan, n) is not None}
    items = tuple((n, i) for n, i in plan.items if n not in gone)
    return _handed_on(replace(plan, items=items), below, time, time)


def check_told_once(context: Context) -> None:
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
    plan = _unsliced(below) if isinstance(window, Hop) else below
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


def legacy_plan(plan: LogicalPlan, window: Aligned, names: Sequence[str]) -> LogicalPlan:
    """The input of an aggregate that groups by a window function: rows with the columns of their
    window or slice."""
    start, end, time = names
    return WindowAssign(plan, window, (start, end, time), sliced=isinstance(window, Hop))


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
    if isinstance(window, Hop):  # Flink puts the panes of these together from the earliest on
        return WindowAggregate(below, keys, calls, names, shared=window, earliest_first=True)
    return WindowAggregate(below, keys, calls, names)
