"""The topic over which the parts of a divided graph exchange rows: shard p holds what part p is
sent.

Nobody declares a table over it; plans of parts name it (planner/graph/division.py). A record is one
batch (see operators/shuffle.py), its key says which part sent it, in which epoch and at which
version of the graph. How far a part has read stands in the broker as the offset of a group, so that
those who send to it can wait for it."""

from __future__ import annotations

from collections import defaultdict, deque
from contextlib import suppress
from typing import ClassVar, Final

from parser.errors import ServiceError
from planner.graph.division import SubtaskAssignment
from planner.logical.shuffle import KEY
from sqlengine.batch import Batch
from sqlengine.broker.base import Addition, Broker, Records, system_topic
from sqlengine.broker.errors import BrokerError
from sqlengine.broker.storage.compression import Compression
from sqlengine.connectors.base import Chunk, Sink, Source
from sqlengine.formats.shuffle_records import SenderHeader, decode_header, encode_header

# What a part may have sent to another one that has not read it.
UNREAD_BYTES = 32 << 20
# A part tells how far it has read each time when it has read this share of that.
_TELLS: Final = 8
# What was sent is remembered in pieces of this share of it, at least.
_PIECES: Final = 64


def shuffle_topic(graph: str) -> str:
    return system_topic("shuffle", graph)


class Shuffle:
    """The end of the exchange that belongs to one part (subtask).

    `version` is that of the part's graph: records that parts at a later version have sent are not
    read before this part has made the change, too."""

    def __init__(
        self, broker: Broker, graph: str, share: SubtaskAssignment, compression: Compression = "lz4"
    ) -> None:
        self.topic = shuffle_topic(graph)
        made = broker.create_topic(self.topic, share.parts, if_not_exists=True)
        if made.shards != share.parts:
            raise ServiceError(
                f"graph '{graph}' has {made.shards} parts, not {share.parts}",
                hint="the number of parts is fixed when a graph is made",
            )
        self.version = 0
        self._broker, self._index = broker, share.index
        self.unread = Unread(broker, self.topic, UNREAD_BYTES)
        self.source = ShuffleSource(self, broker, share, UNREAD_BYTES // _TELLS)
        self.sink = ShuffleSink(self, broker, f"{graph}-{share.index}", share, compression)

    def forget(self, before: int) -> None:
        """Removes records before an offset of the part's shard: a checkpoint contains them."""
        self._broker.trim(self.topic, self._index, before)


class Unread:
    """Counts the bytes by part that this part has sent since it was opened and the others have not
    read. With more than `most` for one of them, the sender has to wait (backpressure)."""

    def __init__(self, broker: Broker, topic: str, most: int) -> None:
        self._broker = broker
        self._topic = topic
        self._most = most
        self._bytes: defaultdict[int, int] = defaultdict(int)
        self._sent: defaultdict[int, deque[tuple[int, int]]] = defaultdict(
            deque
        )  # offset behind it, bytes

    def add(self, part: int, next_offset: int, size: int) -> None:
        sent = self._sent[part]
        self._bytes[part] += size
        if sent and sent[-1][1] + size <= self._most // _PIECES:
            size += sent.pop()[1]
        sent.append((next_offset, size))

    def behind(self) -> dict[int, int]:
        """The parts for which this one is to wait, and what they have not read."""
        if all(size <= self._most for size in self._bytes.values()):
            return {}
        for part, read in self._broker.committed(self._topic, self._topic).items():
            sent = self._sent[part]
            while sent and sent[0][0] <= read:
                self._bytes[part] -= sent.popleft()[1]
        return {part: size for part, size in self._bytes.items() if size > self._most}


class ShuffleSource(Source):
    """Reads this part's shard; offsets count batches.

    At first, and each time when it has read `tells` bytes, it commits its offset for the others:
    records before the offset of a read have been processed."""

    bounded: ClassVar[bool] = False

    def __init__(
        self, shuffle: Shuffle, broker: Broker, share: SubtaskAssignment, tells: int
    ) -> None:
        self._shuffle = shuffle
        self._broker = broker
        self._shard = share.index
        self._tells = tells
        self._untold = tells  # what was read before it was opened

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
        if self._untold >= self._tells and until is None:
            with suppress(BrokerError):  # a full disk: the next read tries again
                self._broker.commit(topic, topic, {self._shard: offset})
                self._untold = 0
        records = self._broker.read(topic, self._shard, offset, max_records=max_rows, until=until)
        if records is None:
            return None
        count = records.num_rows if until is not None else self._ready(records)
        if not count:
            return None
        end = records.next_offset if count == records.num_rows else int(records.offsets[count])
        keys = None if records.keys is None else records.keys.slice(0, count)
        assert keys is not None, "every batch is stamped"
        offsets, values = records.offsets[:count], records.values.slice(0, count)
        self._untold += values.nbytes
        return Chunk(shard, offset, end, count, values, offsets=offsets, metadata={KEY: keys})

    def _ready(self, records: Records) -> int:
        """Returns how many of the first records are of versions that this part has reached."""
        assert records.keys is not None
        later = (
            n
            for n, k in enumerate(records.keys.to_pylist())
            if decode_header(k).version > self._shuffle.version
        )
        return next(later, records.num_rows)

    def close(self) -> None: ...


class ShuffleSink(Sink):
    """Sends an epoch's parcels, in one request: a batch for each part that gets any, this one
    included. An epoch that is repeated adds where it is missing and nowhere else."""

    def __init__(
        self,
        shuffle: Shuffle,
        broker: Broker,
        writer: str,
        share: SubtaskAssignment,
        compression: Compression,
    ) -> None:
        self._shuffle = shuffle
        self._broker = broker
        self._writer = writer
        self._share = share
        self._compression = compression
        self._pending: dict[int, list[bytes]] = defaultdict(list)
        self._time = 0

    def last_epoch(self) -> int | None:
        return None  # each part that is sent something remembers its own

    def write(self, batch: Batch) -> None:
        for part, parcel in zip(*(c.to_pylist() for c in batch.columns), strict=True):
            self._pending[part].append(parcel)
        self._time = batch.proctime

    def commit(self, epoch: int) -> int:
        stamp = encode_header(SenderHeader(self._share.index, epoch, self._shuffle.version))
        additions = [
            Addition(
                self._shuffle.topic,
                part,
                parcels,
                self._time,
                [stamp] * len(parcels),
                self._writer,
                epoch,
                compression=self._compression,
            )
            for part, parcels in self._pending.items()
        ]
        for (part, parcels), done in zip(
            self._pending.items(), self._broker.append_all(additions), strict=True
        ):
            if not done.duplicate:
                self._shuffle.unread.add(part, done.next_offset, sum(map(len, parcels)))
        self._pending.clear()
        return sum(len(a.values) for a in additions)

    def close(self) -> None: ...
