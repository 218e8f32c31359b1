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
from sqlengine.connectors.filesystem.opened import ARCHIVES
from sqlengine.connectors.filesystem.unpacking import Unpacked
from sqlengine.formats.lines import Framed
from sqlengine.formats.registry import framing_of

# One read takes at most so many bytes, but at least one line.
_WINDOW = 8 << 20
_LEAST_WINDOW = 1 << 16
# The end of a file before it is known.
_UNKNOWN = 1 << 62
# So many compressed files are read side by side, and are open.
_OPEN = 8


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
    one needs no line break. Of a compressed file the end is known once it is read to there; those
    beyond the first eight wait for their turn."""

    def __init__(self, table: Table, files: Files, *, bounded: bool) -> None:
        super().__init__(table, files)
        self.bounded = bounded
        # Of compressed files: those that are open, how long they are, and how far they are read.
        self._unpacked: dict[str, Unpacked] = {}
        self._sizes: dict[str, int] = {}
        self._reached: dict[str, int] = {}

    def end(self, shard: str) -> int | None:
        """See `Source`. The end of a compressed file is behind what was read, as long as it is not
        known."""
        end = self._end(shard)
        if end < _UNKNOWN:
            return end
        return max(self._files.ends[shard], self._reached.get(shard, 0) + 1)

    def read(
        self, shard: str, offset: int, *, max_rows: int, until: int | None = None
    ) -> Chunk | None:
        """See `Source`. Records from `offset` on; a replay gets exactly those before `until`."""
        if until is not None:
            framed = read_range(partial(self._bytes, shard), self._framing, offset, until)
            return self._chunk(shard, offset, framed)
        if shard in self._files.skipped or not self._is_in_turn(shard):
            return None
        self._close_at_end(shard, offset)
        try:
            chunk = self._next(shard, offset, max_rows)
        except ExecutionError as error:
            self._files.skip(shard, offset, error)
            return None
        self._reached[shard] = offset if chunk is None else chunk.end
        return chunk

    def _next(self, shard: str, offset: int, max_rows: int) -> Chunk | None:
        window = self._window(max_rows)
        while offset < (end := self._end(shard)):
            data = self._bytes(shard, offset, min(window, end - offset))
            end = self._end(shard)  # that of a compressed file may be known by now
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
        if not shard.endswith(ARCHIVES):
            return self._files.ends[shard]
        return self._sizes.get(shard, _UNKNOWN)

    def _is_in_turn(self, shard: str) -> bool:
        """False for a compressed file that waits until another one is read to its end."""
        known = not shard.endswith(ARCHIVES) or shard in self._unpacked or shard in self._sizes
        return known or len(self._unpacked) < _OPEN

    def _close_at_end(self, shard: str, offset: int) -> None:
        """Closes a compressed file that is read to its end."""
        if offset >= self._sizes.get(shard, _UNKNOWN) and shard in self._unpacked:
            self._unpacked.pop(shard).close()

    def _archive(self, shard: str) -> Unpacked:
        """Returns a compressed file, open. ExecutionError where it cannot be read."""
        if shard not in self._unpacked:
            try:
                self._unpacked[shard] = Unpacked(shard, self._files.access)
            except FileNotFoundError:
                raise changed(shard, "it is gone") from None
            except OSError as error:
                raise unreadable(shard, error) from None
        return self._unpacked[shard]

    def _bytes(self, shard: str, offset: int, size: int) -> bytes:
        if shard.endswith(ARCHIVES):
            archive = self._archive(shard)
            data = archive.read(offset, size)
            if archive.size is not None:
                self._sizes[shard] = archive.size
            return data
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
            if offset <= size or shard.endswith(ARCHIVES)
            else f"file '{shard}' has {size} bytes, {offset} were read before"
        )

    def close(self) -> None:
        for file in self._unpacked.values():
            file.close()
