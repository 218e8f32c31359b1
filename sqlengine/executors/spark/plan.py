"""Cuts a physical plan into stages for Spark: one per source before the first exchange, and one
behind each exchange. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from planner.graph.distribution import WATERMARK, functions_of, is_single_bucket
from planner.graph.physical import PhysicalNode, PhysicalPlan
from planner.logical import (
    AskedScan,
    AssignWatermark,
    LogicalPlan,
    LookupJoin,
    Scan,
    Stateful,
    Union,
    Values,
)
from sqlengine.executors.spark.fragment import Fragment, NodeInput
from sqlengine.executors.spark.worker import STATELESS, TIMES, Exchange

_FIRST: Final = 1
NEW: Final[Mapping[str, int]] = {}


@dataclass(frozen=True)
class CutPlan:
    """A plan in stages.

    `sources`: the fragment before the first exchange, by the id of its scan or VALUES. `keyed`: the
    stages behind it, in order; their input ports are those of `exchange`. `sinks`: the sink of each
    output port, the same for all fragments."""

    sources: Mapping[str, Fragment]
    keyed: tuple[Fragment, ...]
    exchange: Mapping[int, Exchange]
    sinks: Mapping[int, str]

    @property
    def functions(self) -> frozenset[str]:
        """The names of all functions that its operations call."""
        nodes = (n for f in (*self.sources.values(), *self.keyed) for n in f.nodes)
        return frozenset[str]().union(*(functions_of(node.plan) for node in nodes))

    @property
    def asks(self) -> bool:
        """True if its operations ask tables for rows."""
        nodes = (n for f in (*self.sources.values(), *self.keyed) for n in f.nodes)
        return any(isinstance(node.plan, AskedScan) for node in nodes)


def cut_plan(plan: PhysicalPlan, created: Mapping[str, int] = NEW) -> CutPlan:
    """Starts a new stage at each operation that needs the rows of a key together. `created`: the
    graph version that created each node with tables, which their names have."""
    stages = stages_of(plan)
    crossings = _crossings(plan, stages)
    sinks = {len(crossings) + i: sink for i, sink in enumerate(sorted(plan.sinks))}
    outputs = {at: port for port, at in enumerate(crossings)} | {
        (sink, 0): port for port, sink in sinks.items()
    }
    stateless = [n for n in plan.in_order if stages[n.id] == STATELESS]
    shared = frozenset(name for name, sink in plan.sinks.items() if len(sink.writers) > 1)
    sources = {
        n.id: replace(_source(n, stateless, outputs), shared=shared)
        for n in stateless
        if isinstance(n.plan, Scan | Values)
    }
    clocks = clocks_of(plan)
    exchange = {
        port: _exchange(plan, at, source, stages, clocks)
        for port, (at, source) in enumerate(crossings.items())
    }
    last = max(stages.values(), default=STATELESS)
    scans = [n for n in stateless if isinstance(n.plan, Scan)]
    only = scans[0] if len(sources) == 1 and scans else None
    keyed = tuple(
        replace(
            _keyed(plan, stages, number, crossings, outputs),
            created=created,
            scan=only,
            shared=shared,
        )
        for number in range(1, last + 1)
    )
    return CutPlan(sources, keyed, exchange, sinks)


def stages_of(plan: PhysicalPlan) -> dict[str, int]:
    """Returns the stage of each node: the highest of its inputs, plus one where it has state.

    A task that reads a part of a source knows the watermark of that part alone. So a node that
    calls CURRENT_WATERMARK is behind an exchange, too."""
    stages: dict[str, int] = {}
    fed: dict[str, int] = {}
    for node in plan.in_order:
        stage = fed.get(node.id, STATELESS) + isinstance(node.plan, Stateful)
        stages[node.id] = max(stage, _FIRST) if WATERMARK in functions_of(node.plan) else stage
        for edge in node.outgoing:
            fed[edge.target] = max(fed.get(edge.target, STATELESS), stages[node.id])
    return stages


def _crossings(plan: PhysicalPlan, stages: Mapping[str, int]) -> dict[NodeInput, PhysicalNode]:
    """The inputs that a node of another stage feeds, with that node, in plan order of these."""
    edges = ((n, e) for n in plan.in_order for e in n.outgoing if e.target in plan.nodes)
    return {(e.target, e.target_port): n for n, e in edges if stages[e.target] != stages[n.id]}


def _source(
    source: PhysicalNode, stateless: Iterable[PhysicalNode], outputs: Mapping[NodeInput, int]
) -> Fragment:
    reached = {source.id}
    nodes = []
    for node in stateless:
        if node.id in reached:
            nodes.append(node)
            reached |= {e.target for e in node.outgoing}
    fed = {(e.target, e.target_port) for n in nodes for e in n.outgoing}
    unions = (
        (n.id, i) for n in nodes if isinstance(n.plan, Union) for i in range(len(n.plan.branches))
    )
    return Fragment(
        tuple(nodes),
        {0: (source.id, 0)},
        outputs,
        tuple(u for u in unions if u not in fed),
        scan=source,
    )


def _keyed(
    plan: PhysicalPlan,
    stages: Mapping[str, int],
    number: int,
    crossings: Iterable[NodeInput],
    outputs: Mapping[NodeInput, int],
) -> Fragment:
    nodes = tuple(n for n in plan.in_order if stages[n.id] == number)
    inputs = {port: at for port, at in enumerate(crossings) if stages[at[0]] == number}
    return Fragment(
        nodes, inputs, outputs, single=frozenset(n.id for n in nodes if is_single_bucket(n.plan))
    )


def _exchange(
    plan: PhysicalPlan,
    at: NodeInput,
    source: PhysicalNode,
    stages: Mapping[str, int],
    clocks: Mapping[str, frozenset[str]],
) -> Exchange:
    target, port = plan.nodes[at[0]].plan, at[1]
    everywhere = port == 1 and isinstance(target, LookupJoin) and target.shares_table
    if isinstance(target, LogicalPlan):
        # Rows without an exchange that meet others behind one, in a union, stay where they are.
        keys, schema = target.exchange(port), target.inputs[port].schema
        keys = () if everywhere else keys  # what comes is the name of a version
    else:
        assert isinstance(source.plan, LogicalPlan), "rules stand over an operation"
        keys, schema = None, source.plan.schema
    if stages[source.id] != STATELESS:
        return Exchange(keys, schema, source=stages[source.id], target=stages[at[0]])
    times = f"{TIMES}{at[0]}:{at[1]}"
    mine = tuple(sorted(clocks[source.id]))
    return Exchange(
        keys,
        schema,
        times,
        mine,
        idle_of(plan, mine),
        target=stages[at[0]],
        everywhere=everywhere,
    )


def idle_of(plan: PhysicalPlan, clocks: Iterable[str]) -> int:
    """Returns the idle timeout (ms) of rows from these clocks; -1 if they have several."""
    plans = (plan.nodes[clock].plan for clock in clocks)
    found = {p.idle_ms if isinstance(p, AssignWatermark) else 0 for p in plans}
    return found.pop() if len(found) == 1 else -1


def clocks_of(plan: PhysicalPlan) -> dict[str, frozenset[str]]:
    """Returns the nodes that give the rows of each node their watermarks: those that assign them,
    and the scans and VALUES that have none."""
    found: dict[str, frozenset[str]] = {}
    for node in plan.in_order:
        if node.id not in found or isinstance(node.plan, AssignWatermark):
            found[node.id] = frozenset({node.id})
        for edge in node.outgoing:
            found[edge.target] = found.get(edge.target, frozenset()) | found[node.id]
    return found
