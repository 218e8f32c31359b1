"""Lines that are read as they come, in portions that are worth a request."""

from __future__ import annotations

import io
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

LINES_PER_REQUEST: Final = 5_000
BYTES_PER_REQUEST: Final = 16 << 20
# So long a line waits for others that would share its request.
DELAY_S: Final = 0.1
_CHUNK: Final = 1 << 20


def portions(file: io.BufferedReader) -> Iterator[bytes]:
    """Yields whole lines, each at the latest DELAY_S after it came, also from a slow producer.

    A last line without an end gets one. Ctrl-C ends the input: what came before is yielded, but for
    a line that was not complete.
    """
    lines: list[bytes] = []
    size, due = 0, 0.0

    def patience() -> float | None:
        return max(0.0, due - time.monotonic()) if lines else None

    for line in _lines(file, patience):
        if lines and _full(line, len(lines), size, due):
            yield b"".join(lines)
            lines, size = [], 0
        if line is not None:
            due = due if lines else time.monotonic() + DELAY_S
            lines.append(line)
            size += len(line)
    if lines:
        yield b"".join(lines)


@contextmanager
def finishing() -> Iterator[Callable[[], bool]]:
    """Lets the body finish after Ctrl-C: the first one is only noted, a second one interrupts as
    always. Gives a function that tells whether there was one."""
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(noted)
    finally:
        signal.signal(signal.SIGINT, before)


def _full(line: bytes | None, count: int, size: int, due: float) -> bool:
    """True if a portion leaves before `line`; None is the end of the time that it may wait."""
    if line is None or count == LINES_PER_REQUEST or size + len(line) > BYTES_PER_REQUEST:
        return True
    return time.monotonic() >= due


def _lines(file: io.BufferedReader, patience: Callable[[], float | None]) -> Iterator[bytes | None]:
    """Yields lines with their ends; None when nothing came for `patience()` seconds (None: any)."""
    parts: list[bytes] = []
    try:
        while True:
            if not _readable(file, patience()):
                yield None
                continue
            data = file.read1(_CHUNK)
            if not data:
                break
            *whole, rest = data.split(b"\n")
            for line in whole:
                yield b"".join((*parts, line, b"\n"))
                parts = []
            parts += [rest] if rest else []
    except KeyboardInterrupt:
        return
    if parts:
        yield b"".join((*parts, b"\n"))


def _readable(file: io.BufferedReader, timeout_s: float | None) -> bool:
    """True if the file has data or has ended. Without a timeout `read1` does the waiting: it leaves
    nothing in the file's buffer, since it asks for more than that holds."""
    if timeout_s is None:
        return True
    try:
        descriptor = file.fileno()
    except io.UnsupportedOperation:  # a file in memory
        return True
    return bool(select.select([descriptor], [], [], timeout_s)[0])
