"""Queries give way to jobs: while a graph is in a step, all of them together compute for a quarter
of the time. Else they compute as they can."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from sqlengine.queries.query import TURN_S, Budget, Query

# Seconds of a processor that all queries take in a second while jobs work. They hold the
# interpreter's lock for most of it.
_PART: Final = 0.25
# What a query computes before it looks at what jobs do.
_LOOK_S: Final = 0.02


class GivingWay:
    """The processor time of a server's queries. Any thread. `busy` tells whether jobs work."""

    def __init__(self, busy: Callable[[], bool]) -> None:
        self._busy = busy
        self._budget = Budget(_PART)

    def of(self, query: Query) -> Callable[[], None]:
        """Returns what the thread of a query calls now and then while it computes."""
        since = 0.0

        def rest() -> None:
            nonlocal since
            now = time.thread_time()
            spent, since = now - since, now
            if spent < _LOOK_S:
                since -= spent
                return
            self._budget.spend(spent)
            while not query.abandoned and self._busy() and (wait_s := self._budget.wait_s()):
                time.sleep(min(TURN_S, wait_s))

        return rest
