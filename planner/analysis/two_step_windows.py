"""Lists of DISTINCT values in windows that Flink aggregates in two steps: there they are in the
order of a hash table.

Only the binder knows whether a window comes from a table function, so it marks their aggregates.
Whether Flink has two steps depends on the whole plan: `unmark_one_step_windows` decides that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from planner.logical import LogicalPlan, WindowAggregate
from udf.aggregates.registry import BUFFERED

# Aggregates whose results show the order of their values.
_LISTS: Final = frozenset({"LISTAGG DISTINCT", "ARRAY_AGG DISTINCT"})


def mark_two_step_windows(plan: LogicalPlan) -> LogicalPlan:
    """Marks lists of DISTINCT values in an aggregate over the windows of a table function."""
    if not isinstance(plan, WindowAggregate):
        return plan
    lists = (a.function for a in plan.aggregates if a.function in _LISTS)
    return with_functions(plan, {name: name + BUFFERED for name in lists})


def with_functions(plan: WindowAggregate, names: Mapping[str, str]) -> WindowAggregate:
    """The aggregate with its functions renamed; itself where `names` changes none."""
    calls = tuple(replace(a, function=names.get(a.function, a.function)) for a in plan.aggregates)
    return plan if calls == plan.aggregates else replace(plan, aggregates=calls)
