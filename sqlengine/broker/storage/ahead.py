"""The broker of a server for a process that reads many places again and again: what all of them
have comes with one question.

`look` asks for what was read since the last look; the next read of each place is answered from
that, as it was then. What a place has had since comes with the look after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sqlengine.broker.base import Records
from sqlengine.broker.errors import BrokerError, BrokerUnreachable
from sqlengine.broker.remote.client import RemoteBroker, Transport
from sqlengine.broker.remote.wire import Read
from sqlengine.broker.storage.reading import Batches

_Place: TypeAlias = tuple[str, int, int]


class LookingAhead(RemoteBroker):
    """`look` and `forget` are called by the thread that reads; others may do all else."""

    def __init__(self, transport: Transport, close: Callable[[], None] = lambda: None) -> None:
        super().__init__(transport, close)
        self._asked: dict[tuple[str, int], Read] = {}
        self._found: dict[_Place, Batches | None] = {}

    def look(self, timeout_s: float = 0.0) -> bool:
        """Waits so long (a second at most) until there is anything; False when there is nothing.
        Places at which one cannot be read any more are left to those who read there."""
        asked, self._asked, self._found = self._asked, {}, {}
        try:
            found = self.read_all(tuple(asked.values()), timeout_s)
        except BrokerUnreachable:
            raise
        except BrokerError:
            return True
        self._found = {
            (r.topic, r.shard, r.offset): b for r, b in zip(asked.values(), found, strict=True)
        }
        return any(b is not None for b in found)

    def forget(self) -> None:
        """What was found is not to be taken for what there is."""
        self._found = {}

    def read(
        self,
        topic: str,
        shard: int,
        offset: int,
        *,
        max_records: int = 10_000,
        max_bytes: int = 8 << 20,
        until: int | None = None,
    ) -> Records | None:
        asked = Read(topic, shard, offset, max_records, max_bytes, until)
        place = (topic, shard, offset)
        if until is not None or place not in self._found:
            records = super().read(
                topic, shard, offset, max_records=max_records, max_bytes=max_bytes, until=until
            )
        else:
            batches = self._found.pop(place)
            records = None if batches is None else self.opened(asked, batches)
        if until is None:
            following = offset if records is None else records.next_offset
            self._asked[topic, shard] = Read(topic, shard, following, max_records, max_bytes, None)
        return records
