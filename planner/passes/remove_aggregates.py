"""Aggregates whose results are known without them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from parser.types import Schema
from planner.analysis.sums import made_of_sums
from planner.logical import (
    AggregateCall,
    Filter,
    GroupAggregate,
    LogicalPlan,
    Project,
    Rank,
    WindowAggregate,
)
from planner.rewrite import references, transform
from planner.scalar import Call, ColumnRef, Scalar

_AVERAGES: Final = ("AVG", "AVG DISTINCT")
# The result of these for a single row is its value. Flink keeps a COUNT even over single rows.
_IDENTITIES: Final = frozenset({"MIN", "MAX", "SUM", "SUM DISTINCT"})


def remove_aggregates(plan: LogicalPlan) -> LogicalPlan:
    """Makes a projection of an aggregate whose groups are single rows (Flink:
    FlinkAggregateRemoveRule), and the average of a key the key.

    >>> from planner.examples import show
    >>> show('remove_aggregates', '''
    ... SELECT DISTINCT k, n
    ... FROM (SELECT k, COUNT(*) AS n FROM e GROUP BY k)''')
    GroupAggregate by k, n: distinct
      Project k, aggregate$0 AS n
    -->
    Project k, n
      Project k, aggregate$0 AS n

    Where an aggregate of one row is not that row's value, it stays, and so does one of all rows
    together.
    """
    return transform(plan, lambda node: _without_averages_of_keys(_removed(node)))


def _removed(node: LogicalPlan) -> LogicalPlan:
    if not isinstance(node, GroupAggregate) or not node.keys or node.always:
        return node
    # A key within the group's keys: then each group has one row at most.
    if _is_ranked(node.input) or not any(
        key <= frozenset(node.keys) for key in node.input.upsert_keys
    ):
        return node
    results = [_of_one_row(c, node) for c in node.aggregates]
    values = [v for v in results if v is not None]
    if len(values) < len(results):
        return node
    names = (c.name for c in node.aggregates)
    items = (*references(node.input.schema, node.keys), *zip(names, values, strict=True))
    return Project(node.input, items)


def _is_ranked(plan: LogicalPlan) -> bool:
    """True for the rows of a Top-N, whose keys Flink does not use here."""
    while isinstance(plan, Project | Filter):
        plan = plan.input
    return isinstance(plan, Rank)


def _of_one_row(call: AggregateCall, node: GroupAggregate) -> Scalar | None:
    """The result of the call for a single row; None where that is none of the row's columns."""
    # A filtered call has no row where the filter is not TRUE.
    if call.filter_column is not None:
        return None
    average_of_key = call.function == "AVG" and call.argument in node.keys
    if call.argument is None or not (call.function in _IDENTITIES or average_of_key):
        return None
    return _valued(call, call.argument, node.input.schema)


def _without_averages_of_keys(node: LogicalPlan) -> LogicalPlan:
    """The aggregate without averages of its keys, where Flink makes averages of sums: the average
    of a key is the key, also -0.0, where a sum begins with 0.0."""
    if not isinstance(node, GroupAggregate | WindowAggregate):
        return node
    calls = node.aggregates
    averages = {c.name for c in calls if c.function in _AVERAGES and _is_of_key(c, node.keys)}
    if not averages or not made_of_sums(calls, node.input.schema, node.keys):
        return node
    rest = replace(node, aggregates=tuple(c for c in calls if c.name not in averages))
    values = {
        c.name: _valued(c, str(c.argument), node.input.schema) for c in calls if c.name in averages
    }
    return Project(
        rest, tuple((c.name, values.get(c.name, ColumnRef(c.name, c.type))) for c in node.schema)
    )


def _valued(call: AggregateCall, column: str, below: Schema) -> Scalar:
    """The column as a value of the call's type."""
    kind = below.type(column)
    return (
        ColumnRef(column, call.type)
        if kind.same_as(call.type)
        else Call("CAST", (ColumnRef(column, kind),), call.type)
    )


def _is_of_key(call: AggregateCall, keys: tuple[str, ...]) -> bool:
    return call.argument in keys and call.filter_column is None
