"""One file of a shard's log: a head (see `head`), followed by batches (see `codec`)."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from sqlengine.broker.errors import (
    BrokerError,
    CorruptSegment,
    cannot_read_segment,
    corrupt_segment,
)
from sqlengine.broker.storage.codec import Header, is_intact
from sqlengine.broker.storage.head import Head, State, new_head, read_head
from sqlengine.broker.storage.index import Index, ReadEnds
from sqlengine.broker.storage.open_files import OPEN_FILES, OpenFile
from sqlengine.broker.storage.window import Batch, Window
from sqlengine.system.disk import Disk

_COPY_BYTES = 1 << 20
# Reading headers alone: many of small batches come with one call, little in vain of large ones.
_HEADERS_BYTES = 16 << 10
# Reading all: what was read is still in the processor's cache when its checksum is computed.
_ALL_BYTES = 256 << 10


class Tail(NamedTuple):
    """The end of a segment: the next offset, the size in bytes, and the latest timestamp of the log
    up to there."""

    next_offset: int
    size: int
    max_timestamp: int


class Segment:
    """A segment file. One thread at a time writes; any thread reads up to `tail`, which is replaced
    atomically."""

    def __init__(self, path: Path, head: Head, disk: Disk) -> None:
        self.path = path
        self._disk = disk
        self.state, self.mark, self.start, self.version = head
        self.base = head.state.base
        self.tail = Tail(self.base, self.start, self.state.max_timestamp)
        self.index: Index | None = None
        self.dirty = False
        self._open: OpenFile | None = None
        self._ends = ReadEnds()
        self._checked = (self.start, self.start)

    @classmethod
    def open(cls, path: Path, disk: Disk) -> Segment | None:
        """Opens a segment, with its tail still unknown; None for a file that was cut before its
        head was complete."""
        head = read_head(path, disk)
        return cls(path, head, disk) if head else None

    @classmethod
    def create(cls, path: Path, state: State, disk: Disk, *, durable: bool) -> Segment:
        """Creates an empty segment; the file gets its name when its head is complete. Raises
        OSError and leaves nothing."""
        segment = cls.create_unnamed(path.with_suffix(".tmp"), state, disk)
        try:
            segment.publish(path, durable=durable)
        except OSError:
            segment.remove()
            raise
        return segment

    @classmethod
    def create_unnamed(cls, path: Path, state: State, disk: Disk) -> Segment:
        head, content = new_head(state, int.from_bytes(disk.random(4), "little"))
        segment = cls(path, head, disk)
        segment.index = Index()
        try:
            _write_all(disk, segment._create_file().fd, [content], 0)
        except OSError:
            segment.remove()
            raise
        return segment

    def publish(self, path: Path, *, durable: bool) -> None:
        """Renames the file to its final name, from which on it is part of the log."""
        if durable:
            self._disk.sync(self._file().fd)
            self.dirty = False
        self._disk.rename(self.path, path)
        self.path = path
        if durable:
            self._disk.sync_folder(path.parent)

    def write(self, parts: Sequence[bytes], *, durable: bool) -> int:
        """Writes batches after the tail; returns their size. Raises OSError, with nothing left of
        them, and CorruptSegment for a file that somebody has cut: what follows a gap could not be
        read any more."""
        position, file = self.tail.size, self._file()
        if (size := self._disk.size(file.fd)) < position:
            raise self._was_cut(size, self.tail)
        try:
            size = _write_all(self._disk, file.fd, parts, position)
            if durable:
                self._disk.sync(file.fd)
        except OSError:
            # A torn batch must not stay: a later append would leave it in the middle of the file.
            self.cut(position)
            raise
        self.dirty = not durable
        return size

    def advance(self, base: int, size: int, next_offset: int, timestamp: int) -> None:
        """Publishes a batch written after the tail to readers."""
        _, position, latest = self.tail
        if self.index is not None:
            self.index.add(base, position, latest)
        # The writer knows its own batch to be intact: the checked range grows with it if it was
        # adjacent.
        start, end = self._checked
        if end == position:
            self._checked = (start, position + size)
        self.tail = Tail(next_offset, position + size, max(latest, timestamp))

    def cut(self, size: int) -> None:
        """Truncates the file to `size` bytes, which no reader has seen yet. Until a sync, a power
        failure may undo it."""
        self.dirty = True
        self._disk.truncate(self._file().fd, size)

    def copy(self, path: Path) -> Segment:
        """Copies a complete segment to another path. Raises OSError and leaves nothing there."""
        fresh = Segment(
            path.with_suffix(".tmp"),
            Head(self.state, self.mark, self.start, self.version),
            self._disk,
        )
        try:
            file, tail = fresh._create_file(), self.tail
            for position in range(0, tail.size, _COPY_BYTES):
                _write_all(self._disk, file.fd, [self._read(position, _COPY_BYTES, tail)], position)
            fresh.publish(path, durable=True)
        except (OSError, BrokerError):
            fresh.remove()
            raise
        fresh.close()
        fresh.tail, fresh.index = self.tail, self.index
        return fresh

    def file_size(self) -> int:
        return self._disk.size(self.path)

    def sync(self) -> None:
        """Returns when all batches are on disk."""
        if self.dirty:
            # Cleared before the sync: an append meanwhile sets it again, and is synced the next
            # time.
            self.dirty = False
            try:
                self._disk.sync(self._file().fd)
            except OSError:
                self.dirty = True
                raise

    def close(self) -> None:
        """Gives the file up; it is opened again when needed."""
        self._open = None
        self._ends.clear()

    def give_up(self, file: OpenFile) -> None:
        if self._open is file:
            self.close()

    def remove(self) -> None:
        """Removes the file; what was read of it stays valid."""
        self.close()
        self._disk.remove(self.path)

    def _file(self) -> OpenFile:
        """Returns the file, open for writing."""
        file = self._open
        if file is None or not file.writable:
            return self._hold(self._disk.open(self.path), writable=True)
        file.recent = True
        return file

    def _create_file(self) -> OpenFile:
        return self._hold(self._disk.open(self.path, make=True, empty=True), writable=True)

    def _file_to_read(self) -> OpenFile:
        file = self._open
        if file is None:
            return self._hold(self._disk.open_to_read(self.path), writable=False)
        file.recent = True
        return file

    def _hold(self, fd: int, *, writable: bool) -> OpenFile:
        file = self._open = OpenFile(self._disk, fd, writable=writable)
        OPEN_FILES.opened(file, self)
        return file

    def window(self, position: int, size: int, tail: Tail) -> Window:
        """Reads `size` bytes from byte `position` on, or up to `tail`.

        Raises BrokerError if the file cannot be read, and CorruptSegment if somebody has cut it;
        FileNotFoundError if it was removed."""
        return Window.of(self._read(position, size, tail), position)

    def _read(self, position: int, size: int, tail: Tail) -> bytes:
        size = min(size, tail.size - position)
        try:
            file = self._file_to_read()
            data = self._disk.pread(file.fd, size, position)
            while len(data) < size:
                more = self._disk.pread(file.fd, size - len(data), position + len(data))
                if not more:
                    raise self._was_cut(self._disk.size(file.fd), tail)
                data += more
        except FileNotFoundError:
            raise
        except OSError as error:
            raise cannot_read_segment(self.path, error) from error
        return data

    def _was_cut(self, size: int, tail: Tail) -> CorruptSegment:
        end, offset = self._reach(size)
        what = f"it was cut to {size:,} bytes, {tail.size:,} were written"
        return self.damaged(end, offset, what)

    def _reach(self, size: int) -> tuple[int, int]:
        """Returns the byte and the offset at which the first damaged batch of `size` bytes
        begins."""
        end, offset = self.start, self.base
        if size > end:
            for window, at, header in self.intact(size):
                end, offset = window.start + at + header.length, header.next
        return end, offset

    def batches(
        self, position: int, tail: Tail, bodies: int = 0, window: Window | None = None
    ) -> Iterator[Batch]:
        """Yields each batch from byte `position` on, without verifying checksums. `bodies`: reads
        the batches, too, about so many bytes at once (0: headers alone); `window`: was read
        already, from there or before."""
        position = yield from self._walk(position, tail, bodies, window)
        if position < tail.size:
            end, offset = self._reach(tail.size)
            raise self.damaged(min(end, position), offset)

    def _walk(
        self, position: int, tail: Tail, bodies: int, window: Window | None = None
    ) -> Generator[Batch, None, int]:
        """Yields batches as `batches` does, as long as there are some; returns where they end."""
        end, mark, step = tail.size, self.mark, bodies or _HEADERS_BYTES
        while position < end:
            if window is None or not window.has_header(position - window.start):
                window = self.window(position, step, tail)
            at = position - window.start
            header = window.header(at, end, mark)
            if header is None:
                break
            if bodies and at + header.length > len(window.view):
                window, at = self.window(position, max(step, header.length), tail), 0
            yield window, at, header
            position += header.length
        return position

    def intact(self, size: int) -> Iterator[Batch]:
        """Yields each batch of the first `size` bytes, up to the first damaged one."""
        offset = self.base
        tail = Tail(offset, size, 0)
        for window, at, header in self._walk(self.start, tail, _ALL_BYTES):
            if header.base != offset or not is_intact(window.view, at, header):
                return
            yield window, at, header
            offset = header.next

    def check(self, window: Window, places: list[int], headers: list[Header]) -> None:
        """Raises CorruptSegment unless these consecutive batches are intact; each is verified once,
        at its first read."""
        if not places:
            return
        first = window.start + places[0]
        behind = window.start + places[-1] + headers[-1].length
        if self.is_checked(first, behind):
            return
        start, end = self._checked
        for at, header in zip(places, headers, strict=True):
            position = window.start + at
            if not start <= position < end and not is_intact(window.view, at, header):
                raise self.damaged(position, header.base)
        # One range of verified bytes is kept: it is extended by an adjacent or overlapping read,
        # and otherwise replaced.
        self._checked = (start, behind) if start <= first <= end else (first, behind)

    def is_checked(self, first: int, behind: int) -> bool:
        """True if the batches between these bytes were verified."""
        start, end = self._checked
        return start <= first and behind <= end

    def all_checked(self, end: int) -> None:
        self._checked = (self.start, end)

    def damaged(
        self, position: int, offset: int, what: str = "the checksum of the batch there is wrong"
    ) -> CorruptSegment:
        return corrupt_segment(self.path, position, offset, what)

    def require_end(self, offset: int, tail: Tail) -> None:
        """Raises CorruptSegment if the batches end before the segment should."""
        if offset != tail.next_offset:
            raise self.damaged(
                tail.size, offset, f"it ends there, its records reach to offset {tail.next_offset}"
            )

    def end_of_read(self, offset: int) -> int | None:
        """Returns the byte of the batch that begins with `offset`, where a read ended there."""
        return self.start if offset == self.base else self._ends.get(offset)

    def indexed_position(self, offset: int, tail: Tail) -> int:
        """Returns a byte at which a batch begins whose offset is `offset` or less."""
        return self._indexed(tail).for_offset(offset, self.start)

    def position_behind(self, offset: int, tail: Tail) -> int:
        """Returns a byte at which a batch ends that has all records before `offset` before it."""
        return min(self._indexed(tail).behind(offset, tail.size), tail.size)

    def position_before(self, timestamp: int, tail: Tail) -> int:
        """Returns a byte at which a batch begins before which no timestamp is `timestamp`
        or later."""
        return self._indexed(tail).for_time(timestamp, self.start)

    def note_end(self, offset: int, position: int) -> None:
        """Notes that a read ended where the batch with `offset` begins, at byte `position`."""
        self._ends.add(offset, position)

    def _indexed(self, tail: Tail) -> Index:
        if self.index is None:
            index, latest, end = Index(), self.state.max_timestamp, self.base
            for window, at, header in self.batches(self.start, tail):
                index.add(header.base, window.start + at, latest)
                latest, end = max(latest, header.timestamp), header.next
            self.require_end(end, tail)
            self.index = index
        return self.index


def _write_all(disk: Disk, fd: int, parts: Sequence[bytes], position: int) -> int:
    size = sum(map(len, parts))
    written = disk.pwritev(fd, parts, position)
    if written < size:  # a full disk writes a part and rejects the rest
        rest = memoryview(b"".join(parts))
        while written < size:
            count = disk.pwrite(fd, rest[written:], position + written)
            if not count:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written += count
    return size
