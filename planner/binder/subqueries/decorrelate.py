"""Decorrelates subqueries: their conditions on the rows of the outer query become conditions of the
join that the subquery becomes (RelDecorrelator).

Columns of the outer query have names that begin with OUTER; one more for each query in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import UnsupportedError
from parser.types import BOOLEAN
from planner.binder import pool
from planner.binder.scope import OUTER, distinct_names
from planner.logical import Filter, GroupAggregate, Join, JoinKind, LogicalPlan, Project
from planner.rewrite import conjunction, conjuncts, nodes, references, replace_where
from planner.scalar import Call, ColumnRef, Literal, Scalar, conjuncts_of, walk

EQUALITIES = ("=", "IS NOT DISTINCT FROM")


def is_outer(expression: Scalar) -> bool:
    """Returns True if the expression reads a column of the outer query."""
    return any(isinstance(n, ColumnRef) and n.name.startswith(OUTER) for n in walk(expression))


def outward(expression: Scalar, names: Mapping[str, str]) -> Scalar:
    """Returns the condition of a subquery as the outer query sees it.

    The outer query's columns have their own names, those of the subquery the names that `names`
    gives."""

    def find(node: Scalar) -> Scalar | None:
        if not isinstance(node, ColumnRef):
            return None
        # The prefix marks columns of the outer query; one level of it is taken off here.
        name = node.name.removeprefix(OUTER) if node.name.startswith(OUTER) else names[node.name]
        return pool.column(name, node.type)

    return replace_where(expression, find)


def inner_columns(conditions: Sequence[Scalar]) -> tuple[ColumnRef, ...]:
    """Returns the subquery's own columns that conditions read, each once."""
    found = (
        n
        for c in conditions
        for n in walk(c)
        if isinstance(n, ColumnRef) and not n.name.startswith(OUTER)
    )
    return tuple({c.name: c for c in found}.values())


def pulled(
    plan: LogicalPlan, node: exp.Expression, *, repeats: bool
) -> tuple[LogicalPlan, list[Scalar]]:
    """Returns the plan without its correlated conditions, and these conditions over its columns and
    those of the outer query.

    `repeats`: it does no harm if rows come more often than before. UnsupportedError where the two
    cannot be separated."""
    if not is_correlated(plan):
        return plan, []
    match plan:
        case Filter():
            below, conditions = pulled(plan.input, node, repeats=repeats)
            # Conjunct by conjunct: what reads the outer query goes up, the rest stays.
            own = [p for p in conjuncts(plan.predicate) if not is_outer(p)]
            conditions += [p for p in conjuncts(plan.predicate) if is_outer(p)]
            return (
                replace(plan, input=below, predicate=conjunction(own)) if own else below
            ), conditions
        case Project() if not any(is_outer(e) for _, e in plan.items):
            return _from_project(plan, node, repeats)
        case GroupAggregate():
            return _from_aggregate(plan, node)
        case Join():
            return _from_join(plan, node, repeats)
    raise too_entangled(node)


def is_correlated(plan: LogicalPlan) -> bool:
    """Returns True if the plan reads a column of the outer query."""
    return any(is_outer(e) for node in nodes(plan) for e in node.expressions)


def _from_project(
    plan: Project, node: exp.Expression, repeats: bool
) -> tuple[LogicalPlan, list[Scalar]]:
    below, conditions = pulled(plan.input, node, repeats=repeats)
    made: dict[str, Scalar] = {}
    items = dict(plan.items)
    # Conditions move above the projection, so the columns that they read must go through it.
    for column in inner_columns(conditions):
        name = next((n for n, e in items.items() if e == column), None)
        if name is None:
            (name,) = distinct_names((column.name,), items)
            items[name] = column
        made[column.name] = pool.column(name, column.type)
    return replace(plan, input=below, items=tuple(items.items())), [
        _renamed(c, made) for c in conditions
    ]


def _from_aggregate(plan: GroupAggregate, node: exp.Expression) -> tuple[LogicalPlan, list[Scalar]]:
    """Groups the aggregate by the columns that conditions below it compare with the outer query."""
    # Without aggregates it is a DISTINCT, to which repeated rows do no harm.
    below, conditions = pulled(plan.input, node, repeats=not plan.aggregates)
    items = dict(references(below.schema, below.schema.names))
    keys = list(plan.keys)
    made: list[Scalar] = []
    for condition in conditions:
        # Only an equality makes each row of the outer query match one group.
        if not isinstance(condition, Call) or condition.function not in EQUALITIES:
            raise too_entangled(node)
        inner = [a for a in condition.args if not is_outer(a)]
        if len(inner) != 1:
            raise too_entangled(node)
        name = inner[0].name if isinstance(inner[0], ColumnRef) else ""
        if not name:
            (name,) = distinct_names(("correlated",), (*items, *plan.schema.names))
            items[name] = inner[0]
        keys += [] if name in keys else [name]
        key = pool.column(name, inner[0].type)
        made.append(
            replace(condition, args=tuple(a if is_outer(a) else key for a in condition.args))
        )
    # Keys that are computed need a projection below the aggregate.
    if len(items) > len(below.schema):
        below = Project(below, tuple(items.items()))
    return replace(plan, input=below, keys=tuple(keys)), made


def _from_join(plan: Join, node: exp.Expression, repeats: bool) -> tuple[LogicalPlan, list[Scalar]]:
    """Pulls the conditions of a join's left side; they hold for its result, too.

    A semi-join is an inner one where repeats do no harm."""
    if plan.kind in (JoinKind.RIGHT, JoinKind.FULL):
        raise too_entangled(node)
    left, conditions = pulled(plan.left, node, repeats=repeats)
    right, others = pulled(plan.right, node, repeats=repeats or plan.kind.is_semi)
    parts = list(conjuncts_of(plan.condition))
    own = [p for p in parts if not is_outer(p)]
    moved = [*others, *(p for p in parts if is_outer(p))]
    # A semi-join hides the columns of its right side, which moved conditions read.
    kind = JoinKind.INNER if moved and repeats and plan.kind is JoinKind.SEMI else plan.kind
    if moved and kind is not JoinKind.INNER:
        raise too_entangled(node)
    condition = conjunction(own) if own else Literal(True, BOOLEAN.with_nullable(False))
    return replace(plan, left=left, right=right, kind=kind, condition=condition), [
        *conditions,
        *moved,
    ]


def _renamed(expression: Scalar, names: Mapping[str, Scalar]) -> Scalar:
    return replace_where(
        expression, lambda e: names.get(e.name) if isinstance(e, ColumnRef) else None
    )


def too_entangled(node: exp.Expression) -> UnsupportedError:
    """Says that a subquery cannot be told apart from the query around it."""
    return UnsupportedError(
        "this subquery reads the query around it in a way that is not supported",
        detail=(
            "what it reads must stand in conditions of its WHERE, and in equalities below an"
            " aggregate"
        ),
        hint="write the subquery as a join",
        position=position_of(node),
    )
