"""Texts as the bytes that Arrow holds, and texts made of them: what needs no characters is done for
a whole column in NumPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udf.arrays.arrays import valid
from udf.vector import BoolArray

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int32]


def bytes_of(values: pa.Array) -> tuple[Offsets, Bytes]:
    """Returns the offsets of each text, and the end of the last, in the bytes of all of them, from
    0 on."""
    _, offsets, data = values.buffers()
    if data is None or offsets is None or not len(values):
        return np.zeros(len(values) + 1, np.int32), np.zeros(0, np.uint8)
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    return bounds - bounds[0], np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]


def texts_of(
    offsets: npt.NDArray[np.integer], data: Bytes, present: BoolArray, kind: pa.DataType
) -> pa.Array:
    """The reverse, for a type of texts or bytes; NULL where not `present`."""
    bits = None if present.all() else pa.array(present).buffers()[1]
    bounds = np.ascontiguousarray(offsets, np.int32)
    return pa.Array.from_buffers(
        kind, len(present), [bits, pa.py_buffer(bounds), pa.py_buffer(data)]
    )


def with_bytes(
    values: pa.Array, data: Bytes, widened: int = 1, kind: pa.DataType | None = None
) -> pa.Array:
    """The texts with other bytes, `widened` for each that they had."""
    offsets, _ = bytes_of(values)
    return texts_of(offsets * widened, data, valid(values, len(values)), kind or values.type)


def sliced(
    data: Bytes,
    starts: npt.NDArray[np.integer],
    ends: npt.NDArray[np.integer],
    present: BoolArray,
    kind: pa.DataType,
) -> pa.Array:
    """The bytes from `starts` to `ends` of each row that is `present`."""
    sizes = np.where(present, ends - starts, 0)
    offsets = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    places = np.arange(offsets[-1], dtype=np.int32) + np.repeat(
        (starts - offsets[:-1]).astype(np.int32), sizes
    )
    return texts_of(offsets, data[places], present, kind)


def is_single_byte(text: object) -> bool:
    """True if a text is one character of ASCII."""
    return isinstance(text, str) and len(text) == 1 and text.isascii()


def part_at(values: pa.Array, separator: int, index: int) -> pa.Array:
    """The part of each text at `index` (from 0) between bytes `separator`; NULL where there is
    none."""
    offsets, data = bytes_of(values)
    places = np.flatnonzero(data == separator).astype(np.int32)
    first = np.searchsorted(places, offsets)
    count = np.diff(first)
    padded = np.concatenate([places, [len(data), len(data)]])
    before = np.minimum(first[:-1] + max(index - 1, 0), len(places))
    behind = np.minimum(first[:-1] + index, len(places))
    starts = offsets[:-1] if index == 0 else padded[before] + 1
    ends = np.where(count > index, padded[behind], offsets[1:])
    return sliced(data, starts, ends, valid(values, len(values)) & (count >= index), values.type)


# So many bytes at a time stay in the processor's cache.
_PIECE = 1 << 16


def _pairs(data: Bytes, first: int, second: int) -> npt.NDArray[np.intp]:
    """Returns the positions where one byte precedes the other."""
    positions = [np.zeros(0, np.intp)]
    for start in range(0, len(data) - 1, _PIECE):
        piece = data[start : start + _PIECE + 1]
        positions.append(np.flatnonzero((piece[:-1] == first) & (piece[1:] == second)) + start)
    return np.concatenate(positions)


# From so many rows on this is faster than Arrow's search.
MANY = 512


def hits(values: pa.Array, needle: bytes) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The rows whose text has `needle` (two bytes at least) somewhere, and the byte at which it
    first begins.

    The pair in it that is rarest among some texts is looked for in all of them at once, then the
    bytes around."""
    offsets, data = bytes_of(values)
    counts = np.bincount(data[:8192], minlength=256)
    pair = min(
        range(len(needle) - 1), key=lambda k: int(counts[needle[k]]) * int(counts[needle[k + 1]])
    )
    places = _pairs(data, needle[pair], needle[pair + 1]) - pair
    places = places[(places >= 0) & (places + len(needle) <= len(data))]
    for k in sorted(
        set(range(len(needle))) - {pair, pair + 1}, key=lambda k: int(counts[needle[k]])
    ):
        places = places[data[places + k] == needle[k]]
    rows = np.searchsorted(offsets, places, side="right") - 1
    inside = places + len(needle) <= offsets[rows + 1]
    rows, places = rows[inside], places[inside]
    wanted = np.ones(len(rows), np.bool_)
    np.not_equal(rows[1:], rows[:-1], out=wanted[1:])
    rows = rows[wanted]
    return rows, places[wanted] - offsets[rows]
