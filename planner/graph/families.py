"""Families: operations of many jobs that are equal, over rows of different conditions, run as one.

    WHERE metric = 'm1' … GROUP BY device HAVING AVG(v) > 3        rows of rule 1 \\
    WHERE metric = 'm2' … GROUP BY device HAVING AVG(v) > 5        rows of rule 2  > one chain
    …                                                                              /

A *member* is what one job has from its filters, or from what it reads, up to its sinks: an
operation with state, those without state in front of it, and a chain of others behind it. Members
whose operations are equal but for what filters and projects their results (the `tail`) run as one,
over rows with a column more, which is part of every key: the member's number. `with_families` makes
such a plan of one in which each job has operators of its own. It is made where operators run: all
that names an operation of a job, its state above all, knows the plan without families."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from planner.graph.family_members import COMMON, Member, numbers_of, operation_of
from planner.graph.family_nodes import (
    Family,
    family_of,
    first_node,
    nodes_of,
    rows_node,
    state_node,
)
from planner.graph.family_search import MemberSearch, alike
from planner.graph.physical import Edge, PhysicalNode, PhysicalPlan
from planner.graph.rule_sets import RulesPlan
from planner.scalar import walk

Found = Sequence[tuple[str, list[Member]]]


class Seat(NamedTuple):
    """A member of a family, by its number, and the family's node that has one of its states."""

    family: Family
    number: int
    state: str


@dataclass(frozen=True)
class FamilyPlan:
    """The `plan` to run, and the families in it by the nodes with their states. `member_of`: where
    the state of each node is that is part of a member; `nodes`: the family of each node of one."""

    plan: PhysicalPlan = field(default_factory=PhysicalPlan)
    families: Mapping[str, Family] = field(default_factory=dict)
    member_of: Mapping[str, Seat] = field(default_factory=dict)
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
    known = (m for family in before.families.values() for m in family.members.values())
    search = MemberSearch(plan, {member.states[0]: member for member in known})
    found = [(name, members) for name, members in alike(search) if name not in apart]
    if not found:
        return FamilyPlan(plan)
    families: dict[str, Family] = {}
    nodes: dict[str, Family] = {}
    put: dict[str, PhysicalNode] = {}
    for name, members in found:
        family, made = _family(plan, before, name, members)
        put |= {node.id: node for node in made}
        families |= dict.fromkeys(family.states, family)
        nodes |= {node.id: family for node in made}
    gone, left = _without(plan, [m for _, members in found for m in members])
    put |= left
    for head in _heads(plan, found):
        put[head.id] = _with_member_ports(put.get(head.id, head), found, gone)
    return FamilyPlan(
        replace(plan, nodes=plan.nodes.changed(put, gone)), families, _seats(families), nodes
    )


def members_by_number(plan: PhysicalPlan) -> dict[int, Member]:
    """Returns all members that a plan has, in families or not."""
    return {member.number: member for member in MemberSearch(plan, {}).members()}


def place_in(family: Family, member: Member, place: str) -> str:
    """Returns where the text of a member's job has what is at `place` in that of the oldest member,
    from which the operations of the family are made."""
    oldest = next(iter(family.members.values()))
    for one, other in zip(oldest.nodes, member.nodes, strict=True):
        expressions = zip(
            operation_of(one).expressions, operation_of(other).expressions, strict=True
        )
        for mine, theirs in expressions:
            for part, same in zip(walk(mine), walk(theirs), strict=True):
                if part.position is not None and str(part.position) == place:
                    return str(same.position or "")
    return place


def _seats(families: Mapping[str, Family]) -> dict[str, Seat]:
    return {
        state: Seat(family, number, node)
        for node, family in families.items()
        for number, member in family.members.items()
        for here, state in zip(family.states, member.states, strict=True)
        if here == node
    }


def _family(
    plan: PhysicalPlan, before: FamilyPlan, name: str, members: list[Member]
) -> tuple[Family, list[PhysicalNode]]:
    """Returns a family with its nodes: those that it had, where no member has changed."""
    known = before.families.get(state_node(name, 0))
    old = [] if known is None else list(known.members.values())
    if known is not None and [*map(id, old)] == [*map(id, members)]:
        return known, [before.plan.nodes[n] for n, f in before.nodes.items() if f is known]
    family = family_of(name, members)
    return family, nodes_of(plan, family)


def _without(
    plan: PhysicalPlan, members: Iterable[Member]
) -> tuple[set[str], dict[str, PhysicalNode]]:
    """Returns the nodes that only members have, and those in front that others need, too, without
    the edges and jobs of these."""
    own = {node.id for member in members for node in member.own}
    shared = {n.id: n for m in members for entry in m.entries for n in entry.nodes}
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


def _heads(plan: PhysicalPlan, found: Found) -> list[PhysicalNode]:
    """Returns the nodes whose rows members take: sets of rules, and others whose rows all go on."""
    names = dict.fromkeys(e.head for _, ms in found for m in ms for e in m.entries)
    return [plan.nodes[name] for name in names]


def _with_member_ports(head: PhysicalNode, found: Found, gone: Collection[str]) -> PhysicalNode:
    """Returns a node that members read, with edges to their families, and without those to what is
    gone. A set of rules has a port for the rows of each family."""
    of_head = [
        (name, port, members)
        for name, members in found
        for port, entry in enumerate(members[0].entries)
        if entry.head == head.id
    ]
    plan = head.plan
    if not isinstance(plan, RulesPlan):
        left = [e for e in head.edges[0] if e.target not in gone]
        rows = (
            Edge(*first_node(name, members[0], port))
            if members[0].entries[port].rule == COMMON
            else Edge(rows_node(name, port))
            for name, port, members in of_head
        )
        return replace(head, edges={**head.edges, 0: (*left, *rows)})
    onward, edges = dict(plan.onward), dict(head.edges)
    places: dict[str, tuple[tuple[int, int], ...]] = {}
    numbers: dict[int, str] = {}
    for out, (name, port, members) in enumerate(of_head, plan.ports):
        for member in members:
            rule = member.entries[port].rule
            places[rule] = (*places.get(rule, ()), (out, member.number))
        (numbers[out],) = numbers_of(port).names
        edges[out] = (Edge(*first_node(name, members[0], port)),)
    for rule in places:
        left = [e for e in edges[onward[rule]] if e.target not in gone]
        if left:
            edges[onward[rule]] = tuple(left)
        else:
            del edges[onward.pop(rule)]
    rules = replace(plan, onward=onward, members=places, numbers=numbers)
    return replace(head, plan=rules, edges=edges)
