"""Which aggregates of windows Flink computes in two steps: there lists of DISTINCT values are in
the order of a hash table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from planner.logical import Cumulate, LogicalPlan, Tumble, WindowAggregate, windows_below
from planner.rewrite import transform
from planner.settings import AGG_PHASES, AGG_STRATEGIES, is_batch, one_of
from udf.aggregates.registry import BUFFERED, aggregate_names

P = TypeVar("P", bound=LogicalPlan)

# Of these Flink has no two steps, nor of the other aggregates of the same window; none of
# aggregates of users is known.
_IN_ONE_STEP = frozenset({"FIRST_VALUE", "LAST_VALUE", "SINGLE_VALUE", "JSON_ARRAYAGG"})
# Whose results show the order.
_LISTS = frozenset({"LISTAGG DISTINCT", "ARRAY_AGG DISTINCT"})


def mark_two_step_windows(plan: LogicalPlan) -> LogicalPlan:
    """An aggregate of the windows of a table function: its lists of DISTINCT values may be in that
    order."""
    if not isinstance(plan, WindowAggregate):
        return plan
    return _called(
        plan, {a.function: a.function + BUFFERED for a in plan.aggregates if a.function in _LISTS}
    )


def unmark_one_step_windows(plan: P, settings: Mapping[str, str]) -> P:
    """A whole plan, in which they are so only where Flink has two steps."""

    def settle(node: LogicalPlan) -> LogicalPlan:
        if not isinstance(node, WindowAggregate) or _in_two_steps(node, settings):
            return node
        return _called(
            node, {a.function: a.function.removesuffix(BUFFERED) for a in node.aggregates}
        )

    changed = transform(plan, settle)
    assert isinstance(changed, type(plan))
    return changed


def _in_two_steps(plan: WindowAggregate, settings: Mapping[str, str]) -> bool:
    if plan.session is not None or not isinstance(windows_below(plan.input)[0], Tumble | Cumulate):
        return False
    if (
        is_batch(settings)
        or one_of(settings, AGG_PHASES, AGG_STRATEGIES) == "ONE_PHASE"
        or plan.input.changes
    ):
        return False
    bases = {a.function.partition(" ")[0] for a in plan.aggregates}
    return (
        plan.schema.type(plan.window_columns[2]).is_rowtime
        and bases <= {*aggregate_names()} - _IN_ONE_STEP
    )


def _called(plan: WindowAggregate, names: Mapping[str, str]) -> WindowAggregate:
    calls = tuple(replace(a, function=names.get(a.function, a.function)) for a in plan.aggregates)
    return plan if calls == plan.aggregates else replace(plan, aggregates=calls)
