"""Lines of the log: those of a command in the foreground, and those that others can cause."""

from __future__ import annotations

import copy
import logging
import threading
import time
from typing import Final

# So many lines in so many seconds.
_MOST: Final = 10
_SECONDS: Final = 10.0


class _WithoutTraces(logging.Formatter):
    """Formats warnings and errors by their words alone."""

    def format(self, record: logging.LogRecord) -> str:
        plain = copy.copy(record)
        plain.exc_info = plain.exc_text = plain.stack_info = None
        return super().format(plain)


def show_log(*, verbose: bool) -> None:
    """Shows warnings and errors on standard error; where `verbose` also what else is logged, with
    traces. A program that has its own handlers keeps them."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter() if verbose else _WithoutTraces())
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, handlers=[handler])


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
