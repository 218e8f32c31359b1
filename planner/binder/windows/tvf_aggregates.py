"""GROUP BY and DISTINCT over the windows of table functions (FLIP-145): the window is found again
through the queries above the function, and the aggregate is planned window by window (Flink's
StreamPhysicalWindowAggregateRule)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from parser.errors import PlanError, UnsupportedError
from parser.types import Column, Schema
from planner.binder import pool
from planner.binder.scope import distinct_names
from planner.logical import (
    WINDOW_COLUMNS,
    AggregateCall,
    Filter,
    GroupAggregate,
    LogicalPlan,
    Names,
    Project,
    SessionAssign,
    Union,
    WindowAggregate,
    WindowAssign,
    WindowBound,
)
from planner.scalar import ColumnRef, Literal, Scalar

Assign = WindowAssign | SessionAssign


def bounds_of(plan: LogicalPlan) -> dict[str, WindowBound]:
    """Returns the columns that are bounds of the window that the rows are in; none if they are in
    no window."""
    known = plan.window_properties
    return {} if known is None else dict(known.bounds)


def with_bound(
    plan: LogicalPlan, bound: WindowBound, taken: Sequence[str] = ()
) -> tuple[LogicalPlan, str]:
    """Returns the plan with a column that is the window's bound, and its name, which is none of
    `taken`.

    Projections that dropped it hand it on. UnsupportedError where an operation cannot."""
    if plan.window_names is not None:
        return plan, plan.window_names[bound]
    if isinstance(plan, Union):
        return _in_all_branches(plan, bound, taken)
    port = next(p for p in range(len(plan.inputs)) if plan.forwards_window(p))
    sources = plan.column_sources(port)
    others = [n for p, source in enumerate(plan.inputs) if p != port for n in source.schema.names]
    own = [n for n in plan.schema.names if n not in sources]
    below, inner = with_bound(plan.inputs[port], bound, (*taken, *own, *others))
    inputs = [below if p == port else source for p, source in enumerate(plan.inputs)]
    wish = _free_name(bound, (*plan.schema.names, *taken))
    handing_on = plan.with_inputs(inputs).handing_on(port, inner, wish)
    if handing_on is None:
        raise UnsupportedError(
            f"{type(plan).__name__} does not hand on the {WINDOW_COLUMNS[bound]} of its rows",
            hint=f"select {WINDOW_COLUMNS[bound]} in all queries below GROUP BY",
        )
    return handing_on


def _in_all_branches(
    plan: Union, bound: WindowBound, taken: Sequence[str]
) -> tuple[LogicalPlan, str]:
    """Returns the union with the bound behind the columns of every branch."""
    name = _free_name(bound, (*plan.schema.names, *taken))
    branches = []
    for branch in plan.branches:
        below, inner = with_bound(branch, bound)
        own = _free_name(bound, branch.schema.names)
        items = ((n, pool.column(n, branch.schema.type(n))) for n in branch.schema.names)
        branches.append(
            Project(below, (*items, (own, pool.column(inner, below.schema.type(inner)))))
        )
    kind = branches[0].schema.columns[-1].type
    return Union(tuple(branches), Schema((*plan.schema.columns, Column(name, kind)))), name


def _free_name(bound: WindowBound, taken: Sequence[str]) -> str:
    (name,) = distinct_names((WINDOW_COLUMNS[bound],), taken)
    return name


def fits_sessions(plan: LogicalPlan, grouped: Sequence[Scalar], single: bool) -> bool:
    """Returns True if the rows of one session are those of one group; always for other windows.

    They are if there is a `single` grouping set, and the columns that are grouped besides the
    window's are those by which sessions are made."""
    keys = _session_keys(plan)
    if keys is None:
        return True
    if not single:
        return False
    others = [g for g in grouped if not isinstance(g, Literal)]
    names = [g.name if isinstance(g, ColumnRef) else "" for g in others]
    bounds = bounds_of(plan)
    return keys == {n for n in names if n not in bounds}


def _session_keys(plan: LogicalPlan) -> Names | None:
    """Returns the columns by which sessions are made, by their names in `plan` (' ' for one that is
    not handed on).

    None for other windows, and where an operation with state, or over several inputs, stands above
    the sessions."""
    if isinstance(plan, SessionAssign):
        return frozenset(plan.window.keys)
    if plan.stateful or len(plan.inputs) != 1 or not plan.forwards_window(0):
        return None
    below = _session_keys(plan.inputs[0])
    if below is None:
        return None
    names: dict[str, str] = {}
    for own, source in plan.column_sources(0).items():
        names.setdefault(source, own)
    return frozenset(names.get(k, " ") for k in below)


def aggregated(
    below: LogicalPlan,
    keys: tuple[str, ...],
    calls: tuple[AggregateCall, ...],
    names: tuple[str, str, str],
    batch: bool,
) -> LogicalPlan:
    """Returns the aggregate over rows that carry the window columns `names`.

    Where nothing below it reads the bounds of a row's window, rows go into slices, and sessions are
    made where they are aggregated. `batch`: windows may have any lengths."""
    plain = WindowAggregate(below, keys, calls, names)
    read = {*keys, *(c for call in calls for c in call.columns)}
    assign = None if read & bounds_of(below).keys() else _assignment(below)
    if isinstance(assign, SessionAssign):
        plan, time = _without_session(below)
        return replace(
            plain, input=plan, session=replace(assign.window, time_column=time, keys=keys)
        )
    if assign is None or not assign.window.may_overlap:
        return plain
    fault = assign.window.fault_over_streams()
    if fault is not None and not batch:
        message, hint = fault
        raise PlanError(message, hint=hint)
    if fault is not None or assign.window.is_disjoint:
        return plain
    return replace(plain, input=_sliced(below), shared=assign.window)


def distinct(plan: LogicalPlan, batch: bool) -> LogicalPlan:
    """Returns the plan's rows, equal ones once: window by window where they carry its start and
    end."""
    columns = [pool.column(c.name, c.type) for c in plan.schema]
    known = plan.window_properties
    if (
        known is None
        or known.start_and_end(plan.schema.names) is None
        or not fits_sessions(plan, columns, single=True)
    ):
        return GroupAggregate(plan, plan.schema.names, ())
    below, time = with_bound(plan, WindowBound.TIME)
    first = known.first_bounds(plan.schema.names)
    bounds = {n: known.bounds.get(n) for n in plan.schema.names}
    names = (
        first[WindowBound.START],
        first[WindowBound.END],
        first.get(WindowBound.TIME, time),
    )
    keys = tuple(name for name, bound in bounds.items() if bound is None)
    items = tuple((n, pool.column(n, below.schema.type(n))) for n in (*keys, *names))
    made = aggregated(Project(below, items), keys, (), names, batch)
    sources = {name: name if bound is None else names[bound] for name, bound in bounds.items()}
    return Project(
        made, tuple((n, pool.column(s, made.schema.type(s))) for n, s in sources.items())
    )


def _assignment(plan: LogicalPlan) -> Assign | None:
    """Returns the operation that puts the rows into windows, if all above it ignore the bounds.

    None where they do not. Sessions may be made above filters and projections alone."""
    if isinstance(plan, Assign):
        return plan
    bounds = frozenset(n for source in plan.inputs for n in bounds_of(source))
    if not plan.inputs or plan.window_properties is None or not plan.ignores(bounds):
        return None
    first, *others = [_assignment(source) for source in plan.inputs]
    if first is None:
        return None
    if isinstance(first, SessionAssign) and not isinstance(plan, Filter | Project):
        return None
    alike = all(o is not None and o.window.is_like(first.window) for o in others)
    return first if alike else None


def _sliced(plan: LogicalPlan) -> LogicalPlan:
    """The plan with its rows in slices, not in windows."""
    if isinstance(plan, WindowAssign):
        return replace(plan, sliced=True)
    return plan.with_inputs([_sliced(source) for source in plan.inputs])


def _without_session(plan: LogicalPlan) -> tuple[LogicalPlan, str]:
    """The plan without sessions and their columns, but with the time from which they are made; and
    the name of that."""
    if isinstance(plan, SessionAssign):
        return plan.input, plan.window.time_column
    assert isinstance(plan, Filter | Project), "sessions stand below filters and projections"
    below, time = _without_session(plan.input)
    if isinstance(plan, Filter):
        return replace(plan, input=below), time
    bounds = bounds_of(plan)
    items = tuple((n, item) for n, item in plan.items if n not in bounds)
    (wish,) = distinct_names((time,), [n for n, _ in items])
    return replace(plan, input=below, items=items).handing_on(0, time, wish)
