"""Aggregates before an exchange: fewer rows cross it, and those behind it merge them.

    read, decode, filter -> aggregate of each batch -> exchange by key -> aggregate of all

The plan of the graph knows nothing of it, nor does the state behind the exchange, which is the same
with one phase and with two. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from planner.graph.physical import Edge, PhysicalNode, PhysicalPlan
from planner.graph.two_phases import phases_of
from planner.logical import LogicalPlan
from sqlengine.executors.spark.plan import stages_of
from sqlengine.executors.spark.worker import STATELESS

_LOCAL: Final = "local:"


def with_local_phases(plan: PhysicalPlan, strategy: str) -> PhysicalPlan:
    """Returns the plan with a node before each exchange of rows from a stateless stage that may
    aggregate them, by 'table.optimizer.agg-phase-strategy'."""
    stages = stages_of(plan)
    nodes: dict[str, PhysicalNode] = {}
    for source in (n for n in plan.in_order if stages[n.id] == STATELESS):
        for edge in source.outgoing:
            target = plan.nodes.get(edge.target)
            phases = None if target is None else phases_of(target.plan, strategy)
            if target is not None and phases is not None:
                before, behind = phases
                nodes[target.id] = replace(target, plan=behind)
                nodes[local_id(target.id)] = _local(target, before)
        nodes[source.id] = _redirected(source, nodes)
    return replace(plan, nodes=plan.nodes.changed(nodes))


def local_id(node: str) -> str:
    """Returns the id of what aggregates the rows for a node."""
    return f"{_LOCAL}{node}"


def owner_of(node: str) -> str:
    """Returns the node of the graph for which a node works: mostly itself."""
    return node.removeprefix(_LOCAL)


def _local(target: PhysicalNode, plan: LogicalPlan) -> PhysicalNode:
    edges = {0: (Edge(target.id),)}
    # Ranks have gaps, in which it fits right before its target.
    return PhysicalNode(
        local_id(target.id), plan, plan.schema.names, edges, target.jobs, target.rank - 1
    )


def _redirected(source: PhysicalNode, nodes: dict[str, PhysicalNode]) -> PhysicalNode:
    edges = {
        port: tuple(Edge(local_id(e.target)) if local_id(e.target) in nodes else e for e in of_port)
        for port, of_port in source.edges.items()
    }
    return source if edges == source.edges else replace(source, edges=edges)
