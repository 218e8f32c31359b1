"""Knows, port by port, which ticks the operators behind a set of rules need.

A branch is what is behind one port: the readers of one filter, or a family. Branches that meet in a
join or a union are a group: none of them gets a tick unless all may need it. The operators that the
group shares combine the watermarks of its branches, and so must know them when rows come by another
branch: what they have missed is told them first (`Missed`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, NamedTuple, Protocol, runtime_checkable

from planner.graph.physical import Edge
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK, Batch
from sqlengine.executors.ticks.earliest import Earliest
from sqlengine.operators.base import EVERY_TICK, NO_TICK, Rest, Rests, min_rest

# The batches that a branch knows which was restored.
_NOTHING: Final = -1


class Moment(NamedTuple):
    """The time of the input of a set of rules, after a batch of it: see `Batch`."""

    watermark: int = MIN_WATERMARK
    idle: bool = False
    proctime: int = 0


_BEGINNING: Final = Moment()


class Missed(NamedTuple):
    """A tick that a branch has missed: the last of several."""

    name: str
    port: int
    moment: Moment


@runtime_checkable
class Joint(Rests, Protocol):
    """An operator with several inputs that may be left without ticks, if it is told of what it has
    missed before rows come."""

    @property
    def untold(self) -> list[int]:
        """The inputs of which it knows no watermark."""


@dataclass(frozen=True, eq=False)
class Meeting:
    """An operator at which branches of these sets of rules meet, or behind such a place; behind
    others that delay the watermark by `delay_ms`."""

    operator: Rests
    delay_ms: int
    sets: tuple[Ticks, ...]

    def rest(self, ticks: Ticks) -> Rest:
        """Returns until when it needs no tick of one set of rules.

        A watermark is reached when all inputs have come to it: only those that have not are
        watched."""
        if not any(t is ticks for t in self.sets):
            return NO_TICK
        at, proctime = self.operator.rest()
        if MIN_WATERMARK < at < MAX_WATERMARK - self.delay_ms:
            at += self.delay_ms
        late = [t for t in self.sets if not t.moment.idle and t.moment.watermark < at]
        watched = not late or any(t is ticks for t in late)
        return Rest(at, proctime) if watched else Rest(proctime=proctime)


@dataclass(frozen=True, eq=False)
class Group:
    """Branches that meet, by their sets of rules and ports, with the operators from there on.
    `joints`: those among them that combine watermarks, with the sets that lead to each input."""

    members: tuple[tuple[Ticks, int], ...]
    operators: tuple[Meeting, ...]
    joints: tuple[tuple[Joint, Mapping[int, Sequence[Ticks]]], ...]

    @property
    def told(self) -> bool:
        """True if each joint knows a watermark of an input where there is one. One that does not
        is new, and has missed nothing: a group rests only when all know."""
        sets = (of[port] for joint, of in self.joints for port in joint.untold)
        return all(t.moment.watermark == MIN_WATERMARK for t in chain.from_iterable(sets))

    def rest(self, ticks: Ticks) -> Rest:
        """Returns until when the group needs no tick of one of its sets of rules."""
        if not self.told:
            return EVERY_TICK
        return min_rest([operator.rest(ticks) for operator in self.operators])


@dataclass(frozen=True)
class Branch:
    """The edges of one port, and the operators behind it up to where it meets others (`group`).
    `rests`: False if it needs every tick."""

    edges: tuple[Edge, ...]
    operators: tuple[Rests, ...] = ()
    rests: bool = False
    group: Group | None = None

    def rest(self, ticks: Ticks) -> Rest:
        """Returns until when nothing in the branch needs a tick."""
        rest = min_rest([operator.rest() for operator in self.operators])
        return rest if self.group is None else min_rest([rest, self.group.rest(ticks)])


@dataclass(eq=False)
class Ticks:
    """The ticks of the set of rules `name`; see `TickFilter`.

    A branch is in one of three states: it needs `every` tick; it is `unsettled`, which is found out
    when a batch has no row for it, since rows and ticks change it; or it rests until an instant.

    `moment`: of the last batch; `missed`: what is to be told before what the next batch puts out.
    Both are kept for branches in groups alone."""

    name: str
    missed: list[Missed]
    branches: dict[int, Branch] = field(default_factory=dict)
    moment: Moment = _BEGINNING
    _every: set[int] = field(default_factory=set)
    _unsettled: set[int] = field(default_factory=set)
    _watermarks: Earliest[int] = field(default_factory=Earliest)
    _proctimes: Earliest[int] = field(default_factory=Earliest)
    # Batches so far; for each port in a group how many of them it knows; and those that have had
    # none yet.
    _count: int = 0
    _seen: dict[int, int] = field(default_factory=dict)
    _fresh: set[int] = field(default_factory=set)

    def put(self, port: int, branch: Branch | None) -> None:
        """Sets what is behind a port; None removes the port."""
        self._forget(port)
        self._every.discard(port)
        if branch is None or branch.group is None:
            self._seen.pop(port, None)
            self._fresh.discard(port)
        elif port not in self._seen:
            # One that was restored may have missed all; a new one has missed nothing.
            self._seen[port] = _NOTHING if branch.group.told else self._count
            self._fresh.add(port)
        if branch is None:
            self.branches.pop(port, None)
            return
        self.branches[port] = branch
        (self._unsettled if branch.rests else self._every).add(port)

    def ports(self, batch: Batch, having_rows: Collection[int]) -> list[int]:
        """See `TickFilter`."""
        self._settle(self._unsettled.difference(having_rows))
        if batch.watermark == MAX_WATERMARK:
            due = set(self.branches)
        else:
            due = self._every.union(
                having_rows,
                self._watermarks.take(batch.watermark),
                self._proctimes.take(batch.proctime),
            )
        if self._seen:
            self._wake(Moment(batch.watermark, batch.idle, batch.proctime), due)
        self._unsettled |= due - self._every
        return sorted(due)

    def _wake(self, moment: Moment, due: set[int]) -> None:
        """Adds the ports of groups of which another is due, and tells these groups what they have
        missed."""
        # What input is idle decides which watermarks count at all: groups hear of each change.
        begins = self.moment.watermark == MIN_WATERMARK < moment.watermark
        due |= self._seen.keys() if begins or moment.idle != self.moment.idle else self._fresh
        self._fresh.clear()
        groups = {g for port in due if (g := self.branches[port].group) is not None}
        for group in groups:
            due |= {port for ticks, port in group.members if ticks is self}
        for ticks, port in dict.fromkeys(m for group in groups for m in group.members):
            ticks.tell(port)
            if ticks is not self:
                ticks.unsettle(port)
        self._count += 1
        self.moment = moment
        self._seen |= dict.fromkeys(due & self._seen.keys(), self._count)

    @property
    def known(self) -> bool:
        """True if `moment` is that of the last batch."""
        return bool(self._seen)

    def tell(self, port: int) -> None:
        """Has a branch told what it has missed."""
        if self._seen[port] < self._count:
            self.missed.append(Missed(self.name, port, self.moment))
            self._seen[port] = self._count

    def unsettle(self, port: int) -> None:
        """Notes that a branch has changed."""
        if port not in self._every:
            self._forget(port)
            self._unsettled.add(port)

    def _forget(self, port: int) -> None:
        self._unsettled.discard(port)
        self._watermarks.put(port, None)
        self._proctimes.put(port, None)

    def rest(self) -> Rest:
        """Returns until when none of the branches needs a tick."""
        if self._every:
            return EVERY_TICK
        self._settle(set(self._unsettled))
        first = (self._watermarks.first(), self._proctimes.first())
        return Rest(*(end if at is None else at for at, end in zip(first, NO_TICK, strict=True)))

    def _settle(self, ports: Iterable[int]) -> None:
        for port in ports:
            rest = self.branches[port].rest(self)
            # At the end of time every branch gets a tick.
            self._watermarks.put(port, rest.watermark)
            self._proctimes.put(port, rest.proctime)
            self._unsettled.discard(port)
