"""A fast path for reading many small batches: all their headers are parsed at once, with NumPy."""

from __future__ import annotations

import struct
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sqlengine.broker.base import IntArray, Records
from sqlengine.broker.storage.codec import BINARY, HEADER, Header
from sqlengine.broker.storage.reading import Begin, ReadBounds, clamped, last_row
from sqlengine.broker.storage.window import Window

Heads: TypeAlias = np.ndarray[tuple[int], np.dtype[np.void]]
# With fewer batches it does not pay.
FEW = 48
# In larger batches the header is not the main cost.
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


def read_small_batches(
    topic: str, shard: int, begin: Begin, offset: int, limits: ReadBounds
) -> Records | None:
    """Returns records from `offset` on within the limits of what was read of a segment, at least
    one, maybe fewer than possible.

    None if its batches are not small, many, plain and intact: the ordinary read handles these, and
    reports damage.
    """
    limits = clamped(limits)
    if limits.until is not None or limits.records < FEW:
        return None
    segment, window = begin.segment, begin.window
    bounds = _walk(window.view, begin.position - window.start, limits)
    if bounds is None:
        return None
    places = np.array(bounds[:-1], np.int64)
    # Batches begin at multiples of 8 bytes: with what was read as 8-byte words, one index operation
    # copies all headers, which are then viewed as records.
    words = np.frombuffer(window.buffer, "<i8", len(window.view) // 8)
    heads = words[places[:, None] // 8 + np.arange(HEADER.size // 8)].view(_HEAD)[:, 0]
    first = int(np.searchsorted(heads["next"], offset, side="right"))
    stop = _within(heads, first, offset, limits)
    heads, places = heads[first:stop], places[first:stop]
    if not _plain(heads, segment.mark, offset):
        return None
    end_of_batches = window.start + int(places[-1]) + int(heads["length"][-1])
    if not segment.is_checked(window.start + int(places[0]), end_of_batches):
        headers = [Header._make(HEADER.unpack_from(window.view, at)) for at in places.tolist()]
        segment.check(window, places.tolist(), headers)
    segment.note_end(int(heads["next"][-1]), end_of_batches)
    return _records(topic, shard, window, places, heads, offset, limits)


def _walk(view: memoryview, position: int, limits: ReadBounds) -> list[int] | None:
    """Returns the places of batches, and the end of the last one; None if they are too few or not
    plain."""
    unpack, end = _LENGTH.unpack_from, len(view)
    if position + HEADER.size > end or _FLAGS.unpack_from(view, position + _FLAGS_AT)[0]:
        return None
    stop = min(end, position + 2 * limits.bytes + SMALL_BYTES)
    most = min(_MAX_BATCHES, limits.records + FEW)
    bounds = [position]
    # Only the length of each header is read here: a damaged one ends the walk, or is found by the
    # checks on all headers.
    while position + HEADER.size <= stop and len(bounds) <= most:
        (length,) = unpack(view, position + _LENGTH_AT)
        position += length
        if not HEADER.size <= length <= SMALL_BYTES or length % 8 or position > end:
            break
        bounds.append(position)
    return bounds if len(bounds) > FEW else None


def _within(heads: Heads, first: int, offset: int, limits: ReadBounds) -> int:
    """Returns the index after the last batch that the limits need."""
    enough = int(np.searchsorted(heads["next"], offset + limits.records)) + 1
    sizes = np.cumsum(heads["value_bytes"][first:].astype(np.int64))
    return min(len(heads), enough, first + int(np.searchsorted(sizes, limits.bytes)) + 2)


def _plain(heads: Heads, mark: int, offset: int) -> bool:
    """True if these are consecutive batches of values without keys, NULLs, gaps or compression."""
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
    window: Window,
    places: IntArray,
    heads: Heads,
    offset: int,
    limits: ReadBounds,
) -> Records:
    rows = heads["rows"].astype(np.int64)
    starts = places + HEADER.size + (heads["writer_size"].astype(np.int64) + 7) // 8 * 8
    sizes = heads["value_bytes"].astype(np.int64)
    before_rows = np.cumsum(rows) - rows
    total = int(rows.sum())
    # The row ends of a batch follow a 0 and count from its first value; together they accumulate.
    # Row ends are 4-byte numbers within each batch: `words` are their places in the file, all
    # batches in a row.
    words = np.repeat(starts // 4 + 1 - before_rows, rows) + np.arange(total)
    ends = np.empty(total + 1, np.int32)
    ends[0] = 0
    ends[1:] = np.frombuffer(window.buffer, "<i4", len(window.view) // 4)[words] + np.repeat(
        np.cumsum(sizes) - sizes, rows
    )
    data = starts + (4 * (rows + 1) + 7) // 8 * 8
    view = window.view
    data_of_all = b"".join(
        [view[at:stop] for at, stop in zip(data.tolist(), (data + sizes).tolist(), strict=True)]
    )
    values = pa.Array.from_buffers(
        BINARY, total, [None, pa.py_buffer(ends), pa.py_buffer(data_of_all)], 0
    )
    base = int(heads["base"][0])
    offsets = np.arange(base, base + total)
    begin = offset - base
    stop = last_row(values, offsets, begin, limits)
    times = np.repeat(heads["timestamp"], rows)[begin:stop]
    slice_of_values = values.slice(begin, stop - begin)
    return Records(
        topic, shard, offset, base + stop, slice_of_values, None, times, offsets[begin:stop]
    )
