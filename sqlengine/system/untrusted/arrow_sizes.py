"""The size of an Arrow stream before it is read: a few bytes may stand for any number of rows."""

from __future__ import annotations

import struct
from typing import Final

import pyarrow as pa

# The numbers of kinds of messages and of fields, in the schema of Arrow's messages.
_DICTIONARY, _ROWS = 2, 3
_KIND, _HEADER = 1, 2
_DATA: Final = 1
_LENGTH, _BUFFERS, _COMPRESSION = 0, 2, 3
_BUFFER: Final = struct.Struct("<qq")
_SIZE: Final = 8


def unpacked(body: bytes) -> tuple[int, int]:
    """Returns the rows of a stream, and the bytes that its buffers have without compression.
    ArrowInvalid for what is no stream."""
    rows = size = 0
    reader = pa.ipc.MessageReader.open_stream(pa.BufferReader(body))
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return rows, size
        try:
            more_rows, more = _of_message(message.metadata.to_pybytes(), message.body)
        except (struct.error, IndexError):
            raise pa.ArrowInvalid("a message is damaged") from None
        rows, size = rows + more_rows, size + more


def _of_message(head: bytes, body: pa.Buffer | None) -> tuple[int, int]:
    (root,) = struct.unpack_from("<I", head)
    kind_at, header = _field(head, root, _KIND), _reference(head, root, _HEADER)
    kind = 0 if kind_at is None else head[kind_at]
    if kind == _DICTIONARY and header is not None:
        header = _reference(head, header, _DATA)
    if kind not in (_DICTIONARY, _ROWS) or header is None or body is None:
        return 0, 0
    at = _field(head, header, _LENGTH)
    rows = 0 if at is None else int(struct.unpack_from("<q", head, at)[0])
    if _field(head, header, _COMPRESSION) is None:
        return rows if kind == _ROWS else 0, body.size
    return rows if kind == _ROWS else 0, _buffers(head, header, body)


def _buffers(head: bytes, table: int, body: pa.Buffer) -> int:
    """Returns the bytes of all buffers: each compressed one begins with its number of them, -1
    where it is not compressed."""
    vector = _reference(head, table, _BUFFERS)
    if vector is None:
        return 0
    (count,) = struct.unpack_from("<I", head, vector)
    size = 0
    for number in range(count):
        start, length = _BUFFER.unpack_from(head, vector + 4 + number * _BUFFER.size)
        if length < _SIZE or start < 0:
            continue
        (told,) = struct.unpack("<q", body.slice(start, _SIZE).to_pybytes())
        size += length if told < 0 else told
    return size


def _field(data: bytes, table: int, number: int) -> int | None:
    """Returns where a field of a table of FlatBuffers stands; None where it has none."""
    known = table - struct.unpack_from("<i", data, table)[0]
    (size,) = struct.unpack_from("<H", data, known)
    at = 4 + 2 * number
    if at >= size:
        return None
    (offset,) = struct.unpack_from("<H", data, known + at)
    return table + offset if offset else None


def _reference(data: bytes, table: int, number: int) -> int | None:
    at = _field(data, table, number)
    return None if at is None else at + int(struct.unpack_from("<I", data, at)[0])
