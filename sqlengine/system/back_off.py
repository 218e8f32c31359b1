"""The pauses between attempts to reach a host."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

# Seconds until the next attempt: the first time, and at most.
_SHORTEST_S: Final = 1.0
_LONGEST_S: Final = 60.0
# Seconds for which a host may ask to be left alone.
_LONGEST_ASKED_S: Final = 3600.0


@dataclass
class BackOff:
    """The time until a host is asked again: twice as long after each failure, and never shorter
    than it asks for. `until`: monotonic s."""

    until: float = 0.0
    _next_s: float = _SHORTEST_S

    def failed(self, now: float, asked_s: float = 0.0) -> float:
        """Notes a failure; returns the seconds until the next attempt."""
        # Chance keeps many tables of one host from coming back at the same moment.
        pause = self._next_s * random.uniform(0.75, 1.25)
        self._next_s = min(self._next_s * 2, _LONGEST_S)
        pause = max(pause, min(asked_s, _LONGEST_ASKED_S))
        self.until = now + pause
        return pause

    def works(self) -> None:
        """Notes an answer."""
        self.until, self._next_s = 0.0, _SHORTEST_S
