"""Which aggregates of windows Flink computes in two steps: there DISTINCT values come in the order of a hash table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planner.logical import AggregateCall, Cumulate, LogicalPlan, Tumble, WindowAggregate, windows_below
from planner.settings import AGG_PHASES, AGG_STRATEGIES, is_batch, one_of
from udf.aggregates import BUFFERED, aggregate_names

# Of these Flink has no two steps, nor of the other aggregates of the same window; none of aggregates of users is known.
_IN_ONE_STEP = frozenset({"FIRST_VALUE", "LAST_VALUE", "SINGLE_VALUE", "JSON_ARRAYAGG"})
# Whose results show the order.
_LISTS = frozenset({"LISTAGG DISTINCT", "ARRAY_AGG DISTINCT"})


def buffered(plan: LogicalPlan, settings: Mapping[str, str]) -> LogicalPlan:
    """An aggregate of windows with its lists of DISTINCT values in that order, where Flink has two steps."""
    if not isinstance(plan, WindowAggregate) or is_batch(settings) or not _in_two_steps(plan, settings):
        return plan
    return replace(plan, aggregates=tuple(map(_buffered, plan.aggregates)))


def _in_two_steps(plan: WindowAggregate, settings: Mapping[str, str]) -> bool:
    if (
        plan.session is not None
        or not isinstance(windows_below(plan.input)[0], Tumble | Cumulate)
        or plan.input.changes
    ):
        return False
    if one_of(settings, AGG_PHASES, AGG_STRATEGIES) == "ONE_PHASE":
        return False
    bases = {a.function.partition(" ")[0] for a in plan.aggregates}
    return plan.schema.type(plan.window_columns[2]).is_rowtime and bases <= {*aggregate_names()} - _IN_ONE_STEP


def _buffered(call: AggregateCall) -> AggregateCall:
    return replace(call, function=call.function + BUFFERED) if call.function in _LISTS else call
