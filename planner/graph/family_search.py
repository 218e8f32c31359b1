"""Finds the members of families in a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from planner.graph.family_members import (
    ALWAYS,
    COMMON,
    EVERY_ROW,
    MEMBER,
    Entry,
    Member,
    has_state,
    number_of,
    numbers_of,
    operation_of,
)
from planner.graph.family_parameters import (
    WithoutLiterals,
    has_parameters,
    without_parameters,
)
from planner.graph.physical import PhysicalNode, PhysicalPlan, route_to, rules_id
from planner.graph.rule_sets import Items, PlannedRule, Route, RulesPlan
from planner.logical import Filter, LogicalPlan, Project, Sink
from planner.rewrite import nodes, references
from planner.scalar import digest_of

# Fewer members than these run as they are.
LEAST: Final = 2
_KINDS: Final = {EVERY_ROW: "every row", COMMON: "common rows"}


class MemberSearch:
    """Finds members in a plan."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self.plan = plan

    def members(self) -> Iterator[Member]:
        """Yields what can be a member of a family."""
        for node in self.plan.nodes.values():
            found = self.member(node) if has_state(node) else None
            if found is not None:
                yield found

    def member(self, state: PhysicalNode) -> Member | None:
        """Returns the member whose first operation with state is this node."""
        if not _may_join(state):
            return None
        inputs = range(len(self.plan.graph.nodes[state.id].inputs))
        entries = tuple(e for port in inputs if (e := self._entry(state, port)) is not None)
        if len(entries) < len(inputs):
            return None
        chain = [state]
        while (tail := _tail(self.plan, chain[-1])) is None:
            edges = chain[-1].edges[0]
            node = self.plan.nodes.get(edges[0].target) if len(edges) == 1 else None
            if node is None or not _may_follow(chain[-1], node):
                return None
            chain.append(node)
        plans = without_parameters(entries, chain)
        shape, number = _shape(entries, chain, plans), number_of(state.id)
        parameters = plans.literals, plans.counts
        return Member(number, shape, entries, tuple(chain), *parameters, *tail)

    def _entry(self, state: PhysicalNode, port: int) -> Entry | None:
        """Returns how rows come to an input; None if other state is on their way."""
        graph, found = self.plan.graph.nodes, list[PhysicalNode]()
        name = graph[state.id].inputs[port]
        if any(below.stateful for below in nodes(graph[name].plan)):
            return None
        if operation_of(state).is_common(port):
            return Entry(name, COMMON, ())
        while not isinstance(graph[name].plan, Filter):
            node = self.plan.nodes.get(name)
            if node is None or not _may_join(node) or len(graph[name].inputs) != 1:
                return _of_every_row(name, found)
            found.insert(0, node)
            (name,) = graph[name].inputs
        return Entry(rules_id(graph[name].inputs[0]), name, tuple(found))


def _of_every_row(name: str, nodes: list[PhysicalNode]) -> Entry:
    """Returns the entry for all rows of the node `name`, which come through `nodes`. What these do
    up to the first one with parameters is done once for all members."""
    while nodes and not has_parameters(operation_of(nodes[0])):
        name = nodes.pop(0).id
    return Entry(name, EVERY_ROW, tuple(nodes))


def _shape(entries: tuple[Entry, ...], chain: list[PhysicalNode], plans: WithoutLiterals) -> str:
    """Returns what is equal for members of one family."""
    parts: list[str] = []
    for entry, without in zip(entries, plans.inputs, strict=True):
        parts += (entry.head, _KINDS.get(entry.rule, "rows of a filter"))
        for node, plan in zip(entry.nodes, without, strict=True):
            parts += _operation(node, plan)
    for node, plan in zip(chain, plans.chain, strict=True):
        parts += _operation(node, plan)
    return digest_of(*parts)


def _operation(node: PhysicalNode, without: LogicalPlan) -> Iterator[str]:
    """Yields what makes two operations equal, with what they know of their inputs; `without` is the
    operation without parameters."""
    plan = operation_of(node)
    yield from (*without.identity, "|", *node.columns, str(node.buffers_epoch), "|")
    for source in plan.inputs:
        if source.changes:
            keys = sorted(map(sorted, source.upsert_keys))
            yield f"{source.changes} {keys} {source.after_only} {source.monotonicity}"
            yield str(sorted(source.nonnegative))


def _may_join(node: PhysicalNode) -> bool:
    plan = node.plan
    return (
        isinstance(plan, LogicalPlan)
        and set(node.edges) == {0}
        and len(plan.inputs) > 0
        and not any(MEMBER in source.schema for source in plan.inputs)
        and not node.watermarks_only
        and plan.with_member([numbers_of(port) for port in range(len(plan.inputs))]) is not None
    )


def _may_follow(last: PhysicalNode, node: PhysicalNode) -> bool:
    """True if an operation may be behind another one in a chain. A row that an outer join makes of
    its left side lacks the number of the right one, which state must not hold."""
    is_join = len(_numbered(operation_of(last))) > 1
    return (
        _may_join(node)
        and len(operation_of(node).inputs) == 1
        and not (is_join and has_state(node))
    )


def _numbered(plan: LogicalPlan) -> list[int]:
    """Returns the inputs whose rows have numbers."""
    return [port for port in range(len(plan.inputs)) if not plan.is_common(port)]


def _tail(
    plan: PhysicalPlan, last: PhysicalNode
) -> tuple[Mapping[str, PlannedRule], PhysicalNode | None] | None:
    """Returns the rules behind the last node of a chain, with the node that has them; None where
    something else is behind it."""
    edges = last.edges[0]
    only = plan.nodes.get(edges[0].target) if len(edges) == 1 else None
    if only is not None and isinstance(only.plan, RulesPlan):
        return None if only.plan.onward else (dict(only.plan.rules), only)
    if only is not None and isinstance(only.plan, Project) and _leads_to_sinks(plan, only):
        routes = _routes(plan, only.id, last.id, only.plan.items)
        return {last.id: PlannedRule(ALWAYS, last.jobs, routes)}, only
    if all(edge.target in plan.sinks for edge in edges) and isinstance(last.plan, LogicalPlan):
        items: Items = references(last.plan.schema, last.plan.schema.names)
        routes = _routes(plan, last.id, last.id, items)
        return {last.id: PlannedRule(ALWAYS, last.jobs, routes)}, None
    return None


def _leads_to_sinks(plan: PhysicalPlan, node: PhysicalNode) -> bool:
    return set(node.edges) == {0} and all(edge.target in plan.sinks for edge in node.edges[0])


def _routes(plan: PhysicalPlan, writer: str, rule: str, items: Items) -> tuple[Route, ...]:
    """Returns the routes from a node to the sinks that read it."""
    readers = (plan.graph.nodes[r].plan for r in plan.graph.nodes[writer].readers)
    routes = (route_to(rule, sink, items) for sink in readers if isinstance(sink, Sink))
    return tuple(sorted(routes, key=lambda r: (r.job, r.place)))
