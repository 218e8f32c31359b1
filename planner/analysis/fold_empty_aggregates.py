"""Aggregates of no rows at all become their values."""

from __future__ import annotations

from planner.analysis.context import AnalysisContext
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
    Sink,
    Values,
)
from planner.passes.constant_folding import constant_folding
from planner.passes.simplify import simplify
from planner.rewrite import substitute, transform
from planner.scalar import Scalar

_ANSWERED = {"COUNT": 0, "SUM": None, "AVG": None, "MIN": None, "MAX": None}


def fold_empty_aggregates(sink: Sink, context: AnalysisContext) -> Sink:
    """Replaces an aggregate of all rows where the query itself says that there are none (WHERE
    FALSE, LIMIT 0): a count is 0, the rest NULL, as Flink's planner answers it.

    Over a stream such an aggregate has no result before its first row. In batch mode it has one at
    the end of input, so that there is nothing to do.

    >>> from planner.examples import show
    >>> show("fold_empty_aggregates", "SELECT COUNT(*) AS n FROM t WHERE FALSE")
    GroupAggregate by nothing: COUNT(*) AS aggregate$0
      Filter FALSE
        Scan t (topic)
    -->
    Values 1 rows
    """
    if context.batch or not _aggregates_all(sink):
        return sink
    known = simplify(constant_folding(sink))
    changed = transform(known, _answer)
    if changed is known:
        return sink
    assert isinstance(changed, Sink)
    return changed


def _aggregates_all(plan: LogicalPlan) -> bool:
    return (isinstance(plan, GroupAggregate) and not plan.keys) or any(
        map(_aggregates_all, plan.inputs)
    )


def _answer(node: LogicalPlan) -> LogicalPlan:
    if not isinstance(node, GroupAggregate) or node.keys or not _is_empty(node.input):
        return node
    functions = [a.function.removesuffix(" DISTINCT") for a in node.aggregates]
    if any(f not in _ANSWERED for f in functions):
        return node
    row = tuple(
        pool.literal(_ANSWERED[f], a.type) for f, a in zip(functions, node.aggregates, strict=True)
    )
    return Values((row,), node.schema)


def _is_empty(plan: LogicalPlan) -> bool:
    """Whether it is certain from the query alone that no row ever comes."""
    match plan:
        case Values():
            return not plan.rows
        case Filter():
            return is_unsatisfiable(_conditions(plan)) or _is_empty(plan.input)
        case Rank():
            return plan.end < plan.start or _is_empty(plan.input)
        case GroupAggregate(keys=()) | Over():  # Flink does not look below OVER
            return False
        case BinaryJoin():
            left, right = map(_is_empty, plan.inputs)
            if plan.kind in (JoinKind.INNER, JoinKind.SEMI) and is_unsatisfiable((plan.condition,)):
                return True
            if plan.kind is JoinKind.FULL:
                return left and right
            return (left and not plan.kind.keeps(1)) or (
                right and not plan.kind.keeps(0) and plan.kind is not JoinKind.ANTI
            )
        case SetOperation():
            left, right = map(_is_empty, plan.inputs)
            return left or (right and not plan.is_except)
    return bool(plan.inputs) and all(map(_is_empty, plan.inputs))


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
