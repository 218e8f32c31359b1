"""The graph: the merged plan of all jobs. Equal nodes are one node, counted by the jobs that use it.

A stateless node is known by what it computes (`id` from operation, parameters and the inputs' ids). A stateful node is
also known by its *birth*, the version that deployed it (constant rows, which come once, too): a later job shares every
stateless node below its state and gets state of its own, jobs deployed together share the state too, and a replaced job keeps its state where nothing
below it has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from planner.logical import STATEFUL, LogicalPlan, Scan, Sink, Union, Values
from planner.scalar import digest_of

# A later job has such nodes of its own: what they hold, or have given, belongs to the jobs that they came with.
_OWN = (*STATEFUL, Values)


@dataclass(frozen=True)
class GraphNode:
    """One operation of the graph. `plan` is the logical node, `inputs` are ids; `birth` is 0 for stateless nodes."""

    id: str
    plan: LogicalPlan
    inputs: tuple[str, ...]
    jobs: frozenset[str]
    birth: int = 0


@dataclass(frozen=True)
class Graph:
    """`nodes` by id, inputs before their consumers; `jobs`: the ids of the nodes that each job uses."""

    version: int = 0
    nodes: Mapping[str, GraphNode] = field(default_factory=dict)
    jobs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def consumers(self) -> dict[str, list[str]]:
        """Ids of the nodes that read each node."""
        result: dict[str, list[str]] = {node: [] for node in self.nodes}
        for node in self.nodes.values():
            for source in node.inputs:
                result[source].append(node.id)
        return result


@dataclass(frozen=True)
class Difference:
    """What a change did to a graph: ids of nodes that came and went, in the order of the graph."""

    added: tuple[str, ...]
    removed: tuple[str, ...]


# The stateful nodes (id and birth) that a job had, by job: what a checkpoint remembers of a graph.
Held: TypeAlias = Mapping[str, Sequence[tuple[str, int]]]


def merge(graph: Graph, changes: Mapping[str, Sequence[Sink] | None], held: Held | None = None) -> Graph:
    """The graph with some jobs added or replaced (their sinks) or removed (None), one version on. `held` names state
    that jobs had before a restart, and that they take up again.

    The cost follows the size of the change, not that of the graph, but for copies of three dictionaries."""
    merger = _Merger(graph, held or {})
    for job in changes:
        merger.leave(job)
    for job, sinks in changes.items():
        if sinks is not None:
            merger.enter(job, sinks)
    return merger.finish()


def stateful_nodes(graph: Graph, job: str) -> list[tuple[str, int]]:
    """(id, birth) of the job's stateful nodes."""
    return [(i, graph.nodes[i].birth) for i in graph.jobs.get(job, ()) if graph.nodes[i].birth]


def difference(old: Graph, new: Graph) -> Difference:
    """Nodes that only one of them has."""
    added = tuple(i for i in new.nodes if i not in old.nodes)
    return Difference(added, tuple(i for i in old.nodes if i not in new.nodes))


class _Merger:
    """The graph as mutable dictionaries while one change is made; `users` only of the nodes that it touches."""

    def __init__(self, graph: Graph, held: Held) -> None:
        self.old = graph
        self.held = held
        self.version = graph.version + 1
        self.nodes = dict(graph.nodes)
        self.jobs = dict(graph.jobs)
        self.users: dict[str, set[str]] = {}

    def leave(self, job: str) -> None:
        for node in self.jobs.pop(job, ()):
            self._users(node).discard(job)

    def enter(self, job: str, sinks: Iterable[Sink]) -> None:
        used: dict[str, None] = {}
        mine = {i: self.old.nodes[i].birth for i in self.old.jobs.get(job, ())} | dict(self.held.get(job, ()))
        for sink in sinks:
            self._add(sink, job, mine, used)
        self.jobs[job] = tuple(used)

    def finish(self) -> Graph:
        for node, users in self.users.items():
            if users:
                self.nodes[node] = replace(self.nodes[node], jobs=frozenset(users))
            else:
                del self.nodes[node]
        return Graph(self.version, self.nodes, self.jobs)

    def _users(self, node: str) -> set[str]:
        if node not in self.users:
            self.users[node] = set(self.nodes[node].jobs)
        return self.users[node]

    def _add(self, plan: LogicalPlan, job: str, mine: Mapping[str, int], used: dict[str, None]) -> str:
        inputs = tuple(self._add(i, job, mine, used) for i in plan.inputs)
        name, birth = self._identify(plan, inputs, mine)
        if name not in self.nodes:
            shared = with_inputs(plan, tuple(self.nodes[i].plan for i in inputs))
            self.nodes[name] = GraphNode(name, shared, inputs, frozenset(), birth)
        self._users(name).add(job)
        used[name] = None
        return name

    def _identify(self, plan: LogicalPlan, inputs: tuple[str, ...], mine: Mapping[str, int]) -> tuple[str, int]:
        parts = (type(plan).__name__, *plan.parameters, *inputs)
        if not isinstance(plan, _OWN):
            return digest_of(*parts), 0
        for birth in sorted(set(mine.values()) - {0}):
            name = digest_of(*parts, str(birth))
            if name in mine:
                return name, birth
        return digest_of(*parts, str(self.version)), self.version


def with_inputs(plan: LogicalPlan, inputs: tuple[LogicalPlan, ...]) -> LogicalPlan:
    """The node over other inputs; itself where they are the same objects."""
    if all(a is b for a, b in zip(plan.inputs, inputs, strict=True)):
        return plan
    if isinstance(plan, Union):
        return replace(plan, branches=inputs)
    assert not isinstance(plan, Scan | Values)
    return replace(plan, input=inputs[0])
