"""Rate limits of clients that append."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sqlengine.broker.errors import TooFast

_MANY = 10_000


class Rates:
    """Limits the bytes per second of each client (a token bucket of one second).

    A client that was idle may send a second's worth at once; a request of any size is accepted once
    the previous ones are paid for. `clock` is in ms.
    """

    def __init__(self, bytes_per_s: int, clock: Callable[[], int]) -> None:
        self._rate = bytes_per_s
        self._clock = clock
        self._lock = threading.Lock()
        # By client, the time (ms) at which everything it sent is paid for.
        self._paid: dict[str, float] = {}

    def take(self, client: str, size: int) -> None:
        """Counts a request of `size` bytes. Raises TooFast, and counts nothing, if the client must
        wait."""
        with self._lock:
            now = self._clock()
            paid = max(self._paid.get(client, 0.0), now - 1000.0)
            if paid > now:
                raise TooFast(client, self._rate, int(paid - now) + 1)
            if len(self._paid) >= _MANY:
                self._paid = {name: at for name, at in self._paid.items() if at > now}
            self._paid[client] = paid + 1000.0 * size / self._rate
