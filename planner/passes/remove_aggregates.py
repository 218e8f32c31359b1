"""An aggregate whose groups are single rows is a projection, as in Flink.

SELECT DISTINCT k, n FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k)

GroupAggregate by k, n: distinct                Project k, n
  GroupAggregate by k: COUNT(*) AS n              GroupAggregate by k: COUNT(*) AS n
"""

from __future__ import annotations

from parser.types import BIGINT, BOOLEAN, Schema
from planner.logical import AggregateCall, Filter, GroupAggregate, LogicalPlan, Project, Rank
from planner.rewrite import transform
from planner.scalar import Call, ColumnRef, Literal, Scalar

_NUMBER, _TRUTH = BIGINT.with_nullable(False), BOOLEAN.with_nullable(False)


def remove_aggregates(plan: LogicalPlan) -> LogicalPlan:
    """Not where an aggregate of one row is not that row's value: then it stays, and so does one of all rows together."""
    return transform(plan, _removed)


def _removed(node: LogicalPlan) -> LogicalPlan:
    if not isinstance(node, GroupAggregate) or not node.keys or node.always:
        return node
    if _is_ranked(node.input) or not any(key <= frozenset(node.keys) for key in node.input.upsert_keys):
        return node
    below = node.input.schema
    values = [_of_one_row(c, below) for c in node.aggregates]
    made = [v for v in values if v is not None]
    if len(made) < len(values):
        return node
    keys = [(k, ColumnRef(k, below.type(k))) for k in node.keys]
    return Project(node.input, (*keys, *((c.name, v) for c, v in zip(node.aggregates, made, strict=True))))


def _is_ranked(plan: LogicalPlan) -> bool:
    """Whether the rows are those of a Top-N, whose keys Flink does not use here."""
    while isinstance(plan, Project | Filter):
        plan = plan.input
    return isinstance(plan, Rank)


def _of_one_row(call: AggregateCall, below: Schema) -> Scalar | None:
    """What the call gives for a single row; None where that is none of its columns."""
    if call.filter_column is not None:
        return None
    if call.function == "COUNT":
        return _count(call, below)
    if call.function not in ("MIN", "MAX", "SUM") or call.argument is None:
        return None
    kind = below.type(call.argument)
    if kind.same_as(call.type):
        return ColumnRef(call.argument, call.type)
    return Call("CAST", (ColumnRef(call.argument, kind),), call.type)


def _count(call: AggregateCall, below: Schema) -> Scalar:
    if call.argument is None or not below.type(call.argument).nullable:
        return Literal(1, _NUMBER)
    there = Call("IS NOT NULL", (ColumnRef(call.argument, below.type(call.argument)),), _TRUTH)
    return Call("CASE", (there, Literal(1, _NUMBER), Literal(0, _NUMBER)), _NUMBER)
