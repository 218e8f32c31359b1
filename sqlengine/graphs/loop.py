"""The thread that runs a graph, and the door through which other threads reach it between two
epochs."""

from __future__ import annotations

import gc
import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar, cast

from parser.errors import ServiceError
from sqlengine.broker.base import Broker
from sqlengine.executors.failures import JobsFailed, OperatorFailed
from sqlengine.executors.runner import GraphRunner
from sqlengine.system.threads import THREADS, Threads

T = TypeVar("T")
log = logging.getLogger("sqlengine.loop")

# How long an idle graph sleeps before it looks for changes; data wakes it at once.
IDLE_S = 0.005
FULL_DISK_S = 0.5
# Whoever wants something of a graph that catches up waits no longer for its rest.
_LONGEST_REST_S = 0.1


class CatchUpScheduler:
    """What graphs share that catch up with others: one of them reads at a time, and rests then as
    long as it has read."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def take(self, step: Callable[[], bool]) -> tuple[bool, float]:
        """Does a step when it is its turn; what the step gives, and how long to rest, in s."""
        with self._lock:
            began = time.perf_counter()
            busy = step()
            return busy, min(time.perf_counter() - began, _LONGEST_REST_S) if busy else 0.0


class GraphLoop:
    """Steps a runner until it is stopped. `on_failure` hears of jobs at fault (from this thread; it
    must not block). `turns`: those that it takes with others, if it does."""

    def __init__(
        self,
        runner: GraphRunner,
        broker: Broker,
        on_failure: Callable[[frozenset[str], str], None],
        threads: Threads = THREADS,
    ) -> None:
        self.runner = runner
        self.problem: str | None = None
        self.broken = False
        self.turns: CatchUpScheduler | None = None
        self._broker = broker
        self._on_failure = on_failure
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._door = threading.Lock()
        self._open = True
        self._pause_s = self._tired_s = 0.0
        self._threads = threads
        self._thread = threads.thread(f"graph-{runner.name}", self)

    def start(self) -> None:
        self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def call(self, work: Callable[[], T], timeout: float | None = 60) -> T:
        """Runs `work` in the graph's thread between two epochs; raises what it raises. ServiceError
        when its turn does not come in time, and then it never comes."""
        future = cast("Future[T]", self._threads.promise())

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001  handed to the caller, who raises it
                future.set_exception(error)

        with self._door:
            running = self._open and self._thread.is_alive()
            if running:
                self._calls.put(run)
        if not running:
            return work()
        try:
            return future.result(timeout)
        except TimeoutError:
            if future.cancel():
                raise ServiceError(
                    f"graph '{self.runner.name}' is busy", hint="nothing was changed; try again"
                ) from None
            return future.result()

    def stop(self) -> None:
        """Ends after the epoch that runs now."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(60)

    def run(self) -> None:
        """What its thread does until `stop`."""
        collected = time.monotonic()
        try:
            while not self._stopping.is_set():
                busy = self.turn()
                if time.monotonic() - collected > 1:
                    gc.collect(1)
                    collected = time.monotonic()
                if not busy:
                    self._rest()
                elif self._tired_s:
                    self._stopping.wait(self._tired_s)
                    self._tired_s = 0.0
        finally:
            self.shut()

    def shut(self) -> None:
        """Serves those who wait for a turn, and nobody after them."""
        with self._door:
            self._open = False
            self._serve()

    def turn(self) -> bool:
        """Does what others want between two epochs, then an epoch. False when there was nothing to
        do."""
        self._serve()
        if self.turns is None:
            return self._step()
        busy, self._tired_s = self.turns.take(self._step)
        return busy

    def _rest(self) -> None:
        pause, self._pause_s = self._pause_s, 0.0
        if pause:
            self._stopping.wait(pause)
        elif self._calls.empty():
            self._broker.wait_for_data(IDLE_S)

    def _serve(self) -> None:
        while not self._calls.empty():
            self._calls.get()()

    def _step(self) -> bool:
        if self.runner.broken:
            return False  # until it is restarted; whoever asks for a change is told
        try:
            busy = self.runner.step()
            self.problem, self.broken = None, False
            return busy
        except (
            ServiceError
        ) as error:  # a full disk, as a rule: without space for output or checkpoint it waits
            self.broken = self.runner.broken
            self._pause(str(error), FULL_DISK_S)
        except JobsFailed as error:
            if error.jobs != frozenset({""}):
                self._on_failure(error.jobs, str(error))
            return False
        except (
            OperatorFailed
        ) as error:  # whoever hears of it opens the graph anew, without these jobs
            self.broken = True
            self._on_failure(error.jobs, str(error))
            self._pause(str(error), 0.0)
        except Exception as error:  # noqa: BLE001  shown by /healthz, and tried again if no epoch is half-way
            self.broken = True
            self._pause(f"internal error: {error!r}", 1.0)
        return False

    def _pause(self, problem: str, seconds: float) -> None:
        if problem != self.problem:
            log.error("graph %s stands still: %s", self.runner.name, problem, exc_info=self.broken)
        self.problem = problem
        self._pause_s = seconds
