"""Opens, steps and closes the subtasks that are assigned to an instance."""

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

# Pause before a subtask is opened again: after a fault, and while its former owner has not closed
# it yet.
FAULT_BACKOFF_S, TAKEOVER_BACKOFF_S = 1.0, 0.1

Opener = Callable[[int, Callable[[], Fence]], Subtask]


@dataclass
class OwnedSubtask:
    """A running subtask, and the generation `since` in which it was assigned to this instance."""

    subtask: Subtask
    since: int
    pause_until: float = 0.0


class OwnedSubtasks:
    """Runs the subtasks that are assigned to one instance.

    `opener` opens a subtask and brings it to the current version; `now` returns monotonic seconds.
    All methods are called from one thread. BrokerUnreachable passes through: the instance ends
    with its server."""

    def __init__(
        self,
        instance: str,
        graph: str,
        member: GroupMembership,
        opener: Opener,
        now: Callable[[], float],
    ) -> None:
        self.owned: dict[int, OwnedSubtask] = {}
        self.closed_counters = Counters()
        self._instance = instance
        self._graph = graph
        self._member = member
        self._opener = opener
        self._now = now
        self._retries: dict[int, tuple[float, str]] = {}  # not before when, and why

    @property
    def subtasks(self) -> dict[int, Subtask]:
        """The running subtasks by number."""
        return {index: owned.subtask for index, owned in self.owned.items()}

    def rebalance(self) -> None:
        """Closes the subtasks that are assigned to others now, and opens those assigned here."""
        assigned = self._member.owned()
        for index, owned in list(self.owned.items()):
            if index not in assigned:
                self.close(index, "it belongs to another instance")
            # Lost and assigned again between two looks: another instance may have written to its
            # log, so that what is in memory is outdated.
            elif assigned[index] != owned.since:
                self.drop(index, "it belonged to another instance meanwhile")
        for index, since in assigned.items():
            if index not in self.owned and self._now() >= self._retries.get(index, (0.0, ""))[0]:
                self._open(index, since)
        for index in self._retries.keys() - assigned.keys():
            del self._retries[index]

    def reopen_outdated(self, version: int) -> None:
        """Reopens subtasks that did not make a switch: they make it when they are opened."""
        for index, subtask in self.subtasks.items():
            if subtask.runner.graph.version < version and not subtask.fenced:
                self._reopen(index, f"it has not switched to version {version}")

    @property
    def problem(self) -> str | None:
        """Why a subtask does not run; None if all do."""
        running = ((i, s.loop.problem) for i, s in self.subtasks.items() if s.loop.problem)
        waiting = ((i, why) for i, (_, why) in self._retries.items())
        first = next(running, None) or next(waiting, None)
        return None if first is None else f"part {first[0]}: {first[1]}"

    def step(self) -> bool:
        """Runs an epoch of each subtask. False if none had anything to do."""
        busy = [self._step(index, owned) for index, owned in list(self.owned.items())]
        return any(busy)

    def _open(self, index: int, since: int) -> None:
        fence = self._member.fence(index)
        try:
            subtask = self._opener(index, lambda: fence)
        except BrokerUnreachable:
            raise
        except SqlError as error:  # its former owner has not closed it yet, as a rule
            if index not in self._retries:  # logged once, not with each retry
                log.info(
                    "instance %s cannot take up part %d of %s yet: %s",
                    self._instance,
                    index,
                    self._graph,
                    error,
                )
            self._retry_later(index, str(error), TAKEOVER_BACKOFF_S)
            return
        self._retries.pop(index, None)
        self.owned[index] = OwnedSubtask(subtask, since)

    def close(self, index: int, why: str) -> None:
        """Closes a subtask with a checkpoint, so that the next owner repeats nothing."""
        subtask = self.owned.pop(index).subtask
        try:
            subtask.close()
        except BrokerUnreachable:
            raise
        except SqlError as error:  # the next owner repeats what the checkpoint lacks
            log.warning(
                "part %d of %s was closed without a checkpoint: %s", index, self._graph, error
            )
        self._add_closed(index, subtask, why)

    def drop(self, index: int, why: str) -> None:
        """Closes a subtask without writing anything more."""
        subtask = self.owned.pop(index).subtask
        subtask.abandon()
        self._add_closed(index, subtask, why)

    def _add_closed(self, index: int, subtask: Subtask, why: str) -> None:
        self.closed_counters.add(subtask)
        log.info("instance %s gives up part %d of %s: %s", self._instance, index, self._graph, why)

    def _step(self, index: int, owned: OwnedSubtask) -> bool:
        """Runs an epoch of one subtask, which itself reports jobs that fail."""
        if owned.pause_until > self._now():
            return False
        subtask = owned.subtask
        busy = subtask.step()
        if subtask.fenced:
            self.drop(index, "it belongs to another instance")
            self._member.refresh()
        elif subtask.runner.broken:
            self._reopen(index, subtask.loop.problem or "an internal error")
        elif subtask.loop.problem:  # a full disk, as a rule: it continues once there is space
            owned.pause_until = self._now() + FAULT_BACKOFF_S
        return busy

    def _reopen(self, index: int, why: str) -> None:
        """Drops a subtask, to open it again soon from what is on disk."""
        self.drop(index, why)
        self._retry_later(index, why, FAULT_BACKOFF_S)

    def _retry_later(self, index: int, why: str, seconds: float) -> None:
        self._retries[index] = self._now() + seconds, why
