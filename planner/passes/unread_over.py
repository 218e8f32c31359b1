"""Calls of OVER that nobody reads are dropped."""

from __future__ import annotations

from dataclasses import replace

from planner.logical import Filter, LogicalPlan, Names, Over, Project
from planner.passes.constant_folding import folded
from planner.rewrite import nodes, transform
from planner.scalar import Literal


def unread_over(plan: LogicalPlan) -> LogicalPlan:
    """Drops calls of OVER that no projection above names, and with the last one the operation.

    >>> from planner.examples import show
    >>> show("unread_over", "SELECT k FROM (SELECT k, SUM(v) OVER (ORDER BY ts) AS s FROM e)")
    Project k, over$0 AS s
      Over SUM(v) AS over$0 OVER (ORDER BY ts RANGE UNBOUNDED PRECEDING)
        AssignWatermark ts AS ts
    -->
    Project k
      AssignWatermark ts AS ts

    As in Flink this decides which rows there are: OVER drops late ones. There a call is part of the
    projection that has it, so it goes where projections alone stand between it and its readers. A
    filter right above it keeps it, so this pass runs before filters move.
    """
    if not any(isinstance(node, Over) for node in nodes(plan)):
        return plan
    return transform(plan, lambda n: _read(n, frozenset(n.schema.names)) if _stands_over(n) else n)


def _stands_over(node: LogicalPlan) -> bool:
    """True for a projection with nothing but projections between it and an OVER."""
    if not isinstance(node, Project):
        return False
    while isinstance(node, Project) or _keeps_all(node):
        (node,) = node.inputs
    return isinstance(node, Over)


def _keeps_all(node: LogicalPlan) -> bool:
    """True for WHERE TRUE, which filters nothing."""
    predicate = folded(node.predicate) if isinstance(node, Filter) else None
    return isinstance(predicate, Literal) and predicate.value is True


def _read(node: LogicalPlan, wanted: Names) -> LogicalPlan:
    """A projection with its columns `wanted` over those below with what it reads; an OVER without
    the calls that nobody wants."""
    if _keeps_all(node):
        return _read(node.inputs[0], wanted)
    if isinstance(node, Project):
        # One column stays, so that rows can be counted.
        kept = tuple(i for i in node.items if i[0] in wanted) or node.items[:1]
        node = node if len(kept) == len(node.items) else replace(node, items=kept)
        return node.with_inputs([_read(node.input, node.reads(frozenset(node.schema.names), 0))])
    if isinstance(node, Over):
        pruned = node.pruned(wanted)
        # Without a call the operation is none: its input takes its place.
        if not pruned.calls:
            return _read(node.input, wanted)
        return node if len(pruned.calls) == len(node.calls) else pruned
    return node
