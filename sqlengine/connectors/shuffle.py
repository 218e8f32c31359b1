"""The topic over which the parts of a divided graph exchange rows: shard p holds what part p is sent.

Nobody declares a table over it; plans of parts name it (planner/division.py). A record is one batch (see
operators/shuffle.py), its key says which part sent it, in which epoch and at which version of the graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import ClassVar

from parser.errors import ServiceError
from planner.division import Share
from planner.logical.shuffle import KEY
from sqlengine.batch import Batch
from sqlengine.broker.base import Addition, Broker, Records, system_topic
from sqlengine.broker.packing import Compression
from sqlengine.connectors.base import Chunk
from sqlengine.parcels import Stamp, decode_stamp, encode_stamp


def shuffle_topic(graph: str) -> str:
    return system_topic("shuffle", graph)


class Shuffle:
    """One part's end of the exchange. `version` is that of the part's graph: what parts at a later one have sent is not read
    before this part has made the change, too."""

    def __init__(self, broker: Broker, graph: str, share: Share, compression: Compression = "lz4") -> None:
        self.topic = shuffle_topic(graph)
        made = broker.create_topic(self.topic, share.parts, if_not_exists=True)
        if made.shards != share.parts:
            raise ServiceError(
                f"graph '{graph}' has {made.shards} parts, not {share.parts}",
                hint="the number of parts is fixed when a graph is made",
            )
        self.version = 0
        self._broker, self._index = broker, share.index
        self.source = ShuffleSource(self, broker, share)
        self.sink = ShuffleSink(self, broker, f"{graph}-{share.index}", share, compression)

    def forget(self, before: int) -> None:
        """What stands before that offset of the part's shard is in a checkpoint."""
        self._broker.trim(self.topic, self._index, before)


class ShuffleSource:
    """Reads this part's shard. Offsets count batches."""

    bounded: ClassVar[bool] = False

    def __init__(self, shuffle: Shuffle, broker: Broker, share: Share) -> None:
        self._shuffle = shuffle
        self._broker = broker
        self._shard = share.index

    def shards(self) -> list[str]:
        return [str(self._shard)]

    def start(self, shard: str) -> int:
        return self._broker.begin_offset(self._shuffle.topic, self._shard)

    def end(self, shard: str) -> int | None:
        return self._broker.end_offset(self._shuffle.topic, self._shard)

    def read(self, shard: str, offset: int, *, max_rows: int, until: int | None = None) -> Chunk | None:
        topic = self._shuffle.topic
        records = self._broker.read(topic, self._shard, offset, max_records=max_rows, until=until)
        if records is None:
            return None
        count = records.num_rows if until is not None else self._ready(records)
        if not count:
            return None
        end = records.next_offset if count == records.num_rows else int(records.offsets[count])
        keys = None if records.keys is None else records.keys.slice(0, count)
        assert keys is not None, "every batch is stamped"
        offsets = records.offsets[:count]
        return Chunk(shard, offset, end, count, records.values.slice(0, count), offsets=offsets, metadata={KEY: keys})

    def _ready(self, records: Records) -> int:
        """How many of the first are of versions that this part has reached."""
        assert records.keys is not None
        later = (n for n, k in enumerate(records.keys.to_pylist()) if decode_stamp(k).version > self._shuffle.version)
        return next(later, records.num_rows)

    def passed(self, positions: Mapping[str, int]) -> None: ...

    def close(self) -> None: ...


class ShuffleSink:
    """Sends an epoch's parcels, in one request: a batch for each part that gets any, this one included. An epoch that is repeated adds
    where it is missing and nowhere else."""

    guarantee: ClassVar[str] = "exactly-once"

    def __init__(self, shuffle: Shuffle, broker: Broker, writer: str, share: Share, compression: Compression) -> None:
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
        stamp = encode_stamp(Stamp(self._share.index, epoch, self._shuffle.version))
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
        self._broker.append_all(additions)
        self._pending.clear()
        return sum(len(a.values) for a in additions)

    def close(self) -> None: ...
