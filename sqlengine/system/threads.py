"""What runs beside what: lines of work, threads that go on and on, work at a time. They are asked
for here, so that a simulation can do all of it in one thread, in an order of its own."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import ClassVar, Protocol, TypeAlias

Work: TypeAlias = Callable[[], object]


class Turning(Protocol):
    """What a thread of its own does, again and again."""

    def turn(self) -> bool:
        """One turn, which does not wait. False when there was nothing to do."""

    def run(self) -> None:
        """Turns until it is told to stop, with rests where there is nothing to do; then `shut`."""

    def shut(self) -> None:
        """What is left to do after the last turn."""


class Running(Protocol):
    """A thread. It ends when what it runs is told to."""

    def start(self) -> None: ...

    def is_alive(self) -> bool: ...

    def join(self, timeout: float | None = None) -> None: ...


class Repeated(Protocol):
    """What is done now and then."""

    def stop(self) -> None:
        """Returns when it is not done any more."""


class Timer(Protocol):
    """What is done once, later."""

    def cancel(self) -> None: ...


class Threads(Protocol):
    """`name` is what a thread is called."""

    def line(self, name: str) -> Executor:
        """Does what it is given one after the other, beside all else."""

    def promise(self) -> Future[object]:
        """For a result of another thread."""

    def thread(self, name: str, turning: Turning) -> Running:
        """A thread for `turning.run`, not started."""

    def every(self, name: str, seconds: float, work: Work) -> Repeated:
        """Does it every so often, from now on. It must not raise."""

    def later(self, seconds: float, work: Work) -> Timer: ...

    def now(self) -> float:
        """Seconds that only grow."""


class Background(ABC):
    """A thread beside the engine, which `_run` leaves when `_stopping` is set. `patience_s`: how
    long `stop` waits for it."""

    patience_s: ClassVar[float | None] = 60

    def __init__(self, name: str) -> None:
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """May be called twice, and of what was never started."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(self.patience_s)

    @abstractmethod
    def _run(self) -> None: ...


class MachineThreads:
    """Threads of the operating system."""

    now = staticmethod(time.monotonic)

    def line(self, name: str) -> Executor:
        return ThreadPoolExecutor(1, thread_name_prefix=name)

    def promise(self) -> Future[object]:
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
