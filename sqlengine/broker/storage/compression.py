"""Compression of batch bodies: by the appending client, undone by readers only.

size of what follows, 4 bytes · 4 bytes zero · a frame of the codec · padding
"""

from __future__ import annotations

import struct
from typing import Literal, TypeAlias, get_args

import pyarrow as pa

from sqlengine.broker.errors import BrokerError

Compression: TypeAlias = Literal["none", "zstd", "lz4"]
COMPRESSIONS: tuple[Compression, ...] = get_args(Compression)
ZSTD, LZ4 = 16, 32
COMPRESSED = ZSTD | LZ4
MAX_PLAIN_BYTES = 1 << 29
_FLAGS: dict[Compression, int] = {"zstd": ZSTD, "lz4": LZ4}
_SIZE = struct.Struct("<I4x")
# In smaller bodies the frame costs what it saves.
_WORTH_BYTES = 256


def compress_body(body: bytes, compression: Compression) -> tuple[bytes, int]:
    """Returns the compressed body and its flag; the body itself and 0 if that would not be
    smaller."""
    if compression == "none" or len(body) < _WORTH_BYTES:
        return body, 0
    frame = pa.compress(body, codec=compression, asbytes=True)
    packed = _SIZE.pack(len(frame)) + frame
    packed += bytes(-len(packed) % 8)
    return (packed, _FLAGS[compression]) if len(packed) < len(body) else (body, 0)


def decompress_body(buffer: pa.Buffer, at: int, flags: int, plain_bytes: int) -> pa.Buffer:
    """Returns the body of `plain_bytes` whose compressed form begins at byte `at`. BrokerError if
    it is malformed."""
    try:
        (size,) = _SIZE.unpack_from(buffer, at)
        if (
            plain_bytes > MAX_PLAIN_BYTES
            or flags & COMPRESSED == COMPRESSED
            or at + _SIZE.size + size > buffer.size
        ):
            raise ValueError("its sizes are not possible")
        frame = buffer.slice(at + _SIZE.size, size)
        plain = pa.decompress(frame, plain_bytes, codec="zstd" if flags & ZSTD else "lz4")
    except (ValueError, OSError, struct.error) as error:
        raise BrokerError("a batch cannot be unpacked", detail=str(error)) from None
    if plain.size != plain_bytes:
        raise BrokerError(
            "a batch cannot be unpacked",
            detail=f"it has {plain.size} bytes instead of {plain_bytes}",
        )
    return plain
