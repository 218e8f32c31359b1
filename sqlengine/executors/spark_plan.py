"""Cuts a physical plan for Spark: what a task can do with the records of one source, and behind an exchange what needs
the rows of a key together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from parser.errors import UnsupportedError
from planner.logical import EmittingAggregate, LogicalPlan, Scan, Union, Values, WindowAggregate
from planner.physical import PhysicalNode, PhysicalPlan
from sqlengine.executors.spark_fragment import Fragment, Input
from sqlengine.executors.spark_worker import Exchange

_HINT = "leave out --on spark: the embedded executor runs it"


@dataclass(frozen=True)
class CutPlan:
    """`sources`: by id of a scan or of VALUES, all that is done with its rows before the exchange; `keyed`: the rest,
    whose input ports are those of `exchange`. `reach`: by port, the sources whose rows come there. `sinks`: by output
    port of all fragments alike, what is written where."""

    sources: Mapping[str, Fragment]
    keyed: Fragment | None
    exchange: Mapping[int, Exchange]
    reach: Mapping[int, tuple[str, ...]]
    sinks: Mapping[int, str]


def cut_plan(plan: PhysicalPlan) -> CutPlan:
    """UnsupportedError where rows would have to be exchanged twice."""
    keyed = _keyed(plan)
    crossings = _crossings(plan, keyed)
    sinks = {len(crossings) + i: sink for i, sink in enumerate(sorted(plan.sinks))}
    outputs = {at: port for port, at in enumerate(crossings)} | {(sink, 0): port for port, sink in sinks.items()}
    stateless = [n for n in plan.in_order if n.id not in keyed]
    sources = {n.id: _fragment(n, stateless, outputs) for n in stateless if isinstance(n.plan, Scan | Values)}
    reach = {port: tuple(s for s, f in sources.items() if _feeds(f, at)) for port, at in enumerate(crossings)}
    exchange = {port: _exchange(plan, at) for port, at in enumerate(crossings)}
    above = tuple(n for n in plan.in_order if n.id in keyed)
    return CutPlan(sources, Fragment(above, crossings, outputs) if above else None, exchange, reach, sinks)


def _keyed(plan: PhysicalPlan) -> set[str]:
    """Nodes that keep state by key, and all above them."""
    keyed: set[str] = set()
    for node in plan.in_order:
        stateful = isinstance(node.plan, LogicalPlan) and node.plan.stateful
        if stateful and (not isinstance(node.plan, WindowAggregate) or isinstance(node.plan, EmittingAggregate)):
            raise UnsupportedError(f"{type(node.plan).__name__} is not supported on Spark yet", hint=_HINT)
        if stateful and node.id in keyed:
            raise UnsupportedError(
                "a TUMBLE aggregate over the result of another is not supported on Spark yet",
                detail=node.plan.label if isinstance(node.plan, WindowAggregate) else None,
                hint=_HINT,
            )
        if stateful or node.id in keyed:
            keyed |= {node.id, *(e.target for e in node.outgoing if e.target in plan.nodes)}
    return keyed


def _crossings(plan: PhysicalPlan, keyed: set[str]) -> tuple[Input, ...]:
    """Inputs of keyed nodes that stateless ones feed."""
    edges = (e for n in plan.in_order if n.id not in keyed for e in n.outgoing if e.target in keyed)
    return tuple(dict.fromkeys((e.target, e.target_port) for e in edges))


def _fragment(source: PhysicalNode, stateless: Iterable[PhysicalNode], outputs: Mapping[Input, int]) -> Fragment:
    reached = {source.id}
    nodes = []
    for node in stateless:
        if node.id in reached:
            nodes.append(node)
            reached |= {e.target for e in node.outgoing}
    fed = {(e.target, e.target_port) for n in nodes for e in n.outgoing}
    unions = ((n.id, i) for n in nodes if isinstance(n.plan, Union) for i in range(len(n.plan.branches)))
    return Fragment(tuple(nodes), ((source.id, 0),), outputs, tuple(u for u in unions if u not in fed))


def _feeds(fragment: Fragment, at: Input) -> bool:
    return any((e.target, e.target_port) == at for n in fragment.nodes for e in n.outgoing)


def _exchange(plan: PhysicalPlan, at: Input) -> Exchange:
    node, port = at
    target = plan.nodes[node].plan
    if isinstance(target, WindowAggregate):
        return Exchange(target.keys, target.input.schema)
    # Rows that need no exchange but meet rows that did, in a union: one partition takes them as they are.
    assert isinstance(target, Union)
    return Exchange((), target.branches[port].schema)
