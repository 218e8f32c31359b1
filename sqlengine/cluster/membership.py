"""An instance as a member of the group that shares the parts of a divided graph."""

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

# So often in a session a member tells of itself.
_BEATS = 6


class GroupMembership:
    """Joins when it is made, and tells of itself until `leave`. What it owns is known to its own
    thread first: whoever acts for a part later than it was lost is refused by its fence."""

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
        self._beats = threads.every("heartbeat", session_ms / 1000 / _BEATS, self._beat)

    def owned(self) -> Mapping[int, int]:
        """The parts that are this member's, each with the generation since which it is."""
        held = self._membership
        return dict(
            zip(held.shards.get(self._topic, ()), held.since.get(self._topic, ()), strict=True)
        )

    def fence(self, part: int) -> Fence:
        """The proof of owning the part, as it is known now: it holds as long as the part stays
        without a break."""
        return self._membership.fence(self._topic, part)

    def ask(self) -> None:
        """Learns at once what is owned, after a refusal."""
        self._beat()

    def leave(self) -> None:
        """Gives all parts to the others. They must have been closed."""
        self._beats.stop()
        with suppress(BrokerError):
            self._broker.leave(self._group, self._name)

    def _join(self) -> Membership:
        return self._broker.join(
            self._group, self._name, [self._topic], session_ms=self._session_ms
        )

    def _beat(self) -> None:
        with self._lock:
            try:
                self._membership = self._broker.heartbeat(
                    self._group, self._name, self._membership.generation
                )
            except Fenced as error:
                log.warning("instance %s joins again: %s", self._name, error)
                self._again()
            except BrokerError as error:  # the server is gone, and this process goes with it
                log.warning("instance %s cannot tell of itself: %s", self._name, error)

    def _again(self) -> None:
        with suppress(BrokerError):
            self._membership = self._join()
