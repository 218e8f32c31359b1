"""Reads records from segments."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from sqlengine.broker.base import IntArray, Records
from sqlengine.broker.errors import BrokerError
from sqlengine.broker.storage.codec import (
    BINARY,
    MAX_BATCH_BYTES,
    Header,
    Parts,
    decode,
    is_intact,
    plain_values,
)
from sqlengine.broker.storage.index import INDEX_BYTES
from sqlengine.broker.storage.segment import Segment, Tail
from sqlengine.broker.storage.window import Window

_MAX_ARRAY_BYTES = 2**31 - 1
_NO_LIMIT = 2**62
# What a read takes of a file at first: so much more than expected, and within these bounds.
_MARGIN = 1.25
_LEAST_BYTES, _MOST_BYTES = 4 << 10, 2 << 20


class ReadBounds(NamedTuple):
    """The limits of a read: exactly up to the offset `until`, or if that is None at most so many
    records and bytes."""

    records: int
    bytes: int
    until: int | None


class Run(NamedTuple):
    """Consecutive batches of one segment: what was read, their places in it, and their headers."""

    window: Window
    places: list[int]
    headers: list[Header]


class Batches(msgspec.Struct, frozen=True, array_like=True):
    """Consecutive batches as they are in the files; their records end at the offset `reached`."""

    data: bytes
    reached: int

    def run(self) -> Run:
        """Parses the batches. Raises BrokerError unless all of them are intact."""
        window, at = Window.of(self.data), 0
        run, view = Run(window, [], []), window.view
        while at < len(view):
            mark = int.from_bytes(view[at + 4 : at + 8], "little")
            header = window.header(at, len(view), mark)
            if header is None or not is_intact(view, at, header):
                raise BrokerError("batches were damaged on their way", hint="read them again")
            run.places.append(at)
            run.headers.append(header)
            at += header.length
        return run


class Begin(NamedTuple):
    """The beginning of a read: its first segment as it is now, and what was read of that from the
    byte `position` on, at which a batch begins."""

    segment: Segment
    tail: Tail
    position: int
    window: Window


def begin_read(segment: Segment, offset: int, limits: ReadBounds) -> Begin:
    """Reads as much of the segment as the records from `offset` on within the limits will take."""
    tail = segment.tail
    position = segment.end_of_read(offset)
    size = _expected_bytes(segment, tail, offset, limits)
    if position is None:
        position = segment.indexed_position(offset, tail)
        size += INDEX_BYTES  # batches between the entry of the index and the offset
    return Begin(segment, tail, position, segment.window(position, size, tail))


def _expected_bytes(segment: Segment, tail: Tail, offset: int, limits: ReadBounds) -> int:
    """Returns how many bytes a read will need, by the average of the segment's records."""
    records = limits.records if limits.until is None else max(0, limits.until - offset)
    average = (tail.size - segment.start) / max(1, tail.next_offset - segment.base)
    most = _MOST_BYTES if limits.until is not None else min(limits.bytes, _MOST_BYTES)
    return max(_LEAST_BYTES, min(int(records * average * _MARGIN), int(most * _MARGIN)))


def read_range(
    topic: str,
    shard: int,
    segments: Sequence[Segment],
    offset: int,
    limits: ReadBounds,
    begin: Begin | None = None,
) -> Records:
    """Returns records of `segments` from `offset` on, which is in them; no rows only if compaction
    left none. `begin`: what was read of the first of them already."""
    runs, reached = _collect_within(segments, offset, limits, begin)
    return records_of(topic, shard, runs, reached, offset, limits)


def read_batches(segments: Sequence[Segment], offset: int, limits: ReadBounds) -> Batches:
    """Returns the batches with these records, as a whole."""
    runs, reached = _collect_within(segments, offset, limits)
    batches = [
        run.window.view[at : at + header.length]
        for run in runs
        for at, header in zip(run.places, run.headers, strict=True)
    ]
    return Batches(b"".join(batches), reached)


def _collect_within(
    segments: Sequence[Segment], offset: int, limits: ReadBounds, begin: Begin | None = None
) -> tuple[list[Run], int]:
    limits = clamped(limits) if limits.until is None else limits
    stop = offset + limits.records if limits.until is None else limits.until
    size = limits.bytes if limits.until is None else _NO_LIMIT
    return _collect(segments, offset, stop, size, limits, begin)


def clamped(limits: ReadBounds) -> ReadBounds:
    """Limits a read to at least one record and byte, and to what an array can hold."""
    return limits._replace(
        records=max(1, limits.records), bytes=max(1, min(limits.bytes, MAX_BATCH_BYTES))
    )


def records_of(
    topic: str, shard: int, runs: list[Run], reached: int, offset: int, limits: ReadBounds
) -> Records:
    """Returns the records from `offset` on within `limits`, of batches that were collected for them
    and end at `reached`."""
    limits = clamped(limits)
    headers = [header for run in runs for header in run.headers]
    if len(headers) == 1 and _is_wanted(headers[0], offset, limits):
        return _whole_batch(topic, shard, runs[0], reached)
    if len(headers) > 1 and not any(header.flags for header in headers):
        parts: list[Parts] = []
        values = _join_plain(runs, headers)
    else:
        parts = [
            decode(run.window.buffer, *batch)
            for run in runs
            for batch in zip(run.places, run.headers, strict=True)
        ]
        values = _join([part.values for part in parts])
    offsets, timestamps = _offsets(headers, parts), _timestamps(headers, parts)
    # The first batch may begin before the offset, and the last one end after the limits.
    first = int(np.searchsorted(offsets, offset))
    last = last_row(values, offsets, first, limits)
    next_offset = reached if last == len(offsets) else int(offsets[last - 1]) + 1
    keys = _join_keys(parts)
    return Records(
        topic,
        shard,
        int(offsets[first]) if first < last else offset,
        next_offset if limits.until is None else limits.until,
        values.slice(first, last - first),
        None if keys is None else keys.slice(first, last - first),
        timestamps[first:last],
        offsets[first:last],
    )


def _is_wanted(header: Header, offset: int, limits: ReadBounds) -> bool:
    """True if just the records of a plain batch are to be read."""
    plain = not header.flags and header.next - header.base == header.rows
    fits = header.rows <= limits.records and header.value_bytes <= limits.bytes
    return plain and fits and header.base == offset and limits.until is None


def _whole_batch(topic: str, shard: int, run: Run, reached: int) -> Records:
    """Returns the records of a batch that is wanted as it is, which most reads of a reader that
    keeps up are: with few calls."""
    header = run.headers[0]
    values = decode(run.window.buffer, run.places[0], header).values
    times = np.full(header.rows, header.timestamp)
    offsets = np.arange(header.base, header.next)
    return Records(topic, shard, header.base, reached, values, None, times, offsets)


def _collect(
    segments: Sequence[Segment],
    offset: int,
    stop: int,
    size: int,
    limits: ReadBounds,
    begin: Begin | None,
) -> tuple[list[Run], int]:
    """Collects batches from `offset` on until one ends at or after `stop`, or has `size` bytes;
    returns where the last one ends."""
    runs: list[Run] = []
    reached = offset
    for segment in segments[bisect_right(segments, offset, key=_base) - 1 :]:
        if reached >= stop or size <= 0:
            break
        if begin is None or begin.segment is not segment:
            begin = begin_read(segment, max(offset, segment.base), limits)
        found, reached = _collect_runs(begin, offset, stop, size)
        for run in found:
            segment.check(run.window, run.places, run.headers)
            size -= sum(header.value_bytes for header in run.headers)
        runs += found
        if reached == begin.tail.next_offset and segment is not segments[-1]:
            segment.close()  # it is not read again soon
    return runs, reached


def _collect_runs(begin: Begin, offset: int, stop: int, size: int) -> tuple[list[Run], int]:
    segment, tail, start, first = begin
    runs: list[Run] = []
    reached = max(offset, segment.base)
    held = None
    for window, at, header in segment.batches(start, tail, len(first.view), first):
        if header.next <= offset:
            continue
        # Batches without rows record epochs, or gaps that compaction left.
        if header.rows:
            if window is not held:
                held = window
                runs.append(Run(window, [], []))
            runs[-1].places.append(at)
            runs[-1].headers.append(header)
        reached = header.next
        size -= header.value_bytes
        if reached >= stop or size <= 0:
            segment.note_end(reached, window.start + at + header.length)
            return runs, reached
    segment.require_end(reached, tail)
    segment.note_end(reached, tail.size)
    return runs, reached


def _base(segment: Segment) -> int:
    return segment.base


def _join(arrays: list[pa.BinaryArray]) -> pa.BinaryArray:
    if len(arrays) == 1:
        return arrays[0]
    if not arrays:
        return pa.array([], BINARY)
    _require_fit(sum(array.nbytes for array in arrays))
    return pa.concat_arrays(arrays)


def _join_plain(runs: list[Run], headers: list[Header]) -> pa.BinaryArray:
    """Joins batches as `_join` does, at a fifth of the cost for many small ones."""
    sizes = np.array([header.value_bytes for header in headers], np.int64)
    _require_fit(int(sizes.sum()))
    columns = [
        plain_values(run.window.view, *batch)
        for run in runs
        for batch in zip(run.places, run.headers, strict=True)
    ]
    ends = np.frombuffer(b"".join([b"\0\0\0\0", *(ends for ends, _ in columns)]), "<i4").copy()
    before = (np.cumsum(sizes) - sizes).astype(np.int32)
    ends[1:] += np.repeat(before, [header.rows for header in headers])
    data = pa.py_buffer(b"".join([data for _, data in columns]))
    return pa.Array.from_buffers(BINARY, len(ends) - 1, [None, pa.py_buffer(ends), data], 0)


def _require_fit(size: int) -> None:
    if size > _MAX_ARRAY_BYTES:
        raise BrokerError(
            "more than 2 GiB of records were asked for at once", hint="read a smaller range"
        )


def _join_keys(parts: list[Parts]) -> pa.BinaryArray | None:
    if all(part.keys is None for part in parts):
        return None
    return _join(
        [pa.nulls(len(part.values), BINARY) if part.keys is None else part.keys for part in parts]
    )


def _offsets(headers: list[Header], parts: list[Parts]) -> IntArray:
    known = [part.offsets for part in parts] or [None] * len(headers)
    if all(offsets is None for offsets in known):
        first, behind = (headers[0].base, headers[-1].next) if headers else (0, 0)
        # Batches that were not compacted leave no gaps between them, but where a repair did.
        if sum(header.rows for header in headers) == behind - first:
            return np.arange(first, behind)
    return np.concatenate(
        [
            np.arange(header.base, header.base + header.rows) if offsets is None else offsets
            for header, offsets in zip(headers, known, strict=True)
        ]
    )


def _timestamps(headers: list[Header], parts: list[Parts]) -> IntArray:
    if all(part.timestamps is None for part in parts):
        times = np.array([header.timestamp for header in headers], np.int64)
        return np.repeat(times, [header.rows for header in headers])
    return np.concatenate(
        [
            np.full(header.rows, header.timestamp) if part.timestamps is None else part.timestamps
            for header, part in zip(headers, parts, strict=True)
        ]
    )


def last_row(values: pa.BinaryArray, offsets: IntArray, first: int, limits: ReadBounds) -> int:
    """Returns the row after the last that the limits allow, at least one row."""
    if limits.until is not None:
        return int(np.searchsorted(offsets, limits.until))
    last = min(len(offsets), first + limits.records)
    if first >= last:
        return last
    ends = np.frombuffer(values.buffers()[1], np.int32)[: len(values) + 1]
    most = min(_MAX_ARRAY_BYTES, int(ends[first]) + limits.bytes)
    allowed = int(np.searchsorted(ends, most, side="right")) - 1
    return max(first + 1, min(last, allowed))


def first_since(segment: Segment, timestamp: int) -> int:
    """Returns the first offset since `timestamp` in a segment with such a record, or whose
    predecessor had it."""
    if segment.state.max_timestamp >= timestamp:
        return segment.base
    tail = segment.tail
    for window, at, header in segment.batches(segment.position_before(timestamp, tail), tail):
        if header.timestamp >= timestamp:
            batch = segment.window(window.start + at, header.length, tail)
            segment.check(batch, [0], [header])
            return _first_row_since(decode(batch.buffer, 0, header), header.base, timestamp)
    return tail.next_offset


def _first_row_since(parts: Parts, base: int, timestamp: int) -> int:
    if parts.offsets is None or parts.timestamps is None:
        return base
    return int(parts.offsets[int(np.argmax(parts.timestamps >= timestamp))])
