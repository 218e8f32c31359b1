"""The members of a plan, looked for only where it has changed."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from planner.graph.chunked import Chunked
from planner.graph.family_members import FAMILY, Member, has_state
from planner.graph.family_search import LEAST, MemberSearch
from planner.graph.physical import PhysicalPlan


@dataclass(frozen=True)
class FoundMembers:
    """The possible members of families in `plan`: `members` by the node with their first state, and
    by shape. `looked_at`: by such a node, found or not, the nodes on which the answer depends;
    `asked_by` is the same the other way round. `alike`: the members of each family, the oldest
    first, by id."""

    plan: PhysicalPlan = field(default_factory=PhysicalPlan)
    members: Chunked[Member] = field(default_factory=Chunked)
    looked_at: Chunked[frozenset[str]] = field(default_factory=Chunked)
    asked_by: Chunked[frozenset[str]] = field(default_factory=Chunked)
    by_shape: Chunked[Mapping[str, Member]] = field(default_factory=Chunked)
    alike: Mapping[str, tuple[Member, ...]] = field(default_factory=dict)


def find_members(plan: PhysicalPlan, before: FoundMembers) -> FoundMembers:
    """Returns the members of a plan; what does not depend on a node that has changed since `before`
    is taken over."""
    changed = plan.nodes.difference(before.plan.nodes)
    again = {n for n in changed if n in plan.nodes and has_state(plan.nodes[n])}
    again.update(state for n in changed for state in before.asked_by.get(n, ()))
    looked_at: dict[str, frozenset[str]] = {}
    found: dict[str, Member] = {}
    for state in again:
        names: set[str] = set()
        node = plan.nodes.get(state)
        if node is not None and has_state(node):
            # Whoever asks for a node that is not there depends on it, too: it may come.
            looking = replace(plan, nodes=plan.nodes.watched(names))
            member = MemberSearch(looking).member(node)
            looked_at[state] = frozenset({state, *names})
            if member is not None:
                found[state] = member
    gone = again - looked_at.keys()
    by_shape = _by_shape(before, again, found)
    return FoundMembers(
        plan,
        before.members.changed(found, again - found.keys()),
        before.looked_at.changed(looked_at, gone),
        before.asked_by.changed(dict(_asked_by(before, again, looked_at))),
        before.by_shape.changed(by_shape),
        _alike(before.alike, by_shape),
    )


def _asked_by(
    before: FoundMembers, again: AbstractSet[str], looked_at: Mapping[str, frozenset[str]]
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yields by whom each node was asked for, where that has changed."""
    none = frozenset[str]()
    touched: dict[str, set[str]] = {}
    for state in again:
        for name in before.looked_at.get(state, none) | looked_at.get(state, none):
            touched.setdefault(name, set()).add(state)
    for name, states in touched.items():
        others = before.asked_by.get(name, none) - states
        yield name, others | {s for s in states if name in looked_at.get(s, none)}


def _by_shape(
    before: FoundMembers, again: AbstractSet[str], found: Mapping[str, Member]
) -> dict[str, Mapping[str, Member]]:
    """Returns the members of each shape of which some have changed."""
    changed: dict[str, dict[str, Member]] = {}

    def members(shape: str) -> dict[str, Member]:
        if shape not in changed:
            changed[shape] = dict(before.by_shape.get(shape, {}))
        return changed[shape]

    for state in again:
        old = before.members.get(state)
        if old is not None:
            del members(old.shape)[state]
    for state, member in found.items():
        members(member.shape)[state] = member
    return dict(changed)


def _alike(
    before: Mapping[str, tuple[Member, ...]], changed: Mapping[str, Mapping[str, Member]]
) -> dict[str, tuple[Member, ...]]:
    """Returns the members of each family. Equal numbers, which are hashes, do not become one."""
    made = dict(before)
    for shape, by_state in changed.items():
        known = before.get(FAMILY + shape, ())
        members = [m for m in known if by_state.get(m.chain[0].id) is m]
        # Few come to many: these are in order already.
        old = set(map(id, members))
        for member in by_state.values():
            if id(member) not in old:
                insort(members, member, key=_age)
        numbers = {m.number for m in members}
        if len(members) >= LEAST and len(numbers) == len(members):
            made[FAMILY + shape] = tuple(members)
        else:
            made.pop(FAMILY + shape, None)
    return made


def _age(member: Member) -> tuple[int, str]:
    return member.chain[0].rank, member.chain[0].id
