"""Compaction: only the last record of each key stays, at its offset.

The result is one segment, written and synced beside the old ones, and then renamed to its final
name. From then on it counts, and the old ones are removed (if need be by recovery), so that a crash
at any time leaves either.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlengine.broker.base import Records
from sqlengine.broker.errors import cannot_write
from sqlengine.broker.storage.codec import NO_EPOCH, compress, encode, seal
from sqlengine.broker.storage.compression import Compression
from sqlengine.broker.storage.head import State, file_generation, file_name
from sqlengine.broker.storage.latest_values import latest_values as latest_values
from sqlengine.broker.storage.reading import ReadBounds, read_range
from sqlengine.broker.storage.segment import Segment
from sqlengine.broker.storage.shard import ShardLog
from sqlengine.broker.topics import Definition

KEEP_TOMBSTONES_MS = 24 * 3600 * 1000
_CHUNK = ReadBounds(100_000, 8 << 20, None)
# The size of a step: compaction must not occupy its thread for long.
_STEP = ReadBounds(10_000, 1 << 20, None)
_DUE_BYTES = 1 << 20


def compact(log: ShardLog, now_ms: int, topic: Definition) -> None:
    """Compacts everything appended so far, while appends and reads go on. Raises BrokerFull,
    changing nothing."""
    for _ in steps(log, now_ms, topic):
        pass


def is_due(log: ShardLog) -> bool:
    """True if as much was appended since the last compaction as it left, and at least 1 MiB."""
    first = log.segments[0]
    compacted = first.tail.size if first.state.covers is not None else 0
    return log.size - compacted > max(_DUE_BYTES, compacted)


def steps(log: ShardLog, now_ms: int, topic: Definition) -> Iterator[None]:
    """Compacts in steps of some milliseconds, all in one thread; stopping before the last one
    changes nothing."""
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
            # From here on the result counts. `covers` in its head tells recovery which segments it
            # replaces.
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
    """Returns the last value per key, without keys whose last value is NULL."""
    return latest_values(lambda offset: log.read(offset, _CHUNK), log.begin)


def _write(
    segment: Segment,
    log: ShardLog,
    old: tuple[Segment, ...],
    oldest_tombstone: int,
    compression: Compression,
) -> Iterator[None]:
    """Fills the new segment with the surviving records of `old`; its batches cover all offsets
    without gaps."""
    # Two passes: the first finds the last offset of each key, the second copies the records at
    # these offsets. So memory holds keys and offsets, but no values.
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
