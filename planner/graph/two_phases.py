"""Aggregates in two steps where rows cross an exchange: fewer of them do.

SELECT k, SUM(v) FROM t GROUP BY k

GroupAggregate by k: SUM(v)                     GlobalAggregate by k: SUM(v)
  Scan t                                          LocalAggregate by k: SUM(v)
                                                    Scan t

It is no pass of the optimiser: in one process nothing is exchanged, and a second step would only
cost. Who runs a plan in stages asks for it before the plan is cut."""

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
from planner.rewrite import transform
from planner.settings import AGG_PHASES, AGG_STRATEGIES, one_of

P = TypeVar("P", bound=LogicalPlan)

_SPLIT: Final = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX"})


def in_two_phases(plan: P, settings: Mapping[str, str]) -> P:
    """The plan with a step before the exchange of every aggregate that can have one, as
    'table.optimizer.agg-phase-strategy' says. As in Flink mini-batch must be on; AUTO leaves out
    sums that are rounded, which may differ in their last digits, and extremes of what may be NaN,
    which count for nothing behind one."""
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
    """Each operation of a plan, and the one in the plan with steps before exchanges
    (`in_two_phases`) that is the same or takes its place."""
    waiting = [(plan, split)]
    seen: set[int] = set()
    while waiting:
        one, other = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one, other
        below = other.inputs
        if isinstance(other, GlobalAggregate) and not isinstance(one, GlobalAggregate):
            below = other.input.inputs
        waiting += zip(one.inputs, below, strict=True)


def splits(node: GroupAggregate, strategy: str) -> bool:
    """Whether the aggregate has two steps where rows are exchanged."""
    if (
        strategy == "ONE_PHASE"
        or isinstance(node, GlobalAggregate)
        or node.row_by_row
        or node.input.changes
    ):
        return False
    return all(_merges(call, strategy) for call in node.aggregates)


def _merges(call: AggregateCall, strategy: str) -> bool:
    if own_name(call.function) not in _SPLIT or call.distinct:
        return False
    binary = call.argument_type is not None and call.argument_type.root in (Root.FLOAT, Root.DOUBLE)
    return strategy == "TWO_PHASE" or not binary or call.function == "COUNT"


def split_aggregates(plan: LogicalPlan, settings: Mapping[str, str]) -> Iterator[GroupAggregate]:
    """The aggregates of a plan that have two steps where rows are exchanged."""
    strategy = one_of(settings, AGG_PHASES, AGG_STRATEGIES)
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        waiting += node.inputs
        if isinstance(node, GroupAggregate) and splits(node, strategy):
            yield node
