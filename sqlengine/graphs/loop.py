"""The loop that steps a graph in its thread, and runs work of other threads between two epochs."""

from __future__ import annotations

import gc
import logging
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TypeVar, cast

from parser.errors import ServiceError
from sqlengine.broker.base import Broker
from sqlengine.executors.failures import (
    ExecutorUnavailable,
    FailureHandler,
    FamilyFailed,
    JobsFailed,
    OperatorFailed,
    SourceAway,
    StepEnded,
)
from sqlengine.executors.runner import GraphRunner
from sqlengine.executors.steps.guard import StepInterrupted
from sqlengine.system.threads import THREADS, Threads

T = TypeVar("T")
log = logging.getLogger("sqlengine.loop")

# How long an idle graph sleeps before it checks for changes; data wakes it at once.
IDLE_S = 0.005
# Pause before a graph that found the disk full tries again.
FULL_DISK_PAUSE_S = 0.5
# The longest rest of a graph that catches up: calls of other threads wait for its end.
_MAX_REST_S = 0.1
# A graph that catches up lets others run beside it after so many seconds in one step.
_LONG_TURN_S = 1.0


class CatchUpScheduler:
    """Limits the graphs that catch up with others: one of them runs at a time, and then rests for
    as long as it ran, so that the shared graph keeps its pace. A step that takes long holds nobody
    up. `now`: the monotonic clock, in s."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._lock = threading.RLock()
        self._now = now
        self._began = 0.0

    def run(self, step: Callable[[], bool]) -> tuple[bool, float]:
        """Runs a step, unless another graph has its turn: waits a moment for that. Returns False if
        the step had nothing to do, and how long to rest (s)."""
        with self._turn() as has_turn:
            if not has_turn:
                return True, 0.0  # calls of other threads come first, then it tries again
            began = self._now()
            busy = step()
            return busy, min(self._now() - began, _MAX_REST_S) if busy else 0.0

    @contextmanager
    def _turn(self) -> Iterator[bool]:
        """Yields False if another graph has its turn, unless that takes long."""
        locked = self._lock.acquire(timeout=0.0 if self._is_long() else _MAX_REST_S)
        try:
            if locked:
                self._began = self._now()
            yield locked or self._is_long()
        finally:
            if locked:
                self._lock.release()

    def _is_long(self) -> bool:
        return self._now() - self._began >= _LONG_TURN_S


class GraphLoop:
    """Steps a runner until it is stopped.

    `on_failure` is called with jobs that fail and the reason (loop thread; it must not block).
    `problem`: why the graph does not run, for people; `broken`: it does not run until it is
    reopened; `unavailable`: which waits for what runs its operators, or for a source; `scheduler`:
    set while the graph catches up with others. `gather_s`: an epoch begins so long after the one
    before at the soonest, unless rows were left: rows that come meanwhile share it, and the first
    one after a pause does not wait."""

    def __init__(
        self,
        runner: GraphRunner,
        broker: Broker,
        on_failure: FailureHandler,
        threads: Threads = THREADS,
        gather_s: float = 0.0,
    ) -> None:
        self.runner = runner
        self._gather_s = gather_s
        self.problem: str | None = None
        self.broken = self.unavailable = False
        self.scheduler: CatchUpScheduler | None = None
        self._broker = broker
        self._on_failure = on_failure
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._accepting_lock = threading.Lock()
        self._accepts_calls = True
        self._pause_s = self._rest_s = 0.0
        self._threads = threads
        self._thread = threads.thread(f"graph-{runner.name}", self)

    def start(self) -> None:
        """Starts the loop's thread."""
        self._thread.start()

    @property
    def running(self) -> bool:
        """True while the loop's thread runs."""
        return self._thread.is_alive()

    def call(self, work: Callable[[], T], timeout: float | None = 60) -> T:
        """Runs `work` in the graph's thread between two epochs; returns its result, or raises its
        error.

        If the loop does not run, `work` runs in the calling thread. ServiceError if it did not
        begin within `timeout` s: then it never does."""
        future = cast("Future[T]", self._threads.future())

        def run() -> None:
            # The caller gave up waiting before this began: nothing may be done any more.
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001  handed to the caller, who raises it
                future.set_exception(error)

        with self._accepting_lock:
            # Under the lock: `shut` empties the queue once, and a call put behind that would wait
            # for ever.
            running = self._accepts_calls and self._thread.is_alive()
            if running:
                self._calls.put(run)
        if not running:
            return work()
        try:
            return future.result(timeout)
        except TimeoutError:
            # Not begun yet, so that it never will; what has begun is waited for.
            if future.cancel():
                raise self._busy() from None
            return future.result()

    def _busy(self) -> ServiceError:
        """The error of a call that a long step did not let begin."""
        step, hint = self.runner.guard.view(), "nothing was changed; try again"
        if step is not None and step.jobs:
            hint += f", or end the step: 'sql remove {min(step.jobs)}'"
        detail = None if step is None else str(step)
        return ServiceError(f"graph '{self.runner.name}' is busy", detail=detail, hint=hint)

    def stop(self) -> None:
        """Stops after the running epoch. Where that is being ended and its operator does not come
        back from a call, the thread is left to itself: it does nothing more when it comes back."""
        self._stopping.set()
        self._calls.put(lambda: None)  # it may be waiting for one
        patience = 60.0
        while self._thread.is_alive() and patience > 0:
            self._thread.join(0.25)
            patience -= 60.0 if self.runner.guard.stuck else 0.25

    def run(self) -> None:
        """Steps the graph until `stop` (the loop's thread)."""
        collected = time.monotonic()
        try:
            while not self._stopping.is_set():
                began = time.monotonic()
                busy = self.turn()
                if time.monotonic() - collected > 1:
                    gc.collect(1)
                    collected = time.monotonic()
                if not busy:
                    self._idle()
                elif self._rest_s:
                    self._stopping.wait(self._rest_s)
                    self._rest_s = 0.0
                elif self.runner.polling.caught_up:
                    self._gather(began + self._gather_s)
        finally:
            self.shut()

    def shut(self) -> None:
        """Runs the calls that wait, and accepts no more."""
        with self._accepting_lock:
            self._accepts_calls = False
            self._run_calls()

    def turn(self) -> bool:
        """Runs waiting calls, then an epoch. False if there was nothing to do."""
        self._run_calls()
        if self.scheduler is None:
            return self._step()
        busy, self._rest_s = self.scheduler.run(self._step)
        return busy

    def _gather(self, until: float) -> None:
        """Lets rows come in until an instant of the monotonic clock (s); calls do not wait."""
        while (left := until - time.monotonic()) > 0 and not self._stopping.is_set():
            with suppress(queue.Empty):
                self._calls.get(timeout=left)()

    def _idle(self) -> None:
        pause, self._pause_s = self._pause_s, 0.0
        if pause:
            self._stopping.wait(pause)
        elif self._calls.empty():
            self._broker.wait_for_data(IDLE_S)

    def _run_calls(self) -> None:
        while not self._calls.empty():
            self._calls.get()()

    def _step(self) -> bool:
        if self.runner.broken:
            return False  # until it is reopened; changes are refused
        try:
            busy = self.runner.step()
            self.problem, self.broken = None, False
            return busy
        except ExecutorUnavailable as error:
            self.stands(error)
        except ServiceError as error:  # a full disk, as a rule: no space for output or checkpoint
            self.broken = self.runner.broken
            self._pause(str(error), FULL_DISK_PAUSE_S)
        except JobsFailed as error:
            self.broken = self.runner.broken  # by a task, which has left its epoch incomplete
            if error.jobs != frozenset({""}):
                self._on_failure(error.jobs, error.with_hint, lasting=error.lasting)
            return False
        except (OperatorFailed, StepEnded) as error:
            # on_failure has the graph reopened without these jobs.
            self.broken = True
            # Started again, a job that took long would hold the others up for as long again.
            self._report(error, lasting=error.lasting)
            fault = isinstance(error, OperatorFailed) and error.is_fault
            self._pause(str(error), 0.0, fault=fault)
        except StepInterrupted:  # at the very end of the operator's code
            self.runner.broken = self.broken = True
            failure = self.runner.guard.failure
            if isinstance(failure, OperatorFailed | StepEnded):
                self._report(failure, lasting=failure.lasting)
            self._pause(str(failure), 0.0)
        except Exception as error:  # noqa: BLE001  shown by /healthz, retried if sound
            self.broken = True
            self._pause(f"internal error: {error!r}", 1.0, fault=True)
        return False

    def stands(self, error: ExecutorUnavailable | SourceAway) -> None:
        """Makes the graph stand still until it is reopened, when what runs its operators is back,
        or a source whose rows it repeats."""
        self.runner.broken = self.broken = self.unavailable = True
        if isinstance(error, FamilyFailed):
            self.runner.executor.factory.apart.add(error.family)
        self._pause(str(error), 0.0)

    def _report(self, error: OperatorFailed | StepEnded, *, lasting: bool) -> None:
        """Reports the jobs behind an operator. The failure of a thread that was given up is known,
        and its jobs may run again by now."""
        if not self.runner.guard.abandoned:
            self._on_failure(error.jobs, str(error), lasting=lasting)

    def _pause(self, problem: str, seconds: float, *, fault: bool = False) -> None:
        if _lasting(problem) != _lasting(self.problem or ""):
            log.error("graph %s stands still: %s", self.runner.name, problem, exc_info=fault)
        self.problem = problem
        self._pause_s = seconds


def _lasting(problem: str) -> str:
    """Returns a problem without its seconds: it is no other one a second later, and logged once.

    >>> _lasting("table 't' has not answered yet (it works on its call for 20 s)")
    "table 't' has not answered yet (it works on its call for )"
    """
    return re.sub(r"\b\d+ s\b", "", problem)
