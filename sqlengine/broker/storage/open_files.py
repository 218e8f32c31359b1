"""Bounds the descriptors that the segments of all brokers in this process hold.

A segment that is written keeps a descriptor, and each mapped one another: mapping a file duplicates
it. Both are kept for the next call, and given up when there are too many."""

from __future__ import annotations

import resource
import weakref
from collections import deque
from typing import Final, Protocol

# Each kind may have this share of what the process may open, and so many at most.
_SHARE: Final = 8
_MOST: Final = 1_024


class Segment(Protocol):
    """A file that is mapped until it is told not to be."""

    def unmap(self) -> None: ...


class OpenFiles:
    """The descriptors of segments. Any thread may call it."""

    def __init__(self) -> None:
        self._mapped: deque[weakref.ref[Segment]] = deque()
        self._written: weakref.WeakSet[Segment] = weakref.WeakSet()
        self._most = 0

    def mapped(self, segment: Segment) -> None:
        """Notes a segment that was mapped; unmaps the one that was mapped first if it is one too
        many. Buffers that readers hold stay valid."""
        self._mapped.append(weakref.ref(segment))
        while len(self._mapped) > self._limit():
            oldest = self._mapped.popleft()()
            if oldest is not None:
                oldest.unmap()

    def opened(self, segment: Segment) -> None:
        """Notes a segment that is open for writing."""
        self._written.add(segment)

    def closed(self, segment: Segment) -> None:
        """Forgets a segment that is not open for writing any more."""
        self._written.discard(segment)

    @property
    def crowded(self) -> bool:
        """True if a segment should close its file after a write."""
        return len(self._written) > self._limit()

    def _limit(self) -> int:
        # Not before the first use: a server raises the limit of its process when it starts.
        if not self._most:
            soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            bounded = soft != resource.RLIM_INFINITY
            self._most = max(1, min(soft // _SHARE, _MOST)) if bounded else _MOST
        return self._most


OPEN_FILES: Final = OpenFiles()
