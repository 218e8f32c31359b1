"""Records of files that are longer than 'record-size': only their first bytes are kept, and reading
goes on behind the next line break. Memory never holds more of a file than a window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh64

from parser.limits import present
from sqlengine.formats.lines import Framed, Framing

# Reads so many bytes of a file from an offset on; fewer at its end alone.
Read: TypeAlias = Callable[[int, int], bytes]
_STEP: Final = 1 << 20
# The bytes of a record that is too long that are kept: what a dead letter shows.
_KEPT: Final = 1 << 16
# A range of more bytes is read in windows.
_WINDOW: Final = 32 << 20


def is_too_long(data: bytes) -> bool:
    """True if a record begins with `data`, which has no end of it, and is not read to its end."""
    return len(data) >= _most()


def wider(window: int) -> int:
    """Returns the next window to look for the end of a record in."""
    return max(window, min(window * 4, _most()))


def _most() -> int:
    """Returns how many bytes show that a record is too long: with CR LF behind one that is not."""
    return present().record_size + 3


def line_end(read: Read, at: int, end: int | None = None) -> tuple[int, bool]:
    """Returns the offset behind the next line break from `at` on, and True; or how far the file
    goes, and False."""
    while end is None or at < end:
        data = read(at, _STEP if end is None else min(_STEP, end - at))
        if not data:
            break
        found = data.find(b"\n")
        if found >= 0:
            return at + found + 1, True
        at += len(data)
    return at, False


def long_record(read: Read, data: bytes, start: int, end: int) -> Framed:
    """Returns the one record, from `start` to `end` in its file, that begins with `data`."""
    last = read(end - 2, 2)
    ending = 0 if not last.endswith(b"\n") else 2 if last == b"\r\n" else 1
    return Framed(
        pa.array([data[:_KEPT]], pa.binary()),
        np.zeros(1, np.int64),
        np.array([end - start], np.int64),
        lengths=np.array([end - start - ending], np.int64),
    )


def read_range(read: Read, framing: Framing, start: int, end: int) -> Framed:
    """Returns the records of a range that was read before; fewer where the file is shorter now."""
    window = max(_most(), _WINDOW)
    if end - start <= window:
        return framing.split(read(start, end - start), complete=True)
    parts: list[Framed] = []
    at = start
    while at < end:
        data = read(at, min(window, end - at))
        framed = framing.split(data, complete=at + len(data) >= end)
        if not framed.size:
            if not data:
                break
            framed = long_record(read, data, at, line_end(read, at + len(data), end)[0])
        parts.append(framed.behind(at - start))
        at += framed.size
    return _joined(parts)


def digest_of(read: Read, start: int, end: int) -> str:
    """Returns the hash of a range, as that of all its bytes at once would be."""
    h = xxh64()
    while start < end and (data := read(start, min(_STEP, end - start))):
        h.update(data)
        start += len(data)
    return h.hexdigest()


def _joined(parts: list[Framed]) -> Framed:
    nothing = np.empty(0, np.int64)
    records = [p.records for p in parts]
    lengths = [np.asarray(pc.binary_length(p.records)) for p in parts]
    lengths = [n if p.lengths is None else p.lengths for n, p in zip(lengths, parts, strict=True)]
    return Framed(
        pa.concat_arrays(records) if parts else pa.array([], pa.binary()),
        np.concatenate([nothing, *(p.starts for p in parts)]),
        np.concatenate([nothing, *(p.ends for p in parts)]),
        lengths=np.concatenate([nothing, *lengths]).astype(np.int64),
    )
