"""Bounds the descriptors that the segments of all brokers in this process hold.

A segment that is read or written keeps its file open for the next time. When there are too many,
one that was not used for long is given up: it is opened again when it is needed."""

from __future__ import annotations

import resource
import weakref
from collections import deque
from typing import Final, Protocol

from sqlengine.system.disk import Disk

# Segments may have this share of what the process may open, and so many at most.
_SHARE: Final = 4
_MOST: Final = 4_096


class OpenFile:
    """An open file, closed when nobody holds it any more: who reads from it keeps it open, though
    its segment has given it up. `recent`: whether it was used since somebody asked."""

    __slots__ = ("__weakref__", "_disk", "fd", "recent", "writable")

    def __init__(self, disk: Disk, fd: int, *, writable: bool) -> None:
        self._disk = disk
        self.fd = fd
        self.writable = writable
        self.recent = True

    def __del__(self) -> None:
        self._disk.close(self.fd)


class Holder(Protocol):
    """Something that holds an open file until it is told to give it up."""

    def give_up(self, file: OpenFile) -> None:
        """Forgets the file, if it still holds that one. Any thread may call it."""


class OpenFiles:
    """The open files of segments, those of the longest standing first. Any thread may call it."""

    def __init__(self) -> None:
        # A deque takes and gives from both ends at once; a file that is closed leaves an entry,
        # which goes when it is met.
        self._held: deque[tuple[weakref.ref[OpenFile], weakref.ref[Holder]]] = deque()
        self._most = 0

    def opened(self, file: OpenFile, holder: Holder) -> None:
        """Notes a file, and gives up another if it is one too many: the first that was not used
        since it was met last."""
        self._held.append((weakref.ref(file), weakref.ref(holder)))
        while len(self._held) > self._limit():
            self._meet_oldest()

    def _meet_oldest(self) -> None:
        entry = self._held.popleft()
        file, holder = entry[0](), entry[1]()
        if file is None or holder is None:
            return
        if file.recent:
            file.recent = False
            self._held.append(entry)
        else:
            holder.give_up(file)

    def _limit(self) -> int:
        # Not before the first use: a server raises the limit of its process when it starts.
        if not self._most:
            soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            bounded = soft != resource.RLIM_INFINITY
            self._most = max(1, min(soft // _SHARE, _MOST)) if bounded else _MOST
        return self._most


OPEN_FILES: Final = OpenFiles()
