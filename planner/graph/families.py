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

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from planner.graph.chunked import Chunked
from planner.graph.family_members import COMMON, Member, numbers_of, operation_of
from planner.graph.family_nodes import (
    Family,
    MadeNodes,
    family_of,
    first_node,
    nodes_of,
    rows_node,
)
from planner.graph.family_search import MemberSearch
from planner.graph.found_members import FoundMembers, find_members
from planner.graph.physical import Edge, PhysicalNode, PhysicalPlan
from planner.graph.rule_sets import RulesPlan
from planner.scalar import walk


class Seat(NamedTuple):
    """A member of a family, by its number, and the family's node that has one of its states."""

    family: Family
    number: int
    state: str


@dataclass(frozen=True)
class Placed:
    """The parts that a plan with families was made of, for the next one. `groups`: the members of
    each family; `made`: its nodes; `own`: nodes that are not in the plan, since only members have
    them; `users`: how many members rows go to through a node in front of their states; `left`:
    those of these nodes that others need, too; `heads`: the nodes whose rows members take."""

    groups: Mapping[str, tuple[Member, ...]] = field(default_factory=dict)
    made: Mapping[str, Sequence[PhysicalNode]] = field(default_factory=dict)
    own: AbstractSet[str] = frozenset()
    users: Mapping[str, int] = field(default_factory=dict)
    left: Mapping[str, PhysicalNode] = field(default_factory=dict)
    heads: Mapping[str, PhysicalNode] = field(default_factory=dict)


@dataclass(frozen=True)
class FamilyPlan:
    """The `plan` to run, and the families in it by the nodes with their states. `member_of`: where
    the state of each node is that is part of a member; `nodes`: the family of each node of one.
    `found` and `placed`: how it was made."""

    plan: PhysicalPlan = field(default_factory=PhysicalPlan)
    families: Mapping[str, Family] = field(default_factory=dict)
    member_of: Mapping[str, Seat] = field(default_factory=dict)
    nodes: Mapping[str, Family] = field(default_factory=dict)
    found: FoundMembers = field(default_factory=FoundMembers, compare=False, repr=False)
    placed: Placed = field(default_factory=Placed, compare=False, repr=False)


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
    is taken over: only what has changed since is looked at."""
    if not enabled or plan.undistributed is not None:
        return FamilyPlan(plan)
    found = find_members(plan, before.found)
    groups = {name: members for name, members in found.alike.items() if name not in apart}
    return _Placing(found, groups, before).plan()


def members_by_number(plan: PhysicalPlan) -> dict[int, Member]:
    """Returns all members that a plan has, in families or not."""
    return {member.number: member for member in MemberSearch(plan).members()}


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


class _Placing:
    """Puts families, those of `groups`, into the plan in which their members were `found`, at a
    cost that follows what has changed since `before`."""

    def __init__(
        self,
        found: FoundMembers,
        groups: Mapping[str, tuple[Member, ...]],
        before: FamilyPlan,
    ) -> None:
        self._source, self._found, self._groups, self._before = found.plan, found, groups, before
        old = before.placed
        self._gone = [n for n, members in old.groups.items() if groups.get(n) is not members]
        self._come = [n for n, members in groups.items() if old.groups.get(n) is not members]
        self._families, self._nodes = dict(before.families), dict(before.nodes)
        self._member_of = dict(before.member_of)
        self._made, self._own = dict(old.made), set(old.own)
        self._users, self._left = dict(old.users), dict(old.left)

    def plan(self) -> FamilyPlan:
        """Returns the plan with families."""
        if not self._groups:
            return FamilyPlan(self._source, found=self._found)
        for name in self._gone:
            self._remove(name)
        for name in self._come:
            self._add(name)
        self._divide()
        heads = self._heads()
        placed = Placed(self._groups, self._made, self._own, self._users, self._left, heads)
        plan = replace(self._source, nodes=self._run_nodes(placed))
        return FamilyPlan(plan, self._families, self._member_of, self._nodes, self._found, placed)

    def _remove(self, name: str) -> None:
        for node in self._made.pop(name):
            family = self._nodes.pop(node.id)
        for state in family.states:
            del self._families[state]
        for member in family.members.values():
            for state in member.states:
                del self._member_of[state]

    def _add(self, name: str) -> None:
        members = self._groups[name]
        family = family_of(name, members)
        old = self._before.placed
        before = (
            MadeNodes({m.number: m for m in old.groups[name]}, old.made[name])
            if name in old.groups
            else None
        )
        self._made[name] = made = nodes_of(self._source, family, before)
        self._families |= dict.fromkeys(family.states, family)
        self._nodes |= dict.fromkeys((node.id for node in made), family)
        for number, member in family.members.items():
            for here, state in zip(family.states, member.states, strict=True):
                self._member_of[state] = Seat(family, number, here)

    def _divide(self) -> None:
        """Follows the nodes of members that come and go: those that only members have, and those in
        front that others need, too, without the edges and jobs of members."""
        old = {id(m): m for n in self._gone for m in self._before.placed.groups[n]}
        new = {id(m): m for n in self._come for m in self._groups[n]}
        leaving = [m for key, m in old.items() if key not in new]
        joining = [m for key, m in new.items() if key not in old]
        self._own.difference_update(n.id for m in leaving for n in m.own)
        self._own.update(n.id for m in joining for n in m.own)
        touched: set[str] = set()
        for members, count in ((leaving, -1), (joining, 1)):
            for name in _in_front(members):
                self._users[name] = self._users.get(name, 0) + count
                touched.add(name)
        for name in touched:
            self._own.discard(name)
            self._left.pop(name, None)
            if not self._users[name]:
                del self._users[name]
        nodes = (self._source.nodes[name] for name in touched if name in self._users)
        for node in sorted(nodes, key=lambda n: -n.rank):  # consumers first
            self._divide_node(node)

    def _divide_node(self, node: PhysicalNode) -> None:
        edges = tuple(e for e in node.edges[0] if e.target not in self._own)
        if not edges:
            self._own.add(node.id)
            return
        nodes = self._source.nodes
        readers = (self._left.get(e.target) or nodes.get(e.target) for e in edges)
        jobs = frozenset[str]().union(*(n.jobs for n in readers if n is not None))
        jobs |= {e.job for e in edges if e.job is not None}
        self._left[node.id] = replace(node, edges={0: edges}, jobs=jobs)

    def _heads(self) -> dict[str, PhysicalNode]:
        """Returns the nodes whose rows members take, with edges to their families: sets of rules,
        and others whose rows all go on."""
        found = sorted(self._groups.items())
        names = dict.fromkeys(e.head for _, members in found for e in members[0].entries)
        old = self._before.placed
        changed = {e.head for n in self._gone for e in old.groups[n][0].entries}
        changed |= {e.head for n in self._come for e in self._groups[n][0].entries}
        heads: dict[str, PhysicalNode] = {}
        for name in names:
            head = self._left.get(name) or self._source.nodes[name]
            before = old.left.get(name) or self._before.found.plan.nodes.get(name)
            if head is before and name not in changed and name in old.heads:
                heads[name] = old.heads[name]
            else:
                heads[name] = _with_member_ports(head, found, self._own)
        return heads

    def _run_nodes(self, placed: Placed) -> Chunked[PhysicalNode]:
        """Returns the nodes that run: those of the plan before, but for what has changed."""
        old, nodes, before = self._before.placed, self._source.nodes, self._before
        put = {n.id: n for name in self._come for n in self._made[name]}
        put |= {n: node for n, node in self._left.items() if old.left.get(n) is not node}
        put |= placed.heads
        touched = nodes.difference(before.found.plan.nodes) | (self._own ^ old.own)
        touched.update(n.id for name in self._gone for n in old.made[name])
        touched.update(old.left.keys() - self._left.keys(), old.heads.keys() - placed.heads.keys())
        for name in touched - put.keys():
            if name in self._left:
                put[name] = self._left[name]
            elif name in nodes and name not in self._own:
                put[name] = nodes[name]
        # A plan that was made without families says nothing of what it was made of.
        base = before.plan.nodes if before.found.plan.nodes else Chunked[PhysicalNode]()
        return base.changed(put, touched - put.keys())


def _in_front(members: Iterable[Member]) -> Iterator[str]:
    """Yields the nodes in front of each member's state."""
    for member in members:
        yield from {n.id for entry in member.entries for n in entry.nodes}


def _with_member_ports(
    head: PhysicalNode,
    found: Sequence[tuple[str, tuple[Member, ...]]],
    gone: Collection[str],
) -> PhysicalNode:
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
