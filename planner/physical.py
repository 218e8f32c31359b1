"""From the graph to what runs: filters over one input become one set of rules, projections behind them become
templates, and every node learns which of its columns somebody reads. Pure: both executors start from this."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from planner.logical import (
    AssignWatermark,
    Filter,
    LogicalPlan,
    Project,
    Scan,
    Sink,
    TableFunction,
    Union,
    Values,
    WindowAggregate,
    WindowAssign,
)
from planner.merge import Graph, GraphNode
from planner.scalar import ColumnRef, Scalar, columns_of

Items: TypeAlias = tuple[tuple[str, Scalar], ...]


@dataclass(frozen=True)
class Route:
    """What one job does with the rows of one filter: `items` of them, into the sink `target`. Routes are ordered by
    (`job`, `place`): that is the order of their rows for one event."""

    job: str
    place: int
    rule: str
    items: Items
    target: str


@dataclass(frozen=True)
class RulesPlan:
    """All filters over one input. `predicates` by rule id (the filter's id in the graph); `routes` lead to sinks;
    `raw` names the rules whose rows go on, with the columns that they need, to the nodes given in `PhysicalNode.edges`
    by port: the port of `raw[i]` is `len(targets) + i`, that of sink `targets[i]` is `i`."""

    predicates: Mapping[str, Scalar]
    routes: tuple[Route, ...]
    targets: tuple[str, ...]
    raw: tuple[str, ...]
    owners: Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class Edge:
    """Batches of output `port` go to input `target_port` of `target`, a node or a sink. `job`: whose rows those for a
    sink are, where they are not those of rules, which count for themselves."""

    port: int
    target: str
    target_port: int = 0
    job: str | None = None


@dataclass(frozen=True)
class PhysicalNode:
    """One operator to run. `columns`: names that it gives, those somebody reads, in the order of its schema."""

    id: str
    plan: LogicalPlan | RulesPlan
    columns: tuple[str, ...]
    edges: tuple[Edge, ...]
    jobs: frozenset[str]


@dataclass(frozen=True)
class PhysicalSink:
    """One table that jobs write to, or the result of a query (`sink.table` None). `sink` is one of its writers."""

    id: str
    sink: Sink
    jobs: frozenset[str]


@dataclass(frozen=True)
class PhysicalPlan:
    """`nodes` in order: producers before consumers."""

    version: int = 0
    nodes: Mapping[str, PhysicalNode] = field(default_factory=dict)
    sinks: Mapping[str, PhysicalSink] = field(default_factory=dict)


def lower(graph: Graph) -> PhysicalPlan:
    """What runs for a graph. Ids of nodes are those of the graph; the set of rules over X is `rules:X`."""
    consumers = graph.consumers()
    required = required_columns(graph)
    sinks = _sinks(graph)
    nodes: dict[str, PhysicalNode] = {}
    for node in graph.nodes.values():
        if isinstance(node.plan, Sink | Filter) or _fused(graph, node, consumers):
            continue
        _put(nodes, _plain(graph, node, consumers, required))
        filters = [graph.nodes[c] for c in consumers[node.id] if isinstance(graph.nodes[c].plan, Filter)]
        if filters:
            _rules(graph, node, filters, consumers, required, nodes)
    return PhysicalPlan(graph.version, nodes, sinks)


def sink_id(sink: Sink) -> str:
    """Sinks of one table are one; each query's result is one of its own."""
    if sink.table is None:
        return f"result:{sink.job}:{sink.place}"
    return "sink:" + sink.target_digest


def rules_id(node: str) -> str:
    return f"rules:{node}"


def _put(nodes: dict[str, PhysicalNode], node: PhysicalNode) -> None:
    nodes[node.id] = node


def _sinks(graph: Graph) -> dict[str, PhysicalSink]:
    writers: dict[str, tuple[Sink, set[str]]] = {}
    for node in graph.nodes.values():
        if isinstance(node.plan, Sink):
            writers.setdefault(sink_id(node.plan), (node.plan, set()))[1].update(node.jobs)
    return {i: PhysicalSink(i, sink, frozenset(jobs)) for i, (sink, jobs) in writers.items()}


def _fused(graph: Graph, node: GraphNode, consumers: Mapping[str, list[str]]) -> bool:
    """A projection behind a filter that leads to sinks only is a template of the set of rules."""
    return (
        isinstance(node.plan, Project)
        and isinstance(graph.nodes[node.inputs[0]].plan, Filter)
        and all(isinstance(graph.nodes[c].plan, Sink) for c in consumers[node.id])
    )


def _plain(
    graph: Graph, node: GraphNode, consumers: Mapping[str, list[str]], required: Mapping[str, frozenset[str]]
) -> PhysicalNode:
    columns = _ordered(node.plan, required[node.id])
    return PhysicalNode(node.id, node.plan, columns, tuple(_edges(graph, node.id, 0, consumers)), node.jobs)


def _ordered(plan: LogicalPlan, names: frozenset[str]) -> tuple[str, ...]:
    return tuple(n for n in plan.schema.names if n in names)


def _edges(graph: Graph, source: str, port: int, consumers: Mapping[str, list[str]]) -> Iterable[Edge]:
    rules = False
    for name in dict.fromkeys(consumers[source]):
        plan = graph.nodes[name].plan
        if isinstance(plan, Filter):
            rules = True
        elif isinstance(plan, Sink):
            yield Edge(port, sink_id(plan), job=plan.job)
        else:
            yield from (Edge(port, name, i) for i, s in enumerate(graph.nodes[name].inputs) if s == source)
    if rules:
        yield Edge(port, rules_id(source))


def _rules(
    graph: Graph,
    source: GraphNode,
    filters: list[GraphNode],
    consumers: Mapping[str, list[str]],
    required: Mapping[str, frozenset[str]],
    nodes: dict[str, PhysicalNode],
) -> None:
    """Adds the set of rules over `source`, and again a set over each filter that has filters above it."""
    routes: list[Route] = []
    raw: list[str] = []
    for node in filters:
        routes += _routes(graph, node, consumers)
        if any(not _is_route(graph, c, consumers) for c in consumers[node.id]):
            raw.append(node.id)
    routes.sort(key=lambda r: (r.job, r.place, r.rule))
    targets = tuple(dict.fromkeys(r.target for r in routes))
    edges = [Edge(i, target) for i, target in enumerate(targets)]
    for i, name in enumerate(raw):
        routed = {c for c in consumers[name] if _is_route(graph, c, consumers)}
        onward = {name: [c for c in consumers[name] if c not in routed]}
        edges += _edges(graph, name, len(targets) + i, onward)
    predicates = {f.id: f.plan.predicate for f in filters if isinstance(f.plan, Filter)}
    owners = {f.id: f.jobs for f in filters}
    plan = RulesPlan(predicates, tuple(routes), targets, tuple(raw), owners)
    columns = _ordered(source.plan, required[source.id])
    jobs = frozenset().union(*(f.jobs for f in filters))
    _put(nodes, PhysicalNode(rules_id(source.id), plan, columns, tuple(edges), jobs))
    for node in filters:
        above = [graph.nodes[c] for c in consumers[node.id] if isinstance(graph.nodes[c].plan, Filter)]
        if above:
            _rules(graph, node, above, consumers, required, nodes)


def _is_route(graph: Graph, consumer: str, consumers: Mapping[str, list[str]]) -> bool:
    node = graph.nodes[consumer]
    return isinstance(node.plan, Sink) or _fused(graph, node, consumers)


def _routes(graph: Graph, rule: GraphNode, consumers: Mapping[str, list[str]]) -> Iterable[Route]:
    for name in consumers[rule.id]:
        node = graph.nodes[name]
        if isinstance(node.plan, Sink):
            items: Items = tuple((c.name, ColumnRef(c.name, c.type)) for c in rule.plan.schema)
            yield Route(node.plan.job, node.plan.place, rule.id, items, sink_id(node.plan))
        elif isinstance(node.plan, Project) and _fused(graph, node, consumers):
            for sink in consumers[name]:
                plan = graph.nodes[sink].plan
                assert isinstance(plan, Sink)
                yield Route(plan.job, plan.place, rule.id, node.plan.items, sink_id(plan))


def required_columns(graph: Graph) -> dict[str, frozenset[str]]:
    """For each node the names of its columns that some consumer reads."""
    needed: dict[str, frozenset[str]] = dict.fromkeys(graph.nodes, frozenset())
    for node in reversed(list(graph.nodes.values())):
        for source in node.inputs:
            read = _reads(node.plan, needed[node.id], graph.nodes[source].plan)
            if not read <= needed[source]:
                needed[source] |= read
    return needed


def _reads(plan: LogicalPlan, outputs: frozenset[str], source: LogicalPlan) -> frozenset[str]:
    """Columns of `source` that the node reads to give `outputs`."""
    match plan:
        case Project():
            return frozenset().union(*(columns_of(e) for n, e in plan.items if n in outputs))
        case Filter():
            return outputs | columns_of(plan.predicate)
        case TableFunction():
            return (outputs - {c.name for c in plan.columns}) | columns_of(plan.call)
        case AssignWatermark():
            return outputs | columns_of(plan.watermark.expression) | {plan.watermark.column}
        case WindowAssign():
            return (outputs - set(plan.names)) | {plan.window.time_column}
        case WindowAggregate():
            calls = (n for a in plan.aggregates for n in (a.argument, a.filter_column) if n is not None)
            return frozenset((*plan.keys, *plan.window_columns, *calls))
        case Union() | Sink():
            return frozenset(source.schema.names)
        case Scan() | Values():
            return frozenset()
