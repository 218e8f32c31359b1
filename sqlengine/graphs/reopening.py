"""Recovers graphs that stand still because what runs their operators is not there: Spark, while its
Java process, its master or the folder of its tasks' state is away.

Nothing of such an epoch was written. It is repeated from the last checkpoint, as after a restart of
the server, and other graphs run on meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

from parser.errors import SqlError
from sqlengine.system.threads import Threads, Timer

log = logging.getLogger("sqlengine")

_LOOK_S: Final = 0.5
# Seconds until it is tried again, at first and at most.
_RETRY_S: Final = 1.0
_RETRY_MOST_S: Final = 30.0


class Reopening:
    """Tries to recover such graphs, after a while that doubles each time.

    `standing`: their names, asked often; `ready`: raises SqlError while what they need cannot be
    had, and may take long; `reopen`: recovers them, in the thread that makes changes, to which
    `later` hands it."""

    def __init__(
        self,
        standing: Callable[[], Collection[str]],
        ready: Callable[[], object],
        reopen: Callable[[], None],
    ) -> None:
        self._standing = standing
        self._ready = ready
        self._reopen = reopen
        self._timer: Timer | None = None
        self._stopped = False
        self._running: Future[None] | None = None
        self._wait_s = self._due = 0.0

    def start(self, threads: Threads, later: Callable[[Callable[[], None]], Future[None]]) -> None:
        """Begins to look."""
        self._threads, self._later = threads, later
        self._timer = threads.later(_LOOK_S, self._look_again)

    def stop(self) -> None:
        """Ends it. What waits for Spark in this moment is not waited for."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _look_again(self) -> None:
        self.look()
        if not self._stopped:
            self._timer = self._threads.later(_LOOK_S, self._look_again)

    def look(self) -> None:
        """Recovers what stands still, if it is time."""
        if self._running is not None and not self._running.done():
            return
        if not self._standing():
            self._wait_s = self._due = 0.0
        elif self._threads.now() >= self._due:
            self._try()
            self._wait_s = min(max(2 * self._wait_s, _RETRY_S), _RETRY_MOST_S)
            self._due = self._threads.now() + self._wait_s

    def _try(self) -> None:
        try:
            self._ready()
        except SqlError as error:
            log.warning("%s cannot be recovered yet: %s", ", ".join(self._standing()), error)
            return
        if self._stopped:
            return
        with suppress(RuntimeError):  # closed in this moment
            self._running = self._later(self._reopen_safely)

    def _reopen_safely(self) -> None:
        try:
            self._reopen()
        except Exception:
            log.exception("%s could not be recovered, it is tried again", self._standing())
