"""Places of which there are so many for all principals, such as sessions: nobody has them all."""

from __future__ import annotations

import threading
from collections import Counter

from sqlengine.access.principals import Principal


def share_of(places: int, by: Principal) -> int:
    """Returns how many of all places one principal may have: three quarters, so that others find
    some, and never the last one. Administrators, and whoever is not told apart, may have all.

    >>> from sqlengine.access.principals import TRUSTED
    >>> [share_of(places, Principal("alice")) for places in (8, 2, 1)], share_of(8, TRUSTED)
    ([6, 1, 1], 8)
    """
    return places if by.is_admin else max(1, places - max(1, places // 4))


class Shares:
    """The places that are taken, by the names of principals. Any thread."""

    def __init__(self, places: int) -> None:
        self.places = places
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    def take(self, by: Principal) -> bool:
        """Takes a place; False if none is free, or the principal has its share."""
        with self._lock:
            free = self._taken.total() < self.places and self._taken[by.name] < share_of(
                self.places, by
            )
            self._taken[by.name] += free
            return free

    def leave(self, by: Principal) -> None:
        """Gives a place back."""
        with self._lock:
            self._taken[by.name] -= 1
            if not self._taken[by.name]:
                del self._taken[by.name]

    def taken(self) -> int:
        """Returns how many are taken."""
        with self._lock:
            return self._taken.total()
