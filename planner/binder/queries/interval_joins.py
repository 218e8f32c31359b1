"""Joins of rows whose times are near: found by their conditions, in ON and in WHERE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from parser.errors import PlanError
from parser.types import BOOLEAN, Root
from planner.logical import BinaryJoin, Filter, IntervalJoin, Join, JoinKind, LogicalPlan
from planner.rewrite import conjunction, conjuncts
from planner.scalar import (
    Call,
    ColumnRef,
    Literal,
    Scalar,
    columns_of,
    conjuncts_of,
    is_deterministic,
)

_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True)
class _Bound:
    """`left` - `right` `operator` `offset_ms`, where the first two are time attributes by name."""

    left: str
    right: str
    operator: str
    offset_ms: int

    @property
    def columns(self) -> tuple[str, str]:
        return self.left, self.right


def recognize_interval_joins(plan: LogicalPlan) -> LogicalPlan:
    """Replaces joins with time bounds, in the plan of FROM and WHERE, by interval joins."""
    # Two filters on one another: the lower one first, which may leave a join right below the upper
    # one.
    if isinstance(plan, Filter) and isinstance(plan.input, Filter):
        below = recognize_interval_joins(plan.input)
        return (
            recognize_interval_joins(replace(plan, input=below))
            if isinstance(below, BinaryJoin)
            else replace(plan, input=below)
        )
    if (
        isinstance(plan, Filter)
        and isinstance(plan.input, Join)
        and plan.input.kind is JoinKind.INNER
    ):
        return _filtered(plan, plan.input)
    if isinstance(plan, Filter):
        return replace(plan, input=recognize_interval_joins(plan.input))
    if not isinstance(plan, Join):
        return plan
    plan = replace(
        plan,
        left=recognize_interval_joins(plan.left),
        # The right side of a semi-join is a subquery, with a FROM and a WHERE of its own.
        right=plan.right if plan.kind.is_semi else recognize_interval_joins(plan.right),
    )
    return plan if plan.kind.is_semi else _as_interval(plan, ()) or plan


def _filtered(plan: Filter, join: Join) -> LogicalPlan:
    """Pushes conjuncts of WHERE about one side below the join, if that side is a join, too; the
    rest may bound this one."""
    parts = conjuncts(plan.predicate)
    inputs, left_over = list(join.inputs), list(parts)
    for port, side in enumerate(join.inputs):
        names = set(side.schema.names)
        own = [p for p in left_over if columns_of(p) <= names and is_deterministic(p)]
        if own and isinstance(side, Join):
            inputs[port] = Filter(side, conjunction(own), plan.salt)
            left_over = [p for p in left_over if p not in own]
    join = join.with_inputs([recognize_interval_joins(i) for i in inputs])
    interval_join = _as_interval(join, left_over)
    if interval_join is not None:
        # Bounds of another pair of times stay behind the join, as conditions like any other.
        pair = interval_join.left_time, interval_join.right_time
        left_over = [p for p in left_over if not _is_bound_of(pair, join, p)]
    below = interval_join or join
    return replace(plan, input=below, predicate=conjunction(left_over)) if left_over else below


def _as_interval(join: Join, above: Sequence[Scalar]) -> IntervalJoin | None:
    """Returns the join with the time bounds that its condition, and conditions `above` it, give.

    None where they do not bound the times on both sides. PlanError where an input is updated."""
    conditions = [*conjuncts_of(join.condition)]
    bounds = [b for c in (*conditions, *above) for b in _bounds(join, c)]
    if not bounds:
        return None
    # Only one pair of time columns can bound the join: the first that is compared.
    pair = bounds[0].columns
    interval = _interval([b for b in bounds if b.columns == pair])
    if interval is None:
        return None
    if join.left.changes or join.right.changes:
        raise PlanError(
            "a join by time takes rows that are never updated or taken back",
            hint="leave out the bounds of time, or aggregate behind the join",
        )
    # Bounds of other pairs of times stay conditions of the join.
    residual = [c for c in conditions if not _is_bound_of(pair, join, c)]
    condition = conjunction(residual) if residual else Literal(True, BOOLEAN.with_nullable(False))
    proctime = join.left.schema.type(pair[0]).is_proctime
    return IntervalJoin(join.left, join.right, join.kind, condition, *pair, *interval, proctime)


def _is_bound_of(pair: tuple[str, str], join: Join, part: Scalar) -> bool:
    return any(b.columns == pair for b in _bounds(join, part))


def _interval(bounds: Sequence[_Bound]) -> tuple[int, int] | None:
    """The least and the greatest difference of the times in ms; None if one side is open."""
    lower = [_lower(b) for b in bounds if b.operator in ("=", ">", ">=")]
    upper = [_upper(b) for b in bounds if b.operator in ("=", "<", "<=")]
    # The tightest bounds win; both ends must be closed.
    return (max(lower), min(upper)) if lower and upper else None


def _lower(bound: _Bound) -> int:
    # Times are whole milliseconds: > 5 is >= 6.
    return bound.offset_ms + (bound.operator == ">")


def _upper(bound: _Bound) -> int:
    return bound.offset_ms - (bound.operator == "<")


def _bounds(join: Join, part: Scalar) -> list[_Bound]:
    if not isinstance(part, Call):
        return []
    if part.function == "BETWEEN":
        value, low, high = part.args
        bounds = [_bound(join, ">=", value, low), _bound(join, "<=", value, high)]
        # Both bounds or none: half a BETWEEN would change its meaning.
        return [b for b in bounds if b is not None] if None not in bounds else []
    if part.function not in _MIRRORED:
        return []
    bound = _bound(join, part.function, *part.args)
    return [] if bound is None else [bound]


def _bound(join: Join, operator: str, a: Scalar, b: Scalar) -> _Bound | None:
    first, second = _time(join, a), _time(join, b)
    if first is None or second is None:
        return None
    # Written right to left: mirrored, so that the left side's time comes first.
    if first[0] in join.right.schema:
        first, second, operator = second, first, _MIRRORED[operator]
    if first[0] not in join.left.schema or second[0] not in join.right.schema:
        return None
    kinds = join.left.schema.type(first[0]), join.right.schema.type(second[0])
    # A row time and a processing time do not compare, nor do TIMESTAMP and TIMESTAMP_LTZ.
    if kinds[0].time is not kinds[1].time or kinds[0].root is not kinds[1].root:
        return None
    # left + x OP right + y means left - right OP y - x.
    return _Bound(first[0], second[0], operator, second[1] - first[1])


def _time(join: Join, value: Scalar) -> tuple[str, int] | None:
    """A time attribute and what is added to it, in ms; None for all other expressions."""
    offset = 0
    while isinstance(value, Call) and value.function in ("+", "-"):
        a, b = value.args
        # 5 minutes + t is t + 5 minutes; a difference has no such turn.
        if value.function == "+" and isinstance(a, Literal):
            a, b = b, a
        if (
            not isinstance(b, Literal)
            or b.type.root is not Root.INTERVAL_DAY_TIME
            or not isinstance(b.value, int)
        ):
            return None
        offset += b.value if value.function == "+" else -b.value
        value = a
    if not isinstance(value, ColumnRef):
        return None
    side = next((i for i in join.inputs if value.name in i.schema), None)
    if side is None:  # a column of the query around
        return None
    kind = side.schema.type(value.name)
    return (value.name, offset) if kind.is_rowtime or kind.is_proctime else None
