"""How the columns of an updated row may change: where values only grow, MAX of them need take none
back, as in Flink. The results in the end are the same; the changes on the way there are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import Enum

from planner.graph.predicates import COMPARISONS, MIRRORED
from planner.logical import (
    AggregateCall,
    AssignWatermark,
    Expand,
    Filter,
    GlobalAggregate,
    GroupAggregate,
    IntervalJoin,
    Join,
    JoinKind,
    LogicalPlan,
    Over,
    Project,
    Scan,
    TableFunction,
    Union,
)
from planner.logical.joins import parts_of
from planner.scalar import Call, ColumnRef, Literal, Scalar

_CASTS = frozenset({"CAST", "AS"})
_CHOICES = frozenset({"CASE", "IF"})
_TESTS = frozenset({"NOT", "IS NOT TRUE", "IS TRUE", "IS NULL", "IS NOT NULL"})


class Monotonicity(Enum):
    """What updates do to the values of a column."""

    CONSTANT = "constant"
    INCREASING = "increasing"
    DECREASING = "decreasing"
    ANY = "any"


# By column; None where rows may go, or where nothing is known.
Courses = Mapping[str, Monotonicity] | None


def keeps_all(node: GroupAggregate) -> frozenset[str]:
    """The calls, by the names of their columns, that need not take back what an update replaces:
    MAX of what increases and MIN of what decreases."""
    found = courses(node)
    wanted = {"MAX": Monotonicity.INCREASING, "MIN": Monotonicity.DECREASING}
    return frozenset(
        c.name for c in node.aggregates if found and found[c.name] is wanted.get(c.function)
    )


def courses(plan: LogicalPlan) -> Courses:
    """How the plan's columns may change, as Flink's planner sees it."""
    match plan:
        case Scan():
            return dict.fromkeys(
                plan.schema.names, Monotonicity.ANY if plan.changes else Monotonicity.CONSTANT
            )
        case Over() | IntervalJoin():
            return None if plan.changes else dict.fromkeys(plan.schema.names, Monotonicity.CONSTANT)
        case AssignWatermark() | TableFunction() | Expand():
            return _plain(plan, courses(plan.input))
        case Project():
            return _projected(plan)
        case Filter():
            return _filtered(plan)
        case GlobalAggregate():
            return courses(plan.as_one)
        case GroupAggregate():
            return _aggregated(plan)
        case Join():
            return _joined(plan)
        case Union():
            return _united(plan)
    return None


def _plain(plan: LogicalPlan, below: Courses) -> Courses:
    if below is None:
        return None
    return dict.fromkeys(
        plan.schema.names, Monotonicity.ANY if _updated(below) else Monotonicity.CONSTANT
    )


def _updated(found: Mapping[str, Monotonicity]) -> bool:
    return any(c is not Monotonicity.CONSTANT for c in found.values())


def _projected(plan: Project) -> Courses:
    below = courses(plan.input)
    if below is None or not _updated(below):
        return _plain(plan, below)
    return {
        n: below[c.name] if isinstance(c := _uncast(e), ColumnRef) else Monotonicity.ANY
        for n, e in plan.items
    }


def _uncast(value: Scalar) -> Scalar:
    while isinstance(value, Call) and value.function in _CASTS:
        value = value.args[0]
    return value


def _filtered(plan: Filter) -> Courses:
    below = courses(plan.input)
    if below is None:
        return None
    moving = {n: c for n, c in below.items() if c is not Monotonicity.CONSTANT}
    return dict.fromkeys(below, Monotonicity.ANY) if _wavers(plan.predicate, moving) else below


def _wavers(predicate: Scalar, moving: Mapping[str, Monotonicity]) -> bool:
    """Whether an update may make a condition FALSE that was TRUE."""
    if isinstance(predicate, ColumnRef):
        return predicate.name in moving
    if not isinstance(predicate, Call):
        return False
    args = [_uncast(a) for a in predicate.args]
    found = [moving[a.name] for a in args if isinstance(a, ColumnRef) and a.name in moving]
    match predicate.function:
        case "AND" | "OR":
            return any(_wavers(a, moving) for a in args)
        case ">" | ">=":
            return bool(found) and found[0] is not Monotonicity.INCREASING
        case "<" | "<=":
            return bool(found) and found[0] is not Monotonicity.DECREASING
        case "=" | "<>" | "IN" | "NOT IN":
            return bool(found)
    return predicate.function in _TESTS and _wavers(args[0], moving)


def _aggregated(plan: GroupAggregate) -> Courses:
    below = courses(plan.input)
    if below is None or any(below[k] is not Monotonicity.CONSTANT for k in plan.keys):
        return None
    own = {c.name: _call(c, plan.input, below) for c in plan.aggregates}
    return {**dict.fromkeys(plan.keys, Monotonicity.CONSTANT), **own}


def _call(
    call: AggregateCall, source: LogicalPlan, below: Mapping[str, Monotonicity]
) -> Monotonicity:
    name = call.function.removesuffix(" DISTINCT")
    found = {
        "COUNT": Monotonicity.INCREASING,
        "MAX": Monotonicity.INCREASING,
        "MIN": Monotonicity.DECREASING,
    }.get(name, Monotonicity.ANY)
    if name == "SUM" and call.argument is not None and _is_positive(source, call.argument):
        found = Monotonicity.INCREASING
    if (
        name == "COUNT"
        or call.argument is None
        or not _updated(below)
        or below[call.argument] is found
    ):
        return found
    return Monotonicity.ANY


def _is_positive(plan: LogicalPlan, column: str) -> bool:
    """Whether a column is known never to be below zero."""
    match plan:
        case Project():
            value = next(e for n, e in plan.items if n == column)
            if isinstance(value, ColumnRef):
                return _is_positive(plan.input, value.name)
            return _is_literal(value) or (
                isinstance(value, Call)
                and value.function in _CHOICES
                and all(map(_is_literal, _chosen(value)))
            )
        case Filter():
            return any(_bounds(p, column) for p in parts_of(plan.predicate)) or _is_positive(
                plan.input, column
            )
        case AssignWatermark():
            return _is_positive(plan.input, column)
        case GroupAggregate():
            return any(c.name == column and c.function.startswith("COUNT") for c in plan.aggregates)
    return False


def _is_literal(value: Scalar) -> bool:
    """Whether it is a number from zero on."""
    return (
        isinstance(value, Literal)
        and isinstance(value.value, int | float | Decimal)
        and value.value >= 0
    )


def _chosen(case: Call) -> Sequence[Scalar]:
    """The results of CASE WHEN a THEN 1 WHEN b THEN 2 ELSE 3 END."""
    return (*case.args[1:-1:2], case.args[-1])


def _bounds(condition: Scalar, column: str) -> bool:
    """Whether the condition keeps the column from zero on."""
    if not isinstance(condition, Call) or condition.function not in COMPARISONS:
        return False
    left, right = condition.args
    found = condition.function
    if isinstance(_uncast(right), ColumnRef):
        left, right, found = right, left, MIRRORED[found]
    value = _uncast(left)
    return (
        isinstance(value, ColumnRef)
        and value.name == column
        and found in (">", ">=", "=")
        and _is_literal(right)
    )


def _joined(plan: Join) -> Courses:
    sides = [courses(i) for i in plan.inputs]
    left, right = sides
    if plan.kind is JoinKind.ANTI or left is None or right is None:
        return None
    keys = (found[k] for port, found in ((0, left), (1, right)) for k in plan.keys(port))
    if any(k is not Monotonicity.CONSTANT for k in keys):
        return None
    if plan.conditions[1] and (_updated(left) or _updated(right)):
        return None
    return {n: c for n, c in {**left, **right}.items() if n in plan.schema}


def _united(plan: Union) -> Courses:
    names = plan.schema.names
    found = [courses(b) for b in plan.branches]
    known = [tuple(f.values()) for f in found if f is not None]
    if len(known) < len(found):
        return None
    return (
        dict(zip(names, known[0], strict=True))
        if len(set(known)) == 1
        else dict.fromkeys(names, Monotonicity.ANY)
    )
