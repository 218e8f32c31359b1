"""A conjunction is taken apart so that its operands can be moved one by one."""

from __future__ import annotations

from dataclasses import replace

from planner.analysis.totality import can_fail
from planner.logical import AssignWatermark, Filter, LogicalPlan, Scan
from planner.rewrite import conjuncts, transform
from planner.scalar import is_deterministic


def split_conjuncts(plan: LogicalPlan) -> LogicalPlan:
    """Makes one filter of each operand of AND, the first lowest.

    >>> from planner.examples import show
    >>> show("split_conjuncts", "SELECT a FROM (SELECT a, b FROM t) WHERE a > 1 AND b < 9")
    Filter ((a > 1) AND (b < 9))
      Project a, b
    -->
    Filter (b < 9)
      Filter (a > 1)
        Project a, b

    Only where there is something to move them through, and only where no operand can fail: `x / 0 >
    1 AND FALSE` is no error, a filter of its own on `x / 0 > 1` would be.
    """
    return transform(plan, _split)


def _split(node: LogicalPlan) -> LogicalPlan:
    if not isinstance(node, Filter) or isinstance(node.input, Scan | AssignWatermark):
        return node
    operands = conjuncts(node.predicate)
    if (
        len(operands) == 1
        or any(can_fail(o) for o in operands)
        or not is_deterministic(node.predicate)
    ):
        return node
    below = node.input
    for operand in operands:
        below = replace(node, input=below, predicate=operand)
    return below
