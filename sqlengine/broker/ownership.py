"""Members of groups, their assigned shards, and the fences that commits and appends carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TypeAlias

Place: TypeAlias = tuple[str, int]  # a topic and one of its shards
SESSION_MS = 30_000


@dataclass(frozen=True, slots=True)
class Fence:
    """Proves that its holder is `member` of `group`, and knows the assignment of `generation`.

    An append with it is rejected once one of `claims` belongs to another member, or was assigned to
    the same member again since; without claims, once the member has left.
    """

    group: str
    member: str
    generation: int
    claims: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Membership:
    """The assignment of a member: by topic its shards, ascending.

    The generation grows with every change of the group. `since` has, for each shard, the generation
    in which the member got it: a holder of an earlier one has lost the shard meanwhile.
    """

    group: str
    member: str
    generation: int
    shards: Mapping[str, tuple[int, ...]]
    since: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def fence(self, topic: str, *shards: int) -> Fence:
        """Returns the proof of owning `shards` of `topic`."""
        return Fence(
            self.group, self.member, self.generation, tuple((topic, shard) for shard in shards)
        )


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """Describes a member; `silent_ms` is the time since its last heartbeat."""

    name: str
    topics: tuple[str, ...]
    shards: Mapping[str, tuple[int, ...]]
    session_ms: int
    silent_ms: int


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """Describes a group: its members, and the committed offsets by topic and shard. A group without
    members may have offsets."""

    name: str
    generation: int
    members: tuple[MemberInfo, ...]
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


def assign_shards(
    places: Sequence[Place], topics_of: Mapping[str, AbstractSet[str]], owners: Mapping[Place, str]
) -> dict[Place, str]:
    """Assigns each of `places` to a member that reads its topic: balanced, with few changes.

    Sticky assignment, as of Kafka's StickyAssignor; `topics_of` are the topics by member.

    The result depends on nothing but the arguments, whatever their order.

    >>> before = {("t", 0): "a", ("t", 1): "a", ("t", 2): "a"}
    >>> assign_shards([("t", 0), ("t", 1), ("t", 2)], {"a": {"t"}, "b": {"t"}}, before)
    {('t', 0): 'a', ('t', 1): 'a', ('t', 2): 'b'}
    """
    assigned: dict[str, list[Place]] = {member: [] for member in sorted(topics_of)}
    unassigned: list[Place] = []
    for place in sorted(places):
        owner = owners.get(place)
        if owner is not None and place[0] in topics_of.get(owner, ()):
            assigned[owner].append(place)
        else:
            unassigned.append(place)
    for place in unassigned:
        candidates = [member for member in assigned if place[0] in topics_of[member]]
        if candidates:
            assigned[min(candidates, key=lambda member: len(assigned[member]))].append(place)
    while _move_one(assigned, topics_of):
        pass
    return dict(sorted((place, member) for member, owned in assigned.items() for place in owned))


def _move_one(assigned: dict[str, list[Place]], topics_of: Mapping[str, AbstractSet[str]]) -> bool:
    """Moves a place from a member with most to one with at least two less; False if there
    is none."""
    by_load = sorted(assigned, key=lambda member: len(assigned[member]))
    for giver in reversed(by_load):
        for taker in by_load:
            if len(assigned[taker]) + 2 > len(assigned[giver]):
                break
            movable = [place for place in assigned[giver] if place[0] in topics_of[taker]]
            if movable:
                assigned[giver].remove(max(movable))
                assigned[taker].append(max(movable))
                return True
    return False
