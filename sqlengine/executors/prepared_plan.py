"""A plan that is prepared beside the stream, and the state with which its new nodes start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from planner.graph.families import FamilyPlan
from planner.graph.physical import PhysicalPlan
from sqlengine.executors.dataflow.births import Births
from sqlengine.operators.base import Operator


@dataclass
class PreparedPlan:
    """A plan prepared beside the stream, with the operators to add or replace. `run`: the plan with
    its families, which is what runs; `joined`: the nodes with state that come in these."""

    plan: PhysicalPlan
    run: FamilyPlan
    joined: list[str] = field(default_factory=list)
    operators: dict[str, Operator] = field(default_factory=dict)

    @property
    def new_nodes(self) -> list[str]:
        """The nodes of `plan` that come, or whose operator is replaced."""
        return [*(name for name in self.operators if name in self.plan.nodes), *self.joined]


@dataclass(frozen=True)
class InitialState:
    """The state with which new nodes of a plan start.

    `tables`: rows by full table name, and `created_at_version`: the graph version that created each
    node which they belong to. `inherited`: new nodes that take over the tables of an old one;
    `births`: what others begin with."""

    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    created_at_version: Mapping[str, int] = field(default_factory=dict)
    inherited: Mapping[str, str] = field(default_factory=dict)
    births: Births = field(default_factory=Births)
