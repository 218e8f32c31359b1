"""From segments to `Records`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sqlengine.broker.base import IntArray, Records
from sqlengine.broker.codec import BINARY, MAX_BATCH_BYTES, Header, Parts, decode, decode_plain, is_plain
from sqlengine.broker.errors import BrokerError
from sqlengine.broker.segment import Segment

_MAX_ARRAY_BYTES = 2**31 - 1


class Limits(NamedTuple):
    """How much to read: exactly up to the offset `until`, or if that is None at most so many records and bytes."""

    records: int
    bytes: int
    until: int | None


class Piece(NamedTuple):
    """A batch in a mapped file."""

    buffer: pa.Buffer
    view: memoryview
    position: int
    header: Header


def read_range(topic: str, shard: int, segments: Sequence[Segment], offset: int, limits: Limits) -> Records:
    """Records of `segments` from `offset` on, which lies in them; no rows only where compaction left none."""
    if limits.until is None:
        limits = Limits(max(1, limits.records), min(limits.bytes, MAX_BATCH_BYTES), None)
    pieces, reached = _collect(segments, offset, limits)
    if len(pieces) > 1 and all(is_plain(piece.header) for piece in pieces):
        parts: list[Parts] = []
        values = _join_plain(pieces)
    else:
        parts = [decode(piece.buffer, piece.position, piece.header) for piece in pieces]
        values = _join([part.values for part in parts])
    offsets, timestamps = _offsets(pieces, parts), _timestamps(pieces, parts)
    first = int(np.searchsorted(offsets, offset))
    last = _last_row(values, offsets, first, limits)
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


def _collect(segments: Sequence[Segment], offset: int, limits: Limits) -> tuple[list[Piece], int]:
    """Batches that hold what `limits` asks for, and the offset where the last of them ends."""
    pieces: list[Piece] = []
    rows = size = 0
    reached = offset
    until = limits.until
    for segment in segments[bisect_right(segments, offset, key=_base) - 1 :]:
        tail = segment.tail
        if until is not None and segment.base >= until:
            break
        buffer = segment.buffer()
        view = memoryview(buffer)
        for position, header in segment.batches(view, segment.position_of(offset, view, tail), tail):
            if header.next <= offset:
                continue
            if until is not None and header.base >= until:
                return pieces, until
            segment.check(view, position, header)
            if header.rows:
                pieces.append(Piece(buffer, view, position, header))
            reached = header.next
            share = header.next - max(header.base, offset)
            rows += share
            size += header.value_bytes * share // max(1, header.rows)
            if until is None and (rows >= limits.records or size >= limits.bytes):
                segment.remember(reached, position + header.length)
                return pieces, reached
        segment.require_end(reached, tail)
        if segment is segments[-1]:
            segment.remember(reached, tail.size)
        else:
            segment.unmap()  # each mapped file costs a descriptor
    return pieces, reached


def _base(segment: Segment) -> int:
    return segment.base


def _join(arrays: list[pa.BinaryArray]) -> pa.BinaryArray:
    if len(arrays) == 1:
        return arrays[0]
    if not arrays:
        return pa.array([], BINARY)
    _require_fit(sum(array.nbytes for array in arrays))
    return pa.concat_arrays(arrays)


def _join_plain(pieces: list[Piece]) -> pa.BinaryArray:
    """The same as `_join` of the decoded batches, at a third of its price for many small ones."""
    sizes = np.array([piece.header.value_bytes for piece in pieces], np.int64)
    _require_fit(int(sizes.sum()))
    columns = [decode_plain(piece.view, piece.position, piece.header) for piece in pieces]
    ends = np.zeros(sum(piece.header.rows for piece in pieces) + 1, np.int32)
    ends[1:] = np.frombuffer(b"".join([ends for ends, _ in columns]), "<i4")
    ends[1:] += np.repeat(np.cumsum(sizes) - sizes, [piece.header.rows for piece in pieces]).astype(np.int32)
    data = pa.py_buffer(b"".join([data for _, data in columns]))
    return pa.Array.from_buffers(BINARY, len(ends) - 1, [None, pa.py_buffer(ends), data], 0)


def _require_fit(size: int) -> None:
    if size > _MAX_ARRAY_BYTES:
        raise BrokerError("more than 2 GiB of records were asked for at once", hint="read a smaller range")


def _join_keys(parts: list[Parts]) -> pa.BinaryArray | None:
    if all(part.keys is None for part in parts):
        return None
    return _join([pa.nulls(len(part.values), BINARY) if part.keys is None else part.keys for part in parts])


def _offsets(pieces: list[Piece], parts: list[Parts]) -> IntArray:
    if all(part.offsets is None for part in parts):
        # Batches that were not compacted leave no gaps between them.
        return np.arange(pieces[0].header.base, pieces[-1].header.next) if pieces else np.empty(0, np.int64)
    return np.concatenate(
        [
            np.arange(piece.header.base, piece.header.next) if part.offsets is None else part.offsets
            for piece, part in zip(pieces, parts, strict=True)
        ]
    )


def _timestamps(pieces: list[Piece], parts: list[Parts]) -> IntArray:
    if all(part.timestamps is None for part in parts):
        times = [piece.header.timestamp for piece in pieces]
        return np.repeat(np.array(times, np.int64), [piece.header.rows for piece in pieces])
    return np.concatenate(
        [
            np.full(piece.header.rows, piece.header.timestamp) if part.timestamps is None else part.timestamps
            for piece, part in zip(pieces, parts, strict=True)
        ]
    )


def _last_row(values: pa.BinaryArray, offsets: IntArray, first: int, limits: Limits) -> int:
    """The row behind the last that the limits allow, at least one row."""
    if limits.until is not None:
        return int(np.searchsorted(offsets, limits.until))
    last = min(len(offsets), first + limits.records)
    if first >= last:
        return last
    ends = np.frombuffer(values.buffers()[1], np.int32)[: len(values) + 1]
    most = min(_MAX_ARRAY_BYTES, int(ends[first]) + limits.bytes)
    allowed = int(np.searchsorted(ends, most, side="right")) - 1
    return max(first + 1, min(last, allowed))
