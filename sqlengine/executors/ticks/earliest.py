"""The least of many instants, without a look at the others."""

from __future__ import annotations

import heapq
from typing import Final, Generic, TypeVar

# Entries of the heap beyond the known instants, before it is made anew.
_STALE: Final = 64


K = TypeVar("K", int, str)


class Earliest(Generic[K]):
    """One instant (ms) for each key. A change costs the logarithm of their number."""

    def __init__(self) -> None:
        self._instants: dict[K, int] = {}
        # May have entries of keys that are gone, or have another instant now.
        self._heap: list[tuple[int, K]] = []

    def put(self, key: K, instant: int | None) -> None:
        """Sets the instant of a key; None removes the key."""
        if instant is None:
            self._instants.pop(key, None)
        elif self._instants.get(key) != instant:
            self._instants[key] = instant
            heapq.heappush(self._heap, (instant, key))
        if len(self._heap) > 2 * len(self._instants) + _STALE:
            self._heap = [(at, k) for k, at in self._instants.items()]
            heapq.heapify(self._heap)

    def first(self) -> int | None:
        """Returns the least instant; None without any key."""
        while self._heap:
            instant, key = self._heap[0]
            if self._instants.get(key) == instant:
                return instant
            heapq.heappop(self._heap)
        return None

    def take(self, upto: int) -> list[K]:
        """Removes and returns the keys with an instant of at most `upto`, the earliest first."""
        taken = []
        while (first := self.first()) is not None and first <= upto:
            key = heapq.heappop(self._heap)[1]
            del self._instants[key]
            taken.append(key)
        return taken
