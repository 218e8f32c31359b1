"""Lines of the log that others can cause: so many in a while, and then the number of the rest."""

from __future__ import annotations

import logging
import threading
import time
from typing import Final

_MOST: Final = 10
_SECONDS: Final = 10.0


class FewLines:
    """Writes at most 10 lines in 10 seconds. The next one tells how many were left out. Any
    thread."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._until = 0.0
        self._written = self._left_out = 0

    def write(self, level: int, text: str, *args: object) -> None:
        """Writes a line, as a logger does, or counts it."""
        if not self._log.isEnabledFor(level):
            return
        with self._lock:
            now = time.monotonic()
            if now >= self._until:
                self._until, self._written = now + _SECONDS, 0
            if self._written >= _MOST:
                self._left_out += 1
                return
            self._written += 1
            left_out, self._left_out = self._left_out, 0
        more = f" ({left_out:,} such lines were left out before)" if left_out else ""
        self._log.log(level, text + more, *args)
