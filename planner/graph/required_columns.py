"""Which columns of a node somebody reads, kept up from one version of the graph to the next."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from planner.graph.chunked import Chunked
from planner.graph.merge import Graph, GraphNode
from planner.logical import Names

# By column of a node that somebody reads, how many nodes do.
Reads = Mapping[str, int]


def required(
    graph: Graph, touched: Iterable[str], before: Graph, reads: Chunked[Reads]
) -> Chunked[Reads]:
    """The reads of each node, from those of the graph `before` and the nodes in which the two
    differ: what a node no longer reads is taken off its inputs, what it now reads is added, and so
    on down to the scans."""
    made: dict[str, Reads] = {}
    queue = [(-_either(graph, before, name).rank, name) for name in touched]
    waiting = {name for _, name in queue}
    heapq.heapify(queue)
    while queue:  # consumers before their inputs
        _, name = heapq.heappop(queue)
        node, old = graph.nodes.get(name), before.nodes.get(name)
        for source in dict.fromkeys(_either(graph, before, name).inputs):
            now = _reads(graph, node, source, made.get(name, reads.get(name, {})))
            was = _reads(before, old, source, reads.get(name, {}))
            if now == was:
                continue
            made[source] = _moved(made.get(source, reads.get(source, {})), was - now, now - was)
            if source not in waiting:
                waiting.add(source)
                heapq.heappush(queue, (-_either(graph, before, source).rank, source))
    gone = [name for name in waiting if name not in graph.nodes]
    return reads.changed({n: r for n, r in made.items() if n in graph.nodes}, gone)


def _either(graph: Graph, before: Graph, name: str) -> GraphNode:
    return graph.nodes.get(name) or before.nodes[name]


def _moved(reads: Reads, less: Iterable[str], more: Iterable[str]) -> Reads:
    counts = dict(reads)
    for column in less:
        counts[column] -= 1
        if not counts[column]:
            del counts[column]
    for column in more:
        counts[column] = counts.get(column, 0) + 1
    return counts


def _reads(graph: Graph, node: GraphNode | None, source: str, outputs: Reads) -> Names:
    """Columns of `source` that the node reads, by all ports at which it does."""
    if node is None:
        return frozenset()
    plan = node.plan
    if plan.whole:
        return frozenset(graph.nodes[source].plan.schema.names)
    ports = (port for port, name in enumerate(node.inputs) if name == source)
    return frozenset[str]().union(*(plan.needs(frozenset(outputs), port) for port in ports))
