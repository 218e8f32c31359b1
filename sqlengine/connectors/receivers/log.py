"""The log of a stream: a topic, who reads it and how far, and what of it can go."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Final

from parser.errors import ServiceError
from sqlengine.broker.base import Broker
from sqlengine.connectors.health import Health
from sqlengine.connectors.receivers.base import KeyOf, Stream, Taken

# Messages that are read at once to see which keys the last ones have.
_READ: Final = 20_000
# So many of them tell how long they are.
_SAMPLE: Final = 100
# Milliseconds after a start for which all is kept.
_LATE_MS: Final = 600_000


class Position:
    """The position of one reader. `opened`: the end when it came; `floor`: nothing before it is
    read again, also after a crash; None until the reader has said where it begins."""

    def __init__(self, offset: int) -> None:
        self.read = self.opened = offset
        self.floor: int | None = None
        self._checkpoint = offset

    def begin(self, offset: int) -> None:
        """Notes that reading begins here, or goes on."""
        self.read = self.floor = self._checkpoint = offset

    def checkpointed(self, offset: int) -> None:
        """Notes that a checkpoint was begun here: the one before it is complete by now."""
        self.floor, self._checkpoint = self._checkpoint, offset


class ReceivedLog:
    """Appends to the topic of one stream. `append` and `tidy` are the receiver's, `open` and
    `close` may be called from any thread."""

    def __init__(self, broker: Broker, clock: Callable[[], int], stream: Stream) -> None:
        self.stream = stream
        self.topic = stream.topic
        self._broker = broker
        self._clock = clock
        self._lock = threading.Lock()
        self._readers: list[Position] = []
        self._width = 0.0  # bytes of a message, of those that came last
        self._seen: _Seen | None = None
        self.prepared = False
        self.health = Health()
        self._opened_ms = clock()
        self.released_ms: int | None = self._opened_ms
        self.received = self.bytes = self.repeated = 0
        broker.create_topic(self.topic, 1, if_not_exists=True)

    # ---- readers ---------------------------------------------------------------------------------

    def open(self) -> Position:
        """Adds a reader, at the end until it says where it is."""
        with self._lock:
            position = Position(self._broker.end_offset(self.topic, 0))
            self._readers.append(position)
            self.released_ms = None
            return position

    def close(self, position: Position) -> bool:
        """Removes a reader; returns True if it was the last one."""
        with self._lock:
            if position not in self._readers:
                return False
            self._readers.remove(position)
            if not self._readers:
                self.released_ms = self._clock()
            return not self._readers

    @property
    def readers(self) -> int:
        return len(self._readers)

    def expired(self, now_ms: int, *, refused: bool = False) -> bool:
        """True if nobody has read it for so long that no more is taken. Of a `refused` stream no
        more comes, and what waits for it may hold up a server."""
        stream, released = self.stream, self.released_ms
        lasting_ms = min(stream.lasting_ms, stream.retention_ms) if refused else stream.lasting_ms
        return released is not None and now_ms - released >= lasting_ms

    def unread(self) -> int:
        """Returns the messages that the slowest reader has not read; 0 where nobody reads."""
        with self._lock:
            slowest = min((p.read for p in self._readers), default=None)
        return 0 if slowest is None else max(self._broker.end_offset(self.topic, 0) - slowest, 0)

    @property
    def unread_bytes(self) -> int:
        """Returns about the bytes of what is unread."""
        return int(self.unread() * self._width)

    @property
    def full(self) -> bool:
        """True if so much is unread that no more may come."""
        return self.unread_bytes >= self.stream.most_unread

    # ---- messages --------------------------------------------------------------------------------

    def prepare(self, known: tuple[KeyOf, int] | None) -> None:
        """Leaves out messages whose key one of the last ones has, from now on."""
        if known is not None and self._seen is None:
            self._seen = _Seen(*known)
            self._seen.new(self.tail(known[1]))
        if not self._width:
            last = self.tail(_SAMPLE)
            self._width = _size(last) / max(len(last.values), 1)
        self.prepared = True

    def tail(self, count: int) -> Taken:
        """Returns the last messages, at most so many."""
        end = self._broker.end_offset(self.topic, 0)
        at = max(end - count, self._broker.begin_offset(self.topic, 0))
        found = Taken()
        while at < end:
            records = self._broker.read(self.topic, 0, at, max_records=_READ)
            if records is None:
                break
            found.values += records.values.to_pylist()
            nothing = [b""] * records.num_rows
            found.metadata += nothing if records.keys is None else records.keys.to_pylist()
            at = records.next_offset
        return found

    def append(self, taken: Taken) -> None:
        """Appends messages, without those that were seen. BrokerFull where there is no space, with
        nothing appended; the same messages may come again then."""
        came = len(taken.values)
        if self._seen is not None:
            taken = self._seen.new(taken)
        if taken.values:
            size = _size(taken)
            try:
                self._append(taken)
            except BaseException:
                if self._seen is not None:
                    self._seen.forget(taken)
                raise
            width = size / len(taken.values)
            self._width = 0.9 * self._width + 0.1 * width if self._width else width
            self.bytes += size
        self.received += len(taken.values)
        self.repeated += came - len(taken.values)

    def _append(self, taken: Taken) -> None:
        now = self._clock()
        self._broker.append(self.topic, 0, taken.values, keys=taken.metadata, timestamp_ms=now)

    # ---- what can go -----------------------------------------------------------------------------

    def tidy(self) -> None:
        """Removes what is behind all readers and too old, or too much. Nothing for a while after a
        start: readers may yet come that were there before it."""
        broker, topic, kept = self._broker, self.topic, self.stream
        now = self._clock()
        with self._lock:
            floors = [p.floor for p in self._readers]
        if now - self._opened_ms < min(kept.retention_ms, _LATE_MS) or None in floors:
            return
        with suppress(ServiceError):
            before = broker.offset_for_time(topic, 0, now - kept.retention_ms)
            if self._width:
                most = int(kept.retention_bytes / self._width)
                before = max(before, broker.end_offset(topic, 0) - most)
            broker.trim(topic, 0, min([before, *(f for f in floors if f is not None)]))


def _size(taken: Taken) -> int:
    return sum(map(len, taken.values)) + sum(map(len, taken.metadata))


class _Seen:
    """The keys of the last messages, at most `most`."""

    def __init__(self, key_of: KeyOf, most: int) -> None:
        self._key_of = key_of
        self._most = most
        self._keys: OrderedDict[Hashable, None] = OrderedDict()

    def new(self, taken: Taken) -> Taken:
        """Returns the messages whose keys are new, and keeps these."""
        found, keys = Taken(), self._keys
        for value, metadata in zip(taken.values, taken.metadata, strict=True):
            key = self._key_of(value, metadata)
            if key is not None and key in keys:
                keys.move_to_end(key)
                continue
            if key is not None:
                keys[key] = None
            found.values.append(value)
            found.metadata.append(metadata)
        while len(keys) > self._most:
            keys.popitem(last=False)
        return found

    def forget(self, taken: Taken) -> None:
        """Forgets messages that were not kept."""
        for value, metadata in zip(taken.values, taken.metadata, strict=True):
            self._keys.pop(self._key_of(value, metadata), None)
