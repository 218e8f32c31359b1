"""Aggregates in two phases, so that fewer rows cross an exchange (Flink:
TwoStageOptimizedAggregateRule).

SELECT k, SUM(v) FROM t GROUP BY k

GroupAggregate by k: SUM(v)                     GlobalAggregate by k: SUM(v)
  Scan t                                          LocalAggregate by k: SUM(v)
                                                    Scan t

It is no pass of the optimiser: in one process nothing is exchanged, and a second phase would only
cost. Spark and distributed graphs apply it before they cut a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

from parser.types import Root
from planner.analysis.sums import own_name
from planner.logical import (
    AggregateCall,
    GlobalAggregate,
    GroupAggregate,
    LocalAggregate,
    LogicalPlan,
)
from planner.rewrite import nodes, transform
from planner.settings import AGG_PHASES, AGG_STRATEGIES, one_of

P = TypeVar("P", bound=LogicalPlan)

_SPLIT: Final = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX"})


def in_two_phases(plan: P, settings: Mapping[str, str]) -> P:
    """Splits every aggregate that can have two phases by 'table.optimizer.agg-phase-strategy'.

    As in Flink mini-batch must be on. AUTO leaves out FLOAT and DOUBLE: their sums may differ in
    the last digits, and MIN and MAX ignore the values behind a NaN."""
    strategy = one_of(settings, AGG_PHASES, AGG_STRATEGIES)

    def split(node: LogicalPlan) -> LogicalPlan:
        if not isinstance(node, GroupAggregate) or not splits(node, strategy):
            return node
        local = LocalAggregate(node.input, node.keys, node.aggregates)
        return GlobalAggregate(local, node.keys, node.aggregates, node.always, ttl_ms=node.ttl_ms)

    changed = transform(plan, split)
    assert isinstance(changed, type(plan))
    return changed


def twins(plan: LogicalPlan, split: LogicalPlan) -> Iterator[tuple[LogicalPlan, LogicalPlan]]:
    """Yields each operation of a plan with its counterpart in the plan that `in_two_phases` made of
    it: the same operation, or the one that takes its place."""
    waiting = [(plan, split)]
    # By id: shared subplans are visited once.
    seen: set[int] = set()
    while waiting:
        one, other = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one, other
        below = other.inputs
        # The split aggregate has a local phase below, which has no counterpart.
        if isinstance(other, GlobalAggregate) and not isinstance(one, GlobalAggregate):
            below = other.input.inputs
        waiting += zip(one.inputs, below, strict=True)


def splits(node: GroupAggregate, strategy: str) -> bool:
    """True if the aggregate has two phases where rows are exchanged."""
    is_split = isinstance(node, GlobalAggregate)
    if strategy == "ONE_PHASE" or is_split or node.row_by_row or node.input.changes:
        return False
    return all(_merges(call, strategy) for call in node.aggregates)


def _merges(call: AggregateCall, strategy: str) -> bool:
    if own_name(call.function) not in _SPLIT or call.distinct:
        return False
    binary = call.argument_type is not None and call.argument_type.root in (Root.FLOAT, Root.DOUBLE)
    return strategy == "TWO_PHASE" or not binary or call.function == "COUNT"


def split_aggregates(plan: LogicalPlan, settings: Mapping[str, str]) -> Iterator[GroupAggregate]:
    """Yields the aggregates of a plan that have two phases where rows are exchanged."""
    strategy = one_of(settings, AGG_PHASES, AGG_STRATEGIES)
    for node in nodes(plan):
        if isinstance(node, GroupAggregate) and splits(node, strategy):
            yield node
