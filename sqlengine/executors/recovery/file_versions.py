"""Discards versions of lookup files that no recovery needs any more."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Final

from sqlengine.connectors.full_cache import FullCache
from sqlengine.executors.sources import RunningSource
from sqlengine.snapshots.checkpoints import CheckpointMetadata

_ALL: Final = sys.maxsize


class FileVersions:
    """The versions of lookup files of one graph, in its thread.

    A recovery starts at the last checkpoint. Where a power loss may take that one, too,
    `first_record` returns the offset of the oldest record in the epoch log, and a recovery starts
    at the first checkpoint after it."""

    def __init__(self, first_record: Callable[[], int] | None) -> None:
        self._first_record = first_record
        # Those of sources that were closed since are kept until no recovery opens them again.
        self._caches: dict[str, FullCache] = {}
        # The log offset of each checkpoint, and the first offset that it needs of each topic.
        self._checkpoints: deque[tuple[int, dict[str, int]]] = deque()

    def discard_before(
        self, stored: CheckpointMetadata, running: Mapping[str, RunningSource]
    ) -> None:
        """Removes what the oldest checkpoint does not need from which a recovery may start;
        `stored` is the newest.

        A source that was added since is read from where it began. One that was removed since is
        read again, too, so nothing is discarded: its versions go with the next checkpoint."""
        # Several sources may read one table: the least offset of them counts.
        needed: dict[str, int] = {}
        for name, source in running.items():
            if (cache := source.full_cache) is not None:
                offset = min(stored.positions.get(name, source.began).values(), default=0)
                needed[cache.topic] = min(offset, needed.get(cache.topic, offset))
                self._caches[cache.topic] = cache
        if not self._caches or stored.positions.keys() - running.keys():
            return
        # Called after each checkpoint that begins, so that the same stored one may be seen several
        # times.
        if not self._checkpoints or self._checkpoints[-1][0] != stored.log_offset:
            self._checkpoints.append((stored.log_offset, needed))
        while self._checkpoints and self._is_oldest(self._checkpoints[0][0]):
            self._discard(self._checkpoints.popleft()[1], needed.keys())

    def _is_oldest(self, log_offset: int) -> bool:
        """True if no recovery starts before the checkpoint at this offset of the epoch log."""
        return self._first_record is None or log_offset <= self._first_record()

    def _discard(self, needed: Mapping[str, int], running: Collection[str]) -> None:
        for topic, cache in list(self._caches.items()):
            if topic in needed:
                cache.discard_before(needed[topic])
            elif topic not in running:  # nor has it come again since
                cache.discard_before(_ALL)
                del self._caches[topic]
