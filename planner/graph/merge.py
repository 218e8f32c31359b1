"""The graph: the merged plan of all jobs. Equal nodes are one node, counted by the jobs that use
it.

A stateless node is known by what it computes (`id` from operation, parameters and the inputs' ids).
A stateful node is also known by its *birth*, the version that deployed it (constant rows, which
come once, too): a later job shares every stateless node below its state and gets state of its own,
jobs deployed together share the state too, and a replaced job keeps its state where nothing below
it has changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from planner.graph.chunked import Chunked
from planner.logical import Filter, LogicalPlan, Sink, Values
from planner.scalar import digest_of


@dataclass(frozen=True)
class GraphNode:
    """One operation of the graph. `plan` is the logical node, `inputs` are ids; `birth` is 0 for
    stateless nodes. `rank` is greater than that of all nodes that came before, its inputs among
    them. `readers` are the nodes that read it, in order of their ranks, but for filters: of them,
    which can be many thousands, `filters` is the number."""

    id: str
    plan: LogicalPlan
    inputs: tuple[str, ...]
    jobs: frozenset[str]
    birth: int = 0
    rank: int = 0
    readers: tuple[str, ...] = ()
    filters: int = 0


@dataclass(frozen=True)
class Graph:
    """`nodes` by id; `jobs`: the ids of the nodes that each job uses; `born`: how many nodes have
    come so far."""

    version: int = 0
    nodes: Chunked[GraphNode] = field(default_factory=Chunked)
    jobs: Chunked[tuple[str, ...]] = field(default_factory=Chunked)
    stateful: Chunked[tuple[tuple[str, int], ...]] = field(default_factory=Chunked)
    born: int = 0

    @property
    def in_order(self) -> list[GraphNode]:
        """All nodes, inputs before those that read them."""
        return sorted(self.nodes.values(), key=lambda n: n.rank)


# The stateful nodes (id and birth) that a job had, by job: what a checkpoint remembers of a graph.
Held: TypeAlias = Mapping[str, Sequence[tuple[str, int]]]


def merge(
    graph: Graph,
    changes: Mapping[str, Sequence[Sink] | None],
    held: Held | None = None,
    anew: Collection[str] = (),
) -> Graph:
    """The graph with some jobs added or replaced (their sinks) or removed (None), one version on.
    `held` names state that jobs had before a restart, and that they take up again; jobs that begin
    `anew` take up none of what they have.

    The cost follows the size of the change, not that of the graph."""
    merger = _Merger(graph, held or {}, anew)
    for job in changes:
        merger.leave(job)
    for job, sinks in changes.items():
        if sinks is not None:
            merger.enter(job, sinks)
    return merger.finish()


def stateful_nodes(graph: Graph, job: str) -> tuple[tuple[str, int], ...]:
    """(id, birth) of the job's stateful nodes."""
    return graph.stateful.get(job, ())


class _Draft:
    """A node while one change is made."""

    def __init__(self, node: GraphNode) -> None:
        self.node = node
        self.jobs = set(node.jobs)
        self.readers = dict.fromkeys(node.readers)
        self.filters = node.filters

    def read_by(self, reader: GraphNode, there: bool) -> None:
        if isinstance(reader.plan, Filter):
            self.filters += 1 if there else -1
        elif there:
            self.readers[reader.id] = None
        else:
            self.readers.pop(reader.id)

    def finished(self) -> GraphNode:
        return replace(
            self.node, jobs=frozenset(self.jobs), readers=tuple(self.readers), filters=self.filters
        )


class _Merger:
    """One change on its way; `drafts` only of the nodes that it touches."""

    def __init__(self, graph: Graph, held: Held, anew: Collection[str]) -> None:
        self.old = graph
        self.held = held
        self.anew = anew
        self.version = graph.version + 1
        self.born = graph.born
        self.jobs: dict[str, tuple[str, ...] | None] = {}
        self.drafts: dict[str, _Draft] = {}

    def leave(self, job: str) -> None:
        self.jobs[job] = None
        for node in self.old.jobs.get(job, ()):
            self._draft(node).jobs.discard(job)

    def enter(self, job: str, sinks: Iterable[Sink]) -> None:
        used: dict[str, None] = {}
        before = self.old.jobs.get(job, ()) if job not in self.anew else ()
        mine = {i: self.old.nodes[i].birth for i in before} | dict(self.held.get(job, ()))
        for sink in sinks:
            self._add(sink, job, mine, used)
        self.jobs[job] = tuple(used)

    def finish(self) -> Graph:
        unused = [name for name, draft in self.drafts.items() if not draft.jobs]
        for name in unused:
            node = self.drafts[name].node
            for source in dict.fromkeys(node.inputs):
                self._draft(source).read_by(node, there=False)
        nodes = {name: draft.finished() for name, draft in self.drafts.items() if draft.jobs}
        jobs = {job: used for job, used in self.jobs.items() if used is not None}
        births = {
            job: tuple((i, b) for i in used if (b := self.drafts[i].node.birth))
            for job, used in jobs.items()
        }
        return Graph(
            self.version,
            self.old.nodes.changed(nodes, unused),
            self.old.jobs.changed(jobs, self.jobs.keys() - jobs.keys()),
            self.old.stateful.changed(
                {job: held for job, held in births.items() if held}, self._stateless(births)
            ),
            self.born,
        )

    def _stateless(self, births: Mapping[str, tuple[tuple[str, int], ...]]) -> list[str]:
        """Jobs that have no stateful nodes any more."""
        return [job for job in self.jobs if job in self.old.stateful and not births.get(job)]

    def _draft(self, name: str) -> _Draft:
        if name not in self.drafts:
            self.drafts[name] = _Draft(self.old.nodes[name])
        return self.drafts[name]

    def _add(
        self, plan: LogicalPlan, job: str, mine: Mapping[str, int], used: dict[str, None]
    ) -> str:
        inputs = tuple(self._add(i, job, mine, used) for i in plan.inputs)
        name, birth = self._identify(plan, inputs, mine)
        if name not in self.drafts and name not in self.old.nodes:
            self._create(name, plan, inputs, birth)
        self._draft(name).jobs.add(job)
        used[name] = None
        return name

    def _create(self, name: str, plan: LogicalPlan, inputs: tuple[str, ...], birth: int) -> None:
        shared = plan.with_inputs([self._draft(i).node.plan for i in inputs])
        node = GraphNode(name, shared, inputs, frozenset(), birth, self.born)
        self.born += 1
        self.drafts[name] = _Draft(node)
        for source in dict.fromkeys(inputs):
            self._draft(source).read_by(node, there=True)

    def _identify(
        self, plan: LogicalPlan, inputs: tuple[str, ...], mine: Mapping[str, int]
    ) -> tuple[str, int]:
        parts = (*plan.identity, *inputs)
        if not _is_own(plan):
            return digest_of(*parts), 0
        for birth in sorted(set(mine.values()) - {0}):
            name = digest_of(*parts, str(birth))
            if name in mine:
                return name, birth
        return digest_of(*parts, str(self.version)), self.version


def _is_own(plan: LogicalPlan) -> bool:
    """Whether a later job has such a node of its own: what it holds, or has given, belongs to the
    jobs it came with."""
    return plan.stateful or isinstance(plan, Values)
