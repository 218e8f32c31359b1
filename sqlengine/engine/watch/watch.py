"""Looking after jobs now and then, in the thread that makes changes."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import ClassVar

from sqlengine.system.threads import Repeated, Threads

log = logging.getLogger("sqlengine")


class Watch(ABC):
    """Looks after jobs every `every_s` seconds from `start` to `stop`; a look begins only when the
    one before has ended. One that fails is logged as `fault` says, and tried again."""

    name: ClassVar[str]
    every_s: ClassVar[float]
    fault: ClassVar[str]

    _repeated: Repeated | None = None
    _running: Future[None] | None = None

    @abstractmethod
    def check(self) -> None:
        """Does what is to be done, in the thread that makes changes."""

    def is_due(self) -> bool:
        """Returns False where a look would find nothing. In a thread of its own."""
        return True

    def start(self, threads: Threads, later: Callable[[Callable[[], None]], Future[None]]) -> None:
        """Begins to look. `later` hands work to the thread that makes changes."""

        def turn() -> None:
            if self.is_due() and (self._running is None or self._running.done()):
                with suppress(RuntimeError):  # closed in this moment
                    self._running = later(self._check_safely)

        self._repeated = threads.every(self.name, self.every_s, turn)

    def stop(self) -> None:
        """Ends it; a look that has begun goes on to its end."""
        if self._repeated is not None:
            self._repeated.stop()

    def _check_safely(self) -> None:
        try:
            self.check()
        except OSError as error:  # no descriptor is left, as where connections have taken all
            log.error("%s, it is tried again: %s", self.fault, error)
        except Exception:
            log.exception("%s, it is tried again", self.fault)
