"""Aggregates in two phases, so that fewer rows cross an exchange (Flink:
TwoStageOptimizedAggregateRule).

SELECT k, SUM(v) FROM t GROUP BY k

GroupAggregate by k: SUM(v)                     GlobalAggregate by k: SUM(v)
  Scan t                                          LocalAggregate by k: SUM(v)
                                                    Scan t

It is no pass of the optimiser: in one process nothing is exchanged, and a second phase would only
cost. Distributed graphs apply it to the plan of a job, where it is a part of the job's version. On
Spark it is a part of the exchange (`phases_of`), and of no version: the state is the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

from parser.types import Root
from planner.analysis.sums import own_name
from planner.graph.rule_sets import RulesPlan
from planner.logical import (
    AggregateCall,
    AlignedWindow,
    EmittingAggregate,
    GlobalAggregate,
    GlobalWindowAggregate,
    GroupAggregate,
    LocalAggregate,
    LocalWindowAggregate,
    LogicalPlan,
    WindowAggregate,
    windows_below,
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
        return in_phases(node)

    changed = transform(plan, split)
    assert isinstance(changed, type(plan))
    return changed


def phases_of(
    plan: LogicalPlan | RulesPlan, strategy: str
) -> tuple[LogicalPlan, LogicalPlan] | None:
    """Returns what an aggregate does before an exchange, and what behind it, with the state that it
    has in one phase; None where all of it is done behind it."""
    if isinstance(plan, WindowAggregate) and _splits_windows(plan, strategy):
        behind: LogicalPlan = GlobalWindowAggregate(
            LocalWindowAggregate(plan.input, plan),
            plan.keys,
            plan.aggregates,
            plan.window_columns,
            plan.shared,
            earliest_first=plan.earliest_first,
            row_by_row=plan.row_by_row,
            ttl_ms=plan.ttl_ms,
        )
    elif isinstance(plan, GroupAggregate) and splits(plan, strategy):
        behind = in_phases(plan)
    else:
        return None
    (before,) = behind.inputs
    return before, behind


def in_phases(node: GroupAggregate) -> GlobalAggregate:
    """Returns an aggregate in two phases."""
    local = LocalAggregate(node.input, node.keys, node.aggregates)
    return GlobalAggregate(local, node.keys, node.aggregates, node.always, ttl_ms=node.ttl_ms)


def _splits_windows(node: WindowAggregate, strategy: str) -> bool:
    """True if rows of windows may meet before the exchange: by event time, and where nobody asks
    for each late row."""
    if isinstance(node, EmittingAggregate | GlobalWindowAggregate) or node.session is not None:
        return False
    window, time = windows_below(node.input)
    told = node.tells_late or node.late is not None
    if strategy == "ONE_PHASE" or told or node.input.changes or time.is_proctime:
        return False
    return isinstance(window, AlignedWindow) and all(_merges(c, strategy) for c in node.aggregates)


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
