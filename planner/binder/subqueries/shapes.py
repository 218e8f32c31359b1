"""Shapes of subqueries: the ways in which they are joined to the outer query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.binder import pool
from planner.binder.subqueries import domains
from planner.binder.subqueries.decorrelate import EQUALITIES, inner_columns, is_outer, too_entangled
from planner.logical import GroupAggregate, LogicalPlan, Project
from planner.scalar import Call, Scalar


@dataclass(frozen=True)
class Inner:
    """A subquery without what it says of the rows around it: that is `conditions`; `values` are its
    columns. `alone`: it says nothing of them. `before`: the plan with what it says."""

    plan: LogicalPlan
    values: tuple[Scalar, ...]
    conditions: tuple[Scalar, ...]
    alone: bool = False
    before: LogicalPlan | None = None


@dataclass(frozen=True)
class Keyed:
    """The columns of a subquery by which the rows around it meet it (`keys`), then others;
    `conditions` are over these."""

    plan: LogicalPlan
    keys: tuple[str, ...]
    conditions: tuple[Scalar, ...]

    def joined(self, plan: LogicalPlan) -> Inner:
        """Returns `plan`, which groups by the keys, as a subquery with these conditions."""
        return Inner(plan, (), self.conditions)


def by_keys(inner: Inner, items: Sequence[tuple[str, Scalar]], node: exp.Expression) -> Keyed:
    """UnsupportedError where rows do not meet by equality of something inside with something
    around."""
    keys: dict[str, Scalar] = {}
    conditions = []
    for number, condition in enumerate(inner.conditions):
        if not isinstance(condition, Call) or not _is_met(condition):
            raise too_entangled(node)
        (inside,) = [a for a in condition.args if not is_outer(a)]
        key = pool.column(f"key{number}", inside.type)
        keys[key.name] = inside
        conditions.append(
            replace(condition, args=tuple(a if is_outer(a) else key for a in condition.args))
        )
    return Keyed(Project(inner.plan, (*keys.items(), *items)), tuple(keys), tuple(conditions))


def meeting(inner: Inner, node: exp.Expression) -> Inner:
    """The subquery so that rows around meet it by equality of something inside with something
    around, and its values are made inside."""
    met = all(_is_met(c) for c in inner.conditions) and not any(map(is_outer, inner.values))
    if met or inner.before is None:
        return inner
    return Inner(*domains.over_domain(inner.before, inner.values, node))


def _is_met(condition: Scalar) -> bool:
    if not isinstance(condition, Call) or condition.function not in EQUALITIES:
        return False
    inside = [a for a in condition.args if not is_outer(a)]
    return len(inside) == 1 and inner_columns(condition.args) == inner_columns(inside)


def always(inner: Inner) -> bool:
    """Returns True if the subquery has a row even if its input has none: as in Flink, an aggregate
    without keys has one."""
    return isinstance(inner.before, GroupAggregate) and not inner.before.keys


def of_no_rows(plan: GroupAggregate, inner: Inner) -> bool:
    """Returns True if each outer row has at most one row: it must equal all keys of `plan`."""
    return set(plan.keys) <= {c.name for c in inner_columns(inner.conditions)}
