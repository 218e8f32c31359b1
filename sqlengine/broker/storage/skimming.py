"""Reading very many small batches: what each of them holds is found for all at once, with NumPy."""

from __future__ import annotations

import struct
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sqlengine.broker.base import IntArray, Records
from sqlengine.broker.storage.codec import BINARY, HEADER, Header
from sqlengine.broker.storage.reading import ReadBounds, last_row, sensible
from sqlengine.broker.storage.segment import Segment, Tail

Heads: TypeAlias = np.ndarray[tuple[int], np.dtype[np.void]]
# For fewer it is not worth it.
FEW = 48
# A larger batch is not a small one: it is no longer its head that costs.
SMALL_BYTES = 4096
_LENGTH_AT, _FLAGS_AT = 8, 50
_LENGTH, _FLAGS = struct.Struct("<I"), struct.Struct("<H")
_MAX_BATCHES = 20_000
_HEAD = np.dtype(
    [
        ("crc", "<u4"),
        ("mark", "<u4"),
        ("length", "<u4"),
        ("rows", "<u4"),
        ("base", "<i8"),
        ("next", "<i8"),
        ("timestamp", "<i8"),
        ("epoch", "<i8"),
        ("writer_size", "<u2"),
        ("flags", "<u2"),
        ("value_bytes", "<u4"),
        ("key_bytes", "<u4"),
        ("plain_bytes", "<u4"),
    ]
)


def skim(
    topic: str, shard: int, segment: Segment, offset: int, limits: ReadBounds
) -> Records | None:
    """Records of the segment from `offset` on within the limits, at least one; fewer than they
    allow where that is simpler. None where its batches are not small, not many, not plain or not
    sound: they are to be read otherwise, which also tells what is wrong."""
    limits = sensible(limits)
    if limits.until is not None or limits.records < FEW:
        return None
    tail, buffer = segment.tail, segment.buffer()
    view = memoryview(buffer)
    found = _walk(view, segment.position_of(offset, view, tail), tail, limits)
    if found is None:
        return None
    positions = np.array(found[:-1], np.int64)
    words = np.frombuffer(buffer, "<i8", tail.size // 8)
    heads = words[positions[:, None] // 8 + np.arange(HEADER.size // 8)].view(_HEAD)[:, 0]
    first = int(np.searchsorted(heads["next"], offset, side="right"))
    behind = _within(heads, first, offset, limits)
    heads, positions = heads[first:behind], positions[first:behind]
    if not _plain(heads, segment.mark, offset):
        return None
    behind_them = int(positions[-1]) + int(heads["length"][-1])
    if not segment.is_checked(int(positions[0]), behind_them):
        headers = [
            Header._make(HEADER.unpack_from(view, position)) for position in positions.tolist()
        ]
        segment.check(view, positions.tolist(), headers)
    segment.remember(int(heads["next"][-1]), behind_them)
    return _records(topic, shard, buffer, tail, positions, heads, offset, limits)


def _walk(view: memoryview, position: int, tail: Tail, limits: ReadBounds) -> list[int] | None:
    """Where batches begin, and where the last of them ends."""
    unpack, end = _LENGTH.unpack_from, tail.size
    if position + HEADER.size > end or _FLAGS.unpack_from(view, position + _FLAGS_AT)[0]:
        return None
    stop = min(end, position + 2 * limits.bytes + SMALL_BYTES)
    most = min(_MAX_BATCHES, limits.records + FEW)
    found = [position]
    while position + HEADER.size <= stop and len(found) <= most:
        (length,) = unpack(view, position + _LENGTH_AT)
        position += length
        if not HEADER.size <= length <= SMALL_BYTES or length % 8 or position > end:
            break
        found.append(position)
    return found if len(found) > FEW else None


def _within(heads: Heads, first: int, offset: int, limits: ReadBounds) -> int:
    """Behind the last batch that is needed, or begun."""
    enough = int(np.searchsorted(heads["next"], offset + limits.records)) + 1
    sizes = np.cumsum(heads["value_bytes"][first:].astype(np.int64))
    return min(len(heads), enough, first + int(np.searchsorted(sizes, limits.bytes)) + 2)


def _plain(heads: Heads, mark: int, offset: int) -> bool:
    """Whether these are batches one behind the other that hold values and nothing else."""
    return bool(
        len(heads)
        and (heads["mark"] == mark).all()
        and not heads["flags"].any()
        and (heads["rows"] == heads["next"] - heads["base"]).all()
        and (heads["base"][1:] == heads["next"][:-1]).all()
        and heads["base"][0] <= offset < heads["next"][-1]
    )


def _records(
    topic: str,
    shard: int,
    buffer: pa.Buffer,
    tail: Tail,
    positions: IntArray,
    heads: Heads,
    offset: int,
    limits: ReadBounds,
) -> Records:
    rows = heads["rows"].astype(np.int64)
    starts = positions + HEADER.size + (heads["writer_size"].astype(np.int64) + 7) // 8 * 8
    sizes = heads["value_bytes"].astype(np.int64)
    before_rows = np.cumsum(rows) - rows
    total = int(rows.sum())
    # The ends of a batch's values stand behind a 0; those of all of them go on from batch to batch.
    words = np.repeat(starts // 4 + 1 - before_rows, rows) + np.arange(total)
    ends = np.empty(total + 1, np.int32)
    ends[0] = 0
    ends[1:] = np.frombuffer(buffer, "<i4", tail.size // 4)[words] + np.repeat(
        np.cumsum(sizes) - sizes, rows
    )
    data = starts + (4 * (rows + 1) + 7) // 8 * 8
    view = memoryview(buffer)
    joined = b"".join(
        [view[at:behind] for at, behind in zip(data.tolist(), (data + sizes).tolist(), strict=True)]
    )
    values = pa.Array.from_buffers(
        BINARY, total, [None, pa.py_buffer(ends), pa.py_buffer(joined)], 0
    )
    base = int(heads["base"][0])
    offsets = np.arange(base, base + total)
    begin = offset - base
    behind = last_row(values, offsets, begin, limits)
    times = np.repeat(heads["timestamp"], rows)[begin:behind]
    found = values.slice(begin, behind - begin)
    return Records(topic, shard, offset, base + behind, found, None, times, offsets[begin:behind])
