"""Compaction: of the records of a key only the last stays, at its offset.

The result is one segment, written and synced beside the old ones. It has its name when it is whole;
from then on it counts and they do not (recovery removes them), so that a death at any moment leaves
either.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlengine.broker.base import Records
from sqlengine.broker.errors import cannot_write
from sqlengine.broker.storage.codec import NO_EPOCH, compress, encode, seal
from sqlengine.broker.storage.head import State, file_generation, file_name
from sqlengine.broker.storage.latest import latest as latest_values
from sqlengine.broker.storage.packing import Compression
from sqlengine.broker.storage.reading import ReadBounds, read_range
from sqlengine.broker.storage.segment import Segment
from sqlengine.broker.storage.shard import ShardLog
from sqlengine.broker.topics import Definition

KEEP_TOMBSTONES_MS = 24 * 3600 * 1000
_CHUNK = ReadBounds(100_000, 8 << 20, None)
# Of a step: nobody waits for long for a thread that does it.
_STEP = ReadBounds(10_000, 1 << 20, None)
_DUE_BYTES = 1 << 20


def compact(log: ShardLog, now_ms: int, topic: Definition) -> None:
    """Compacts all that was appended so far. Appends and reads go on meanwhile. Raises BrokerFull,
    changing nothing."""
    for _ in steps(log, now_ms, topic):
        pass


def is_due(log: ShardLog) -> bool:
    """Whether as much was appended since the last compaction as it left, and enough to be worth
    it."""
    first = log.segments[0]
    compacted = first.tail.size if first.state.covers is not None else 0
    return log.size - compacted > max(_DUE_BYTES, compacted)


def steps(log: ShardLog, now_ms: int, topic: Definition) -> Iterator[None]:
    """The same in steps of some milliseconds, all in one thread. Who stops before the last one has
    changed nothing."""
    keep_ms = KEEP_TOMBSTONES_MS if topic.delete_retention_ms is None else topic.delete_retention_ms
    with log.maintenance:
        old = log.roll()
        if not old:
            return
        first, end = old[0], old[-1].tail.next_offset
        state = State(
            first.base, first.state.max_timestamp, log.segments[len(old)].state.writers, end
        )
        path = log.folder / file_name(first.base, file_generation(first.path) + 1)
        try:
            fresh = Segment.create_unnamed(path.with_suffix(".tmp"), state, log.options.disk)
        except OSError as error:
            raise cannot_write(log.where, error) from error
        try:
            yield from _write(fresh, log, old, now_ms - keep_ms, topic.compression)
            fresh.publish(path, durable=True)
        except OSError as error:
            fresh.remove()
            raise cannot_write(log.where, error) from error
        except BaseException:
            fresh.remove()
            raise
        fresh.close()
        log.replace(old, fresh)


def latest(log: ShardLog) -> dict[bytes, bytes]:
    """The last value per key; keys whose last value is NULL are left out."""
    return latest_values(lambda offset: log.read(offset, _CHUNK), log.begin)


def _write(
    segment: Segment,
    log: ShardLog,
    old: tuple[Segment, ...],
    oldest_tombstone: int,
    compression: Compression,
) -> Iterator[None]:
    """Fills the new segment with what survives of `old`. Its batches leave no offset out, as those
    of any segment."""
    last: dict[bytes, int] = {}
    for records in _chunks(log, old):
        keys = records.keys.to_pylist() if records.keys is not None else []
        last.update(zip(keys, records.offsets.tolist(), strict=False))
        yield
    survivors = np.sort(np.fromiter(last.values(), np.int64, len(last)))
    del last
    for records in _chunks(log, old):
        keep = np.isin(records.offsets, survivors, assume_unique=True)
        if records.values.null_count:
            keep &= records.values.is_valid().to_numpy(zero_copy_only=False) | (
                records.timestamps >= oldest_tombstone
            )
        if keep.any():
            _write_batch(segment, records, keep, compression)
        yield
    base, _, newest = segment.tail
    end = old[-1].tail.next_offset
    if base < end:
        batch = seal(encode([], None), segment.mark, base, end, newest, b"", NO_EPOCH)
        segment.advance(base, segment.write(batch, durable=False), end, newest)


def _write_batch(
    segment: Segment, records: Records, keep: npt.NDArray[np.bool_], compression: Compression
) -> None:
    rows = pa.array(keep)
    times = records.timestamps[keep]
    keys = None if records.keys is None else records.keys.filter(rows)
    payload = compress(
        encode(records.values.filter(rows), keys, records.offsets[keep], times), compression
    )
    base, newest = segment.tail.next_offset, int(times.max())
    batch = seal(payload, segment.mark, base, records.next_offset, newest, b"", NO_EPOCH)
    segment.advance(base, segment.write(batch, durable=False), records.next_offset, newest)


def _chunks(log: ShardLog, segments: tuple[Segment, ...]) -> Iterator[Records]:
    position, end = segments[0].base, segments[-1].tail.next_offset
    while position < end:
        records = read_range(log.topic, log.shard, segments, position, _STEP)
        yield records
        position = records.next_offset
