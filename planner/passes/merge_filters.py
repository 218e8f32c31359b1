"""Filters above one another become one.

SELECT * FROM (SELECT * FROM t WHERE a > 1) WHERE b = 2

Filter (b = 2)                                  Filter ((a > 1) AND (b = 2))
  Filter (a > 1)                                  Scan t
    Scan t
"""

from __future__ import annotations

from planner.analysis.totality import can_fail
from planner.logical import Filter, LogicalPlan
from planner.rewrite import conjunction, transform
from planner.scalar import is_deterministic


def merge_filters(plan: LogicalPlan) -> LogicalPlan:
    """Operands keep their order, the lower filter's first. A row for which the lower predicate is
    NULL never reaches the upper one, but `NULL AND error` is an error: the two stay apart where
    that could happen."""
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
