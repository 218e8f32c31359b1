"""Reads fewer rows in an epoch while the epochs of a graph take long.

All jobs of a graph wait for the job that takes longest. Where that is by its rows (a join of one
key, say), epochs of fewer rows let the others' rows through in between, and leave changes and
checkpoints their place. Each epoch's record names the rows that it read, so it is repeated as it
was."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

# Operators should take this long in one epoch, in s; they may read more again below the lower
# bound, and less above the upper one.
_AIM_S: Final = 0.25
_SHORT_S: Final = 0.1
_LONG_S: Final = 0.5
_LEAST_ROWS: Final = 16
# Fewer rows have to save so much of the time, or else they make it worse: the cost is one of each
# epoch.
_SAVED: Final = 0.25


class ReadingPace:
    """Limits the rows of each source that an epoch reads, by the time of the epochs before. Graph
    thread only."""

    def __init__(self) -> None:
        self._limits: dict[str, int] = {}
        # Rows and seconds of the long epoch before, and sources of which fewer rows do not help.
        self._before: dict[str, tuple[int, float]] = {}
        self._useless: set[str] = set()

    def rows(self, source: str, most: int) -> int:
        """The rows that the next epoch reads from each shard of a source, at most `most`."""
        return min(self._limits.get(source, most), most)

    def note(self, read: Iterable[tuple[str, int]], seconds: float, most: int) -> None:
        """Takes up that operators took so long for an epoch, which read from each shard of these
        sources so many rows."""
        largest: dict[str, int] = {}
        for source, rows in read:
            largest[source] = max(largest.get(source, 0), rows)
        for source, rows in largest.items():
            if seconds <= _LONG_S:
                self._before.pop(source, None)
                self._useless.discard(source)
            if seconds < _SHORT_S:
                self._widen(source, most)
            elif seconds > _LONG_S and rows >= self.rows(source, most):
                self._narrow(source, rows, seconds)

    def forget(self, source: str) -> None:
        """Drops what is known of a source that is closed."""
        self._limits.pop(source, None)
        self._before.pop(source, None)
        self._useless.discard(source)

    def _widen(self, source: str, most: int) -> None:
        if source in self._limits:
            self._limits[source] *= 2
            if self._limits[source] >= most:
                del self._limits[source]

    def _narrow(self, source: str, rows: int, seconds: float) -> None:
        if source in self._useless:
            return
        before = self._before.pop(source, None)
        if before is not None and rows < before[0] and seconds > (1 - _SAVED) * before[1]:
            self._useless.add(source)
            self._limits.pop(source, None)
            return
        self._before[source] = rows, seconds
        self._limits[source] = max(_LEAST_ROWS, int(rows * _AIM_S / seconds))
