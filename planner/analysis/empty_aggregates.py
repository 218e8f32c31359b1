"""Aggregates of no rows at all. Over a stream an aggregate of all rows says nothing until a row
comes; where the query itself says that none ever will (WHERE FALSE, LIMIT 0), Flink's planner
answers it: a count is 0, the rest NULL."""

from __future__ import annotations

from typing import TypeVar

from planner.analysis.contradictions import is_unsatisfiable
from planner.binder import pool
from planner.logical import (
    BinaryJoin,
    Filter,
    GroupAggregate,
    JoinKind,
    LogicalPlan,
    Over,
    Project,
    Rank,
    SetOperation,
    Values,
)
from planner.passes.constant_folding import constant_folding
from planner.passes.simplify import simplify
from planner.rewrite import substitute, transform
from planner.scalar import Scalar

P = TypeVar("P", bound=LogicalPlan)

_ANSWERED = {"COUNT": 0, "SUM": None, "AVG": None, "MIN": None, "MAX": None}


def fold_empty_aggregates(plan: P) -> P:
    """The plan with the answers of aggregates over nothing instead of them."""
    if not _aggregates_all(plan):
        return plan
    known = simplify(constant_folding(plan))
    changed = transform(known, _answer)
    if changed is known:
        return plan
    assert isinstance(changed, type(plan))
    return changed


def _aggregates_all(plan: LogicalPlan) -> bool:
    return (isinstance(plan, GroupAggregate) and not plan.keys) or any(
        map(_aggregates_all, plan.inputs)
    )


def _answer(node: LogicalPlan) -> LogicalPlan:
    if not isinstance(node, GroupAggregate) or node.keys or not is_nothing(node.input):
        return node
    functions = [a.function.removesuffix(" DISTINCT") for a in node.aggregates]
    if any(f not in _ANSWERED for f in functions):
        return node
    row = tuple(
        pool.literal(_ANSWERED[f], a.type) for f, a in zip(functions, node.aggregates, strict=True)
    )
    return Values((row,), node.schema)


def is_nothing(plan: LogicalPlan) -> bool:
    """Whether it is certain from the query alone that no row ever comes."""
    match plan:
        case Values():
            return not plan.rows
        case Filter():
            return is_unsatisfiable(_conditions(plan)) or is_nothing(plan.input)
        case Rank():
            return plan.end < plan.start or is_nothing(plan.input)
        case GroupAggregate(keys=()) | Over():  # Flink does not look below OVER
            return False
        case BinaryJoin():
            left, right = map(is_nothing, plan.inputs)
            if plan.kind in (JoinKind.INNER, JoinKind.SEMI) and is_unsatisfiable((plan.condition,)):
                return True
            if plan.kind is JoinKind.FULL:
                return left and right
            return (left and not plan.kind.keeps(1)) or (
                right and not plan.kind.keeps(0) and plan.kind is not JoinKind.ANTI
            )
        case SetOperation():
            left, right = map(is_nothing, plan.inputs)
            return left or (right and not plan.is_except)
    return bool(plan.inputs) and all(map(is_nothing, plan.inputs))


def _conditions(plan: Filter) -> list[Scalar]:
    """Its predicate, and those of the filters right below it."""
    found, node = [plan.predicate], plan.input
    while isinstance(node, Filter | Project):
        if isinstance(node, Project):
            items = dict(node.items)
            found = [substitute(p, items) for p in found]
        else:
            found.append(node.predicate)
        node = node.input
    return found
