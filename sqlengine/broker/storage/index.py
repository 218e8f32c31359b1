"""The sparse index of a segment: where batches begin, by offset and by time."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final

INDEX_BYTES: Final = 64 << 10
# Ends of reads that are known, and half as many of before.
_MOST_ENDS: Final = 512


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


class ReadEnds:
    """The bytes at which reads of a segment ended, by their offsets: most reads go on where one
    ended, of as many readers as there are. The oldest are forgotten. Any thread."""

    def __init__(self) -> None:
        self._ends: dict[int, int] = {}
        self._before: dict[int, int] = {}

    def get(self, offset: int) -> int | None:
        """Returns the byte of the batch that begins with an offset; None where it is not known."""
        return self._ends.get(offset, self._before.get(offset))

    def add(self, offset: int, position: int) -> None:
        if len(self._ends) >= _MOST_ENDS // 2:
            self._ends, self._before = {}, self._ends
        self._ends[offset] = position

    def clear(self) -> None:
        self._ends, self._before = {}, {}
