"""Deadlines of work in Python: after its time it is interrupted, wherever it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from sqlengine.system.interrupts import Interrupts

T = TypeVar("T")
# Seconds between two looks at what is overdue: an interrupt may get lost.
_INTERVAL_S: Final = 0.25


class Overdue(BaseException):
    """Interrupts work at its deadline. Code that turns errors into values does not catch it."""


class _Watch:
    """Interrupts what is overdue, from a thread that sleeps while there is nothing to watch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[int, tuple[float, Interrupts, Callable[[], bool]]] = {}
        self._some = threading.Event()
        self._started = False

    def begin(self, interrupts: Interrupts, seconds: float, vain: Callable[[], bool]) -> None:
        with self._lock:
            self._watched[id(interrupts)] = time.monotonic() + seconds, interrupts, vain
            if not self._started:
                self._started = True
                threading.Thread(target=self._run, name="deadlines", daemon=True).start()
        self._some.set()

    def end(self, interrupts: Interrupts) -> None:
        with self._lock:
            self._watched.pop(id(interrupts), None)
            if not self._watched:
                self._some.clear()

    def _run(self) -> None:
        while True:
            self._some.wait()
            time.sleep(_INTERVAL_S)
            now = time.monotonic()
            with self._lock:
                overdue = [i for at, i, vain in self._watched.values() if at <= now or vain()]
                for interrupts in overdue:
                    interrupts.ask()


_WATCH: Final = _Watch()


def within(seconds: float, work: Callable[[], T], vain: Callable[[], bool] = lambda: False) -> T:
    """The result of `work`, which this thread does. Overdue after so many seconds, or once it is
    `vain`, which another thread asks: it ends where it is, but for a call into a library, which is
    not cut short."""
    interrupts = Interrupts(Overdue)
    interrupts.begin()
    _WATCH.begin(interrupts, seconds, vain)
    try:
        interrupts.permit()
        return work()
    finally:
        # First a plain write: from here on nothing is interrupted.
        interrupts.permitted = False
        _WATCH.end(interrupts)
        with suppress(Overdue):  # one that came too late
            interrupts.take_back()
        interrupts.end()
