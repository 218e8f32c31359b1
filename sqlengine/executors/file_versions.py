"""Which versions of files that are looked up no recovery needs any more."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from sqlengine.executors.sources import RunningSource
from sqlengine.snapshots.checkpoints import Position


class FileVersions:
    """Of one graph. A recovery begins at the last checkpoint. Where a loss of power may take that
    one, too, `first_record` gives the offset of the first record in the log of epochs: it begins at
    one behind that."""

    def __init__(self, first_record: Callable[[], int] | None) -> None:
        self._first_record = first_record
        self._checkpoints: deque[tuple[int, dict[str, int]]] = (
            deque()
        )  # place in the log, and what it needs of each topic

    def let_go(self, stored: Position, running: Mapping[str, RunningSource]) -> None:
        """A checkpoint is in the store: removes what stands before the oldest one that a recovery
        may begin with. A source that came later is read from where it began; one that has gone
        since is read again, too, so nothing is removed."""
        needed: dict[str, int] = {}
        for name, source in running.items():
            if source.full_cache is not None:
                at = min(stored.positions.get(name, source.began).values(), default=0)
                needed[source.full_cache.topic] = min(at, needed.get(source.full_cache.topic, at))
        if not needed or stored.positions.keys() - running.keys():
            return
        if not self._checkpoints or self._checkpoints[-1][0] != stored.log_offset:
            self._checkpoints.append((stored.log_offset, needed))
        while self._checkpoints and self._is_oldest(self._checkpoints[0][0]):
            self._forget(self._checkpoints.popleft()[1], running)

    def _is_oldest(self, log_offset: int) -> bool:
        return self._first_record is None or log_offset <= self._first_record()

    def _forget(self, needed: Mapping[str, int], running: Mapping[str, RunningSource]) -> None:
        for source in running.values():
            if source.full_cache is not None:
                source.full_cache.discard_before(needed.get(source.full_cache.topic, 0))
