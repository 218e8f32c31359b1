"""The graph: the merged plan of all jobs. Equal nodes are one node, which knows the jobs that use
it.

A stateless node is identified by what it computes (a hash of operation, parameters and the inputs'
ids). The id of a stateful node also has the graph version that created it, and so has that of
constant rows, which are emitted once. So a later job shares every stateless node below its state
and gets state of its own, jobs deployed together share the state too, and a replaced job keeps its
state where nothing below it has changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from planner.graph.chunked import Chunked
from planner.logical import Filter, LogicalPlan, Sink, Values
from planner.scalar import digest_of


@dataclass(frozen=True)
class GraphNode:
    """One operation of the graph. `plan` is the logical node, `inputs` are ids.

    `created_at_version`: 0 for stateless nodes; `rank`: greater than that of all nodes created
    before, its inputs among them; `readers`: the nodes that read it, in order of their ranks, but
    for filters; `filters`: the number of these, which can be many thousands."""

    id: str
    plan: LogicalPlan
    inputs: tuple[str, ...]
    jobs: frozenset[str]
    created_at_version: int = 0
    rank: int = 0
    readers: tuple[str, ...] = ()
    filters: int = 0


@dataclass(frozen=True)
class Graph:
    """The merged plans of all jobs at one version.

    `nodes`: by id; `jobs`: the ids of the nodes that each job uses; `stateful`: the stateful ones
    of them, with the versions that created them; `created`: how many nodes have been created."""

    version: int = 0
    nodes: Chunked[GraphNode] = field(default_factory=Chunked)
    jobs: Chunked[tuple[str, ...]] = field(default_factory=Chunked)
    stateful: Chunked[tuple[tuple[str, int], ...]] = field(default_factory=Chunked)
    created: int = 0

    @property
    def in_order(self) -> list[GraphNode]:
        """All nodes, each behind its inputs."""
        return sorted(self.nodes.values(), key=lambda n: n.rank)


# The stateful nodes of each job (id, version that created it): what a checkpoint keeps of a graph.
StatefulNodes: TypeAlias = Mapping[str, Sequence[tuple[str, int]]]


def merge(
    graph: Graph,
    changes: Mapping[str, Sequence[Sink] | None],
    restored: StatefulNodes | None = None,
    fresh: Collection[str] = (),
) -> Graph:
    """The next version of the graph, with jobs added or replaced (sinks) or removed (None).

    `restored`: state that jobs had before a restart, and that they keep; `fresh`: jobs that keep no
    state of what they have. The cost follows the size of the change, not that of the graph."""
    merger = _Merger(graph, restored or {}, fresh)
    # All leave before any enters: a job that is replaced gives its nodes free first, and takes the
    # same ones again.
    for job in changes:
        merger.leave(job)
    for job, sinks in changes.items():
        if sinks is not None:
            merger.enter(job, sinks)
    return merger.finish()


def stateful_nodes(graph: Graph, job: str) -> tuple[tuple[str, int], ...]:
    """The job's stateful nodes: id, version that created it."""
    return graph.stateful.get(job, ())


class _Draft:
    """A mutable node, while one change is made."""

    def __init__(self, node: GraphNode) -> None:
        self.node = node
        self.jobs = set(node.jobs)
        self.readers = dict.fromkeys(node.readers)
        self.filters = node.filters

    def set_reader(self, reader: GraphNode, *, reads: bool) -> None:
        """Notes that a node reads this one, or that it no longer does."""
        if isinstance(reader.plan, Filter):
            self.filters += 1 if reads else -1
        elif reads:
            self.readers[reader.id] = None
        else:
            self.readers.pop(reader.id)

    def finished(self) -> GraphNode:
        return replace(
            self.node, jobs=frozenset(self.jobs), readers=tuple(self.readers), filters=self.filters
        )


class _Merger:
    """Builds the next version of a graph; `drafts`: the nodes that the change touches."""

    def __init__(self, graph: Graph, restored: StatefulNodes, fresh: Collection[str]) -> None:
        self.old = graph
        self.restored = restored
        self.fresh = fresh
        self.version = graph.version + 1
        self.created = graph.created
        self.jobs: dict[str, tuple[str, ...] | None] = {}
        self.drafts: dict[str, _Draft] = {}

    def leave(self, job: str) -> None:
        self.jobs[job] = None
        for node in self.old.jobs.get(job, ()):
            self._draft(node).jobs.discard(job)

    def enter(self, job: str, sinks: Iterable[Sink]) -> None:
        used: dict[str, None] = {}
        # A fresh job does not see its old nodes, and so gets new versions.
        before = self.old.jobs.get(job, ()) if job not in self.fresh else ()
        versions = {i: self.old.nodes[i].created_at_version for i in before}
        # After a restart the checkpoint says which versions a job's state has.
        versions |= dict(self.restored.get(job, ()))
        for sink in sinks:
            self._add(sink, job, versions, used)
        self.jobs[job] = tuple(used)

    def finish(self) -> Graph:
        unused = [name for name, draft in self.drafts.items() if not draft.jobs]
        for name in unused:
            node = self.drafts[name].node
            # A node that reads an input twice is one reader.
            for source in dict.fromkeys(node.inputs):
                self._draft(source).set_reader(node, reads=False)
        nodes = {name: draft.finished() for name, draft in self.drafts.items() if draft.jobs}
        jobs = {job: used for job, used in self.jobs.items() if used is not None}
        return Graph(
            self.version,
            self.old.nodes.changed(nodes, unused),
            self.old.jobs.changed(jobs, self.jobs.keys() - jobs.keys()),
            self._stateful(jobs),
            self.created,
        )

    def _stateful(self, jobs: Mapping[str, Iterable[str]]) -> Chunked[tuple[tuple[str, int], ...]]:
        # Version 0 marks nodes that any job shares.
        versions = {
            job: tuple((i, v) for i in used if (v := self.drafts[i].node.created_at_version))
            for job, used in jobs.items()
        }
        stateful = {job: nodes for job, nodes in versions.items() if nodes}
        no_longer = [j for j in self.jobs if j in self.old.stateful and j not in stateful]
        return self.old.stateful.changed(stateful, no_longer)

    def _draft(self, name: str) -> _Draft:
        if name not in self.drafts:
            self.drafts[name] = _Draft(self.old.nodes[name])
        return self.drafts[name]

    def _add(
        self, plan: LogicalPlan, job: str, versions: Mapping[str, int], used: dict[str, None]
    ) -> str:
        """The id of the job's node for this operation, created where there is none. `versions`: of
        the job's nodes so far, the graph versions that created them."""
        inputs = tuple(self._add(i, job, versions, used) for i in plan.inputs)
        name, version = self._identify(plan, inputs, versions)
        if name not in self.drafts and name not in self.old.nodes:
            self._create(name, plan, inputs, version)
        self._draft(name).jobs.add(job)
        used[name] = None
        return name

    def _create(self, name: str, plan: LogicalPlan, inputs: tuple[str, ...], version: int) -> None:
        # Inputs are those of the graph, so that equal subplans are one object.
        shared = plan.with_inputs([self._draft(i).node.plan for i in inputs])
        node = GraphNode(name, shared, inputs, frozenset(), version, self.created)
        self.created += 1
        self.drafts[name] = _Draft(node)
        for source in dict.fromkeys(inputs):
            self._draft(source).set_reader(node, reads=True)

    def _identify(
        self, plan: LogicalPlan, inputs: tuple[str, ...], versions: Mapping[str, int]
    ) -> tuple[str, int]:
        """The id of the job's node for this operation, and the version that created it or does so
        now."""
        parts = (*plan.identity, *inputs)
        if not _is_own(plan):
            return digest_of(*parts), 0
        # The oldest version first: a job keeps the state that it has had longest.
        for version in sorted(set(versions.values()) - {0}):
            name = digest_of(*parts, str(version))
            if name in versions:  # the job keeps the state that it has
                return name, version
        # No state to keep: the version makes the id one that no other job has.
        return digest_of(*parts, str(self.version)), self.version


def _is_own(plan: LogicalPlan) -> bool:
    """True if a later job gets such a node of its own: state, and rows that were emitted once,
    belong to the jobs that were deployed with the node."""
    return plan.stateful or isinstance(plan, Values)
