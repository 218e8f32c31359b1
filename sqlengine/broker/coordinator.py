"""Consumer groups: each shard has one owner in a group, and a former owner is fenced.

A group's generation grows with every change. Each assignment has the generation since which the
shard belongs to its owner; a member proves in its requests that it has heard of that generation or
a later one. So neither a delayed member nor a former process of the same name can commit or append
any more. All of this is stored in the topic `_groups`, since a generation must not be reused. The
times of the last heartbeats are not stored: after a start, all members have a full session again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from sqlengine.broker.errors import (
    BrokerError,
    Fenced,
    NameTaken,
    TopicNotFound,
    has_members,
    owned_by_member,
)
from sqlengine.broker.ownership import Fence, MemberInfo, Membership, Place, assign_shards

TOPIC = "_groups"
MIN_SESSION_MS, MAX_SESSION_MS = 100, 3_600_000
_MAX_NAME = 200


class Member(msgspec.Struct, frozen=True):
    """A member's topics and session; `joined` is the generation of its latest join."""

    topics: tuple[str, ...]
    session_ms: int
    joined: int


class Group(msgspec.Struct, frozen=True):
    """The stored state of a group; `owners` are topic, shard, member, and the generation since
    which it owns the shard."""

    generation: int = 0
    members: dict[str, Member] = {}
    owners: tuple[tuple[str, int, str, int], ...] = ()

    def owner(self, place: Place) -> tuple[str, int] | None:
        return next((entry[2:] for entry in self.owners if entry[:2] == place), None)

    def shards(self, member: str) -> dict[str, tuple[int, ...]]:
        shards_of: dict[str, tuple[int, ...]] = {}
        for topic, shard, owner, _ in self.owners:
            if owner == member:
                shards_of[topic] = (*shards_of.get(topic, ()), shard)
        return shards_of


class _ActiveGroup:
    """A group in memory: its state, the deadline of each member's session, and a readers-writer
    lock.

    Many members act at once, and wait for the disk together; changes of the group are exclusive.
    """

    def __init__(self, state: Group, now_ms: int) -> None:
        self.state = state
        self.deadlines = {
            name: now_ms + member.session_ms for name, member in state.members.items()
        }
        self._turn = threading.Condition()
        self._readers = 0
        self._writers = 0

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Excludes all actions and changes by others."""
        with self._turn:
            self._writers += 1
            try:
                self._turn.wait_for(lambda: not self._readers)
                yield
            finally:
                self._writers -= 1
                self._turn.notify_all()

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Excludes changes; others may act meanwhile."""
        with self._turn:
            self._turn.wait_for(lambda: not self._writers)  # waiting changes have precedence
            self._readers += 1
        try:
            yield
        finally:
            with self._turn:
                self._readers -= 1
                self._turn.notify_all()


class Coordinator:
    """Manages the members and assignments of all groups.

    `save` stores a group's state durably before it takes effect; `shards_of` returns the number of
    a topic's shards, and raises TopicNotFound. `clock` is monotonic (ms): setting the wall clock
    neither extends nor ends sessions.
    """

    def __init__(
        self,
        known: Mapping[str, Group],
        save: Callable[[str, Group], None],
        shards_of: Callable[[str], int],
        clock: Callable[[], int],
    ) -> None:
        self._save = save
        self._shards_of = shards_of
        self._clock = clock
        self._lock = threading.Lock()
        self._groups = {name: _ActiveGroup(state, clock()) for name, state in known.items()}

    def join(self, group: str, member: str, topics: Sequence[str], session_ms: int) -> Membership:
        check_name("group", group)
        check_name("member", member)
        if not MIN_SESSION_MS <= session_ms <= MAX_SESSION_MS:
            raise BrokerError(
                f"a session of {session_ms} ms is not possible",
                detail=f"it lasts {MIN_SESSION_MS} to {MAX_SESSION_MS} ms",
            )
        for topic in topics:
            self._shards_of(topic)
        with self._lock:
            live = self._groups.setdefault(group, _ActiveGroup(Group(), 0))
        with live.exclusive():
            # Expired members are dropped by the same change.
            alive = self._alive(live)
            joined = live.state.generation + 1
            members = {name: live.state.members[name] for name in alive if name != member}
            members[member] = Member(tuple(sorted(set(topics))), session_ms, joined)
            self._change(group, live, members)
            live.deadlines[member] = self._clock() + session_ms
            return _membership(group, member, live.state)

    def heartbeat(self, group: str, member: str, generation: int) -> Membership:
        with self.guarded(Fence(group, member, generation)) as state:
            return _membership(group, member, state)

    def leave(self, group: str, member: str) -> None:
        live = self._groups.get(group)
        if live is None:
            return
        with live.exclusive():
            if member in live.state.members:
                members = {
                    name: live.state.members[name] for name in self._alive(live) if name != member
                }
                self._change(group, live, members)

    @contextmanager
    def guarded(self, fence: Fence, claims: Sequence[Place] | None = None) -> Iterator[Group]:
        """Keeps the group unchanged within; others may act too.

        Raises Fenced unless the member owns the shards in `claims`, by default those of the fence.
        Acting renews the member's session.
        """
        live = self._find(fence.group)
        self._expire(fence.group, live)
        with live.shared():
            _check(live.state, fence, fence.claims if claims is None else claims)
            live.deadlines[fence.member] = (
                self._clock() + live.state.members[fence.member].session_ms
            )
            yield live.state

    @contextmanager
    def guarded_unowned(self, group: str, places: Sequence[Place]) -> Iterator[None]:
        """Guards a caller that is no member: raises Fenced if a member owns one of `places`."""
        live = self._groups.get(group)
        if live is None:
            yield
            return
        self._expire(group, live)
        with live.shared():
            for topic, shard in places:
                owner = live.state.owner((topic, shard))
                if owner is not None:
                    raise owned_by_member(group, topic, shard, owner[0])
            yield

    @contextmanager
    def without_members(self, group: str) -> Iterator[None]:
        """Keeps members from joining within. Raises Fenced while the group has members."""
        live = self._groups.get(group) or _ActiveGroup(Group(), 0)
        self._expire(group, live)
        with live.exclusive():
            if live.state.members:
                raise has_members(group, live.state.members)
            yield

    def expire(self) -> None:
        """Removes members whose session is over, in all groups."""
        for name, live in list(self._groups.items()):
            self._expire(name, live)

    def remove_topic(self, topic: str) -> None:
        """Unassigns the shards of a deleted topic."""
        for name, live in list(self._groups.items()):
            with live.exclusive():
                if any(entry[0] == topic for entry in live.state.owners):
                    self._change(name, live, live.state.members)

    def groups(self) -> dict[str, tuple[int, tuple[MemberInfo, ...]]]:
        """Returns the generation and members of all groups that have members."""
        self.expire()
        groups_with_members: dict[str, tuple[int, tuple[MemberInfo, ...]]] = {}
        for name, live in sorted(self._groups.items()):
            with live.shared():
                if live.state.members:
                    groups_with_members[name] = live.state.generation, self._describe(live)
        return groups_with_members

    def _describe(self, live: _ActiveGroup) -> tuple[MemberInfo, ...]:
        now, state = self._clock(), live.state
        return tuple(
            MemberInfo(
                name,
                member.topics,
                state.shards(name),
                member.session_ms,
                max(0, now - (live.deadlines[name] - member.session_ms)),
            )
            for name, member in sorted(state.members.items())
        )

    def _find(self, group: str) -> _ActiveGroup:
        live = self._groups.get(group)
        if live is None:
            raise Fenced(f"group {group!r} has no members", hint="join it first")
        return live

    def _alive(self, live: _ActiveGroup) -> list[str]:
        now, deadlines = self._clock(), live.deadlines
        return [name for name in live.state.members if deadlines.get(name, 0) > now]

    def _expire(self, group: str, live: _ActiveGroup) -> None:
        if len(self._alive(live)) < len(live.state.members):
            with live.exclusive():
                alive = self._alive(live)
                if len(alive) < len(live.state.members):
                    self._change(group, live, {name: live.state.members[name] for name in alive})

    def _change(self, group: str, live: _ActiveGroup, members: dict[str, Member]) -> None:
        """Stores the next generation of the group, with these members, and reassigns the shards."""
        old = live.state
        generation = old.generation + 1
        # Shards of a member that joined again are assigned anew, with the new generation.
        kept = {
            e[:2]: (e[2], e[3]) for e in old.owners if members.get(e[2]) == old.members.get(e[2])
        }
        places = [place for topic in _topics(members) for place in self._places(topic)]
        before = {place: owner for place, (owner, _) in kept.items()}
        topics_of = {name: frozenset(member.topics) for name, member in members.items()}
        assignment = assign_shards(places, topics_of, before)
        owners = tuple(
            (*place, owner, kept[place][1] if before.get(place) == owner else generation)
            for place, owner in assignment.items()
        )
        state = Group(generation, dict(sorted(members.items())), owners)
        # Durable before it takes effect: a generation that a member has heard of must survive a
        # crash.
        self._save(group, state)
        live.state = state
        live.deadlines = {name: live.deadlines.get(name, 0) for name in members}

    def _places(self, topic: str) -> list[Place]:
        try:
            return [(topic, shard) for shard in range(self._shards_of(topic))]
        except TopicNotFound:  # deleted since a member joined
            return []


def _topics(members: Mapping[str, Member]) -> list[str]:
    return sorted({topic for member in members.values() for topic in member.topics})


def _membership(group: str, member: str, state: Group) -> Membership:
    since: dict[str, tuple[int, ...]] = {}
    for topic, _, owner, generation in state.owners:
        if owner == member:
            since[topic] = (*since.get(topic, ()), generation)
    return Membership(group, member, state.generation, state.shards(member), since)


def _check(state: Group, fence: Fence, claims: Sequence[Place]) -> None:
    member = state.members.get(fence.member)
    if member is None:
        raise Fenced(
            f"{fence.member!r} is no member of group {fence.group!r} any more",
            detail="it left, or was silent for longer than its session",
            hint="join again, and go on from the committed offsets",
        )
    if fence.generation < member.joined or fence.generation > state.generation:
        kind = NameTaken if fence.generation < member.joined else Fenced
        raise kind(
            f"generation {fence.generation} of member {fence.member!r} of group {fence.group!r} is"
            " over",
            detail=f"a member of that name joined in generation {member.joined}",
            hint="each process joins under a name of its own",
        )
    for place in claims:
        owner = state.owner(place)
        if owner is None or owner[0] != fence.member or owner[1] > fence.generation:
            whose = "nobody" if owner is None else f"{owner[0]!r} since generation {owner[1]}"
            raise Fenced(
                f"topic {place[0]!r} shard {place[1]} is not owned by {fence.member!r} in"
                f" generation {fence.generation}",
                detail=f"in group {fence.group!r} it belongs to {whose}",
                hint="ask for the shards that are owned now: heartbeat",
            )


def check_name(what: str, name: str) -> None:
    """Raises BrokerError unless `name` is a valid name for a group or the like."""
    if not 0 < len(name) <= _MAX_NAME or not name.isprintable():
        raise BrokerError(
            f"{name[:60]!r} is not the name of a {what}",
            detail=f"it has 1 to {_MAX_NAME} characters",
        )
