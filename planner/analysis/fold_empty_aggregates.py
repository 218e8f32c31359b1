"""Aggregates of no rows at all become their values."""

from __future__ import annotations

from typing import Final

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
from planner.rewrite import nodes, substitute, transform
from planner.scalar import Scalar

# The aggregates that Flink's planner computes over no rows, with their values.
_EMPTY_VALUES: Final = {"COUNT": 0, "SUM": None, "AVG": None, "MIN": None, "MAX": None}


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
    # A contradiction may show only in the simplified condition; the plan itself is optimised later.
    simplified = simplify(constant_folding(sink))
    folded = transform(simplified, _fold)
    if folded is simplified:
        return sink
    assert isinstance(folded, Sink)
    return folded


def _aggregates_all(plan: LogicalPlan) -> bool:
    """True if the plan has an aggregate without keys."""
    return any(isinstance(n, GroupAggregate) and not n.keys for n in nodes(plan))


def _fold(node: LogicalPlan) -> LogicalPlan:
    if not isinstance(node, GroupAggregate) or node.keys or not _is_empty(node.input):
        return node
    functions = [a.function.removesuffix(" DISTINCT") for a in node.aggregates]
    if any(f not in _EMPTY_VALUES for f in functions):
        return node
    calls = zip(functions, node.aggregates, strict=True)
    row = tuple(pool.literal(_EMPTY_VALUES[f], a.type) for f, a in calls)
    return Values((row,), node.schema)


def _is_empty(plan: LogicalPlan) -> bool:
    """True if it is certain from the query alone that the plan never has a row."""
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
            return _joins_nothing(plan)
        case SetOperation():
            left, right = map(_is_empty, plan.inputs)
            return left or (right and not plan.is_except)
    return bool(plan.inputs) and all(map(_is_empty, plan.inputs))


def _joins_nothing(join: BinaryJoin) -> bool:
    """True if a join never has a row: its condition is never TRUE, or a side whose rows it needs is
    empty. An outer join keeps the rows of a side, an anti join those without a match."""
    kind = join.kind
    if kind in (JoinKind.INNER, JoinKind.SEMI) and is_unsatisfiable((join.condition,)):
        return True
    left, right = map(_is_empty, join.inputs)
    if kind is JoinKind.FULL:
        return left and right
    needs_left, needs_right = not kind.keeps(1), not kind.keeps(0) and kind is not JoinKind.ANTI
    return (left and needs_left) or (right and needs_right)


def _conditions(plan: Filter) -> list[Scalar]:
    """The predicates of a filter and of the filters right below it, over the columns of the
    lowest."""
    predicates, node = [plan.predicate], plan.input
    while isinstance(node, Filter | Project):
        if isinstance(node, Project):
            items = dict(node.items)
            predicates = [substitute(p, items) for p in predicates]
        else:
            predicates.append(node.predicate)
        node = node.input
    return predicates
