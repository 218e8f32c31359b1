"""Files of records: where one ends and the next begins, from bytes to an Arrow array without a
Python object per line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Framed:
    """Whole records: `records` without separators, and where each begins and ends. `lengths`: the
    bytes that each takes, where only the first ones of some are in `records`."""

    records: pa.Array
    starts: IntArray
    ends: IntArray
    lengths: IntArray | None = None

    @property
    def size(self) -> int:
        """The number of bytes that the records take."""
        return int(self.ends[-1]) if len(self.ends) else 0

    def first(self, count: int) -> Framed:
        return (
            self
            if count >= len(self.ends)
            else Framed(
                self.records[:count],
                self.starts[:count],
                self.ends[:count],
                None if self.lengths is None else self.lengths[:count],
            )
        )

    def behind(self, size: int) -> Framed:
        """Returns the records as they are behind so many bytes."""
        return replace(self, starts=self.starts + size, ends=self.ends + size)


class Framing(Protocol):
    """Separates the records of a file."""

    def split(self, data: bytes, *, complete: bool) -> Framed:
        """The whole records at the beginning of `data`, which begins with one. `complete` says that
        nothing comes behind it: then the last record needs no end of its own."""


class LineFraming:
    """A record is a line; a CR before the line break is not part of it."""

    def split(self, data: bytes, *, complete: bool) -> Framed:
        if complete and data and not data.endswith(b"\n"):
            records, starts = split_lines(data + b"\n")
            return Framed(records, starts, _ends(starts, len(data)))
        data = data[: data.rfind(b"\n") + 1]
        records, starts = split_lines(data)
        return Framed(records, starts, _ends(starts, len(data)))


def _ends(starts: IntArray, size: int) -> IntArray:
    return np.append(starts[1:], size) if len(starts) else starts


def split_lines(data: bytes) -> tuple[pa.Array, IntArray]:
    """The lines of `data`, each of which ends with a line break (or CR LF), without it, and where
    each begins."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
    starts = np.zeros(len(ends), np.int64)
    starts[1:] = ends[:-1] + 1
    if b"\r" in data:
        return pa.array(
            [line.removesuffix(b"\r") for line in data.split(b"\n")[:-1]], pa.binary()
        ), starts
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends - np.arange(len(ends))
    lines = data.replace(b"\n", b"")
    return pa.Array.from_buffers(
        pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(lines)]
    ), starts
