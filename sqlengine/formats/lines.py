"""Records that are lines: from bytes to an Arrow array without a Python object per line."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def split_lines(data: bytes) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """The lines of `data`, each of which ends with a line break (or CR LF), without it, and where each begins."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10)
    starts = np.zeros(len(ends), np.int64)
    starts[1:] = ends[:-1] + 1
    if b"\r" in data:
        return pa.array([line.removesuffix(b"\r") for line in data.split(b"\n")[:-1]], pa.binary()), starts
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends - np.arange(len(ends))
    lines = data.replace(b"\n", b"")
    return pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(lines)]), starts
