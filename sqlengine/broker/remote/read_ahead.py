"""A client of a server's broker that reads many shards at once: one request fetches the data of all
of them.

`prefetch` repeats the reads made since the last one; the next read of each shard is served from its
result. Data that arrived later come with the following `prefetch`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sqlengine.broker.base import Records
from sqlengine.broker.errors import BrokerError, BrokerUnreachable
from sqlengine.broker.remote.client import RemoteBroker, Transport
from sqlengine.broker.remote.wire import Read
from sqlengine.broker.storage.reading import Batches

_Position: TypeAlias = tuple[str, int, int]


class ReadAheadBroker(RemoteBroker):
    """A `RemoteBroker` with read-ahead; the reading thread calls `prefetch` and `discard`, others
    may do all else."""

    def __init__(self, transport: Transport, close: Callable[[], None] = lambda: None) -> None:
        super().__init__(transport, close)
        self._reads: dict[tuple[str, int], Read] = {}
        self._fetched: dict[_Position, Batches | None] = {}

    def prefetch(self, timeout_s: float = 0.0) -> bool:
        """Repeats the last reads; waits `timeout_s` (1 s at most) until one has data. False if none
        has.

        Offsets that cannot be read any more are left to the next `read`, which raises the error.
        """
        reads, self._reads, self._fetched = self._reads, {}, {}
        try:
            fetched = self.read_all(tuple(reads.values()), timeout_s)
        except BrokerUnreachable:
            raise
        except BrokerError:
            return True
        self._fetched = {
            (r.topic, r.shard, r.offset): b for r, b in zip(reads.values(), fetched, strict=True)
        }
        return any(b is not None for b in fetched)

    def discard(self) -> None:
        """Discards the fetched data."""
        self._fetched = {}

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
        request = Read(topic, shard, offset, max_records, max_bytes, until)
        place = (topic, shard, offset)
        if until is not None or place not in self._fetched:
            records = super().read(
                topic, shard, offset, max_records=max_records, max_bytes=max_bytes, until=until
            )
        else:
            batches = self._fetched.pop(place)
            records = None if batches is None else self.decoded(request, batches)
        if until is None:
            following = offset if records is None else records.next_offset
            self._reads[topic, shard] = Read(topic, shard, following, max_records, max_bytes, None)
        return records
