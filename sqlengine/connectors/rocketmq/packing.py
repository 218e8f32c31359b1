"""Messages that carry many rows, for readers of ours: brokers give few messages at a time.

    length of each record, 4 bytes each · the records

A property tells the number of records; the body may be compressed as any other."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa

ROWS: Final = "_sqlengine_rows"
_ROWS: Final = re.compile(rb"(?:\A|\x02)" + ROWS.encode() + rb"\x01([0-9]{1,9})(?:\x02|\Z)")
_MARK: Final = ROWS.encode()
_LENGTH: Final = np.dtype("<u4")


def rows_text(count: int) -> str:
    """Returns the property that says how many rows a message has, as it is sent."""
    return f"{ROWS}\x01{count}\x02"


def rows_in(properties: bytes) -> int | None:
    """Returns how many rows a message has packed, by its properties as they are stored; None where
    it is one record."""
    if _MARK not in properties:
        return None
    found = _ROWS.search(properties)
    return None if found is None else int(found[1])


def packed(records: pa.Array) -> bytes:
    """Returns the body of a message with these records, of which none is NULL."""
    _, offsets, data = records.cast(pa.binary()).buffers()
    begin, count = records.offset, len(records)
    places = np.frombuffer(offsets, np.int32)[begin : begin + count + 1]
    lengths = np.diff(places).astype(_LENGTH)
    rows = b"" if data is None else data[int(places[0]) : int(places[-1])].to_pybytes()
    return lengths.tobytes() + rows


def unpacked(body: bytes, count: int) -> pa.Array:
    """Returns the records of a body. ValueError where it has other ones than it says."""
    begin = count * _LENGTH.itemsize
    if len(body) < begin:
        raise ValueError("a message with many rows is damaged")
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.frombuffer(body, _LENGTH, count), out=offsets[1:])
    if offsets[-1] != len(body) - begin:
        raise ValueError("a message with many rows is damaged")
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(body).slice(begin)]
    return pa.Array.from_buffers(pa.binary(), count, buffers)
