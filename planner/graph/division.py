"""A graph divided into parts: each is the whole graph over a share of the sources' shards and of
the buckets of state, and rows go to the part that owns their bucket wherever an operation needs the
rows of a key together. Pure.

Nodes keep their ids and births; what stands between two parts is added to the plan of each
(planner/logical/shuffle.py)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from parser.types import Schema
from planner.graph.physical import Edge, PhysicalNode, PhysicalPlan
from planner.graph.rule_sets import RulesPlan
from planner.logical import (
    LOCAL,
    REMOTE,
    LocalAggregate,
    LogicalPlan,
    LookupJoin,
    Scan,
    ShuffleIn,
    ShuffleOut,
    ShuffleScan,
    Sink,
    Stateful,
    Values,
    shuffle_table,
)

# The id of the scan of what other parts send, and of the sink of what goes to them.
INCOMING: Final = "shuffle:in"
OUTGOING: Final = "shuffle:out"
WATERMARK: Final = "CURRENT_WATERMARK"
_INTO: Final = "in:"
_SOURCES: Final = frozenset({"topic"})
_SINKS: Final = frozenset({"topic", "blackhole"})


@dataclass(frozen=True)
class SubtaskAssignment:
    """What part `index` of `parts` has: every shard of a topic whose number leaves that remainder,
    and its range of the buckets of state."""

    index: int = 0
    parts: int = 1

    def has(self, shard: int) -> bool:
        return shard % self.parts == self.index


# That of a graph that is not divided.
WHOLE: Final = SubtaskAssignment()


def divide(plan: PhysicalPlan, share: SubtaskAssignment, topic: str) -> PhysicalPlan:
    """The plan of one part. `topic`: over which parts exchange rows; one part alone has nobody to
    exchange them with."""
    return _Division(plan, share, topic).finish()


def with_times(inherited: Mapping[str, str], plan: PhysicalPlan) -> dict[str, str]:
    """Nodes that take up the state of others, and what holds how far the time is in front of them:
    it does not go back."""
    found = dict(inherited)
    for end, (node, port) in ends_among(plan.nodes).items():
        if node in inherited:
            found[end] = end_of(inherited[node], port)
    return found


def end_of(node: str, port: int) -> str:
    """The id of what gives an operation the rows of other parts for that input, where there is
    one."""
    return _into(f"{node}.{port}")


def ends_among(nodes: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Those of the nodes that give operations rows of other parts, each with the operation and its
    input."""
    ends = {n: n.removeprefix(_INTO).rsplit(".", 1) for n in nodes if n.startswith(_INTO)}
    return {end: (node, int(port)) for end, (node, port) in ends.items()}


def why_not_distributed(sink: Sink) -> str | None:
    """Why a statement cannot run in parts, in words that end a sentence; None where it can."""
    waiting: list[LogicalPlan] = [sink]
    while waiting:
        node = waiting.pop()
        if (why := _obstacle(node)) is not None:
            return why
        waiting += node.inputs
    return None


def _obstacle(node: LogicalPlan) -> str | None:
    match node:
        case Sink(table=None):
            return "its rows go to whoever asks"
        case Sink(table=table) if table is not None and table.connector not in _SINKS:
            return (
                f"table '{table.display}' is written by connector '{table.connector}', and only"
                " topics take rows of parts"
            )
        case Scan(table=table) if table.connector not in _SOURCES:
            return (
                f"table '{table.display}' is read by connector '{table.connector}', and only topics"
                " have shards to share"
            )
        case LookupJoin():
            return "it looks rows up in a table, which every part would have to read whole"
    return None


def functions_of(plan: LogicalPlan | RulesPlan) -> frozenset[str]:
    """Names of all functions that an operation calls."""
    if isinstance(plan, LogicalPlan):
        return plan.functions
    return frozenset[str]().union(*(rule.functions for rule in plan.rules.values()))


def without_keys(plan: LogicalPlan | RulesPlan) -> bool:
    """Whether an operation has all its rows in one bucket."""
    return isinstance(plan, Stateful) and not any(plan.exchange(i) for i in range(len(plan.inputs)))


class _Division:
    """One plan on its way. `gathers`: operations that need rows, or the time, of all parts;
    `alone`: nodes that know the rows and the time of this part only."""

    def __init__(self, plan: PhysicalPlan, share: SubtaskAssignment, topic: str) -> None:
        self.plan, self.share, self.topic = plan, share, topic
        self.nodes: dict[str, PhysicalNode] = {}
        self.crossings: list[str] = []
        self.gathers = {n.id for n in plan.nodes.values() if share.parts > 1 and _gathers(n.plan)}
        self.alone = self._with_time_of_one_part()

    def finish(self) -> PhysicalPlan:
        for node in self.plan.in_order:
            edges = {
                port: tuple(self._edge(node, e) for e in found)
                for port, found in node.edges.items()
            }
            own = self._own(node)
            if own is not node or edges != node.edges:
                self._put(replace(own, edges=edges))
        ports = {i: (Edge(_into(c)),) for i, c in enumerate(self.crossings)}
        scan = ShuffleScan(shuffle_table(self.topic), crossings=tuple(self.crossings))
        self._put(PhysicalNode(INCOMING, scan, scan.schema.names, ports, frozenset(), -2))
        return replace(self.plan, nodes=self.plan.nodes.changed(self.nodes), undivided=self.plan)

    def _with_time_of_one_part(self) -> set[str]:
        found: set[str] = set()
        fed: set[str] = set()
        for node in self.plan.in_order:
            source = isinstance(node.plan, Scan | Values)
            if source or (node.id in fed and node.id not in self.gathers):
                found.add(node.id)
                fed |= {e.target for e in node.outgoing}
        return found

    def _own(self, node: PhysicalNode) -> PhysicalNode:
        """What is there once, or only in the part with bucket 0, has no rows in the others."""
        if isinstance(node.plan, LocalAggregate):
            return replace(node, held=True)
        if self.share.index == 0:
            return node
        if isinstance(node.plan, Values):
            return replace(node, plan=replace(node.plan, rows=()))
        return replace(node, absent=True) if without_keys(node.plan) else node

    def _edge(self, source: PhysicalNode, edge: Edge) -> Edge:
        """The edge, or one to the crossing that takes its place."""
        if edge.target not in self.gathers:
            return edge
        target = self.plan.nodes[edge.target]
        if not isinstance(target.plan, Stateful) and source.id not in self.alone:
            return edge
        name = f"{target.id}.{edge.target_port}"
        self.crossings.append(name)
        self._put_ends(name, source, target, edge.target_port)
        return Edge(_out(name))

    def _put_ends(self, name: str, source: PhysicalNode, target: PhysicalNode, port: int) -> None:
        """Where rows of a crossing leave for other parts, and where they come from them."""
        keys = target.plan.exchange(port) if isinstance(target.plan, Stateful) else None
        below, columns = _crossing_rows(source, target, port)
        out = ShuffleOut(below, name, keys, columns, self.share.index, self.share.parts)
        away = {REMOTE: (Edge(OUTGOING),), LOCAL: (Edge(_into(name)),)}
        self._put(
            PhysicalNode(
                _out(name), out, columns.names, away, target.jobs, target.rank - 2, held=True
            )
        )
        into, on = ShuffleIn(name, columns, self.share.parts), {0: (Edge(target.id, port),)}
        self._put(
            PhysicalNode(
                _into(name), into, columns.names, on, target.jobs, target.rank - 1, held=True
            )
        )

    def _put(self, node: PhysicalNode) -> None:
        self.nodes[node.id] = node


def _gathers(plan: LogicalPlan | RulesPlan) -> bool:
    return isinstance(plan, Stateful) or WATERMARK in functions_of(plan)


def _out(crossing: str) -> str:
    return f"out:{crossing}"


def _into(crossing: str) -> str:
    return _INTO + crossing


def _crossing_rows(
    source: PhysicalNode, target: PhysicalNode, port: int
) -> tuple[LogicalPlan, Schema]:
    """What the rows come out of, and the columns of it that the target takes."""
    if isinstance(target.plan, LogicalPlan):
        below = target.plan.inputs[port]
        whole = frozenset(below.schema.names)
        wanted = whole if target.plan.whole else target.plan.needs(frozenset(target.columns), port)
    else:
        assert isinstance(source.plan, LogicalPlan), "rules stand over an operation"
        below, wanted = source.plan, frozenset(source.columns)
    return below, below.schema.select(
        tuple(n for n in below.schema.names if n in wanted and n in source.columns)
    )
