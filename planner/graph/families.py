"""Families: operations of many jobs that are equal, over rows of different conditions, run as one.

    WHERE metric = 'm1' … GROUP BY device HAVING AVG(v) > 3        rows of rule 1 \\
    WHERE metric = 'm2' … GROUP BY device HAVING AVG(v) > 5        rows of rule 2  > one chain
    …                                                                              /

A *member* is a chain of operations of the plan behind one filter, one of them with state, up to
sinks. Members whose operations are equal but for what filters and projects their results (the
`tail`) run as one chain, over rows with a column more, which is part of every key: the member's
number. `with_families` makes such a plan of one in which each job has operators of its own. It is
made where operators run: all that names an operation of a job, its state above all, knows the plan
without families."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Final

from parser.types import BIGINT, BOOLEAN, Column, Schema
from planner.graph.chunked import Chunked
from planner.graph.physical import Edge, PhysicalNode, PhysicalPlan, route_to
from planner.graph.rule_sets import Items, PlannedRule, Route, RulesPlan, Target
from planner.logical import LogicalPlan, Project, Sink
from planner.rewrite import references
from planner.scalar import ColumnRef, Literal, digest_of, walk

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
    state, to the rules of its `tail`. `number`: the same wherever the state of that node is."""

    number: int
    rule: str
    state: str
    nodes: tuple[PhysicalNode, ...]
    tail: Mapping[str, PlannedRule]
    tail_id: str | None = None

    @property
    def jobs(self) -> frozenset[str]:
        """The jobs that share the chain."""
        return self.nodes[0].jobs


@dataclass(frozen=True)
class FamilyTail(RulesPlan):
    """The conditions and projections behind a family: `of` has the names of each member's rules, by
    number."""

    of: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Family:
    """Members that run as one, by number, the oldest first. `head`: the set of rules that has their
    filters; `state`: the node in which their state is."""

    id: str
    head: str
    state: str
    members: Mapping[int, Member]


@dataclass(frozen=True)
class FamilyPlan:
    """The `plan` to run, and the families in it by the node with their state. `member_of`: family
    and number, by the node that each member's state belongs to."""

    plan: PhysicalPlan = field(default_factory=PhysicalPlan)
    families: Mapping[str, Family] = field(default_factory=dict)
    member_of: Mapping[str, tuple[Family, int]] = field(default_factory=dict)
    nodes: Mapping[str, Family] = field(default_factory=dict)


# Nothing runs in families.
ALONE: Final = FamilyPlan()


def with_families(
    plan: PhysicalPlan, apart: Collection[str] = (), *, enabled: bool = True
) -> FamilyPlan:
    """Returns the plan with families instead of their members' operations, but for those that are
    to stay `apart`, by id. A plan that runs in parts has none."""
    if not enabled or plan.undistributed is not None:
        return FamilyPlan(plan)
    put: dict[str, PhysicalNode] = {}
    gone: list[str] = []
    families: list[Family] = []
    nodes: dict[str, Family] = {}
    for head in plan.nodes.values():
        if not isinstance(head.plan, RulesPlan) or len(head.plan.onward) < LEAST:
            continue
        for name, members in _alike(plan, head):
            if name in apart:
                continue
            state = f"{name}:{_place_of_state(members[0])}"
            family = Family(name, head.id, state, {m.number: m for m in members})
            made = _nodes_of(plan, family, members)
            head = _with_member_port(head, members, made[0].id)
            put |= {node.id: node for node in made}
            gone += (i for m in members for i in (*(n.id for n in m.nodes), m.tail_id) if i)
            families.append(family)
            nodes |= {node.id: family for node in made}
        put[head.id] = head
    if not families:
        return FamilyPlan(plan)
    return FamilyPlan(
        replace(plan, nodes=plan.nodes.changed(put, gone)),
        {family.state: family for family in families},
        {m.state: (family, n) for family in families for n, m in family.members.items()},
        nodes,
    )


def number_of(node: str) -> int:
    """Returns the number of the member whose state belongs to a node: the same after a restart, and
    in each process."""
    return int.from_bytes(blake2b(node.encode(), digest_size=8).digest()) >> 1


def place_in(family: Family, member: Member, place: str) -> str:
    """Returns where the text of a member's job has what is at `place` in that of the oldest member,
    from which the operations of the family are made."""
    oldest = next(iter(family.members.values()))
    for one, other in zip(oldest.nodes, member.nodes, strict=True):
        assert isinstance(one.plan, LogicalPlan)
        assert isinstance(other.plan, LogicalPlan)
        for mine, theirs in zip(one.plan.expressions, other.plan.expressions, strict=True):
            for part, same in zip(walk(mine), walk(theirs), strict=True):
                if part.position is not None and str(part.position) == place:
                    return str(same.position or "")
    return place


def family_of(node: str) -> str:
    """Returns the id of the family to which a node belongs, by its name."""
    return node.rpartition(":")[0]


# ---- members -------------------------------------------------------------------------------------


def _alike(plan: PhysicalPlan, head: PhysicalNode) -> Iterator[tuple[str, list[Member]]]:
    """Yields the families behind a set of rules: an id, and the members, the oldest first."""
    assert isinstance(head.plan, RulesPlan)
    by_shape: dict[str, list[Member]] = {}
    for rule, port in head.plan.onward.items():
        member = _member(plan, rule, head.edges.get(port, ()))
        if member is not None:
            by_shape.setdefault(_shape(head, member), []).append(member)
    for shape, members in sorted(by_shape.items()):
        numbers = {m.number for m in members}
        if len(members) >= LEAST and len(numbers) == len(members):
            members.sort(key=lambda m: (m.nodes[0].rank, m.state))
            yield FAMILY + shape, members


def _shape(head: PhysicalNode, member: Member) -> str:
    """Returns what is equal for members of one family."""
    parts = [head.id]
    for node in member.nodes:
        parts += (*node.plan.identity, "|", *node.columns, str(node.buffers_epoch), "|")  # type: ignore[union-attr]
    return digest_of(*parts)


def _member(plan: PhysicalPlan, rule: str, edges: Iterable[Edge]) -> Member | None:
    """Returns the chain behind a filter; None where it is none, or cannot be a member."""
    chain: list[PhysicalNode] = []
    states: list[str] = []
    while True:
        edges = tuple(edges)
        tail = _tail(plan, chain[-1], edges) if states else None
        if tail is not None:
            return Member(number_of(states[0]), rule, states[0], tuple(chain), *tail)
        node = plan.nodes.get(edges[0].target) if len(edges) == 1 else None
        if node is None or not _may_join(node):
            return None
        chain.append(node)
        if isinstance(node.plan, LogicalPlan) and node.plan.stateful:
            states.append(node.id)
        if len(states) > 1:  # the state of both would have to be found by one number
            return None
        edges = node.edges[0]


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
) -> tuple[Mapping[str, PlannedRule], str | None] | None:
    """Returns the rules behind the last node of a chain, with the id of the node that has them;
    None where something else is behind it."""
    only = plan.nodes.get(edges[0].target) if len(edges) == 1 else None
    if only is not None and isinstance(only.plan, RulesPlan):
        return None if only.plan.onward else (only.plan.rules, only.id)
    if only is not None and isinstance(only.plan, Project) and _leads_to_sinks(plan, only):
        routes = _routes(plan, only.id, last.id, only.plan.items)
        return {last.id: PlannedRule(_ALWAYS, last.jobs, routes)}, only.id
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


# ---- families ------------------------------------------------------------------------------------


def _place_of_state(member: Member) -> int:
    return next(i for i, node in enumerate(member.nodes) if node.id == member.state)


def _nodes_of(plan: PhysicalPlan, family: Family, members: list[Member]) -> list[PhysicalNode]:
    """Returns the chain of a family, with its tail at the end."""
    jobs = frozenset[str]().union(*(m.jobs for m in members))
    first, made = members[0], list[PhysicalNode]()
    source = _numbered_rows(first)
    for place, node in enumerate(first.nodes):
        assert isinstance(node.plan, LogicalPlan)
        source = node.plan.with_inputs([source]).with_member(MEMBERS) or source
        wanted = {*node.columns, MEMBER}
        following = f"{family.id}:{place + 1 if place + 1 < len(first.nodes) else 'tail'}"
        made.append(
            replace(
                node,
                id=f"{family.id}:{place}",
                plan=source,
                columns=tuple(n for n in source.schema.names if n in wanted),
                edges={0: (Edge(following),)},
                jobs=jobs,
            )
        )
    return [*made, _tail_of(plan, family, members, made[-1], jobs)]


def _numbered_rows(member: Member) -> LogicalPlan:
    """Returns the rows of a member's filter with their number, as operations above see them."""
    first = member.nodes[0].plan
    assert isinstance(first, LogicalPlan)
    (below,) = first.inputs
    number: tuple[str, Literal | ColumnRef] = (MEMBER, Literal(member.number, MEMBERS.type(MEMBER)))
    return Project(below, (number, *references(below.schema, below.schema.names)))


def _tail_of(
    plan: PhysicalPlan,
    family: Family,
    members: list[Member],
    last: PhysicalNode,
    jobs: frozenset[str],
) -> PhysicalNode:
    rules = {name: rule for m in members for name, rule in m.tail.items()}
    routes = [route.target for rule in rules.values() for route in rule.routes]
    counts = Counter(routes)
    targets = {name: Target(port, counts[name]) for port, name in enumerate(sorted(counts))}
    tail = FamilyTail(
        Chunked(rules),
        Chunked(targets),
        ports=len(targets),
        of={m.number: tuple(m.tail) for m in members},
    )
    edges = {target.port: (Edge(name),) for name, target in targets.items()}
    return PhysicalNode(f"{family.id}:tail", tail, last.columns, edges, jobs, last.rank + 1)


def _with_member_port(head: PhysicalNode, members: list[Member], target: str) -> PhysicalNode:
    """Returns the set of rules with one port for the rows of all members."""
    plan = head.plan
    assert isinstance(plan, RulesPlan)
    ports = {m.rule: plan.onward[m.rule] for m in members}
    port = min(ports.values())
    onward = {name: p for name, p in plan.onward.items() if name not in ports}
    edges = {p: e for p, e in head.edges.items() if p not in ports.values()}
    numbers = {m.rule: (port, m.number) for m in members}
    return replace(
        head,
        plan=replace(plan, onward=onward, members={**plan.members, **numbers}),
        edges={**edges, port: (Edge(target),)},
    )
