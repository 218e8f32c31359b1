"""A member of a group that does its work exactly once."""

from __future__ import annotations

from contextlib import suppress

from sqlengine.broker.base import Broker, Records
from sqlengine.broker.consumer import Consumer
from sqlengine.broker.errors import Fenced


class Copier:
    """A member of a group that copies a topic, shard by shard, exactly once: the epoch of what it
    appends is the offset where it goes on, and its fence says that the shard is its own."""

    GROUP = "copiers"

    def __init__(self, broker: Broker, name: str) -> None:
        self._broker = broker
        self._name = name
        self._turns = 0
        self._consumer = self._join()

    def _join(self) -> Consumer:
        return Consumer(
            self._broker, self.GROUP, self._name, "orders", start="earliest", session_ms=500
        )

    def turn(self) -> None:
        """Copies what there is; leaves and joins again now and then."""
        self._turns += 1
        if self._turns % 50 == 0:
            self._consumer.close()
            self._consumer = self._join()
        while (found := self._consumer.poll(0)) is not None:
            with suppress(
                Fenced
            ):  # the shard is somebody else's, who copies it; then the commit is refused, too
                self._copy(found)
            with suppress(Fenced):
                self._consumer.commit()

    def _copy(self, found: Records) -> None:
        shard, broker = found.shard, self._broker
        done = broker.last_epoch("copies", shard, self.GROUP) or 0
        values = [
            v
            for at, v in zip(found.offsets.tolist(), found.values.to_pylist(), strict=True)
            if at >= done
        ]
        if values:
            fence = self._consumer.membership.fence("orders", shard)
            broker.append(
                "copies",
                shard,
                values,
                timestamp_ms=0,
                writer=self.GROUP,
                epoch=found.next_offset,
                fence=fence,
            )
