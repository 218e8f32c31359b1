"""Reading files of lines."""

from __future__ import annotations

import os
from functools import partial

from parser.errors import ExecutionError
from planner.catalog import Table
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.filesystem.files import Files, FileShards, changed, unreadable
from sqlengine.connectors.filesystem.long_records import (
    is_too_long,
    line_end,
    long_record,
    read_range,
    wider,
)
from sqlengine.formats.lines import Framed
from sqlengine.formats.registry import framing_of

# One read takes at most so many bytes, but at least one line.
_WINDOW = 8 << 20
_LEAST_WINDOW = 1 << 16


class LineFiles(FileShards):
    """Reads records that follow each other in files; an offset is a byte."""

    def __init__(self, table: Table, files: Files) -> None:
        super().__init__(table, files)
        self._framing = framing_of(table)
        self._line_bytes = 256  # what lines seem to take, and a quarter more

    def _window(self, max_rows: int) -> int:
        """Returns how many bytes so many rows seem to take."""
        return min(max(max_rows * self._line_bytes, _LEAST_WINDOW), _WINDOW)

    def _chunk(self, shard: str, offset: int, framed: Framed, digest: str = "") -> Chunk:
        size, count, starts = framed.size, len(framed.records), framed.starts + offset
        if framed.lengths is None:
            self._line_bytes = size * 5 // (count * 4) + 1
        metadata = {m.key: values for m, values in self.metadata_of(shard, starts)}
        return Chunk(
            shard, offset, offset + size, count, framed.records,
            offsets=starts, metadata=metadata, digest=digest, lengths=framed.lengths,
        )  # fmt: skip


class FileSource(LineFiles):
    """A shard is a file by its path, as long as it was when it was found. Whole records; the last
    one needs no line break."""

    def __init__(self, table: Table, files: Files, *, bounded: bool) -> None:
        super().__init__(table, files)
        self.bounded = bounded

    def end(self, shard: str) -> int | None:
        return self._end(shard)

    def read(
        self, shard: str, offset: int, *, max_rows: int, until: int | None = None
    ) -> Chunk | None:
        """See `Source`. Records from `offset` on; a replay gets exactly those before `until`."""
        if until is not None:
            framed = read_range(partial(self._bytes, shard), self._framing, offset, until)
            return self._chunk(shard, offset, framed)
        if shard in self._files.skipped:
            return None
        try:
            return self._next(shard, offset, max_rows)
        except ExecutionError as error:
            self._files.skip(shard, offset, error)
            return None

    def _next(self, shard: str, offset: int, max_rows: int) -> Chunk | None:
        end, window = self._end(shard), self._window(max_rows)
        while offset < end:
            data = self._bytes(shard, offset, min(window, end - offset))
            framed = self._framing.split(data, complete=offset + len(data) == end)
            if framed.size:
                return self._chunk(shard, offset, framed.first(max_rows))
            if offset + len(data) == end:
                return None
            if is_too_long(data):
                read = partial(self._bytes, shard)
                behind, _ = line_end(read, offset + len(data), end)
                return self._chunk(shard, offset, long_record(read, data, offset, behind))
            window = wider(window)  # a record that is longer
        return None

    def _end(self, shard: str) -> int:
        if shard in self._files.skipped:
            return self._files.skipped[shard]
        if shard not in self._files.ends:
            raise changed(shard, "it is gone")
        return self._files.ends[shard]

    def _bytes(self, shard: str, offset: int, size: int) -> bytes:
        file = self._files.open(shard)
        try:
            data = os.pread(file, size, offset)
            while len(data) < size:
                more = os.pread(file, size - len(data), offset + len(data))
                if not more:
                    raise changed(
                        shard,
                        f"it ends at byte {offset + len(data)}, byte {offset + size} was there"
                        " before",
                    )
                data += more
        except OSError as error:
            raise unreadable(shard, error) from None
        finally:
            os.close(file)
        return data

    def expired(self, shard: str, offset: int) -> str | None:
        """See `Source`."""
        size = self._files.status(shard).st_size
        return (
            None
            if offset <= size
            else f"file '{shard}' has {size} bytes, {offset} were read before"
        )

    def close(self) -> None: ...
