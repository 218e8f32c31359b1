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
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from planner.graph.chunked import Chunked
from planner.graph.family_members import MEMBER, MEMBERS, Member, MemberSearch, alike
from planner.graph.physical import Edge, PhysicalNode, PhysicalPlan
from planner.graph.rule_sets import RulesPlan, Target
from planner.logical import LogicalPlan, Project
from planner.rewrite import references
from planner.scalar import ColumnRef, Literal, walk


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
    and number, by the node that each member's state belongs to; `nodes`: the family of each node of
    one."""

    plan: PhysicalPlan = field(default_factory=PhysicalPlan)
    families: Mapping[str, Family] = field(default_factory=dict)
    member_of: Mapping[str, tuple[Family, int]] = field(default_factory=dict)
    nodes: Mapping[str, Family] = field(default_factory=dict)


# Nothing runs in families.
ALONE: Final = FamilyPlan()


def with_families(
    plan: PhysicalPlan,
    before: FamilyPlan = ALONE,
    apart: Collection[str] = (),
    *,
    enabled: bool = True,
) -> FamilyPlan:
    """Returns the plan with families instead of their members' operations, but for those that are
    to stay `apart`, by id. A plan that runs in parts has none. What is equal in the plan `before`
    is taken over."""
    if not enabled or plan.undistributed is not None:
        return FamilyPlan(plan)
    put: dict[str, PhysicalNode] = {}
    gone: set[str] = set()
    families: list[Family] = []
    nodes: dict[str, Family] = {}
    search = MemberSearch(plan, {n: f.members[i] for n, (f, i) in before.member_of.items()})
    for head in plan.nodes.values():
        if not isinstance(head.plan, RulesPlan) or not head.plan.onward:
            continue
        found = [(n, members) for n, members in alike(search, head) if n not in apart]
        for name, members in found:
            family, made = _family(before, name, head, members)
            put |= {node.id: node for node in made}
            families.append(family)
            nodes |= {node.id: family for node in made}
        if found:
            own, left = _without(plan, [m for _, members in found for m in members])
            gone |= own
            put |= {**left, head.id: _with_member_ports(head, found, own)}
    if not families:
        return FamilyPlan(plan)
    return FamilyPlan(
        replace(plan, nodes=plan.nodes.changed(put, gone)),
        {family.state: family for family in families},
        {m.state: (family, n) for family in families for n, m in family.members.items()},
        nodes,
    )


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


def _family(
    before: FamilyPlan, name: str, head: PhysicalNode, members: list[Member]
) -> tuple[Family, list[PhysicalNode]]:
    """Returns a family with its nodes: those that it had, where no member has changed."""
    state = f"{name}:{members[0].place}"
    known = before.families.get(state)
    old = [] if known is None else list(known.members.values())
    if known is not None and [*map(id, old)] == [*map(id, members)]:
        return known, [before.plan.nodes[n] for n, f in before.nodes.items() if f is known]
    family = Family(name, head.id, state, {m.number: m for m in members})
    return family, _nodes_of(family, members)


def _nodes_of(family: Family, members: list[Member]) -> list[PhysicalNode]:
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
    return [*made, _tail_of(family, members, made[-1], jobs)]


def _numbered_rows(member: Member) -> LogicalPlan:
    """Returns the rows of a member's filter with their number, as operations above see them."""
    first = member.nodes[0].plan
    assert isinstance(first, LogicalPlan)
    (below,) = first.inputs
    number: tuple[str, Literal | ColumnRef] = (MEMBER, Literal(member.number, MEMBERS.type(MEMBER)))
    return Project(below, (number, *references(below.schema, below.schema.names)))


def _tail_of(
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


def _without(
    plan: PhysicalPlan, members: Iterable[Member]
) -> tuple[set[str], dict[str, PhysicalNode]]:
    """Returns the nodes that only members have, and those in front that others need, too, without
    the edges and jobs of these."""
    own = {node.id for member in members for node in member.own}
    shared = {n.id: n for m in members for n in m.nodes[: m.place]}
    left: dict[str, PhysicalNode] = {}
    for node in sorted(shared.values(), key=lambda n: -n.rank):  # consumers first
        edges = tuple(e for e in node.edges[0] if e.target not in own)
        if edges:
            readers = (left.get(e.target) or plan.nodes.get(e.target) for e in edges)
            jobs = frozenset[str]().union(*(n.jobs for n in readers if n is not None))
            jobs |= {e.job for e in edges if e.job is not None}
            left[node.id] = replace(node, edges={0: edges}, jobs=jobs)
        else:
            own.add(node.id)
    return own, left


def _with_member_ports(
    head: PhysicalNode, alike: Iterable[tuple[str, list[Member]]], gone: Collection[str]
) -> PhysicalNode:
    """Returns the set of rules with a port for the rows of each family, and without edges to what
    is gone."""
    plan = head.plan
    assert isinstance(plan, RulesPlan)
    onward, edges = dict(plan.onward), dict(head.edges)
    numbers: dict[str, tuple[tuple[int, int], ...]] = {}
    for port, (name, members) in enumerate(alike, plan.ports):
        for member in members:
            numbers[member.rule] = (*numbers.get(member.rule, ()), (port, member.number))
        edges[port] = (Edge(f"{name}:0"),)
    for rule in numbers:
        left = tuple(e for e in edges[onward[rule]] if e.target not in gone)
        if left:
            edges[onward[rule]] = left
        else:
            del edges[onward.pop(rule)]
    return replace(head, plan=replace(plan, onward=onward, members=numbers), edges=edges)
