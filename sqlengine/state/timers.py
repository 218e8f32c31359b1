"""Timers of a table: an index over a time column, whose cost depends on the rows due, not on the
rows stored."""

from __future__ import annotations

import heapq

import numpy as np

from sqlengine.state.columns import IntArray, distinct

# Times are kept in buckets of 2**_SHIFT units, about a second of ms.
_SHIFT = 10
_NEVER = 2**62


class Timers:
    """Files slots in buckets of time; a slot is in at most one bucket, at or before its time.

    A slot whose time moved on stays where it is, and is filed again when its bucket comes due. So a
    row that is touched again and again costs no memory.
    """

    def __init__(self) -> None:
        self._buckets: dict[int, list[IntArray]] = {}
        self._heap: list[int] = []
        self._least: dict[int, int] = {}  # by bucket, a time that no slot in it is before
        self._bucket_of: IntArray = np.empty(0, np.int64)  # by slot; _NEVER where it stands in none

    def put(self, slots: IntArray, times: IntArray) -> None:
        """Files slots under these times, unless they are in an earlier bucket already."""
        self._reach(int(slots.max(initial=-1)) + 1)
        at = times >> _SHIFT
        # A slot in an earlier bucket is found there in time. One that moves to an earlier time gets
        # a second entry; the stale one is harmless, since `take` returns candidates only.
        known = self._bucket_of[slots]
        if len(slots) == 1:
            if at[0] <= known[0]:
                self._add(int(at[0]), slots[at < known], int(times[0]))
            return
        early = np.flatnonzero(at <= known)
        if not len(early):
            return
        early = early[np.argsort(at[early], kind="stable")]
        slots, at, times, sooner = slots[early], at[early], times[early], (at < known)[early]
        starts = np.flatnonzero(np.append(True, np.diff(at) != 0))
        least = np.minimum.reduceat(times, starts).tolist()
        bounds = zip(starts.tolist(), [*starts[1:].tolist(), len(at)], least, strict=True)
        for start, end, first in bounds:
            self._add(int(at[start]), slots[start:end][sooner[start:end]], first)

    def take(self, upto: int, most: int | None = None) -> tuple[IntArray, int]:
        """Removes and returns the slots that may be due at `upto`, each once; the caller compares
        their times. With `most` it may stop at so many, between two buckets: the second value is
        the time up to which all are among them, `upto` otherwise."""
        parts: list[IntArray] = []
        count = 0
        while self._heap and self._heap[0] <= upto >> _SHIFT and self._least[self._heap[0]] <= upto:
            if most is not None and count >= most:
                upto = (self._heap[0] << _SHIFT) - 1
                break
            bucket = heapq.heappop(self._heap)
            taken = self._buckets.pop(bucket)
            del self._least[bucket]
            count += sum(map(len, taken))
            parts += taken
        if not parts:
            return np.empty(0, np.int64), upto
        slots = distinct(np.concatenate(parts))
        self._bucket_of[slots] = _NEVER
        return slots, upto

    def first_end(self) -> int | None:
        """Returns the end of the first bucket: slots in other buckets are due then or later."""
        return (self._heap[0] + 1) << _SHIFT if self._heap else None

    def first(self) -> IntArray:
        """Returns the slots of the first bucket, which stay there; some may be removed rows or have
        later times now."""
        parts = self._buckets[self._heap[0]]
        if len(parts) > 1:
            parts[:] = [np.concatenate(parts)]
        return parts[0]

    def _add(self, bucket: int, slots: IntArray, least: int) -> None:
        """Adds slots to a bucket, in which none has a time before `least` now."""
        if bucket not in self._buckets:
            self._buckets[bucket] = []
            self._least[bucket] = least
            heapq.heappush(self._heap, bucket)
        self._least[bucket] = min(self._least[bucket], least)
        if len(slots):
            self._bucket_of[slots] = bucket
            self._buckets[bucket].append(slots)

    def _reach(self, size: int) -> None:
        if size > len(self._bucket_of):
            more = max(size, 2 * len(self._bucket_of)) - len(self._bucket_of)
            self._bucket_of = np.concatenate([self._bucket_of, np.full(more, _NEVER, np.int64)])
