"""Discards versions of lookup files that no recovery needs any more."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from sqlengine.executors.sources import RunningSource
from sqlengine.snapshots.checkpoints import CheckpointMetadata


class FileVersions:
    """The versions of lookup files of one graph, in its thread.

    A recovery starts at the last checkpoint. Where a power loss may take that one, too,
    `first_record` returns the offset of the oldest record in the epoch log, and a recovery starts
    at the first checkpoint after it."""

    def __init__(self, first_record: Callable[[], int] | None) -> None:
        self._first_record = first_record
        # The log offset of each checkpoint, and the first offset that it needs of each topic.
        self._checkpoints: deque[tuple[int, dict[str, int]]] = deque()

    def discard_before(
        self, stored: CheckpointMetadata, running: Mapping[str, RunningSource]
    ) -> None:
        """Removes what the oldest checkpoint does not need from which a recovery may start;
        `stored` is the newest.

        A source that was added since is read from where it began. One that was removed since is
        read again, too, so nothing is discarded."""
        # Several sources may read one file: the least offset of them counts.
        needed: dict[str, int] = {}
        for name, source in running.items():
            if source.full_cache is not None:
                topic = source.full_cache.topic
                offset = min(stored.positions.get(name, source.began).values(), default=0)
                needed[topic] = min(offset, needed.get(topic, offset))
        if not needed or stored.positions.keys() - running.keys():
            return
        # Called after each checkpoint that begins, so that the same stored one may be seen several
        # times.
        if not self._checkpoints or self._checkpoints[-1][0] != stored.log_offset:
            self._checkpoints.append((stored.log_offset, needed))
        while self._checkpoints and self._is_oldest(self._checkpoints[0][0]):
            self._discard(self._checkpoints.popleft()[1], running)

    def _is_oldest(self, log_offset: int) -> bool:
        """True if no recovery starts before the checkpoint at this offset of the epoch log."""
        return self._first_record is None or log_offset <= self._first_record()

    def _discard(self, needed: Mapping[str, int], running: Mapping[str, RunningSource]) -> None:
        for source in running.values():
            if source.full_cache is not None:
                source.full_cache.discard_before(needed.get(source.full_cache.topic, 0))
