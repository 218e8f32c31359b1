"""Interrupts of a thread by others: anywhere in its Python code, but only while it permits them."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Interrupts:
    """The interrupts of one thread: `error`, a BaseException, is raised in it.

    `ask` may be called by any thread, everything else only by the one that is interrupted.
    `permitted`: the thread runs code that may end at any instruction. `asked`: an interrupt was
    asked for since `begin`; where it is not permitted, the next `permit` or `forbid` raises it.

    The order of writes makes a lock unnecessary while nobody asks: whoever asks writes `asked` and
    then reads `permitted`, the thread writes `permitted` and then reads `asked`."""

    def __init__(self, error: type[BaseException]) -> None:
        self.permitted = self.asked = False
        self.error = error
        self._lock = threading.Lock()
        self._thread = 0
        self._outer: Interrupts | None = None

    def begin(self) -> None:
        """Begins work of this thread, which forbids interrupts at first."""
        with self._lock:
            self.permitted = self.asked = False
            self._thread = threading.get_ident()
        self._outer, _of_thread.interrupts = _of_thread.interrupts, self

    def end(self) -> None:
        """Ends the work. From here on nothing is raised in this thread."""
        self.permitted = False
        self.take_back()
        _of_thread.interrupts = self._outer

    def permit(self) -> None:
        """Permits interrupts from here on."""
        self.permitted = True
        if self.asked:
            raise self.error

    def forbid(self) -> None:
        """Forbids interrupts from here on."""
        self.permitted = False
        if self.asked:
            self.take_back()
            raise self.error

    def take_back(self) -> None:
        """Takes back an interrupt that was not raised yet. Where that is too late it is raised
        here."""
        with self._lock:  # `ask` has done what it began
            # Not in vain: CPython 3.11 and 3.12 would look for it at every call and turn of a loop
            # from here on, until another thread wants to run; 3.11 hangs under a profiler.
            if self.asked:
                _raise_in(self._thread, None)

    def ask(self) -> None:
        """Interrupts the thread: at the next instruction of its Python code if it permits that.

        Code that is called from C may lose an interrupt (a finaliser, a callback), so that it is to
        be asked for again. A call into a library is not cut short."""
        with self._lock:
            self.asked = True
            if self.permitted:
                _raise_in(self._thread, self.error)


class _OfThread(threading.local):
    """The interrupts of the work that a thread does now."""

    interrupts: Interrupts | None = None


_of_thread = _OfThread()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Runs the body whole: an interrupt of this thread waits for its end.

    For code within operators that others depend on: locks that are taken by Python code and not by
    `with` over one of C (logging, executors), processes that are being started or ended. Also for
    what an interrupt itself leaves to be done: the body runs though one was asked for."""
    interrupts = _of_thread.interrupts
    if interrupts is None or not interrupts.permitted:
        yield
        return
    interrupts.permitted = False
    with suppress(interrupts.error):
        interrupts.take_back()
    try:
        yield
    finally:
        interrupts.permit()


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    """Raises an exception in a thread, soon; None takes back one that was not raised yet."""
    what = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), what)
