"""The log of one shard: a chain of segments, of which the last one grows."""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from sqlengine.broker.base import Appended, Records, ShardInfo
from sqlengine.broker.errors import (
    BrokerError,
    TopicNotFound,
    cannot_read_segment,
    cannot_write,
    offset_out_of_range,
)
from sqlengine.broker.storage.chain import Options, open_chain
from sqlengine.broker.storage.codec import NO_EPOCH, Payload, seal
from sqlengine.broker.storage.end_mark import EndMark, read_end_mark, write_end_mark
from sqlengine.broker.storage.excerpts import Excerpt, excerpts_of
from sqlengine.broker.storage.head import FORMAT, State, file_generation, file_name
from sqlengine.broker.storage.queued import Queued, has_writer
from sqlengine.broker.storage.reading import (
    Batches,
    ReadBounds,
    begin_read,
    first_since,
    read_batches,
    read_range,
)
from sqlengine.broker.storage.recovery import recover
from sqlengine.broker.storage.segment import Segment
from sqlengine.broker.storage.small_batches import read_small_batches

log = logging.getLogger("sqlengine")

T = TypeVar("T")
_MOST_AT_ONCE = 256  # a pwritev call takes 1024 parts, and a batch has two


class ShardLog:
    """One shard. Appends are serialized; reads take no lock: they use the segments and tails
    published last."""

    def __init__(self, topic: str, shard: int, folders: Sequence[Path], options: Options) -> None:
        self.topic = topic
        self.shard = shard
        self._folders = tuple(folders)
        self.options = options
        self.maintenance = threading.RLock()  # held while segments are removed or replaced
        self._append_lock = threading.Lock()
        self._queue: deque[Queued] = deque()
        self._sync_lock = threading.Lock()
        self._closed = False
        self._segments = open_chain(folders, options)
        self._mark = mark = read_end_mark(folders, options.disk)
        self._writers = recover(
            self._segments[-1], mark.offset if mark.must_hold(options.disk) else 0
        )
        if self.end < mark.offset:
            log.error(
                "records %s to %s of %s are lost: the machine was started again before they were on"
                " its disk ('sql serve --fsync' says what is)",
                f"{self.end:,}",
                f"{mark.offset - 1:,}",
                self.where,
            )
        if self._segments[-1].version < FORMAT:
            self._roll(self._segments[-1])
        if options.synced and not (mark.synced and self._is_at(mark)):
            self._sync_all()

    def _is_at(self, mark: EndMark) -> bool:
        """True if nothing was appended since the mark, not even an epoch."""
        return (self.end, self._segments[-1].tail.size) == (mark.offset, mark.size)

    def _sync_all(self) -> None:
        """Syncs all files at start: the previous process may have died between a write and its
        sync."""
        for folder in self._folders:
            self.options.disk.sync_folder(folder)
        for segment in self._segments:
            segment.dirty = True
            segment.sync()
            segment.close()

    @staticmethod
    def create(folder: Path, options: Options) -> None:
        """Creates the files of an empty shard."""
        options.disk.make_folder(folder, mode=0o700)
        Segment.create(
            folder / file_name(0), State(0), options.disk, durable=options.synced
        ).close()

    @property
    def folder(self) -> Path:
        """The folder of new segments: the last of the shard's folders."""
        return self._folders[-1]

    @property
    def where(self) -> str:
        return f"topic {self.topic!r} shard {self.shard}"

    @property
    def segments(self) -> tuple[Segment, ...]:
        return self._segments

    @property
    def begin(self) -> int:
        return self._segments[0].base

    @property
    def end(self) -> int:
        return self._segments[-1].tail.next_offset

    @property
    def size(self) -> int:
        """The size on disk, in bytes."""
        return sum(segment.tail.size for segment in self._segments)

    def info(self) -> ShardInfo:
        segments = self._segments
        folders = Counter(str(segment.path.parent) for segment in segments)
        size = sum(segment.tail.size for segment in segments)
        return ShardInfo(segments[0].base, segments[-1].tail.next_offset, size, dict(folders))

    def last_epoch(self, writer: str) -> int | None:
        return self._writers.get(writer)

    def has(self, writer: str | None, epoch: int | None) -> bool:
        """True if the writer has appended that epoch or a later one already: the append would be a
        duplicate."""
        return (
            writer is not None
            and epoch is not None
            and self._writers.get(writer, NO_EPOCH) >= epoch
        )

    def append(self, payload: Payload, timestamp: int, writer: str | None, epoch: int) -> Appended:
        """Appends a batch (group commit): the first thread writes, and syncs once, all that have
        queued up meanwhile."""
        own = Queued(payload, timestamp, writer, epoch)
        if self.options.durable:
            self._queue.append(own)
        with self._append_lock:
            if not self.options.durable:  # without a sync there is nothing to share
                self._append_queued((own,))
            # Another thread may have taken this append from the queue while it waited for the lock:
            # then it is done already.
            while own.appended is None and own.error is None:
                self._append_queued(
                    [self._queue.popleft() for _ in range(min(len(self._queue), _MOST_AT_ONCE))]
                )
        if own.appended is None:
            raise own.error or BrokerError(f"cannot write to {self.where}")
        return own.appended

    def _append_queued(self, queued: Sequence[Queued]) -> None:
        """Appends a queue; every item gets its result or an error."""
        try:
            self._require_open()
            self._append_in_groups(queued)
        except BaseException as error:
            for item in queued:
                if item.appended is None and item.error is None:
                    item.error = error
            if not isinstance(error, BrokerError):
                raise

    def _append_in_groups(self, queued: Sequence[Queued]) -> None:
        """Appends items in order; consecutive ones that fit into the segment are one write.

        A group ends before a duplicate, whose result is the end at its turn; before an item that
        does not fit; and before a second item of a writer, which may be a duplicate of the first.
        """
        group: list[Queued] = []
        size = 0
        for item in queued:
            duplicate = self.has(item.writer, item.epoch)
            last = self._segments[-1]
            full = last.tail.size + size + item.length > self.options.segment_bytes
            if group and (duplicate or full or has_writer(group, item.writer)):
                self._write_group(group)
                group, size = [], 0
                duplicate = self.has(item.writer, item.epoch)
            if duplicate:
                item.appended = Appended(self.end, self.end, duplicate=True)
            elif not (full and last.tail.size > last.start) or self._rolled_for(item):
                group.append(item)
                size += item.length
        if group:
            self._write_group(group)

    def _rolled_for(self, item: Queued) -> bool:
        """Begins a new segment; False, with the item's error, if that fails."""
        try:
            self._roll(self._segments[-1])
        except OSError as error:
            item.error = cannot_write(self.where, error)
        return item.error is None

    def _write_group(self, group: list[Queued]) -> None:
        """Writes the batches after the tail, all or none."""
        segment = self._segments[-1]
        base = segment.tail.next_offset
        parts: list[bytes] = []
        # Nothing was published yet: readers and duplicates see a batch only after `advance`.
        for item in group:
            behind = base + item.payload.rows
            parts += seal(
                item.payload, segment.mark, base, behind, item.timestamp, item.name, item.epoch
            )
            base = behind
        try:
            segment.write(parts, durable=self.options.durable)
        except OSError as error:
            for item in group:
                item.error = cannot_write(self.where, error)
            return
        for item in group:
            base = segment.tail.next_offset
            if item.writer is not None:
                self._writers[item.writer] = item.epoch
            segment.advance(base, item.length, base + item.payload.rows, item.timestamp)
            item.appended = Appended(base, base + item.payload.rows)

    def _require_open(self) -> None:
        if self._closed:
            raise TopicNotFound(f"topic {self.topic!r} was deleted, or the broker is closed")

    def _roll(self, last: Segment) -> Segment:
        state = State(last.tail.next_offset, last.tail.max_timestamp, dict(self._writers))
        # A segment with epochs only is replaced: its successor has the same base, and its epochs.
        no_rows = state.base == last.base
        path = self.folder / file_name(state.base, file_generation(last.path) + 1 if no_rows else 0)
        with self._sync_lock:
            if self.options.synced:
                last.sync()  # recovery repairs a torn end in the last file only
            fresh = Segment.create(path, state, self.options.disk, durable=self.options.synced)
            last.close()
        self._segments = (*(self._segments[:-1] if no_rows else self._segments), fresh)
        if no_rows:
            self._remove((last,))
        return fresh

    def roll(self) -> tuple[Segment, ...]:
        """Begins a new segment unless the last one is empty; returns those before it, which never
        change again."""
        with self._append_lock:
            self._require_open()
            last = self._segments[-1]
            try:
                if last.tail.size > last.start:
                    self._roll(last)
            except OSError as error:
                raise cannot_write(self.where, error) from error
            return self._segments[:-1]

    def move_to(self, folder: Path) -> None:
        """Directs new segments to `folder`. Raises BrokerFull or BrokerError, changing nothing."""
        with self._append_lock:
            self._require_open()
            before = self._folders
            # A new segment in the new folder: from here on nothing is written to the old one.
            self._folders = (*before, folder)
            try:
                self._roll(self._segments[-1])
            except OSError as error:
                self._folders = before
                raise cannot_write(self.where, error) from error

    def move_segments(self) -> None:
        """Copies segments in other folders to the last folder, one after the other, and removes the
        originals.

        Readers go on meanwhile; after a crash each segment is in one of the two places.
        """
        with self.maintenance:
            for segment in self._segments[:-1]:
                if segment.path.parent == self.folder:
                    continue
                try:
                    moved = segment.copy(self.folder / segment.path.name)
                except OSError as error:
                    raise cannot_write(self.where, error) from error
                with self._append_lock:
                    self._segments = tuple(moved if s is segment else s for s in self._segments)
                self._remove((segment,))

    def read(self, offset: int, limits: ReadBounds) -> Records | None:
        def work(segments: tuple[Segment, ...]) -> Records:
            segment = segments[bisect_right(segments, offset, key=_base) - 1]
            begin = begin_read(segment, offset, limits)
            small = read_small_batches(self.topic, self.shard, begin, offset, limits)
            if small is not None:
                return small
            return read_range(self.topic, self.shard, segments, offset, limits, begin)

        return self._reading(offset, limits, work)

    def read_batches(self, offset: int, limits: ReadBounds) -> Batches | None:
        """Returns the batches with the records of a `read`."""
        return self._reading(offset, limits, lambda s: read_batches(s, offset, limits))

    def excerpts(self, stops: Sequence[int], folder: Path) -> list[Excerpt] | None:
        """Returns excerpts from the first of these offsets to the last, see `excerpts_of`."""
        self._require_open()
        return excerpts_of(self.topic, self.shard, self._segments, stops, folder)

    def _reading(
        self, offset: int, limits: ReadBounds, work: Callable[[tuple[Segment, ...]], T]
    ) -> T | None:
        while True:
            self._require_open()
            segments = self._segments
            begin, end = segments[0].base, segments[-1].tail.next_offset
            stop = end if limits.until is None else limits.until
            if not begin <= offset <= end or stop > end:
                raise offset_out_of_range(self.where, offset if stop <= end else stop, begin, end)
            if offset >= stop:
                return None
            try:
                return work(segments)
            except FileNotFoundError as error:
                self._require_open()
                if segments is self._segments:
                    raise cannot_read_segment(Path(error.filename), error) from error
                # Retention or compaction removed a file after we took the list: try again.

    def offset_for_time(self, timestamp: int) -> int:
        while True:
            self._require_open()
            segments = self._segments
            # The latest timestamps ascend from segment to segment, since each includes those before
            # it.
            place = bisect_left(segments, timestamp, key=_latest)
            if place == len(segments):
                return segments[-1].tail.next_offset
            try:
                return first_since(segments[place], timestamp)
            except FileNotFoundError as error:
                self._require_open()
                if segments is self._segments:
                    raise cannot_read_segment(Path(error.filename), error) from error

    def drop(self, count: int) -> None:
        """Removes the first `count` segments, never the last one. The caller holds
        `maintenance`."""
        with self._append_lock:
            removed, self._segments = self._segments[:count], self._segments[count:]
        self._remove(removed)

    def replace(self, old: tuple[Segment, ...], new: Segment) -> None:
        """Replaces `old`, the first segments, by `new`. The caller holds `maintenance`."""
        # Readers with the old tuple go on: removed files stay open while they read, and closed ones
        # make them try again.
        with self._append_lock:
            self._segments = (new, *self._segments[len(old) :])
        self._remove(old)

    def _remove(self, segments: tuple[Segment, ...]) -> None:
        with self._sync_lock:
            for segment in segments:
                segment.remove()

    def sync(self) -> None:
        """Returns when everything appended so far is on disk."""
        with self._sync_lock:
            if self._closed:
                return
            segments = self._segments
            try:
                for segment in segments:
                    segment.sync()
            except OSError as error:
                raise BrokerError(f"cannot sync {self.where}", detail=error.strerror) from error
            for segment in segments[:-1]:
                segment.close()

    def close(self) -> None:
        with self._append_lock, self._sync_lock:
            dirty = any(segment.dirty for segment in self._segments)
            # What a former process wrote is synced at the start, in modes that sync.
            synced = self.options.synced and not dirty
            said = self._is_at(self._mark) and (self._mark.synced or not synced)
            if not self._closed and not said:
                size = self._segments[-1].tail.size
                write_end_mark(self.folder, self.end, size, self.options.disk, synced=synced)
            self._closed = True
            for segment in self._segments:
                segment.close()


def _base(segment: Segment) -> int:
    return segment.base


def _latest(segment: Segment) -> int:
    return segment.tail.max_timestamp
