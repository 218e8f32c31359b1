"""The sink of topics, exactly once: an epoch's rows leave as one append per shard, with the
epoch and its writer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from xxhash import xxh64_intdigest

from parser.errors import PlanError
from parser.types import Schema
from planner.catalog import Table
from sqlengine.batch import Batch, IntArray
from sqlengine.broker.base import Broker
from sqlengine.broker.storage.compression import Compression
from sqlengine.connectors.base import Sink
from sqlengine.connectors.topic.upserts import Upserts, is_upsert
from sqlengine.formats.base import Encoder
from sqlengine.formats.options import did_you_mean
from sqlengine.formats.registry import encoder_for
from sqlengine.state.keys import check_keys, encode


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
        self._names = table.physical.names
        self._encoder: Encoder = encoder_for(table)
        self._upserts = Upserts(table) if is_upsert(table) else None
        self._keys = (
            table.physical.select(table.primary_key)
            if self._upserts is not None
            else _key_schema(table)
        )
        self._pending: list[tuple[pa.Array, list[bytes] | None, pa.Array | None]] = []
        self._time = 0

    def last_epoch(self) -> int | None:
        return (
            None if self._writer is None else self._broker.last_epoch(self._topic, 0, self._writer)
        )

    def write(self, batch: Batch) -> None:
        if not batch.num_rows:
            return
        rows = batch.with_columns(
            batch.schema.select(self._names), [batch.column(n) for n in self._names]
        )
        keys = None
        if self._keys is not None:
            keys = encode(
                [c.type for c in self._keys],
                [batch.column(c.name) for c in self._keys],
                batch.num_rows,
            )
        values, own = self._encoder.encode(rows), None
        if self._upserts is not None:
            values, own = self._upserts.values(values, rows), self._upserts.keys(rows)
        self._pending.append((values, keys, own))
        self._time = max(self._time, batch.proctime)

    def commit(self, epoch: int) -> int:
        if not self._pending:
            return 0
        values = pa.concat_arrays([v for v, _, _ in self._pending])
        places = None if self._keys is None else [k for _, ks, _ in self._pending for k in ks or []]
        keys = places
        if self._upserts is not None:
            keys = [k for _, _, own in self._pending if own is not None for k in own.to_pylist()]
        written = 0
        for shard, rows in reversed(list(enumerate(self._split(epoch, places, len(values))))):
            if len(rows) or shard == 0:
                written += self._append(shard, epoch, values, keys, rows)
        self._pending, self._time = [], 0
        return written

    def _split(self, epoch: int, keys: list[bytes] | None, count: int) -> list[IntArray]:
        """Returns the rows of each shard."""
        if keys is None:
            chosen = epoch % self._shards
            return [
                np.arange(count) if s == chosen else np.empty(0, np.int64)
                for s in range(self._shards)
            ]
        shards = np.fromiter((xxh64_intdigest(k, 0) % self._shards for k in keys), np.int64, count)
        return [np.flatnonzero(shards == s) for s in range(self._shards)]

    def _append(
        self, shard: int, epoch: int, values: pa.Array, keys: list[bytes] | None, rows: IntArray
    ) -> int:
        appended = self._broker.append(
            self._topic,
            shard,
            values if len(rows) == len(values) else values.take(pa.array(rows)),
            keys=None if keys is None else [keys[i] for i in rows.tolist()],
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
            raise PlanError(
                f"'key.fields' of table '{table.display}' names no column '{name}'", hint=hint
            )
    keys = table.physical.select(names)
    check_keys(keys)
    return keys
