"""Stages: the operators of a graph between two exchanges. Only the planner and Spark know them; in
one process an exchange is nothing, since one table holds all buckets."""

from __future__ import annotations

from dataclasses import dataclass

from planner.graph.merge import Graph


@dataclass(frozen=True)
class Stage:
    """`nodes` in order. `exchange`: the columns by whose hash rows come to this stage's buckets (()
    sends all to bucket 0); None where rows stay where their shard is read."""

    id: int
    nodes: tuple[str, ...]
    exchange: tuple[str, ...] | None


def cut(graph: Graph) -> tuple[Stage, ...]:
    """The stages of a graph, in order. A keyed operator begins a stage of its own with what stands
    above it."""
    stage_of: dict[str, int] = {}
    members: list[list[str]] = []
    exchanges: list[tuple[str, ...] | None] = []

    def begin(exchange: tuple[str, ...] | None) -> int:
        members.append([])
        exchanges.append(exchange)
        return len(members) - 1

    for node in graph.in_order:
        inputs = [stage_of[i] for i in node.inputs]
        exchange = node.plan.exchange(0) if node.inputs else None
        if exchange is not None:
            stage = begin(exchange)
        elif not inputs:
            stage = begin(None)
        else:
            stage = max(inputs)
        stage_of[node.id] = stage
        members[stage].append(node.id)
    return tuple(Stage(i, tuple(m), exchanges[i]) for i, m in enumerate(members))
