"""Groups whose members share shards: each shard has one owner, and who lost it is refused.

A group's generation grows with every change. A shard's owner is told with the generation since
which the shard is its own; what a member does must have been told in that one or a later one, so
that neither a member that was held up nor a former life of one with the same name can commit or
append any more. All of that is kept in the topic `_groups`, since a generation must not come twice;
when members were heard of is not: after a start all of them have their time again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from sqlengine.broker.errors import BrokerError, Fenced, NameTaken, TopicNotFound
from sqlengine.broker.ownership import Fence, MemberInfo, Membership, Place, share

TOPIC = "_groups"
MIN_SESSION_MS, MAX_SESSION_MS = 100, 3_600_000
_MAX_NAME = 200


class Member(msgspec.Struct, frozen=True):
    """`joined` is the generation of its latest joining."""

    topics: tuple[str, ...]
    session_ms: int
    joined: int


class Group(msgspec.Struct, frozen=True):
    """`owners` holds topic, shard, member, and the generation since which it owns the shard."""

    generation: int = 0
    members: dict[str, Member] = {}
    owners: tuple[tuple[str, int, str, int], ...] = ()

    def owner(self, place: Place) -> tuple[str, int] | None:
        return next((entry[2:] for entry in self.owners if entry[:2] == place), None)

    def shards(self, member: str) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for topic, shard, owner, _ in self.owners:
            if owner == member:
                found[topic] = (*found.get(topic, ()), shard)
        return found


class _Live:
    """A group, until when each member may be silent, and how many act as its members just now.

    Many act at once, and wait for the disk together; changes of the group come between them."""

    def __init__(self, state: Group, now_ms: int) -> None:
        self.state = state
        self.deadlines = {
            name: now_ms + member.session_ms for name, member in state.members.items()
        }
        self._turn = threading.Condition()
        self._acting = 0
        self._changing = 0

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Nobody acts or changes anything within."""
        with self._turn:
            self._changing += 1
            try:
                self._turn.wait_for(lambda: not self._acting)
                yield
            finally:
                self._changing -= 1
                self._turn.notify_all()

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Nobody changes anything within."""
        with self._turn:
            self._turn.wait_for(lambda: not self._changing)  # who changes goes first
            self._acting += 1
        try:
            yield
        finally:
            with self._turn:
                self._acting -= 1
                self._turn.notify_all()


class Coordinator:
    """`save` keeps a group's state, durably, before it counts; `shards_of` raises TopicNotFound.
    `clock` gives ms that only grow: who sets the clock of the wall gives nobody more or less
    time."""

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
        self._groups = {name: _Live(state, clock()) for name, state in known.items()}

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
            live = self._groups.setdefault(group, _Live(Group(), 0))
        with live.changing():
            stay = self._alive(live)
            joined = live.state.generation + 1
            members = {name: live.state.members[name] for name in stay if name != member}
            members[member] = Member(tuple(sorted(set(topics))), session_ms, joined)
            self._change(group, live, members)
            live.deadlines[member] = self._clock() + session_ms
            return _membership(group, member, live.state)

    def heartbeat(self, group: str, member: str, generation: int) -> Membership:
        with self.holding(Fence(group, member, generation)) as state:
            return _membership(group, member, state)

    def leave(self, group: str, member: str) -> None:
        live = self._groups.get(group)
        if live is None:
            return
        with live.changing():
            if member in live.state.members:
                members = {
                    name: live.state.members[name] for name in self._alive(live) if name != member
                }
                self._change(group, live, members)

    @contextmanager
    def holding(self, fence: Fence, claims: Sequence[Place] | None = None) -> Iterator[Group]:
        """Nothing of the group changes within, others may act too. Raises Fenced unless the member
        owns what the fence, or `claims`, says.

        A member that does something lives."""
        live = self._find(fence.group)
        self._expire(fence.group, live)
        with live.acting():
            _check(live.state, fence, fence.claims if claims is None else claims)
            live.deadlines[fence.member] = (
                self._clock() + live.state.members[fence.member].session_ms
            )
            yield live.state

    @contextmanager
    def holding_unowned(self, group: str, places: Sequence[Place]) -> Iterator[None]:
        """The same for who is no member: raises Fenced where a member owns one of `places`."""
        live = self._groups.get(group)
        if live is None:
            yield
            return
        self._expire(group, live)
        with live.acting():
            for topic, shard in places:
                owner = live.state.owner((topic, shard))
                if owner is not None:
                    raise Fenced(
                        f"topic {topic!r} shard {shard} belongs to the member {owner[0]!r} of group"
                        f" {group!r}",
                        hint="only its owner commits while a group has members: stop them first",
                    )
            yield

    @contextmanager
    def without_members(self, group: str) -> Iterator[None]:
        """Nobody joins within. Raises Fenced while the group has members."""
        live = self._groups.get(group) or _Live(Group(), 0)
        self._expire(group, live)
        with live.changing():
            if live.state.members:
                names = ", ".join(sorted(live.state.members)[:5])
                raise Fenced(f"group {group!r} has members: {names}", hint="stop them first")
            yield

    def expire(self) -> None:
        """Ends the membership of those who were silent for too long, in all groups."""
        for name, live in list(self._groups.items()):
            self._expire(name, live)

    def forget(self, topic: str) -> None:
        """The topic is gone: nobody owns its shards any more."""
        for name, live in list(self._groups.items()):
            with live.changing():
                if any(entry[0] == topic for entry in live.state.owners):
                    self._change(name, live, live.state.members)

    def groups(self) -> dict[str, tuple[int, tuple[MemberInfo, ...]]]:
        """Generation and members of all groups that have any."""
        self.expire()
        found: dict[str, tuple[int, tuple[MemberInfo, ...]]] = {}
        for name, live in sorted(self._groups.items()):
            with live.acting():
                if live.state.members:
                    found[name] = live.state.generation, self._describe(live)
        return found

    def _describe(self, live: _Live) -> tuple[MemberInfo, ...]:
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

    def _find(self, group: str) -> _Live:
        live = self._groups.get(group)
        if live is None:
            raise Fenced(f"group {group!r} has no members", hint="join it first")
        return live

    def _alive(self, live: _Live) -> list[str]:
        now, deadlines = self._clock(), live.deadlines
        return [name for name in live.state.members if deadlines.get(name, 0) > now]

    def _expire(self, group: str, live: _Live) -> None:
        if len(self._alive(live)) < len(live.state.members):
            with live.changing():
                alive = self._alive(live)
                if len(alive) < len(live.state.members):
                    self._change(group, live, {name: live.state.members[name] for name in alive})

    def _change(self, group: str, live: _Live, members: dict[str, Member]) -> None:
        """The next generation, with these members."""
        old = live.state
        generation = old.generation + 1
        # What a member owned in a former life, it owns anew.
        kept = {
            e[:2]: (e[2], e[3]) for e in old.owners if members.get(e[2]) == old.members.get(e[2])
        }
        places = [place for topic in _topics(members) for place in self._places(topic)]
        before = {place: owner for place, (owner, _) in kept.items()}
        wishes = {name: frozenset(member.topics) for name, member in members.items()}
        shared = share(places, wishes, before)
        owners = tuple(
            (*place, owner, kept[place][1] if before.get(place) == owner else generation)
            for place, owner in shared.items()
        )
        state = Group(generation, dict(sorted(members.items())), owners)
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
    """Raises BrokerError unless a group, or whatever it is, may be called so."""
    if not 0 < len(name) <= _MAX_NAME or not name.isprintable():
        raise BrokerError(
            f"{name[:60]!r} is not the name of a {what}",
            detail=f"it has 1 to {_MAX_NAME} characters",
        )
