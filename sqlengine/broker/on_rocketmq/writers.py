"""Writes each epoch of a writer to a queue once, whatever answers are lost.

What was sent and not confirmed is looked for before anything is sent again. Where to look is on the
disk before the first message of a writer is sent, and kept up from then on."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from xxhash import xxh64_hexdigest

from sqlengine.broker.base import Appended
from sqlengine.broker.on_rocketmq.kept import Kept, WriterMark
from sqlengine.broker.on_rocketmq.queue_log import QueueLog, requests
from sqlengine.broker.on_rocketmq.records import is_last
from sqlengine.broker.rocketmq.messages import Outgoing
from sqlengine.broker.rocketmq.repeats import origin_of, origin_prefix

# Marks are written at most so often: a start reads as much of the queue as came since.
_SAVE_S: Final = 1.0
_NONE: Final = -1


@dataclass
class _Writer:
    """`epoch`: the last one that is complete; `part`: a later one, with the number of its last
    message that is there; `offset`: up to where the queue is known; `sure`: nothing is behind."""

    name: str
    epoch: int = _NONE
    part: tuple[int, int] | None = None
    offset: int = 0
    sure: bool = False
    saved_s: float = 0.0
    dirty: bool = False
    lock: Lock = field(default_factory=Lock)


class Writers:
    """The writers of one shard."""

    def __init__(self, topic: str, shard: int, log: QueueLog, kept: Kept) -> None:
        self._place = topic, shard
        self._log = log
        self._kept = kept
        self._lock = Lock()
        self._writers: dict[str, _Writer] = {}

    def origin(self, writer: str, epoch: int) -> str:
        """Returns the property that messages of an epoch have, up to their number."""
        return origin_prefix(self._name(writer), epoch)

    def last_epoch(self, writer: str) -> int | None:
        """Returns the last epoch that is there as a whole; None where there is none."""
        known = self._known(writer)
        with known.lock:
            self._look(known)
            return None if known.epoch == _NONE else known.epoch

    def append(self, writer: str, epoch: int, messages: list[Outgoing], time_ms: int) -> Appended:
        """Appends the messages of an epoch, or what of it is missing. BrokerAway where nobody knows
        whether they have arrived: the same call finds out."""
        known = self._known(writer)
        with known.lock:
            self._look(known)
            if epoch <= known.epoch or not messages:
                duplicate, end = epoch <= known.epoch, self._log.end
                known.epoch = max(known.epoch, epoch)
                self._save(known)
                return Appended(end, end, duplicate)
            done = known.part[1] + 1 if known.part is not None and known.part[0] == epoch else 0
            first = behind = known.offset
            known.sure = False
            for number, request in enumerate(requests(messages[done:])):
                behind = self._log.append(request, time_ms)
                first = first if number else behind
                behind += len(request)
            known.epoch, known.part, known.offset, known.sure = epoch, None, behind, True
            self._save(known)
            return Appended(first, behind)

    def close(self) -> None:
        """Keeps what is known of all writers, so that the next start has little to read."""
        for known in list(self._writers.values()):
            if known.dirty:
                self._write(known)

    def _name(self, writer: str) -> str:
        """Returns what a writer is called in messages: graphs of all data folders are called
        alike, and a name may be long."""
        return xxh64_hexdigest(f"{self._kept.name}/{writer}".encode())

    def _known(self, writer: str) -> _Writer:
        name = self._name(writer)
        with self._lock:
            return self._writers.setdefault(name, _Writer(name))

    def _look(self, known: _Writer) -> None:
        """Finds out what of a writer is in the queue, unless that is known."""
        if known.sure:
            return
        end = self._log.settled_end()
        if not known.saved_s:
            mark = self._kept.mark(*self._place, known.name)
            if mark is None:
                known.offset = end
                self._write(known)
                known.sure = True
                return
            known.epoch, known.offset, known.saved_s = mark.epoch, mark.offset, time.monotonic()
        if known.offset > end:  # the topic was made anew, or its broker has lost messages
            known.epoch, known.part, known.offset = _NONE, None, 0
        self._search(known, end)
        known.offset, known.sure = end, True
        self._save(known)

    def _search(self, known: _Writer, end: int) -> None:
        for message in self._log.messages(known.offset, end):
            origin = origin_of(message.properties)
            if origin is None or origin.writer != known.name or origin.epoch <= known.epoch:
                continue
            if is_last(message):
                known.epoch, known.part = origin.epoch, None
            else:
                # Nobody begins an epoch before the one in front of it is complete.
                known.epoch = max(known.epoch, origin.epoch - 1)
                known.part = origin.epoch, origin.number

    def _save(self, known: _Writer) -> None:
        known.dirty = True
        if time.monotonic() - known.saved_s > _SAVE_S:
            self._write(known)

    def _write(self, known: _Writer) -> None:
        self._kept.set_mark(*self._place, known.name, WriterMark(known.epoch, known.offset))
        known.saved_s, known.dirty = time.monotonic(), False
