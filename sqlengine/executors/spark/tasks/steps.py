"""The limits of steps hold in tasks of Spark, too: the operators of a job may take as long in one
task as in one step of a server ('job.step-timeout'). Does not import Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext

from sqlengine.executors.spark.worker import Batches
from sqlengine.executors.steps.guard import StepGuard, StepInterrupted, StepLimits
from sqlengine.executors.steps.limits import WATCH_S, Watched


class _OfThread(threading.local):
    """The guard of the task that a thread runs now."""

    def __init__(self) -> None:
        self.guard = StepGuard()


_of_thread = _OfThread()


def task_guard() -> StepGuard:
    """Returns the guard of the task that this thread runs now, or has run last."""
    return _of_thread.guard


def within_timeouts(timeouts: Mapping[str, float], frames: Batches) -> Batches:
    """Yields what a task computes as one step. `timeouts`: in seconds by job, of those that have
    one. StepFailed, with the jobs at fault, where operators take longer."""
    shortest = min(timeouts.values(), default=None)
    limits = StepLimits(lambda job, _: timeouts.get(job), lambda: shortest, lambda view: None)
    guard = StepGuard("of a task", limits)
    with guard.step("runs a task"), nullcontext() if shortest is None else _watched(guard):
        while True:
            _of_thread.guard = guard  # other tasks may have run in between
            try:
                batch = next(frames, None)
            except StepInterrupted:
                assert guard.failure is not None, "what interrupts a step says why"
                raise guard.failure from None
            if batch is None:
                return
            yield batch


@contextmanager
def _watched(guard: StepGuard) -> Iterator[None]:
    """Has a thread look at the step while the body runs: some operators put out nothing for long,
    and ask for nothing."""
    over, watched = threading.Event(), Watched()

    def watch() -> None:
        while not over.wait(WATCH_S):
            watched.look(guard, lambda guard, failure: None)

    thread = threading.Thread(target=watch, name="steps", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
