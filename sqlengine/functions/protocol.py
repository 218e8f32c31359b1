"""Messages between the server and a worker of functions: a JSON header and any number of Arrow
blobs.

    u32 length of the header | header: JSON, {"blobs": [lengths], …} | the blobs

The server asks, the worker answers, one at a time; before its answer it may ask something itself
(`ask` in the header). The bytes go over a socket pair of the two."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping, Sequence

import pyarrow as pa

_LENGTH = struct.Struct("<I")
_SMALL = 1 << 15
Header = dict[str, object]


class Closed(Exception):
    """The other side is gone."""


def encode(header: Mapping[str, object], blobs: Sequence[pa.Buffer] = ()) -> list[memoryview]:
    """A message as pieces to be sent one after the other."""
    text = json.dumps({**header, "blobs": [b.size for b in blobs]}).encode()
    pieces = [memoryview(_LENGTH.pack(len(text)) + text), *(memoryview(b) for b in blobs)]
    # One call to the system is cheaper than a copy of so little.
    return [memoryview(b"".join(pieces))] if sum(map(len, pieces)) < _SMALL else pieces


def receive(channel: socket.socket) -> tuple[Header, list[pa.Buffer]]:
    """The next message. Closed at the end; TimeoutError where the socket has a timeout and nothing
    comes."""
    (length,) = _LENGTH.unpack(_exactly(channel, _LENGTH.size))
    header: Header = json.loads(bytes(_exactly(channel, length)))
    sizes = header.pop("blobs")
    assert isinstance(sizes, list)
    return header, [pa.py_buffer(_exactly(channel, n)) for n in sizes]


def _exactly(channel: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view, filled = memoryview(data), 0
    while filled < size:
        count = channel.recv_into(view[filled:])
        if count == 0:
            raise Closed
        filled += count
    return data


def batch_blob(batch: pa.RecordBatch) -> pa.Buffer:
    """A record batch without its schema, which both sides know."""
    return batch.serialize()


def read_batch(blob: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(blob, schema)
