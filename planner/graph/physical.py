"""Physical plans: filters over one input become one rule set, projections behind them templates,
and every node keeps only the columns that are read. Both executors start from this."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from planner.graph.chunked import Chunked
from planner.graph.merge import Graph, GraphNode
from planner.graph.required_columns import Reads, required
from planner.graph.rule_sets import Items, PlannedRule, Route, RulesPlan
from planner.logical import Filter, LateRows, LogicalPlan, Project, Sink
from planner.scalar import ColumnRef

# Ranks of operations have gaps, with a rule set half way behind its input, so that the ends of a
# shuffle in a distributed graph fit right before their target (planner/graph/distribution.py).
_RANKS, _RULES = 6, 3


@dataclass(frozen=True)
class Edge:
    """Sends batches to input `target_port` of `target`, a node or a sink. `job`: the job whose rows
    go to a sink, which are `counted` for it or not; None for a rule set, which counts rows by
    itself."""

    target: str
    target_port: int = 0
    job: str | None = None
    counted: bool = True


@dataclass(frozen=True)
class PhysicalNode:
    """One operator to run.

    `columns`: the columns of its output that are read, in the order of its schema; `edges`: by
    output port; `rank`: producers come before consumers; `watermarks_only`: another subtask has all
    its rows, and only watermarks pass it here; `buffers_epoch`: it takes the input of an epoch as
    one batch at the epoch's end; `family`: it stands for operations of several jobs, those of the
    family of that id (`families.py`)."""

    id: str
    plan: LogicalPlan | RulesPlan
    columns: tuple[str, ...]
    edges: Mapping[int, tuple[Edge, ...]]
    jobs: frozenset[str]
    rank: int
    watermarks_only: bool = False
    buffers_epoch: bool = False
    family: str | None = None

    @property
    def outgoing(self) -> Iterator[Edge]:
        """The edges of all ports."""
        return (edge for edges in self.edges.values() for edge in edges)


@dataclass(frozen=True)
class PhysicalSink:
    """One table that jobs write to, or the result of a query (`sink.table` None). `sink` is one of
    its writers; `writers` are the jobs by the ids of their sinks in the graph."""

    id: str
    sink: Sink
    writers: Chunked[str]

    @property
    def jobs(self) -> frozenset[str]:
        return frozenset(self.writers.values())


@dataclass(frozen=True)
class PhysicalPlan:
    """The operators and sinks of a graph. `reads`: by node of the graph, the number of readers of
    each column; `derived`: how many nodes were derived anew for this plan; `undistributed`: the
    plan before it was distributed (planner/graph/distribution.py)."""

    graph: Graph = field(default_factory=Graph)
    nodes: Chunked[PhysicalNode] = field(default_factory=Chunked)
    sinks: Chunked[PhysicalSink] = field(default_factory=Chunked)
    reads: Chunked[Reads] = field(default_factory=Chunked)
    derived: int = field(default=0, compare=False)
    undistributed: PhysicalPlan | None = field(default=None, compare=False)

    @property
    def version(self) -> int:
        return self.graph.version

    @property
    def in_order(self) -> list[PhysicalNode]:
        """All nodes, producers before consumers."""
        return sorted(self.nodes.values(), key=lambda n: n.rank)


def lower(graph: Graph, previous: PhysicalPlan | None = None) -> PhysicalPlan:
    """The physical plan of a graph. Nodes keep their ids; the rule set over node X is `rules:X`.

    With the plan of a `previous` version only what has changed is derived; the result is equal to a
    plan made anew but for the numbers of ports."""
    old = previous or PhysicalPlan()
    # Distribution is done anew on each plan: start from what was before it.
    old = old.undistributed or old
    touched = graph.nodes.difference(old.graph.nodes)
    # A rank never changes within one history of graphs.
    if any(_moved(graph, old.graph, name) for name in touched):
        return lower(graph)  # two graphs of different origin
    return _Lowering(graph, old, touched).finish()


def sink_id(sink: Sink) -> str:
    """The id of a sink: one for all that write to a table, and one for each query's result."""
    if sink.table is None:
        return f"result:{sink.job}:{sink.place}"
    return "sink:" + sink.target_digest


def rules_id(node: str) -> str:
    return f"rules:{node}"


def source_of(rules: str) -> str:
    """The node over which a set of rules is, by the id of that."""
    return rules.removeprefix("rules:")


def _moved(graph: Graph, old: Graph, name: str) -> bool:
    return (
        name in graph.nodes and name in old.nodes and graph.nodes[name].rank != old.nodes[name].rank
    )


class _Lowering:
    """Derives one plan. `touched`: nodes that differ from the old graph; `dirty`: all nodes whose
    operator may have changed."""

    def __init__(self, graph: Graph, old: PhysicalPlan, touched: set[str]) -> None:
        self.graph, self.old, self.touched = graph, old, touched
        self.reads = required(graph, touched, old.graph, old.reads)
        # A node whose reads have changed has other columns, even if it did not change itself.
        self.dirty = touched | self.reads.difference(old.reads)
        for name in touched:
            self.dirty |= self._below(name)
        self.nodes: dict[str, PhysicalNode] = {}
        self.rules: dict[str, dict[str, PlannedRule | None]] = {}
        self.jobs = graph.jobs.difference(old.graph.jobs)

    def finish(self) -> PhysicalPlan:
        for name in sorted(self.dirty, key=lambda n: self._either(n).rank):
            self._derive(name, self._either(name))
        jobs = self._jobs_by_source()
        for source in {*self.rules, *self.dirty}:
            if source in self.graph.nodes and self.graph.nodes[source].filters:
                self.nodes[rules_id(source)] = self._rules(source, jobs.get(source, set()))
        # A node may have become fused, or lost its last filter.
        possible = (i for n in self.dirty for i in (n, rules_id(n)))
        gone = [i for i in possible if i in self.old.nodes and i not in self.nodes]
        # Equal nodes stay the same objects, which keeps the difference of two plans small.
        nodes = self.old.nodes.changed(
            {i: n for i, n in self.nodes.items() if n != self.old.nodes.get(i)}, gone
        )
        return PhysicalPlan(self.graph, nodes, self._sinks(), self.reads, len(self.dirty))

    def _either(self, name: str) -> GraphNode:
        return self.graph.nodes.get(name) or self.old.graph.nodes[name]

    def _below(self, name: str) -> set[str]:
        """The nodes whose form depends on this one: its inputs, and the filter below a projection
        among them."""
        inputs = set(self._either(name).inputs)
        # A projection may be fused into the rule set below it, depending on its readers.
        return inputs.union(
            *(n.inputs for n in map(self._either, inputs) if isinstance(n.plan, Project))
        )

    def _derive(self, name: str, node: GraphNode) -> None:
        if isinstance(node.plan, Filter):
            self.rules.setdefault(node.inputs[0], {})[name] = self._rule(name)
        elif (
            name in self.graph.nodes
            and not isinstance(node.plan, Sink)
            and not _fused(self.graph, node)
        ):
            ports = _ports(self.graph, node)
            self.nodes[name] = PhysicalNode(
                name, node.plan, self._columns(node), ports, node.jobs, _RANKS * node.rank
            )

    def _columns(self, node: GraphNode) -> tuple[str, ...]:
        reads = self.reads.get(node.id, {})
        return tuple(n for n in node.plan.schema.names if n in reads)

    def _rule(self, name: str) -> PlannedRule | None:
        """The filter as a rule; None if the graph no longer has it."""
        node = self.graph.nodes.get(name)
        if node is None:
            return None
        assert isinstance(node.plan, Filter)
        routes = sorted(_routes(self.graph, node), key=lambda r: (r.job, r.place))
        goes_on = bool(node.filters or _onward(self.graph, node))
        return PlannedRule(node.plan.predicate, node.jobs, tuple(routes), goes_on)

    def _rules(self, source: str, jobs: set[str]) -> PhysicalNode:
        """The rule set over a node; `jobs`: those that have changed and use a rule of it."""
        node, old = self.graph.nodes[source], self.old.nodes.get(rules_id(source))
        changes = self.rules.get(source, {})
        before = old.plan if old is not None else RulesPlan()
        assert isinstance(before, RulesPlan)
        # Only rules that differ are handed on: a rule set of thousands is not compared anew.
        different = {name: rule for name, rule in changes.items() if rule != before.rules.get(name)}
        plan = before.changed(different) if different else before
        edges = self._edges_of_rules(before, plan, changes, old.edges if old is not None else {})
        # Jobs that did not change keep their ownership; of those that did only the present ones.
        owners = jobs | (old.jobs - self.jobs if old is not None else frozenset())
        rank = _RANKS * node.rank + _RULES
        return PhysicalNode(
            rules_id(source), plan, self._columns(node), edges, frozenset(owners), rank
        )

    def _edges_of_rules(
        self,
        old: RulesPlan,
        new: RulesPlan,
        changes: Iterable[str],
        edges: Mapping[int, tuple[Edge, ...]],
    ) -> Mapping[int, tuple[Edge, ...]]:
        # Ports of targets that stay keep their numbers.
        result = dict(edges)
        for target in new.targets.difference(old.targets):
            if target in new.targets:
                result[new.targets[target].port] = (Edge(target),)
            else:
                del result[old.targets[target].port]
        for name in changes:
            if name in new.onward:
                node = self.graph.nodes[name]
                result[new.onward[name]] = _edges(self.graph, node, _onward(self.graph, node))
            elif name in old.onward:
                del result[old.onward[name]]
        return result

    def _jobs_by_source(self) -> dict[str, set[str]]:
        """The jobs that have changed and use a filter, by the filter's input."""
        jobs: dict[str, set[str]] = {}
        for job in self.jobs:
            for node in map(self.graph.nodes.__getitem__, self.graph.jobs.get(job, ())):
                if isinstance(node.plan, Filter):
                    jobs.setdefault(node.inputs[0], set()).add(job)
        return jobs

    def _sinks(self) -> Chunked[PhysicalSink]:
        put: dict[str, dict[str, Sink]] = {}
        gone: dict[str, list[str]] = {}
        # By rank, so that the first writer of a sink does not depend on the order of a set.
        for node in sorted(map(self._either, self.touched), key=lambda n: n.rank):
            if not isinstance(node.plan, Sink):
                continue
            if node.id in self.graph.nodes:
                put.setdefault(sink_id(node.plan), {})[node.id] = node.plan
            else:
                gone.setdefault(sink_id(node.plan), []).append(node.id)
        sinks = {
            name: self._sink(name, put.get(name, {}), gone.get(name, ()))
            for name in {**put, **gone}
        }
        written = {name: sink for name, sink in sinks.items() if sink.writers}
        return self.old.sinks.changed(written, sinks.keys() - written.keys())

    def _sink(self, name: str, put: Mapping[str, Sink], gone: Iterable[str]) -> PhysicalSink:
        old = self.old.sinks.get(name)
        writers = (old.writers if old else Chunked()).changed(
            {i: sink.job for i, sink in put.items()}, gone
        )
        # Any writer stands for the table: they agree in it.
        sink = old.sink if old else next(iter(put.values()))
        return PhysicalSink(name, sink, writers)


def _fused(graph: Graph, node: GraphNode) -> bool:
    """True for a projection between a filter and nothing but sinks: the rule set evaluates it."""
    return (
        isinstance(node.plan, Project)
        and isinstance(graph.nodes[node.inputs[0]].plan, Filter)
        and not node.filters
        and all(isinstance(graph.nodes[r].plan, Sink) for r in node.readers)
    )


def late_port(port: int) -> int:
    """The output port by which late rows of an input port leave an operation."""
    return 1 + port


def _ports(graph: Graph, node: GraphNode) -> Mapping[int, tuple[Edge, ...]]:
    """The edges of each output port: of results, and of late rows."""
    ports: dict[int, tuple[Edge, ...]] = {}
    late = {r: graph.nodes[r].plan for r in node.readers}
    results = _edges(graph, node, (r for r, plan in late.items() if not isinstance(plan, LateRows)))
    if results:
        ports[0] = results
    for name, plan in late.items():
        if isinstance(plan, LateRows):
            ports[late_port(plan.port)] = (Edge(name),)
    return ports


def _edges(graph: Graph, source: GraphNode, readers: Iterable[str]) -> tuple[Edge, ...]:
    """The edges to these readers, and to the rule set over the node if there is one."""
    edges: list[Edge] = []
    for name in readers:
        reader = graph.nodes[name]
        if isinstance(reader.plan, Sink):
            sink = reader.plan
            edges.append(Edge(sink_id(sink), job=sink.job, counted=sink.counted))
        else:
            # A self-join reads one source at two ports: an edge for each.
            edges += [Edge(name, i) for i, s in enumerate(reader.inputs) if s == source.id]
    if source.filters:
        edges.append(Edge(rules_id(source.id)))
    return tuple(edges)


def _onward(graph: Graph, rule: GraphNode) -> list[str]:
    """The readers of a filter to which no route leads."""
    readers = ((r, graph.nodes[r]) for r in rule.readers)
    return [r for r, node in readers if not (isinstance(node.plan, Sink) or _fused(graph, node))]


def _routes(graph: Graph, rule: GraphNode) -> Iterable[Route]:
    for node in map(graph.nodes.__getitem__, rule.readers):
        if isinstance(node.plan, Sink):
            items: Items = tuple((c.name, ColumnRef(c.name, c.type)) for c in rule.plan.schema)
            yield route_to(rule.id, node.plan, items)
        elif isinstance(node.plan, Project) and _fused(graph, node):
            for sink in map(graph.nodes.__getitem__, node.readers):
                assert isinstance(sink.plan, Sink)
                yield route_to(rule.id, sink.plan, node.plan.items)


def route_to(rule: str, sink: Sink, items: Items) -> Route:
    """The route of a rule's rows to a sink."""
    return Route(sink.job, sink.place, rule, items, sink_id(sink), sink.counted)
