"""When rows of a table are due: an index over a time column, so that asking costs what is due and
not what is there."""

from __future__ import annotations

import heapq

import numpy as np

from sqlengine.state.columns import IntArray

# Times are kept in buckets of 2**_SHIFT units, about a second of ms.
_SHIFT = 10
_NEVER = 2**62


class Timers:
    """Slots in buckets of time. A slot stands in one bucket, at or before its time: one whose time
    has moved on is put again when its bucket is looked at, so that touching a row again and again
    costs no memory."""

    def __init__(self) -> None:
        self._buckets: dict[int, list[IntArray]] = {}
        self._heap: list[int] = []
        self._bucket_of: IntArray = np.empty(0, np.int64)  # by slot; _NEVER where it stands in none

    def put(self, slots: IntArray, times: IntArray) -> None:
        """Slots are due at these times."""
        self._reach(int(slots.max(initial=-1)) + 1)
        at = times >> _SHIFT
        sooner = at < self._bucket_of[slots]
        slots, at = slots[sooner], at[sooner]
        if not len(slots):
            return
        self._bucket_of[slots] = at
        order = np.argsort(at, kind="stable")
        slots, at = slots[order], at[order]
        starts = np.flatnonzero(np.append(True, np.diff(at) != 0))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(at)], strict=True):
            self._add(int(at[start]), slots[start:end])

    def take(self, upto: int) -> IntArray:
        """Slots that may be due at `upto`, each once; they stand in no bucket any more."""
        found: list[IntArray] = []
        while self._heap and self._heap[0] <= upto >> _SHIFT:
            found += self._buckets.pop(heapq.heappop(self._heap))
        if not found:
            return np.empty(0, np.int64)
        slots = np.unique(np.concatenate(found))
        self._bucket_of[slots] = _NEVER
        return slots

    def first_end(self) -> int | None:
        """The end of the first bucket that has slots: those of others are due then or later."""
        return (self._heap[0] + 1) << _SHIFT if self._heap else None

    def first(self) -> IntArray:
        """The slots of the first bucket, where there is one; they stay there. Some may have gone or
        moved on."""
        parts = self._buckets[self._heap[0]]
        if len(parts) > 1:
            parts[:] = [np.concatenate(parts)]
        return parts[0]

    def _add(self, bucket: int, slots: IntArray) -> None:
        if bucket not in self._buckets:
            self._buckets[bucket] = []
            heapq.heappush(self._heap, bucket)
        self._buckets[bucket].append(slots)

    def _reach(self, size: int) -> None:
        if size > len(self._bucket_of):
            more = max(size, 2 * len(self._bucket_of)) - len(self._bucket_of)
            self._bucket_of = np.concatenate([self._bucket_of, np.full(more, _NEVER, np.int64)])
