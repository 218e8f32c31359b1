"""One file of a shard's log: a head (see `head`), followed by batches (see `codec`)."""

from __future__ import annotations

import errno
import mmap
import os
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from sqlengine.broker.errors import CorruptSegment, corrupt_segment
from sqlengine.broker.storage.codec import Header, header_at, is_intact
from sqlengine.broker.storage.head import Head, State, new_head, read_head
from sqlengine.broker.storage.open_files import OPEN_FILES
from sqlengine.system.disk import Disk

INDEX_BYTES = 64 << 10
_COPY_BYTES = 1 << 20


class Tail(NamedTuple):
    """The end of a segment: the next offset, the size in bytes, and the latest timestamp of the log
    up to there."""

    next_offset: int
    size: int
    max_timestamp: int


class Index:
    """A sparse index with an entry about every 64 KiB: a batch's offset, its byte, and the latest
    timestamp before it."""

    def __init__(self) -> None:
        self._offsets, self._positions, self._times = array("q"), array("q"), array("q")

    def add(self, offset: int, position: int, latest: int) -> None:
        if not self._positions or position - self._positions[-1] >= INDEX_BYTES:
            # Readers take no lock and find an entry by its offset, which therefore is added last.
            self._positions.append(position)
            self._times.append(latest)
            self._offsets.append(offset)

    def for_offset(self, offset: int, default: int) -> int:
        """Returns the byte of the last indexed batch that begins at or before `offset`."""
        place = bisect_right(self._offsets, offset) - 1
        return self._positions[place] if place >= 0 else default

    def for_time(self, timestamp: int, default: int) -> int:
        """Returns the byte of the last indexed batch before which no timestamp is `timestamp` or
        later."""
        place = bisect_left(self._times, timestamp) - 1
        return self._positions[place] if place >= 0 else default


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
        self._fd: int | None = None
        self._mapped: pa.Buffer | None = None
        self._hint = (self.base, self.start)
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
            _write_all(disk, segment._create_file(), [content], 0)
        except OSError:
            segment.remove()
            raise
        return segment

    def publish(self, path: Path, *, durable: bool) -> None:
        """Renames the file to its final name, from which on it is part of the log."""
        if durable:
            self._disk.sync(self._file())
            self.dirty = False
        self._disk.rename(self.path, path)
        self.path = path
        if durable:
            self._disk.sync_folder(path.parent)

    def write(self, parts: Sequence[bytes], *, durable: bool) -> int:
        """Writes batches after the tail; returns their size. Raises OSError, with nothing left of
        them."""
        position, fd = self.tail.size, self._file()
        try:
            size = _write_all(self._disk, fd, parts, position)
            if durable:
                self._disk.sync(fd)
        except OSError:
            # A torn batch must not stay: a later append would leave it in the middle of the file.
            self.cut(position)
            raise
        self.dirty = not durable
        self._give_way()
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
        self._disk.truncate(self._file(), size)

    def copy(self, path: Path) -> Segment:
        """Copies a complete segment to another path. Raises OSError and leaves nothing there."""
        fresh = Segment(
            path.with_suffix(".tmp"),
            Head(self.state, self.mark, self.start, self.version),
            self._disk,
        )
        view = memoryview(self.buffer())[: self.tail.size]
        try:
            file = fresh._create_file()
            for position in range(0, len(view), _COPY_BYTES):
                part = bytes(view[position : position + _COPY_BYTES])
                _write_all(self._disk, file, [part], position)
            fresh.publish(path, durable=True)
        except OSError:
            fresh.remove()
            raise
        fresh.close()
        fresh.tail, fresh.index = self.tail, self.index
        return fresh

    def sync(self) -> None:
        """Returns when all batches are on disk."""
        if self.dirty:
            # Cleared before the sync: an append meanwhile sets it again, and is synced the next
            # time.
            self.dirty = False
            try:
                self._disk.sync(self._file())
            except OSError:
                self.dirty = True
                raise
            self._give_way()

    def close(self) -> None:
        """Closes the file for writing; it is opened again when needed."""
        if self._fd is not None:
            OPEN_FILES.closed(self)
            self._disk.close(self._fd)
            self._fd = None

    def _give_way(self) -> None:
        if OPEN_FILES.crowded:
            self.close()

    def remove(self) -> None:
        """Removes the file; buffers that readers hold stay valid."""
        self.close()
        self._disk.remove(self.path)

    def _file(self) -> int:
        if self._fd is None:
            self._fd = self._disk.open(self.path)
            OPEN_FILES.opened(self)
        return self._fd

    def _create_file(self) -> int:
        self._fd = self._disk.open(self.path, make=True, empty=True)
        OPEN_FILES.opened(self)
        return self._fd

    def map_file(self) -> mmap.mmap | bytes:
        return self._disk.map(self.path)

    def buffer(self) -> pa.Buffer:
        """Maps the file up to `tail` at least. What was read from it stays valid after the file's
        removal.

        Raises CorruptSegment for a file that somebody has cut: touching what a mapped file does not
        have any more would kill the process."""
        tail, mapped = self.tail, self._mapped
        size = self._disk.size(self.path)
        if size < tail.size:
            what = f"it was cut to {size:,} bytes, {tail.size:,} were written"
            raise self.damaged(size, self.base, what)
        if mapped is None or mapped.size < tail.size:
            mapped = self._mapped = pa.py_buffer(self.map_file())
            OPEN_FILES.mapped(self)
        return mapped

    def unmap(self) -> None:
        self._mapped = None

    def batches(self, view: memoryview, position: int, tail: Tail) -> Iterator[tuple[int, Header]]:
        """Yields position and header of each batch from byte `position` on, without verifying
        checksums."""
        size, mark = tail.size, self.mark
        while position < size:
            header = header_at(view, position, size, mark)
            if header is None:
                raise self._first_damage(view, position, tail)
            yield position, header
            position += header.length

    def intact(self, view: memoryview, size: int) -> Iterator[tuple[int, Header]]:
        """Yields position and header of each batch from the first on, up to the first
        damaged one."""
        position, offset = self.start, self.base
        while position < size:
            header = header_at(view, position, size, self.mark)
            if header is None or header.base != offset or not is_intact(view, position, header):
                return
            yield position, header
            position, offset = position + header.length, header.next

    def check(self, view: memoryview, positions: list[int], headers: list[Header]) -> None:
        """Raises CorruptSegment unless these consecutive batches are intact; each is verified once,
        at its first read."""
        if not positions:
            return
        first, behind = positions[0], positions[-1] + headers[-1].length
        if self.is_checked(first, behind):
            return
        start, end = self._checked
        for position, header in zip(positions, headers, strict=True):
            if not start <= position < end and not is_intact(view, position, header):
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

    def _first_damage(self, view: memoryview, position: int, tail: Tail) -> CorruptSegment:
        """Returns the error for the first damaged batch: one with a damaged length also misplaces
        all after it."""
        good, offset = self.start, self.base
        for at, header in self.intact(view, tail.size):
            good, offset = at + header.length, header.next
        return self.damaged(min(good, position), offset)

    def position_of(self, offset: int, view: memoryview, tail: Tail) -> int:
        """Returns a byte at which a batch begins whose offset is `offset` or less."""
        known, position = self._hint
        return (
            position
            if known == offset
            else self._indexed(view, tail).for_offset(offset, self.start)
        )

    def position_before(self, timestamp: int, view: memoryview, tail: Tail) -> int:
        """Returns a byte at which a batch begins before which no timestamp is `timestamp`
        or later."""
        return self._indexed(view, tail).for_time(timestamp, self.start)

    def set_hint(self, offset: int, position: int) -> None:
        """Records that the batch with `offset` begins at byte `position`: most reads continue where
        the last one ended."""
        self._hint = (offset, position)

    def _indexed(self, view: memoryview, tail: Tail) -> Index:
        if self.index is None:
            index, latest, end = Index(), self.state.max_timestamp, self.base
            for position, header in self.batches(view, self.start, tail):
                index.add(header.base, position, latest)
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
