"""Operators that run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from planner.graph.families import ALONE, FamilyPlan
from planner.graph.family_members import MemberRows
from planner.graph.family_parameters import WithParameters
from planner.graph.physical import PhysicalNode
from planner.logical import BinaryJoin, Filter, LogicalPlan
from sqlengine.executors.containment import PortBatch
from sqlengine.executors.node_state.node_context import NodeContext
from sqlengine.operators.base import Operator


@dataclass
class RunningFamilies:
    """The plan with families that runs, for all who have to know it."""

    run: FamilyPlan = ALONE


@dataclass
class RunningNode:
    """An operator with its node, which says where its output goes."""

    node: PhysicalNode
    operator: Operator
    context: NodeContext

    def in_turn(self, inputs: list[PortBatch]) -> list[PortBatch]:
        """Returns the parts of one source batch in the order in which a join gets them where
        nothing below it is shared with older jobs: what late rows find depends on it."""
        if len(inputs) == 2 and inputs[0][0] != inputs[1][0] and self._first_port is not None:
            return sorted(inputs, key=lambda part: part[0] != self._first_port)
        return inputs

    @cached_property
    def _first_port(self) -> int | None:
        plan = self.node.plan
        if not isinstance(plan, BinaryJoin):
            return None
        ranks: dict[str, int] = {}
        comes = [_producer(_own(source), ranks) for source in plan.inputs]
        return comes.index(min(comes))


def _producer(plan: LogicalPlan, ranks: dict[str, int]) -> int:
    """Returns the rank of the operator that gives the rows of a node: a set of rules, which is half
    way behind its input, or that of the node. `ranks`: of the inputs before, in a graph that has
    these alone."""
    _rank(plan, ranks)
    if isinstance(plan, Filter):
        return 2 * ranks[_own(plan.input).digest] + 1
    return 2 * ranks[plan.digest]


def _rank(plan: LogicalPlan, ranks: dict[str, int]) -> None:
    for source in map(_own, plan.inputs):
        _rank(source, ranks)
    ranks.setdefault(plan.digest, len(ranks))


def _own(plan: LogicalPlan) -> LogicalPlan:
    """Returns the operation of a job below what only its family has."""
    while isinstance(plan, MemberRows | WithParameters):
        (plan,) = plan.inputs
    return plan
