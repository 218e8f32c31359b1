"""The columns that are read of each node, maintained from one version of the graph to the next."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from planner.graph.chunked import Chunked
from planner.graph.merge import Graph, GraphNode
from planner.logical import Names

# The number of readers of each column that is read at all.
Reads = Mapping[str, int]


def required(
    graph: Graph, touched: Iterable[str], before: Graph, reads: Chunked[Reads]
) -> Chunked[Reads]:
    """The reads of each node, from those of the graph `before` and the nodes in which both differ.

    Columns that a node no longer reads are subtracted from its inputs, those that it now reads are
    added, and so on down to the scans: only nodes whose reads change are visited."""
    updated: dict[str, Reads] = {}
    # Negative ranks make a heap of the smallest pop the highest rank.
    queue = [(-_either(graph, before, name).rank, name) for name in touched]
    waiting = {name for _, name in queue}
    heapq.heapify(queue)
    while queue:  # consumers before their inputs
        _, name = heapq.heappop(queue)
        node, old = graph.nodes.get(name), before.nodes.get(name)
        # A node that reads an input at two ports counts once there.
        for source in dict.fromkeys(_either(graph, before, name).inputs):
            now = _reads(graph, node, source, updated.get(name, reads.get(name, {})))
            was = _reads(before, old, source, reads.get(name, {}))
            if now == was:
                continue
            counts = updated.get(source, reads.get(source, {}))
            # Only the difference is counted, so that the cost follows the change.
            updated[source] = _counted(counts, was - now, now - was)
            if source not in waiting:
                waiting.add(source)
                heapq.heappush(queue, (-_either(graph, before, source).rank, source))
    # Nodes that are gone have passed on to their inputs that they read nothing.
    gone = [name for name in waiting if name not in graph.nodes]
    return reads.changed({n: r for n, r in updated.items() if n in graph.nodes}, gone)


def _either(graph: Graph, before: Graph, name: str) -> GraphNode:
    return graph.nodes.get(name) or before.nodes[name]


def _counted(reads: Reads, less: Iterable[str], more: Iterable[str]) -> Reads:
    counts = dict(reads)
    for column in less:
        counts[column] -= 1
        if not counts[column]:
            del counts[column]
    for column in more:
        counts[column] = counts.get(column, 0) + 1
    return counts


def _reads(graph: Graph, node: GraphNode | None, source: str, outputs: Reads) -> Names:
    """The columns of `source` that the node reads, at all ports that `source` feeds; none where
    there is no node."""
    if node is None:
        return frozenset()
    plan = node.plan
    if plan.reads_all_columns:
        return frozenset(graph.nodes[source].plan.schema.names)
    ports = (port for port, name in enumerate(node.inputs) if name == source)
    return frozenset[str]().union(*(plan.needs(frozenset(outputs), port) for port in ports))
