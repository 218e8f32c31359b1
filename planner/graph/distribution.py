"""Distributes a physical plan over subtasks, each with a share of the shards and key buckets.

Each subtask runs the whole plan over its shards. Wherever an operation needs all rows of a key
together, an exchange is inserted in front of it: a pair of `ShuffleOut` and `ShuffleIn`
(planner/logical/shuffle.py), through which rows go to the subtask that owns their bucket.

Nodes keep their ids and the versions that created them, so the state of a node is found again in
any distribution. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from parser.types import Schema
from planner.capabilities import CapabilitiesOf
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

# The ids of the scan of rows from other subtasks, and of the sink of rows to them.
INCOMING: Final = "shuffle:in"
OUTGOING: Final = "shuffle:out"
WATERMARK: Final = "CURRENT_WATERMARK"
_INPUT_PREFIX: Final = "in:"


@dataclass(frozen=True)
class SubtaskAssignment:
    """The share of subtask `index` of `parallelism`: every shard whose number leaves that
    remainder, and a contiguous range of the key buckets (as Flink's key groups)."""

    index: int = 0
    parallelism: int = 1

    def has(self, shard: int) -> bool:
        """True if the subtask reads the shard."""
        return shard % self.parallelism == self.index


# The assignment of a graph that is not distributed.
WHOLE: Final = SubtaskAssignment()


def distribute(plan: PhysicalPlan, assignment: SubtaskAssignment, topic: str) -> PhysicalPlan:
    """Returns the plan of one subtask, which exchanges rows with the others over `topic`.

    With a parallelism of 1 no exchange is inserted."""
    return _Distribution(plan, assignment, topic).finish()


def with_exchange_times(inherited: Mapping[str, str], plan: PhysicalPlan) -> dict[str, str]:
    """Adds to the nodes that take over state (new to old) the exchanges in front of them: their
    watermarks must not go back."""
    extended = dict(inherited)
    # Their watermark is state, too, under the id of the exchange.
    for exchange, (node, port) in exchange_inputs(plan.nodes).items():
        if node in inherited:
            extended[exchange] = exchange_input(inherited[node], port)
    return extended


def exchange_input(node: str, port: int) -> str:
    """Returns the id of the `ShuffleIn` node in front of an input of an operation."""
    return _shuffle_in(f"{node}.{port}")


def exchange_inputs(nodes: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Returns those of the nodes that are `ShuffleIn`, each with its operation and input port."""
    # "in:<node>.<port>": the port stands behind the last dot.
    targets = {
        n: n.removeprefix(_INPUT_PREFIX).rsplit(".", 1)
        for n in nodes
        if n.startswith(_INPUT_PREFIX)
    }
    return {n: (node, int(port)) for n, (node, port) in targets.items()}


def why_not_distributed(sink: Sink, capabilities_of: CapabilitiesOf) -> str | None:
    """Returns why a statement cannot run in subtasks, as the end of a sentence; None if it can."""
    pending: list[LogicalPlan] = [sink]
    while pending:
        node = pending.pop()
        if (why := _obstacle(node, capabilities_of)) is not None:
            return why
        pending += node.inputs
    return None


def _obstacle(node: LogicalPlan, capabilities_of: CapabilitiesOf) -> str | None:
    match node:
        case Sink(table=None):
            return "its rows go to whoever asks"
        case Sink(table=table) if table is not None:
            sink = capabilities_of(table).sink
            if sink is None or not sink.parallel:
                return (
                    f"table '{table.display}' is written by connector '{table.connector}', to which"
                    " one process alone writes"
                )
        case Scan(table=table):
            source = capabilities_of(table).source
            if source is None or not source.parallel:
                return (
                    f"table '{table.display}' is read by connector '{table.connector}', and only"
                    " topics have shards to share"
                )
        case LookupJoin():
            return "it looks rows up in a table, which every part would have to read whole"
    return None


def functions_of(plan: LogicalPlan | RulesPlan) -> frozenset[str]:
    """Returns the names of all functions that an operation calls."""
    if isinstance(plan, LogicalPlan):
        return plan.functions
    return frozenset[str]().union(*(rule.functions for rule in plan.rules.values()))


def is_single_bucket(plan: LogicalPlan | RulesPlan) -> bool:
    """True if an operation keeps state without keys: all of it belongs to bucket 0."""
    # No input asks for an exchange by keys.
    return isinstance(plan, Stateful) and not any(plan.exchange(i) for i in range(len(plan.inputs)))


class _Distribution:
    """Builds the plan of one subtask.

    `global_nodes`: operations that need the rows, or the watermark, of all subtasks.
    `local_nodes`: nodes whose watermark is that of this subtask only, as no exchange is below."""

    def __init__(self, plan: PhysicalPlan, assignment: SubtaskAssignment, topic: str) -> None:
        self.plan, self.assignment, self.topic = plan, assignment, topic
        self.nodes: dict[str, PhysicalNode] = {}
        self.exchange_ids: list[str] = []
        distributed = assignment.parallelism > 1
        self.global_nodes = {n.id for n in plan.nodes.values() if distributed and _is_global(n)}
        self.local_nodes = self._find_local_nodes()

    def finish(self) -> PhysicalPlan:
        # Nodes are visited producers first, so exchanges are numbered in a fixed order.
        for node in self.plan.in_order:
            edges = {
                port: tuple(self._edge(node, edge) for edge in outgoing)
                for port, outgoing in node.edges.items()
            }
            changed = self._subtask_node(node)
            # Untouched nodes stay the same objects, and are shared with the undistributed plan.
            if changed is not node or edges != node.edges:
                self._put(replace(changed, edges=edges))
        self._put_scan()
        return replace(
            self.plan, nodes=self.plan.nodes.changed(self.nodes), undistributed=self.plan
        )

    def _put_scan(self) -> None:
        """Adds the scan of rows from other subtasks, with an output port for each exchange."""
        ports = {port: (Edge(_shuffle_in(i)),) for port, i in enumerate(self.exchange_ids)}
        scan = ShuffleScan(shuffle_table(self.topic), exchange_ids=tuple(self.exchange_ids))
        self._put(PhysicalNode(INCOMING, scan, scan.schema.names, ports, frozenset(), -2))

    def _find_local_nodes(self) -> set[str]:
        """Returns the nodes with no exchange between them and a source."""
        local: set[str] = set()
        fed: set[str] = set()
        for node in self.plan.in_order:
            is_source = isinstance(node.plan, Scan | Values)
            if is_source or (node.id in fed and node.id not in self.global_nodes):
                local.add(node.id)
                fed |= {edge.target for edge in node.outgoing}
        return local

    def _subtask_node(self, node: PhysicalNode) -> PhysicalNode:
        """Returns the node as it runs in this subtask.

        Constant rows, and state without keys, are in subtask 0 alone: it owns bucket 0."""
        if isinstance(node.plan, LocalAggregate):
            # The local phase collects an epoch's rows before anything crosses the exchange.
            return replace(node, buffers_epoch=True)
        if self.assignment.index == 0:
            # Subtask 0 keeps everything that has no key.
            return node
        if isinstance(node.plan, Values):
            return replace(node, plan=replace(node.plan, rows=()))
        return replace(node, watermarks_only=True) if is_single_bucket(node.plan) else node

    def _edge(self, source: PhysicalNode, edge: Edge) -> Edge:
        """Returns the edge, or one to the exchange that replaces it.

        An operation without keys that only reads the watermark needs an exchange only where no
        other one below has aligned the watermarks already."""
        if edge.target not in self.global_nodes:
            return edge
        target = self.plan.nodes[edge.target]
        # Below an exchange watermarks are those of all subtasks already.
        if not isinstance(target.plan, Stateful) and source.id not in self.local_nodes:
            return edge
        exchange_id = f"{target.id}.{edge.target_port}"
        self.exchange_ids.append(exchange_id)
        self._put_exchange(exchange_id, source, target, edge.target_port)
        return Edge(_shuffle_out(exchange_id))

    def _put_exchange(
        self, exchange_id: str, source: PhysicalNode, target: PhysicalNode, port: int
    ) -> None:
        """Adds both ends of an exchange: rows for other subtasks leave by REMOTE, rows that stay
        go from one end to the other by LOCAL."""
        keys = target.plan.exchange(port) if isinstance(target.plan, Stateful) else None
        below, columns = _exchanged_rows(source, target, port)
        index, parallelism = self.assignment.index, self.assignment.parallelism
        out_id, in_id = _shuffle_out(exchange_id), _shuffle_in(exchange_id)
        out = ShuffleOut(below, exchange_id, keys, columns, index, parallelism)
        to_exchange = {REMOTE: (Edge(OUTGOING),), LOCAL: (Edge(in_id),)}
        names, jobs, rank = columns.names, target.jobs, target.rank
        # Ranks: both ends fit right before their target, as operations leave gaps.
        self._put(PhysicalNode(out_id, out, names, to_exchange, jobs, rank - 2, buffers_epoch=True))
        into = ShuffleIn(exchange_id, columns, parallelism)
        to_target = {0: (Edge(target.id, port),)}
        self._put(PhysicalNode(in_id, into, names, to_target, jobs, rank - 1, buffers_epoch=True))

    def _put(self, node: PhysicalNode) -> None:
        self.nodes[node.id] = node


def _is_global(node: PhysicalNode) -> bool:
    """True if an operation needs all rows of a key, or the watermark of all subtasks."""
    return isinstance(node.plan, Stateful) or WATERMARK in functions_of(node.plan)


def _shuffle_out(exchange_id: str) -> str:
    return f"out:{exchange_id}"


def _shuffle_in(exchange_id: str) -> str:
    return _INPUT_PREFIX + exchange_id


def _exchanged_rows(
    source: PhysicalNode, target: PhysicalNode, port: int
) -> tuple[LogicalPlan, Schema]:
    """Returns the plan that the rows come from, and those of its columns that the target reads."""
    if isinstance(target.plan, LogicalPlan):
        below = target.plan.inputs[port]
        every = frozenset(below.schema.names)
        needed = (
            every
            if target.plan.reads_all_columns
            else target.plan.needs(frozenset(target.columns), port)
        )
    else:
        assert isinstance(source.plan, LogicalPlan), "rules stand over an operation"
        below, needed = source.plan, frozenset(source.columns)
    return below, below.schema.select(
        tuple(n for n in below.schema.names if n in needed and n in source.columns)
    )
