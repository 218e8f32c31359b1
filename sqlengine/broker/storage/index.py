"""The sparse index of a segment: where batches begin, by offset and by time."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final

INDEX_BYTES: Final = 64 << 10


class Index:
    """An entry about every 64 KiB: a batch's offset, its byte, and the latest timestamp before
    it."""

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

    def behind(self, offset: int, default: int) -> int:
        """Returns the byte of the first indexed batch that begins at or behind `offset`."""
        place = bisect_left(self._offsets, offset)
        return self._positions[place] if place < len(self._offsets) else default

    def for_time(self, timestamp: int, default: int) -> int:
        """Returns the byte of the last indexed batch before which no timestamp is `timestamp` or
        later."""
        place = bisect_left(self._times, timestamp) - 1
        return self._positions[place] if place >= 0 else default
