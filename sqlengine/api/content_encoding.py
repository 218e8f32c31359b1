"""Content-Encoding of requests: gzip, deflate and zstd are unpacked, others are refused."""

from __future__ import annotations

import io
import zlib
from typing import Final

import pyarrow as pa
from flask import Response, request

from parser.errors import ServiceError
from sqlengine.api.problems import problem
from sqlengine.api.serving.request_parser import too_large

# The window bits of zlib for each encoding: gzip's header, zlib's header.
_ZSTD: Final = "zstd"
# Bytes of a packed body that are unpacked at once: what stands behind a member is copied with each.
_FIRST_STEP: Final = 512
_MOST_STEP: Final = 1 << 20
_WINDOWS: Final = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": 15}


def unpack(most: int) -> Response | None:
    """Puts the unpacked body in the place of a packed one, which no handler has read yet.

    Returns a refusal: 415 for another encoding, 413 for more than `most` bytes, packed or unpacked,
    400 for a body that is not what its header says. None if there is nothing to refuse."""
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding in ("", "identity"):
        return None
    if encoding not in _WINDOWS and encoding != _ZSTD:
        message = f"the Content-Encoding '{encoding[:60]}' is not supported"
        hint = "send gzip, zstd, deflate, or the body as it is"
        return problem(ServiceError(message, hint=hint), 415)
    if (request.content_length or 0) > most:
        return _too_large()
    packed = request.environ["wsgi.input"].read(request.content_length or 0)
    try:
        if encoding == _ZSTD:
            body = _of_zstd(packed, most)
        else:
            body = _unpacked(packed, _WINDOWS[encoding], most)
    except (zlib.error, EOFError, OSError) as error:
        message = f"the body is not {encoding}, as its Content-Encoding says"
        return problem(ServiceError(message, detail=str(error)), 400)
    if body is None:
        return _too_large()
    request.environ["wsgi.input"] = io.BytesIO(body)
    request.environ["CONTENT_LENGTH"] = str(len(body))
    return None


def _unpacked(packed: bytes, window: int, most: int) -> bytes | None:
    """Returns the body, of all members of a gzip one after the other; None if it is larger than
    `most`. Raises zlib.error, and EOFError for a body that is cut off."""
    parts: list[bytes] = []
    size = at = 0
    while at < len(packed):
        reader, step = zlib.decompressobj(window), _FIRST_STEP
        while not reader.eof:
            if at >= len(packed):
                raise EOFError("it is cut off")
            given = packed[at : at + step]
            parts.append(reader.decompress(given, most - size + 1))
            size += len(parts[-1])
            if size > most:
                return None
            at += len(given) - len(reader.unused_data)
            step = min(2 * step, _MOST_STEP)
    return b"".join(parts)


def _of_zstd(packed: bytes, most: int) -> bytes | None:
    """Returns the body; None if it is larger than `most`. Raises OSError for one that is none, or
    is cut off."""
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        body: bytes = stream.read(most + 1)
    return body if len(body) <= most else None


def _too_large() -> Response:
    refused = too_large()
    return problem(refused.error, refused.status)
