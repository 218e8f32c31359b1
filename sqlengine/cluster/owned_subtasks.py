"""The parts that an instance runs: opened and closed as it comes to own and loses them, stepped one
after the other."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from parser.errors import SqlError
from sqlengine.broker.errors import BrokerUnreachable
from sqlengine.broker.ownership import Fence
from sqlengine.cluster.counters import Counters
from sqlengine.cluster.membership import GroupMembership
from sqlengine.cluster.subtask import Subtask

log = logging.getLogger("sqlengine")

# After a fault a part is opened again so much later; one whose former owner has not closed it yet,
# so much.
AGAIN_S, SOON_S = 1.0, 0.1

Opener = Callable[[int, Callable[[], Fence]], Subtask]


@dataclass
class OwnedSubtask:
    """A part that runs: `since` is the generation in which it came to this instance."""

    part: Subtask
    since: int
    pause_until: float = 0.0


class OwnedSubtasks:
    """`opener` gives a part, brought to where the others are; `now`: seconds that only grow. All
    methods are called from one thread. BrokerUnreachable leaves them: with the server all ends."""

    def __init__(
        self,
        name: str,
        graph: str,
        member: GroupMembership,
        opener: Opener,
        now: Callable[[], float],
    ) -> None:
        self.held: dict[int, OwnedSubtask] = {}
        self.done = Counters()
        self._name = name
        self._graph = graph
        self._member = member
        self._opener = opener
        self._now = now
        self._waiting: dict[int, tuple[float, str]] = {}  # until when, and why

    @property
    def parts(self) -> dict[int, Subtask]:
        return {index: held.part for index, held in self.held.items()}

    def follow(self) -> None:
        """Gives up what belongs to others, and takes up what is this instance's."""
        owned = self._member.owned()
        for index, held in list(self.held.items()):
            if index not in owned:
                self.close(index, "it belongs to another instance")
            elif owned[index] != held.since:
                self.drop(index, "it belonged to another instance meanwhile")
        for index, since in owned.items():
            if index not in self.held and self._now() >= self._waiting.get(index, (0.0, ""))[0]:
                self._open(index, since)
        for index in self._waiting.keys() - owned.keys():
            del self._waiting[index]

    def reopen_those_before(self, version: int) -> None:
        """A part that did not make a change of the graph makes it when it is opened."""
        for index, part in self.parts.items():
            if part.runner.graph.version < version and not part.fenced:
                self._again(index, f"it has not switched to version {version}")

    @property
    def problem(self) -> str | None:
        """Why a part does not go on, if one does not."""
        waiting = (f"part {index}: {why}" for index, (_, why) in self._waiting.items())
        running = (f"part {i}: {p.loop.problem}" for i, p in self.parts.items() if p.loop.problem)
        return next(running, None) or next(waiting, None)

    def step(self) -> bool:
        """An epoch of each part. False when none had anything to do."""
        busy = [self._step(index, held) for index, held in list(self.held.items())]
        return any(busy)

    def _open(self, index: int, since: int) -> None:
        fence = self._member.fence(index)
        try:
            part = self._opener(index, lambda: fence)
        except BrokerUnreachable:
            raise
        except SqlError as error:  # its former owner has not closed it yet, as a rule
            if index not in self._waiting:  # it is tried again and again
                log.info(
                    "instance %s cannot take up part %d of %s yet: %s",
                    self._name,
                    index,
                    self._graph,
                    error,
                )
            self._not_yet(index, str(error), SOON_S)
            return
        self._waiting.pop(index, None)
        self.held[index] = OwnedSubtask(part, since)

    def close(self, index: int, why: str) -> None:
        """With a checkpoint, so that the next owner repeats nothing."""
        part = self.held.pop(index).part
        try:
            part.close()
        except BrokerUnreachable:
            raise
        except SqlError as error:  # the next owner repeats what the checkpoint lacks
            log.warning(
                "part %d of %s was closed without a checkpoint: %s", index, self._graph, error
            )
        self._left(index, part, why)

    def drop(self, index: int, why: str) -> None:
        """Nothing of it leaves this process any more."""
        part = self.held.pop(index).part
        part.abandon()
        self._left(index, part, why)

    def _left(self, index: int, part: Subtask, why: str) -> None:
        self.done.add(part)
        log.info("instance %s gives up part %d of %s: %s", self._name, index, self._graph, why)

    def _step(self, index: int, held: OwnedSubtask) -> bool:
        """Jobs at fault are told of by the part itself."""
        if held.pause_until > self._now():
            return False
        part = held.part
        busy = part.step()
        if part.fenced:
            self.drop(index, "it belongs to another instance")
            self._member.ask()
        elif part.runner.broken:
            self._again(index, part.loop.problem or "an internal error")
        elif part.loop.problem:  # a full disk, as a rule: it goes on once there is space
            held.pause_until = self._now() + AGAIN_S
        return busy

    def _again(self, index: int, why: str) -> None:
        """It is opened anew in a moment, from what is on disk."""
        self.drop(index, why)
        self._not_yet(index, why, AGAIN_S)

    def _not_yet(self, index: int, why: str, seconds: float) -> None:
        self._waiting[index] = self._now() + seconds, why
