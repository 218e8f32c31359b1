"""An operator that runs."""

from __future__ import annotations

from dataclasses import dataclass

from planner.graph.physical import PhysicalNode
from sqlengine.executors.node_state.node_context import NodeContext
from sqlengine.operators.base import Operator


@dataclass
class RunningNode:
    """An operator with its node, which says where its output goes."""

    node: PhysicalNode
    operator: Operator
    context: NodeContext
