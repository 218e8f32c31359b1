"""Membership of an instance in the consumer group that assigns the subtasks of its graph."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from contextlib import suppress

from sqlengine.broker.base import Broker
from sqlengine.broker.errors import BrokerError, Fenced
from sqlengine.broker.ownership import Fence, Membership
from sqlengine.system.threads import Threads

log = logging.getLogger("sqlengine")

# A member sends this many heartbeats in a session.
_HEARTBEATS = 6


class GroupMembership:
    """Joins the group when it is created, and sends heartbeats until `leave`.

    The assignment may be known here later than a subtask was lost: what the former owner of a
    subtask writes then is refused by its fence."""

    def __init__(
        self, broker: Broker, group: str, name: str, topic: str, session_ms: int, threads: Threads
    ) -> None:
        self._broker = broker
        self._group = group
        self._name = name
        self._topic = topic
        self._session_ms = session_ms
        self._lock = threading.Lock()
        self._membership = self._join()
        self._heartbeats = threads.every(
            "heartbeat", session_ms / 1000 / _HEARTBEATS, self._heartbeat
        )

    def owned(self) -> Mapping[int, int]:
        """Returns the subtasks assigned to this member, each with the generation in which it was
        assigned."""
        # Read once: the thread of heartbeats replaces the object.
        membership = self._membership
        shards, since = membership.shards.get(self._topic, ()), membership.since
        return dict(zip(shards, since.get(self._topic, ()), strict=True))

    def fence(self, subtask: int) -> Fence:
        """Returns the proof of owning the subtask, valid until it is assigned to another member."""
        return self._membership.fence(self._topic, subtask)

    def refresh(self) -> None:
        """Fetches the current assignment, after a write was refused."""
        self._heartbeat()

    def leave(self) -> None:
        """Leaves the group, whose other members take over the subtasks. These must be closed."""
        self._heartbeats.stop()
        with suppress(BrokerError):
            self._broker.leave(self._group, self._name)

    def _join(self) -> Membership:
        return self._broker.join(
            self._group, self._name, [self._topic], session_ms=self._session_ms
        )

    def _heartbeat(self) -> None:
        with self._lock:
            try:
                self._membership = self._broker.heartbeat(
                    self._group, self._name, self._membership.generation
                )
            except Fenced as error:
                log.warning("instance %s joins again: %s", self._name, error)
                self._rejoin()
            except BrokerError as error:  # the server is gone, and this process ends with it
                log.warning("instance %s cannot send a heartbeat: %s", self._name, error)

    def _rejoin(self) -> None:
        with suppress(BrokerError):
            self._membership = self._join()
