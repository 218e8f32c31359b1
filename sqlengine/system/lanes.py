"""Calls that may never come back: each runs in a thread beside the one that waits for it.

Threads are borrowed for one call. One that hangs is left to itself: it is a daemon, holds up no
exit, and counts against the limit of its engine."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, Generic, Protocol, TypeVar, cast

from parser.errors import ServiceError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

# Calls that may hang at the same time: that do not come back for so many seconds.
MOST_HANGING: Final = 64
_HANGS_S: Final = 10.0
_MOST_IDLE: Final = 8
# Seconds that a call has to come back once the engine stops.
_GRACE_S: Final = 3.0
# Seconds between two looks whether the engine stops.
_SLICE_S: Final = 0.05


def get_on() -> None:
    """Says that the call gets on which this thread runs, if it runs one."""
    call = _call.get()
    if call is not None:
        call.touch()


class Call(Generic[T_co]):
    """A call that a lane runs. `done`: it has come back, with a result or an exception."""

    def __init__(self, work: Callable[[], T_co], lanes: Lanes) -> None:
        self.done = False
        self.began = self._touched = time.monotonic()
        self._work = work
        self._lanes = lanes
        self._context = contextvars.copy_context()
        self._came_back = threading.Lock()
        self._came_back.acquire()
        self._guard = threading.Lock()
        self._then: Callable[[], object] | None = None
        self._result: T_co | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Runs the call (the lane's thread)."""
        try:
            self._context.run(_call.set, self)
            self._result = self._context.run(self._work)
        except BaseException as error:  # noqa: BLE001  handed to who waits
            self._error = error

    def finish(self) -> None:
        """Tells those who wait; does what was left for later (the lane's thread)."""
        with self._guard:
            self.done = True
            then = self._then
        self._came_back.release()
        if then is not None:
            then()

    def touch(self) -> None:
        """Says that the call gets on: it consists of several (the lane's thread)."""
        self._touched = time.monotonic()

    @property
    def silent_s(self) -> float:
        """Seconds since the call began, or got on for the last time."""
        return time.monotonic() - self._touched

    def wait(self, seconds: float) -> bool:
        """Waits for the call, not longer than the engine runs; returns True if it has come back."""
        until = time.monotonic() + seconds
        while not self.done:
            left = min(until, max(self._lanes.ends, self.began + _GRACE_S)) - time.monotonic()
            if left <= 0:
                return False
            if self._came_back.acquire(timeout=min(left, _SLICE_S)):
                self._came_back.release()
        return True

    def result(self) -> T_co:
        """Returns what the call has returned, or raises what it has raised."""
        if self._error is not None:
            raise self._error
        return cast("T_co", self._result)

    def afterwards(self, work: Callable[[], object]) -> None:
        """Runs `work` when the call comes back, in its thread; now if it has."""
        with self._guard:
            later = not self.done
            if later:
                self._then = work
        if not later:
            work()


# The call that a thread runs.
_call: contextvars.ContextVar[Call[object] | None] = contextvars.ContextVar("call", default=None)


class Lanes(Protocol):
    """Runs calls beside the thread that asks for them."""

    @property
    def ends(self) -> float:
        """The monotonic time (s) from which on nobody waits long for a call."""

    def begin(self, work: Callable[[], T]) -> Call[T]:
        """Begins a call. ServiceError where too many hang."""

    def stop(self) -> None:
        """Ends all waiting soon: the engine stops."""


class ThreadLanes:
    """Lanes in threads of the operating system. May be used by any thread."""

    def __init__(self) -> None:
        self.ends = float("inf")
        self._idle: list[_Worker] = []
        self._running: set[Call[object]] = set()
        self._lock = threading.Lock()

    def begin(self, work: Callable[[], T]) -> Call[T]:
        """See `Lanes`."""
        call = Call(work, self)
        with self._lock:
            if len(self._running) >= MOST_HANGING:
                self._require_fewer_hanging()
            worker = self._idle.pop() if self._idle else None
            self._running.add(call)
        if worker is None:
            worker = _Worker(self._rests)
        worker.inbox.put(call)
        return call

    def _require_fewer_hanging(self) -> None:
        if sum(call.silent_s >= _HANGS_S for call in self._running) >= MOST_HANGING:
            raise ServiceError(
                f"{MOST_HANGING} calls of connectors do not come back",
                hint="see whether the hosts and disks behind their tables are there",
            )

    def stop(self) -> None:
        """See `Lanes`. Threads without a call end."""
        self.ends = min(self.ends, time.monotonic())
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.inbox.put(None)

    def _rests(self, worker: _Worker, call: Call[object]) -> bool:
        """Takes back a thread whose call is over; returns False if it must end."""
        with self._lock:
            self._running.discard(call)
            rests = len(self._idle) < _MOST_IDLE and self.ends == float("inf")
            if rests:
                self._idle.append(worker)
            return rests


class _Worker:
    """A thread that runs one call after the other."""

    def __init__(self, rests: Callable[[_Worker, Call[object]], bool]) -> None:
        self.inbox: SimpleQueue[Call[object] | None] = SimpleQueue()
        self._rests = rests
        threading.Thread(target=self._run, name="connector", daemon=True).start()

    def _run(self) -> None:
        while (call := self.inbox.get()) is not None:
            call.run()
            # Before those who wait are told: the next call of theirs finds this thread again.
            rests = self._rests(self, call)
            call.finish()
            if not rests:
                return
            del call
