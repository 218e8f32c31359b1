"""A part of a segment file that was read into memory.

Files are read, and not mapped: a mapped file that somebody cuts, or whose disk fails, ends the
whole process when it is touched. What was read cannot change any more, and what cannot be read is
an error of its shard."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from sqlengine.broker.storage.codec import HEADER, Header, header_at


class Window(NamedTuple):
    """The bytes of a file from byte `start` on; batches are named by their place in `view`."""

    start: int
    buffer: pa.Buffer
    view: memoryview

    @classmethod
    def of(cls, data: bytes, start: int = 0) -> Window:
        return cls(start, pa.py_buffer(data), memoryview(data))

    def has_header(self, at: int) -> bool:
        return at + HEADER.size <= len(self.view)

    def header(self, at: int, end: int, mark: int) -> Header | None:
        """Returns the header at a place; None if there is no header of a batch that ends by byte
        `end` of the file."""
        return header_at(self.view, at, end - self.start, mark) if self.has_header(at) else None


# A batch: the window that holds it (or its header alone), its place there, its header.
Batch = tuple[Window, int, Header]
