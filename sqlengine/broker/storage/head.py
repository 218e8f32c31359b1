"""The head of a segment file: its format, and the state of the log before it.

    magic, format, mark, size of the state, CRC-32 of all of the head; then the state as JSON,
    padded to 8 bytes

Format 2: batches may be compressed. Files of format 1 are read, but not written any more. The state
repeats the epochs per writer and the latest timestamp, so that older files can be removed, and only
the last one is read at start. The mark is random, so that no payload looks like a batch of this
file.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import NamedTuple

import msgspec

from sqlengine.broker.errors import corrupt_segment, unknown_format
from sqlengine.broker.storage.codec import padded
from sqlengine.system.disk import Disk

FORMAT = 2
_KNOWN = (1, FORMAT)
NEVER = -(2**63)
_MAGIC = b"SQLTOPIC"
_HEAD = struct.Struct("<8sIIII")
_CRC_AT = _HEAD.size - 4
_FIRST_READ = 4096


class State(msgspec.Struct, frozen=True):
    """The state of the log before a segment.

    `base` is the segment's first offset, `covers` its end offset if it is compacted.
    `max_timestamp` (ms) is the latest before it; `writers` are the last epochs before it, or at its
    end if it is compacted.
    """

    base: int
    max_timestamp: int = NEVER
    writers: dict[str, int] = {}
    covers: int | None = None


class Head(NamedTuple):
    """The head of a segment: batches carry `mark`, and begin at byte `start`."""

    state: State
    mark: int
    start: int
    version: int = FORMAT


def new_head(state: State, mark: int) -> tuple[Head, bytes]:
    """Returns a head and its bytes; `mark` must be random."""
    text = msgspec.json.encode(state)
    start = padded(_HEAD.size + len(text))
    rest = text.ljust(start - _HEAD.size, b"\0")
    checked = _HEAD.pack(_MAGIC, FORMAT, mark, len(text), 0)[:_CRC_AT]
    crc = zlib.crc32(rest, zlib.crc32(checked))
    return Head(state, mark, start), checked + crc.to_bytes(4, "little") + rest


def read_head(path: Path, disk: Disk) -> Head | None:
    """Reads the head of the file; None if it is incomplete. Raises CorruptSegment and
    UnknownFormat."""
    content = disk.read(path, _FIRST_READ)
    if len(content) < _HEAD.size:
        return None
    magic, version, mark, size, crc = _HEAD.unpack_from(content)
    if magic != _MAGIC:
        raise corrupt_segment(path, 0, file_base(path), "it does not begin as a segment does")
    if version not in _KNOWN:
        raise unknown_format(path, version, FORMAT)
    start = padded(_HEAD.size + size)
    if start > len(content):
        content = disk.read(path, start)
    rest = content[_HEAD.size : start]
    if zlib.crc32(rest, zlib.crc32(content[:_CRC_AT])) != crc:
        raise corrupt_segment(path, 0, file_base(path), "the checksum of its head is wrong")
    return Head(msgspec.json.decode(rest[:size], type=State), mark, start, version)


def mark_of(content: bytes) -> int:
    """Returns the mark in a head that may be damaged."""
    return int.from_bytes(content[12:16], "little")


def file_name(base: int, generation: int = 0) -> str:
    """Returns the name of a segment file; a replacement has the next generation, so that no name is
    reused."""
    return f"{base:020d}.{generation:04d}.seg"


def file_base(path: Path) -> int:
    return int(path.name.split(".")[0])


def file_generation(path: Path) -> int:
    return int(path.name.split(".")[1])
