"""The sink of topics, exactly once: an epoch's rows leave as one append per shard, with the
epoch and its writer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from xxhash import xxh64_intdigest

from parser.errors import OptionError
from parser.types import Schema
from planner.catalog import Table
from sqlengine.batch import Batch, IntArray
from sqlengine.broker.base import Broker
from sqlengine.broker.errors import BrokerAway
from sqlengine.broker.storage.compression import Compression
from sqlengine.connectors.base import Busy, Sink
from sqlengine.connectors.encoded import RowEncoder
from sqlengine.connectors.topic.upserts import Upserts, is_upsert
from sqlengine.formats.base import Encoder
from sqlengine.formats.options import did_you_mean
from sqlengine.formats.registry import encoder_for
from sqlengine.state.keys import check_keys, encode


class TopicRecords(RowEncoder):
    """Makes the records of a topic: their values, and where they have keys these, and the number
    that chooses the shard of each."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._names = table.physical.names
        self._encoder: Encoder = encoder_for(table)
        self._upserts = Upserts(table) if is_upsert(table) else None
        self._keys = (
            table.physical.select(table.primary_key)
            if self._upserts is not None
            else _key_schema(table)
        )

    def encode(self, rows: Batch) -> tuple[pa.Array, ...]:
        """See `RowEncoder`."""
        rows = rows.with_columns(
            rows.schema.select(self._names), [rows.column(n) for n in self._names]
        )
        values = self._encoder.encode(rows)
        if self._keys is None:
            return (values,)
        places = encode(
            [c.type for c in self._keys], [rows.column(c.name) for c in self._keys], rows.num_rows
        )
        hashes = np.fromiter((xxh64_intdigest(p, 0) for p in places), np.uint64, rows.num_rows)
        if self._upserts is None:
            return values, pa.array(places, pa.binary()), pa.array(hashes)
        keys = self._upserts.keys(rows)
        return self._upserts.values(values, rows), keys, pa.array(hashes)


class TopicSink(Sink):
    """Buffers an epoch's records until its commit.

    With a `writer` they are appended once: all shards but the first are appended to before it, so
    that its last epoch is the writer's. Where a crash came between, the same epoch again adds what
    is missing and nothing else."""

    def __init__(
        self,
        broker: Broker,
        table: Table,
        shards: int,
        writer: str | None,
        clock: Callable[[], int],
        compression: Compression | None = None,
    ) -> None:
        self._broker = broker
        self._compression = compression
        self._topic = table.options["topic"]
        self._shards = shards
        self._writer = writer
        self._clock = clock
        self._records = TopicRecords(table)
        self._pending: list[tuple[pa.Array, ...]] = []
        self._time = 0
        self._written = 0  # rows of a commit that goes on in the next call

    def last_epoch(self) -> int | None:
        return (
            None if self._writer is None else self._broker.last_epoch(self._topic, 0, self._writer)
        )

    def write(self, batch: Batch) -> None:
        if not batch.num_rows:
            return
        self._pending.append(self._records.encoded(batch))
        self._time = max(self._time, batch.proctime)

    def commit(self, epoch: int) -> int:
        """See `Sink`. Busy while the servers behind our broker are away: the next call finds out
        what they have got."""
        if not self._pending:
            return 0
        values, *keyed = (pa.concat_arrays(c) for c in zip(*self._pending, strict=True))
        keys, hashes = keyed or (None, None)
        try:
            for shard, rows in reversed(list(enumerate(self._split(epoch, hashes, len(values))))):
                if len(rows) or shard == 0:
                    self._written += self._append(shard, epoch, values, keys, rows)
        except BrokerAway as error:
            raise self._busy(error) from None
        written, self._written = self._written, 0
        self._pending, self._time = [], 0
        return written

    def _busy(self, error: BrokerAway) -> Busy:
        return Busy(
            f"topic '{self._topic}' cannot be written now",
            detail=f"{error.message}: {error.detail}",
            hint="its rows are kept, and written when its broker is there again",
        )

    def _split(self, epoch: int, hashes: pa.Array | None, count: int) -> list[IntArray]:
        """Returns the rows of each shard."""
        if hashes is None:
            chosen = epoch % self._shards
            return [
                np.arange(count) if s == chosen else np.empty(0, np.int64)
                for s in range(self._shards)
            ]
        shards = hashes.to_numpy() % np.uint64(self._shards)
        return [np.flatnonzero(shards == s) for s in range(self._shards)]

    def _append(
        self, shard: int, epoch: int, values: pa.Array, keys: pa.Array | None, rows: IntArray
    ) -> int:
        def mine(column: pa.Array) -> pa.Array:
            return column if len(rows) == len(column) else column.take(pa.array(rows))

        appended = self._broker.append(
            self._topic,
            shard,
            mine(values),
            keys=None if keys is None else mine(keys),
            timestamp_ms=self._time or self._clock(),
            writer=self._writer,
            epoch=None if self._writer is None else epoch,
            compression=self._compression,
        )
        return 0 if appended.duplicate else len(rows)

    def close(self) -> None: ...


def _key_schema(table: Table) -> Schema | None:
    """Returns the columns of 'key.fields'; PlanError for one that is not in the records."""
    text = table.options.get("key.fields")
    if text is None:
        return None
    names = tuple(n.strip() for n in text.split(";"))
    for name in names:
        if name not in table.physical:
            hint = did_you_mean(name, table.physical.names)
            message = f"'key.fields' of table '{table.display}' names no column '{name}'"
            raise OptionError(message, hint=hint, subject="key.fields")
    keys = table.physical.select(names)
    check_keys(keys)
    return keys
