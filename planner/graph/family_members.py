"""Members of families: chains of operations behind one filter that may run with others.

See `families.py`, which makes families of those whose operations are equal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from parser.types import BIGINT, BOOLEAN, Column, Schema
from planner.graph.physical import Edge, PhysicalNode, PhysicalPlan, route_to
from planner.graph.rule_sets import Items, PlannedRule, Route, RulesPlan
from planner.logical import LogicalPlan, Project, Sink
from planner.rewrite import references
from planner.scalar import Literal, digest_of

# The column with the member's number. No column of a user has such a name.
MEMBER: Final = "$member"
MEMBERS: Final = Schema((Column(MEMBER, BIGINT.with_nullable(False)),))
# The names of families, and of their nodes, begin so.
FAMILY: Final = "family:"
# Fewer chains than these run as they are.
LEAST: Final = 2
_ALWAYS: Final = Literal(True, BOOLEAN.with_nullable(False))


@dataclass(frozen=True)
class Member:
    """A chain: rows of the filter `rule` go through `nodes`, of which `state` names the one with
    state, to the rules of its `tail`, those of the node `behind` if there is one. `number`: the
    same wherever the state of that node is; `shape`: of all members of one family."""

    number: int
    shape: str
    rule: str
    state: str
    nodes: tuple[PhysicalNode, ...]
    tail: Mapping[str, PlannedRule]
    behind: PhysicalNode | None = None

    @property
    def place(self) -> int:
        """The place of the node with state; those in front may be shared with other chains."""
        return next(i for i, node in enumerate(self.nodes) if node.id == self.state)

    @property
    def jobs(self) -> frozenset[str]:
        """The jobs that share the state."""
        return self.nodes[self.place].jobs

    @property
    def own(self) -> tuple[PhysicalNode, ...]:
        """The nodes of the plan that nothing else has: from the one with state on."""
        own = self.nodes[self.place :]
        return own if self.behind is None else (*own, self.behind)


def number_of(node: str) -> int:
    """Returns the number of the member whose state belongs to a node: the same after a restart, and
    in each process."""
    return int.from_bytes(blake2b(node.encode(), digest_size=8).digest()) >> 1


class MemberSearch:
    """Finds members in a plan. `known`: those of a plan before, by the node with their state."""

    def __init__(self, plan: PhysicalPlan, known: Mapping[str, Member]) -> None:
        self.plan = plan
        self._known = known
        self._joined = {id(node) for m in self._known.values() for node in m.nodes}

    def members(
        self, head: str, rule: str, edges: Iterable[Edge], above: tuple[PhysicalNode, ...] = ()
    ) -> Iterator[Member]:
        """Yields the chains behind a filter that can be members. What is stateless in front of the
        state may be that of several."""
        for edge in edges:
            node = self.plan.nodes.get(edge.target)
            if node is None or not (id(node) in self._joined or _may_join(node)):
                continue
            chain = (*above, node)
            if not _has_state(node):
                yield from self.members(head, rule, node.edges[0], chain)
            elif (member := self._member(head, rule, chain)) is not None:
                yield member

    def _member(self, head: str, rule: str, chain: tuple[PhysicalNode, ...]) -> Member | None:
        """Returns the member that begins with these nodes, of which the last has state."""
        known = self._known.get(chain[-1].id)
        if known is not None and known.rule == rule:
            same = all(self.plan.nodes.get(n.id) is n for n in known.own)
            if same and [*map(id, known.nodes[: len(chain)])] == [*map(id, chain)]:
                return known
        state = chain[-1].id
        while (tail := _tail(self.plan, chain[-1], chain[-1].edges[0])) is None:
            edges = chain[-1].edges[0]
            node = self.plan.nodes.get(edges[0].target) if len(edges) == 1 else None
            # The state of two operations would have to be found by one number.
            if node is None or not _may_join(node) or _has_state(node):
                return None
            chain = (*chain, node)
        return Member(number_of(state), _shape(head, chain), rule, state, chain, *tail)


def alike(search: MemberSearch, head: PhysicalNode) -> Iterator[tuple[str, list[Member]]]:
    """Yields the families behind a set of rules: an id, and the members, the oldest first."""
    assert isinstance(head.plan, RulesPlan)
    by_shape: dict[str, list[Member]] = {}
    for rule, port in head.plan.onward.items():
        for member in search.members(head.id, rule, head.edges.get(port, ())):
            by_shape.setdefault(member.shape, []).append(member)
    for shape, members in sorted(by_shape.items()):
        numbers = {m.number for m in members}
        if len(members) >= LEAST and len(numbers) == len(members):
            members.sort(key=lambda m: (m.nodes[m.place].rank, m.state))
            yield FAMILY + shape, members


def _has_state(node: PhysicalNode) -> bool:
    return isinstance(node.plan, LogicalPlan) and node.plan.stateful


def _shape(head: str, nodes: Iterable[PhysicalNode]) -> str:
    """Returns what is equal for members of one family."""
    parts = [head]
    for node in nodes:
        parts += (*node.plan.identity, "|", *node.columns, str(node.buffers_epoch), "|")  # type: ignore[union-attr]
    return digest_of(*parts)


def _may_join(node: PhysicalNode) -> bool:
    return (
        isinstance(node.plan, LogicalPlan)
        and set(node.edges) == {0}
        and len(node.plan.inputs) == 1
        and MEMBER not in node.plan.inputs[0].schema
        and not node.watermarks_only
        and node.plan.with_member(MEMBERS) is not None
    )


def _tail(
    plan: PhysicalPlan, last: PhysicalNode, edges: tuple[Edge, ...]
) -> tuple[Mapping[str, PlannedRule], PhysicalNode | None] | None:
    """Returns the rules behind the last node of a chain, with the node that has them; None where
    something else is behind it."""
    only = plan.nodes.get(edges[0].target) if len(edges) == 1 else None
    if only is not None and isinstance(only.plan, RulesPlan):
        return None if only.plan.onward else (dict(only.plan.rules), only)
    if only is not None and isinstance(only.plan, Project) and _leads_to_sinks(plan, only):
        routes = _routes(plan, only.id, last.id, only.plan.items)
        return {last.id: PlannedRule(_ALWAYS, last.jobs, routes)}, only
    if all(edge.target in plan.sinks for edge in edges) and isinstance(last.plan, LogicalPlan):
        items: Items = references(last.plan.schema, last.plan.schema.names)
        routes = _routes(plan, last.id, last.id, items)
        return {last.id: PlannedRule(_ALWAYS, last.jobs, routes)}, None
    return None


def _leads_to_sinks(plan: PhysicalPlan, node: PhysicalNode) -> bool:
    return set(node.edges) == {0} and all(edge.target in plan.sinks for edge in node.edges[0])


def _routes(plan: PhysicalPlan, writer: str, rule: str, items: Items) -> tuple[Route, ...]:
    """Returns the routes from a node to the sinks that read it."""
    readers = (plan.graph.nodes[r].plan for r in plan.graph.nodes[writer].readers)
    routes = (route_to(rule, sink, items) for sink in readers if isinstance(sink, Sink))
    return tuple(sorted(routes, key=lambda r: (r.job, r.place)))
