"""Who reads what: members of a group, the shards that each owns, and the proof of it that commits
and appends carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TypeAlias

Place: TypeAlias = tuple[str, int]  # a topic and one of its shards
SESSION_MS = 30_000


@dataclass(frozen=True, slots=True)
class Fence:
    """Whoever acts with it is `member` of `group`, and was told so in `generation`.

    An append with it is refused once one of `claims` belongs to somebody else, or was given to the
    member anew since; without claims, once the member is none any more."""

    group: str
    member: str
    generation: int
    claims: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Membership:
    """What a member owns: per topic the shards, ascending. The generation grows with every change
    of the group.

    `since` has the generation for each, in which the member got it: who knew an earlier one only
    has lost it meanwhile."""

    group: str
    member: str
    generation: int
    shards: Mapping[str, tuple[int, ...]]
    since: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def fence(self, topic: str, *shards: int) -> Fence:
        """The proof of owning `shards` of `topic`."""
        return Fence(
            self.group, self.member, self.generation, tuple((topic, shard) for shard in shards)
        )


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """A member as others see it; `silent_ms` is the time since it last told of itself."""

    name: str
    topics: tuple[str, ...]
    shards: Mapping[str, tuple[int, ...]]
    session_ms: int
    silent_ms: int


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A group: its members, and per topic and shard where it goes on reading. One without members
    may have offsets."""

    name: str
    generation: int
    members: tuple[MemberInfo, ...]
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


def share(
    places: Sequence[Place], wishes: Mapping[str, AbstractSet[str]], owners: Mapping[Place, str]
) -> dict[Place, str]:
    """An owner for each of `places` whose topic some member of `wishes` reads: all about as many,
    few change.

    The result depends on nothing but the arguments, whatever their order.

    >>> before = {("t", 0): "a", ("t", 1): "a", ("t", 2): "a"}
    >>> share([("t", 0), ("t", 1), ("t", 2)], {"a": {"t"}, "b": {"t"}}, before)
    {('t', 0): 'a', ('t', 1): 'a', ('t', 2): 'b'}
    """
    mine: dict[str, list[Place]] = {member: [] for member in sorted(wishes)}
    free: list[Place] = []
    for place in sorted(places):
        owner = owners.get(place)
        if owner is not None and place[0] in wishes.get(owner, ()):
            mine[owner].append(place)
        else:
            free.append(place)
    for place in free:
        able = [member for member in mine if place[0] in wishes[member]]
        if able:
            mine[min(able, key=lambda member: len(mine[member]))].append(place)
    while _move_one(mine, wishes):
        pass
    return dict(sorted((place, member) for member, owned in mine.items() for place in owned))


def _move_one(mine: dict[str, list[Place]], wishes: Mapping[str, AbstractSet[str]]) -> bool:
    """Moves a place from who has most to who has less by two at least; False when nobody has."""
    by_load = sorted(mine, key=lambda member: len(mine[member]))
    for giver in reversed(by_load):
        for taker in by_load:
            if len(mine[taker]) + 2 > len(mine[giver]):
                break
            found = [place for place in mine[giver] if place[0] in wishes[taker]]
            if found:
                mine[giver].remove(max(found))
                mine[taker].append(max(found))
                return True
    return False
