"""Threads, timers and single-threaded executors of an engine.

All of them come from one `Threads` value, so that a simulation can run everything in one thread, in
an order of its own."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import ClassVar, Protocol, TypeAlias

from sqlengine.system.lanes import Lanes, ThreadLanes

Work: TypeAlias = Callable[[], object]
# Hands work to a thread.
Later: TypeAlias = Callable[[Callable[[], None]], object]


class Turning(Protocol):
    """The body of a thread that repeats one step."""

    def turn(self) -> bool:
        """Runs one step without waiting; returns False if there was nothing to do."""

    def run(self) -> None:
        """Repeats `turn` until it is told to stop, waiting while there is nothing to do; then calls
        `shut`."""

    def shut(self) -> None:
        """Ends the work after the last step."""


class Running(Protocol):
    """A thread, as `threading.Thread`. It ends when its body is told to."""

    def start(self) -> None: ...

    def is_alive(self) -> bool: ...

    def join(self, timeout: float | None = None) -> None: ...


class Repeated(Protocol):
    """Work that is repeated at an interval."""

    def stop(self) -> None:
        """Ends the repetition; returns when no run is in progress."""


class Timer(Protocol):
    """Work that runs once, later."""

    def cancel(self) -> None: ...


class Threads(Protocol):
    """Makes threads, timers and executors. `name` is the name of the thread."""

    def serial_executor(self, name: str) -> Executor:
        """Returns an executor with one thread: it runs tasks one after the other."""

    def future(self) -> Future[object]:
        """Returns a future that another thread completes."""

    def thread(self, name: str, turning: Turning) -> Running:
        """Returns a thread that will run `turning.run`; it is not started."""

    def every(self, name: str, seconds: float, work: Work) -> Repeated:
        """Runs `work` at this interval from now on. It must not raise."""

    def later(self, seconds: float, work: Work) -> Timer:
        """Runs `work` once, after this delay."""

    def now(self) -> float:
        """Returns the monotonic time in seconds."""

    def lanes(self) -> Lanes | None:
        """Returns threads for calls that may never come back; None where there are none, and such
        calls run where they are made."""


class Background(ABC):
    """A background thread of an engine: `_run` returns when `_stopping` is set. `stop` waits
    `patience_s` seconds for it at most."""

    patience_s: ClassVar[float | None] = 60

    def __init__(self, name: str) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops the thread. May be called twice, and before `start`."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(self.patience_s)

    @abstractmethod
    def _run(self) -> None: ...


class MachineThreads:
    """Threads of the operating system."""

    now = staticmethod(time.monotonic)

    def serial_executor(self, name: str) -> Executor:
        return ThreadPoolExecutor(1, thread_name_prefix=name)

    def future(self) -> Future[object]:
        return Future()

    def thread(self, name: str, turning: Turning) -> Running:
        return threading.Thread(target=turning.run, name=name, daemon=True)

    def every(self, name: str, seconds: float, work: Work) -> Repeated:
        return _Repeated(name, seconds, work)

    def later(self, seconds: float, work: Work) -> Timer:
        timer = threading.Timer(seconds, work)
        timer.daemon = True
        timer.start()
        return timer

    def lanes(self) -> Lanes | None:
        return ThreadLanes()


class _Repeated:
    def __init__(self, name: str, seconds: float, work: Work) -> None:
        self._seconds = seconds
        self._work = work
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            self._work()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()


THREADS = MachineThreads()
