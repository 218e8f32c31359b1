"""The one thread that makes changes of jobs, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import TypeVar

from sqlengine.access.actor import Actor, acting, present_actor
from sqlengine.connectors.boundary.openings import Openings, StillOpening
from sqlengine.engine.job_failures import JobFailures
from sqlengine.engine.requests import Outcome, Request
from sqlengine.executors.failures import GraphBroken

T = TypeVar("T")


class ChangesThread:
    """Runs the changes of one engine in the thread of `executor`.

    Jobs whose failures graphs have reported fail before each. `after` is called behind each, in
    the thread."""

    def __init__(
        self,
        executor: Executor,
        failures: JobFailures,
        openings: Openings,
        after: Callable[[], None],
    ) -> None:
        self.executor = executor
        self._failures = failures
        self._openings = openings
        self._after = after

    def submit(self, work: Callable[[], None]) -> Future[None]:
        """Hands work to the thread. RuntimeError if the engine is closed."""
        return self.executor.submit(work)

    def run(self, work: Callable[[], T]) -> T:
        """Runs `work` in the thread, as who asks here, and waits for its result. Other changes go
        on while a table is opened that takes long."""
        turn = partial(self._turn, partial(_acting_as, present_actor(), work))
        while True:
            try:
                return self.executor.submit(turn).result()
            except StillOpening as error:
                if not error.wait(self._openings.timeout_s):
                    raise

    def change(
        self, make: Callable[[Request], dict[str, Outcome]], request: Request
    ) -> dict[str, Outcome]:
        """Makes the change of a request, and makes it again for jobs whose tables take long to
        open."""
        outcomes = self.run(partial(make, request))
        while True:
            slow = {n: e for n, o in outcomes.items() if isinstance(e := o.error, StillOpening)}
            if not slow or not all(e.wait(self._openings.timeout_s) for e in slow.values()):
                return outcomes
            outcomes |= self.run(partial(make, request.only(slow)))

    def _turn(self, work: Callable[[], T]) -> T:
        try:
            self._failures.settle()
            try:
                return work()
            except GraphBroken:
                if not self._failures.waiting and not self._failures.restore_for_leaving():
                    raise
                # A step was ended while the work waited for it: it left no trace, and the graph is
                # restored first.
                self._failures.settle()
                return work()
        finally:
            self._after()


def _acting_as(actor: Actor, work: Callable[[], T]) -> T:
    with acting(actor):
        return work()
