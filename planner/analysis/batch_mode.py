"""Batch mode: the same plans, each of whose operations tells its final result and nothing
before."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from planner.logical import (
    AssignWatermark,
    GroupAggregate,
    LogicalPlan,
    Materialize,
    Over,
    Sink,
    TemporalSort,
)
from planner.rewrite import transform

P = TypeVar("P", bound=LogicalPlan)


def use_final_results(plan: P) -> P:
    """The plan as batch mode runs it: behind what changes rows that it has told stands what waits
    for the end. So no operation takes anything back, and a sum of sums is that of the final
    ones."""
    changed = transform(plan, _final)
    assert isinstance(changed, type(plan))
    return changed


def _final(node: LogicalPlan) -> LogicalPlan:
    match node:
        case Sink():
            return node
        case (
            AssignWatermark() | Over()
        ):  # those of a view that a script declared before it changed the mode
            node = replace(node, at_end=True)
        case TemporalSort():
            node = Materialize(node.input, node.order, 1, None)
        case GroupAggregate(keys=(), aggregates=(_, *_)):
            node = replace(node, always=True)
    return Materialize(node) if node.changes else node
