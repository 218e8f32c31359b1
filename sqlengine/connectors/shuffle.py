"""The topic over which the subtasks of a distributed graph exchange rows: shard n is read by
subtask n.

No table is declared over it; the plans of subtasks name it (planner/graph/distribution.py). A
record is one encoded batch (operators/shuffle.py), and its key is the header of the sender. How far
a subtask has read is committed as the offset of a group, so that senders can wait for it
(backpressure)."""

from __future__ import annotations

from collections import defaultdict, deque
from contextlib import suppress
from typing import ClassVar, Final

from parser.errors import ServiceError
from planner.graph.distribution import SubtaskAssignment
from planner.logical.shuffle import KEY
from sqlengine.batch import Batch
from sqlengine.broker.base import Addition, Broker, Records, system_topic
from sqlengine.broker.errors import BrokerError
from sqlengine.broker.storage.compression import Compression
from sqlengine.connectors.base import Sink, Source
from sqlengine.connectors.chunks import Chunk
from sqlengine.formats.shuffle_records import SenderHeader, decode_header, encode_header

# The bytes that a subtask may have sent to another one which has not read them.
UNREAD_BYTES = 32 << 20
# A subtask commits how far it has read each time it has read this fraction of UNREAD_BYTES.
_COMMITS: Final = 8
# Sent bytes are tracked in pieces of at least this fraction of UNREAD_BYTES.
_PIECES: Final = 64


def shuffle_topic(graph: str) -> str:
    """Returns the topic over which the subtasks of a graph exchange rows."""
    return system_topic("shuffle", graph)


class Shuffle:
    """The source and the sink of one subtask in the exchange.

    `version` is that of the subtask's graph: what subtasks at a later version have sent is not
    read before this one has switched, too."""

    def __init__(
        self,
        broker: Broker,
        graph: str,
        assignment: SubtaskAssignment,
        compression: Compression = "lz4",
    ) -> None:
        self.topic = shuffle_topic(graph)
        parallelism, index = assignment.parallelism, assignment.index
        existing = broker.create_topic(self.topic, parallelism, if_not_exists=True)
        if existing.shards != parallelism:
            raise ServiceError(
                f"graph '{graph}' has {existing.shards} parts, not {parallelism}",
                hint="the number of parts is fixed when a graph is made",
            )
        self.version = 0
        self._broker, self._index = broker, index
        self.unread = UnreadBytes(broker, self.topic, UNREAD_BYTES)
        self.source = ShuffleSource(self, broker, index, UNREAD_BYTES // _COMMITS)
        self.sink = ShuffleSink(self, broker, f"{graph}-{index}", index, compression)

    def forget(self, before: int) -> None:
        """Deletes records below that offset of the subtask's shard, which are in a checkpoint."""
        self._broker.trim(self.topic, self._index, before)


class UnreadBytes:
    """Counts the bytes that a subtask has sent, since it was opened, and the others have not read.

    Once one of them has more than `limit` bytes unread, the sender must wait."""

    def __init__(self, broker: Broker, topic: str, limit: int) -> None:
        self._broker = broker
        self._topic = topic
        self._limit = limit
        self._bytes: defaultdict[int, int] = defaultdict(int)
        # By receiver: (offset after the piece, bytes of the piece), oldest first.
        self._sent: defaultdict[int, deque[tuple[int, int]]] = defaultdict(deque)

    def add(self, subtask: int, next_offset: int, size: int) -> None:
        """Counts bytes sent to a subtask, whose shard ends at `next_offset` now."""
        sent = self._sent[subtask]
        self._bytes[subtask] += size
        if sent and sent[-1][1] + size <= self._limit // _PIECES:
            size += sent.pop()[1]
        sent.append((next_offset, size))

    def over_limit(self) -> dict[int, int]:
        """Returns the subtasks with more unread bytes than the limit, each with the number."""
        if all(size <= self._limit for size in self._bytes.values()):
            return {}
        for subtask, read in self._broker.committed(self._topic, self._topic).items():
            sent = self._sent[subtask]
            while sent and sent[0][0] <= read:
                self._bytes[subtask] -= sent.popleft()[1]
        return {subtask: size for subtask, size in self._bytes.items() if size > self._limit}


class ShuffleSource(Source):
    """Reads this subtask's shard; offsets count batches.

    It commits its offset with the first read, and each time it has read `commit_bytes`: records
    before the offset of a read have been processed."""

    bounded: ClassVar[bool] = False

    def __init__(self, shuffle: Shuffle, broker: Broker, shard: int, commit_bytes: int) -> None:
        self._shuffle = shuffle
        self._broker = broker
        self._shard = shard
        self._commit_bytes = commit_bytes
        self._uncommitted = commit_bytes  # the first read commits what was read before it was open

    def shards(self) -> list[str]:
        return [str(self._shard)]

    def start(self, shard: str) -> int:
        return self._broker.begin_offset(self._shuffle.topic, self._shard)

    def end(self, shard: str) -> int | None:
        return self._broker.end_offset(self._shuffle.topic, self._shard)

    def read(
        self, shard: str, offset: int, *, max_rows: int, until: int | None = None
    ) -> Chunk | None:
        topic = self._shuffle.topic
        if self._uncommitted >= self._commit_bytes and until is None:
            with suppress(BrokerError):  # a full disk: the next read tries again
                self._broker.commit(topic, topic, {self._shard: offset})
                self._uncommitted = 0
        records = self._broker.read(topic, self._shard, offset, max_records=max_rows, until=until)
        if records is None:
            return None
        count = records.num_rows if until is not None else self._readable(records)
        if not count:
            return None
        end = records.next_offset if count == records.num_rows else int(records.offsets[count])
        keys = None if records.keys is None else records.keys.slice(0, count)
        assert keys is not None, "every record has a header"
        offsets, values = records.offsets[:count], records.values.slice(0, count)
        self._uncommitted += values.nbytes
        return Chunk(shard, offset, end, count, values, offsets=offsets, metadata={KEY: keys})

    def _readable(self, records: Records) -> int:
        """Returns how many of the first records are of versions that this subtask has reached."""
        assert records.keys is not None
        later = (
            n
            for n, key in enumerate(records.keys.to_pylist())
            if decode_header(key).version > self._shuffle.version
        )
        return next(later, records.num_rows)

    def close(self) -> None: ...


class ShuffleSink(Sink):
    """Sends the records of an epoch in one request: a batch for each receiver.

    An epoch that is repeated is appended only where it is missing."""

    def __init__(
        self,
        shuffle: Shuffle,
        broker: Broker,
        writer: str,
        index: int,
        compression: Compression,
    ) -> None:
        self._shuffle = shuffle
        self._broker = broker
        self._writer = writer
        self._index = index
        self._compression = compression
        self._pending: dict[int, list[bytes]] = defaultdict(list)
        self._time = 0

    def last_epoch(self) -> int | None:
        return None  # each receiver's shard remembers its own

    def write(self, batch: Batch) -> None:
        for subtask, record in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            self._pending[subtask].append(record)
        self._time = batch.proctime

    def commit(self, epoch: int) -> int:
        header = encode_header(SenderHeader(self._index, epoch, self._shuffle.version))
        additions = [
            Addition(
                self._shuffle.topic,
                subtask,
                records,
                self._time,
                [header] * len(records),
                self._writer,
                epoch,
                compression=self._compression,
            )
            for subtask, records in self._pending.items()
        ]
        for addition, done in zip(additions, self._broker.append_all(additions), strict=True):
            if not done.duplicate:
                size = sum(map(len, self._pending[addition.shard]))
                self._shuffle.unread.add(addition.shard, done.next_offset, size)
        self._pending.clear()
        return sum(len(a.values) for a in additions)

    def close(self) -> None: ...
