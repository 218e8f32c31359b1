"""Filters above one another become one."""

from __future__ import annotations

from planner.analysis.totality import can_fail
from planner.logical import Filter, LogicalPlan
from planner.rewrite import conjunction, transform
from planner.scalar import is_deterministic


def merge_filters(plan: LogicalPlan) -> LogicalPlan:
    """Merges a filter with the one below it (Calcite: FilterMergeRule).

    >>> from planner.examples import show
    >>> show("merge_filters", "SELECT a FROM (SELECT * FROM t WHERE a > 1) WHERE s = 'x'")
    Filter (s = 'x')
      Filter (a > 1)
        Scan t (topic)
    -->
    Filter ((a > 1) AND (s = 'x'))
      Scan t (topic)

    Operands keep their order, the lower filter's first. A row for which the lower predicate is NULL
    never reaches the upper one, but `NULL AND error` is an error: the two stay apart where that
    could happen.
    """
    return transform(plan, _merge)


def _merge(node: LogicalPlan) -> LogicalPlan:
    if not isinstance(node, Filter) or not isinstance(node.input, Filter):
        return node
    upper, lower = node.predicate, node.input.predicate
    if not (is_deterministic(upper) and is_deterministic(lower)):
        return node
    if lower.type.nullable and can_fail(upper):
        return node
    return Filter(node.input.input, conjunction((lower, upper)), node.salt or node.input.salt)
