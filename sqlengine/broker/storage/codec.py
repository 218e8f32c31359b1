"""The layout of a batch in a segment file.

    header   64 bytes, see HEADER; the CRC-32 covers everything after it, the mark is that of the
             segment
    writer   UTF-8
    sparse   offset and timestamp per record, 8 bytes each      (compacted batches only)
    values   [validity bits]  record ends from 0 on, 4 bytes each, one more than records  bytes
    keys     as values                                          (if there are keys)

From `sparse` on it may be compressed (see `compression`); the header then has the original size.
All numbers are little-endian and every part is padded to 8 bytes, so that the parts can be used as
Arrow buffers in place.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, TypeGuard

import numpy as np
import pyarrow as pa

from sqlengine.broker.base import Column, IntArray
from sqlengine.broker.errors import BrokerError
from sqlengine.broker.storage.compression import (
    COMPRESSED,
    Compression,
    compress_body,
    decompress_body,
)

BINARY = pa.binary()
MAX_BATCH_BYTES = 1 << 29
NO_EPOCH = -1
_FEW = 16

# crc, mark, length, rows, base, next, timestamp, epoch, writer size, flags, value bytes, key bytes,
# plain bytes
HEADER = struct.Struct("<IIIIqqqqHHIII")
_CRC = struct.Struct("<I")
_COVERED = struct.Struct("<IIIqqqqHHIII")
_FIRST_END = struct.Struct("<i")

_SPARSE, _NULL_VALUES, _KEYS, _NULL_KEYS = 1, 2, 4, 8
_PADDING = [b"\0" * ((8 - size) % 8) for size in range(8)]


class Header(NamedTuple):
    """The header of a batch.

    `length` is that of the whole batch; its records have the offsets [base, next), `timestamp` is
    the latest of them. `plain_bytes` is the size of a compressed body before compression, 0 for
    others.
    """

    crc: int
    mark: int
    length: int
    rows: int
    base: int
    next: int
    timestamp: int
    epoch: int
    writer_size: int
    flags: int
    value_bytes: int
    key_bytes: int
    plain_bytes: int


class Payload(NamedTuple):
    """A batch without the fields that are known only when it is written."""

    rows: int
    flags: int
    value_bytes: int
    key_bytes: int
    body: bytes
    plain_bytes: int = 0

    @property
    def every_key(self) -> bool:
        """True if each record has a key."""
        return self.flags & (_KEYS | _NULL_KEYS) == _KEYS

    def length(self, writer: bytes) -> int:
        return HEADER.size + padded(len(writer)) + len(self.body)


class Parts(NamedTuple):
    """A decoded batch; the arrays point into the file."""

    values: pa.BinaryArray
    keys: pa.BinaryArray | None
    offsets: IntArray | None
    timestamps: IntArray | None


def padded(size: int) -> int:
    return (size + 7) & ~7


def encode(
    values: Column,
    keys: Column | None,
    offsets: IntArray | None = None,
    timestamps: IntArray | None = None,
) -> Payload:
    """Encodes `values`; with `offsets` and `timestamps` (both or none) as a compacted batch."""
    # Most appends have one or a few values: building them with Arrow would take longer than writing
    # them.
    if offsets is None and _are_few(values) and (keys is None or _are_few(keys)):
        return _encode_few(values, keys)
    value_array = binary_array(values)
    parts: list[bytes | memoryview] = []
    flags = 0
    if offsets is not None and timestamps is not None:
        flags |= _SPARSE
        parts += [offsets.astype("<i8").tobytes(), timestamps.astype("<i8").tobytes()]
    flags |= _NULL_VALUES if value_array.null_count else 0
    value_bytes = _put(parts, value_array)
    key_bytes = 0
    if keys is not None:
        key_array = binary_array(keys)
        _check_count(value_array, key_array)
        flags |= _KEYS | (_NULL_KEYS if key_array.null_count else 0)
        key_bytes = _put(parts, key_array)
    body = b"".join(parts)
    if len(body) > MAX_BATCH_BYTES:
        raise _too_large(len(body))
    return Payload(len(value_array), flags, value_bytes, key_bytes, body)


def compress(payload: Payload, compression: Compression) -> Payload:
    """Returns the payload with its body compressed, if that makes it smaller."""
    body, flag = compress_body(payload.body, compression)
    if not flag:
        return payload
    return payload._replace(flags=payload.flags | flag, body=body, plain_bytes=len(payload.body))


def check(payload: Payload) -> Parts:
    """Returns the records of a payload. Raises BrokerError unless it is valid: one from a client
    might make readers fail."""
    body = pa.py_buffer(payload.body)
    if payload.flags & COMPRESSED:
        body = decompress_body(body, 0, payload.flags, payload.plain_bytes)
    known = _NULL_VALUES | _KEYS | _NULL_KEYS | COMPRESSED
    # Sizes of parts that do not exist would shift the parts after them.
    without_keys = payload.key_bytes and not payload.flags & _KEYS
    without_packing = payload.plain_bytes and not payload.flags & COMPRESSED
    odd = len(payload.body) % 8 or min(payload[:4]) < 0 or without_keys or without_packing
    if odd or payload.flags & ~known or body.size != _body_size(payload):
        raise BrokerError("a batch is malformed", detail="its sizes contradict each other")
    try:
        parts = _columns(body, 0, payload)
        _check_column(parts.values, payload.value_bytes)
        if parts.keys is not None:
            _check_column(parts.keys, payload.key_bytes)
        return parts
    except pa.ArrowInvalid as error:
        raise BrokerError("a batch is malformed", detail=str(error)) from None


def _check_column(column: pa.BinaryArray, size: int) -> None:
    column.validate(full=True)
    ends = column.buffers()[1]
    if _FIRST_END.unpack_from(ends)[0] or _FIRST_END.unpack_from(ends, 4 * len(column))[0] != size:
        raise BrokerError("a batch is malformed", detail="its columns do not fill their bytes")


def _body_size(payload: Payload) -> int:
    def size(nulls: int, content: int) -> int:
        bits = padded((payload.rows + 7) // 8) if payload.flags & nulls else 0
        return bits + padded(4 * (payload.rows + 1)) + padded(content)

    keys = size(_NULL_KEYS, payload.key_bytes) if payload.flags & _KEYS else 0
    return size(_NULL_VALUES, payload.value_bytes) + keys


def _are_few(values: Column) -> TypeGuard[Sequence[bytes]]:
    return len(values) <= _FEW and not isinstance(values, pa.Array) and None not in values


def _encode_few(values: Sequence[bytes], keys: Sequence[bytes] | None) -> Payload:
    """Encodes a few values without Arrow, which costs more than it saves for so few."""
    body = _few(values)
    if keys is not None:
        _check_count(values, keys)
        body += _few(keys)
    if len(body) > MAX_BATCH_BYTES:
        raise _too_large(len(body))
    key_bytes = sum(map(len, keys)) if keys is not None else 0
    return Payload(
        len(values), 0 if keys is None else _KEYS, sum(map(len, values)), key_bytes, body
    )


def _few(column: Sequence[bytes]) -> bytes:
    ends = array("i", accumulate(map(len, column), initial=0))
    size, count = 4 * len(ends), ends[-1]
    return b"".join((ends.tobytes(), _PADDING[size % 8], *column, _PADDING[count % 8]))


def _check_count(values: Column, keys: Column) -> None:
    if len(keys) != len(values):
        raise BrokerError(f"a batch has {len(values)} values and {len(keys)} keys")


def binary_array(values: Column) -> pa.BinaryArray:
    """Returns `values` as a binary array whose buffers begin with its first value."""
    if not isinstance(values, pa.Array):
        array = pa.array(values, BINARY)
        if isinstance(array, pa.ChunkedArray):
            raise _too_large(array.nbytes)
        return array
    binary = values if values.type == BINARY else values.cast(BINARY)
    if binary.offset or (len(binary) and _FIRST_END.unpack_from(binary.buffers()[1])[0]):
        return pa.concat_arrays([binary, binary.slice(0, 0)])  # a copy, with ends that begin at 0
    return binary


def _too_large(size: int) -> BrokerError:
    return BrokerError(
        f"a batch of {size} bytes is too large",
        hint=f"append at most {MAX_BATCH_BYTES} bytes at once",
    )


def _put(parts: list[bytes | memoryview], column: pa.BinaryArray) -> int:
    validity, ends, data = column.buffers()
    count = len(column)
    if column.null_count:
        _put_padded(parts, memoryview(validity)[: (count + 7) // 8])
    if count == 0:
        parts.append(bytes(8))
        return 0
    size: int = _FIRST_END.unpack_from(ends, 4 * count)[0]
    _put_padded(parts, memoryview(ends)[: 4 * (count + 1)])
    if size:
        _put_padded(parts, memoryview(data)[:size])
    return size


def _put_padded(parts: list[bytes | memoryview], part: memoryview) -> None:
    parts.append(part)
    if len(part) % 8:
        parts.append(_PADDING[len(part) % 8])


def seal(
    payload: Payload,
    mark: int,
    base: int,
    next_offset: int,
    timestamp: int,
    writer: bytes,
    epoch: int,
) -> tuple[bytes, bytes]:
    """Returns the two halves of the batch, which follow each other in the file."""
    count, flags, value_bytes, key_bytes, body, plain = payload
    length = payload.length(writer)
    head = _COVERED.pack(
        mark,
        length,
        count,
        base,
        next_offset,
        timestamp,
        epoch,
        len(writer),
        flags,
        value_bytes,
        key_bytes,
        plain,
    )
    if writer:
        head += writer + _PADDING[len(writer) % 8]
    return _CRC.pack(zlib.crc32(body, zlib.crc32(head))) + head, body


def header_at(view: memoryview, position: int, end: int, mark: int) -> Header | None:
    """Returns the header at `position`; None if there is no header of a batch that ends by
    `end`."""
    if position + HEADER.size > end:
        return None
    header = Header._make(HEADER.unpack_from(view, position))
    whole = header.mark == mark and HEADER.size <= header.length <= end - position
    return header if whole and header.length % 8 == 0 else None


def is_intact(view: memoryview, position: int, header: Header) -> bool:
    return zlib.crc32(view[position + _CRC.size : position + header.length]) == header.crc


def writer_of(view: memoryview, position: int, header: Header) -> str:
    start = position + HEADER.size
    return str(view[start : start + header.writer_size], "utf-8")


def decode(buffer: pa.Buffer, position: int, header: Header) -> Parts:
    """Decodes the records of the intact batch at `position` of `buffer`."""
    at = position + HEADER.size + padded(header.writer_size)
    if header.flags & COMPRESSED:
        return _columns(decompress_body(buffer, at, header.flags, header.plain_bytes), 0, header)
    return _columns(buffer, at, header)


def _columns(buffer: pa.Buffer, at: int, header: Header | Payload) -> Parts:
    flags, count = header.flags, header.rows
    offsets = timestamps = keys = None
    if flags & _SPARSE:
        offsets = np.frombuffer(buffer, "<i8", count, at)
        timestamps = np.frombuffer(buffer, "<i8", count, at + 8 * count)
        at += 16 * count
    values, at = _get(buffer, at, count, header.value_bytes, bool(flags & _NULL_VALUES))
    if flags & _KEYS:
        keys, at = _get(buffer, at, count, header.key_bytes, bool(flags & _NULL_KEYS))
    return Parts(values, keys, offsets, timestamps)


def plain_values(view: memoryview, position: int, header: Header) -> tuple[memoryview, memoryview]:
    """Returns the ends (without the first, 0) and the bytes of the values of a batch
    without flags."""
    ends = position + HEADER.size + padded(header.writer_size) + 4
    size = 4 * header.rows
    start = ends - 4 + padded(size + 4)
    return view[ends : ends + size], view[start : start + header.value_bytes]


def _get(
    buffer: pa.Buffer, at: int, count: int, size: int, nulls: bool
) -> tuple[pa.BinaryArray, int]:
    validity = None
    if nulls:
        validity = buffer.slice(at, (count + 7) // 8)
        at += padded((count + 7) // 8)
    ends = buffer.slice(at, 4 * (count + 1))
    at += padded(4 * (count + 1))
    data = buffer.slice(at, size)
    column = pa.Array.from_buffers(BINARY, count, [validity, ends, data], -1 if nulls else 0)
    return column, at + padded(size)
