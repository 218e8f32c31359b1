"""Sets up a long-lived process before it does anything else: its log, its limits and its end."""

from __future__ import annotations

import ctypes
import logging
import os
import resource
import signal
import sys
from contextlib import suppress
from typing import Final

from sqlengine.system.hidden import hidden
from sqlengine.system.terminal import visible

_PR_SET_PDEATHSIG: Final = 1  # of Linux


class VisibleFormatter(logging.Formatter):
    """Spells controls out: messages hold names and records, and logs are read on terminals. Lines
    behind the first of a message have a blank before them: none can pass for another message.
    Secrets that connectors were given are masked, also in what these raise."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(hidden(super().format(record))).replace("\n", "\n  ")


def begin_log(layout: str) -> None:
    """Sends messages of level INFO and above to standard error, in the layout of `logging`."""
    handler = logging.StreamHandler()
    handler.setFormatter(VisibleFormatter(layout))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def raise_file_limit() -> None:
    """Lets this process open as many files as it is permitted to: the default of most systems,
    1,024, is meant for programs that use `select`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # it goes on with fewer
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def die_with_parent(parent: int) -> None:
    """Lets the kernel kill this process when the thread that started it ends, even if this process
    hangs in C or is stopped. Exits at once if `parent` is gone already."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(0)
