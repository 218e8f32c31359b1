"""One ad-hoc statement while it runs, within its limits. It leaves nothing behind: no record of its
epochs, no state, no dead letters, no committed offsets."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from functools import cached_property
from typing import Final

from parser.errors import ServiceError, SqlError
from sqlengine.access.principals import TRUSTED, Principal
from sqlengine.batch import Batch
from sqlengine.config import QueryLimits
from sqlengine.connectors.plain_secrets import shown
from sqlengine.executors.failures import StepEnded
from sqlengine.executors.sinks.rows_set_aside import RowsSetAside
from sqlengine.executors.steps.guard import StepGuard, StepLimits, StepView
from sqlengine.queries.results import ResultBuffer

# How often a query that waits looks whether it is to end.
TURN_S = 0.05
# Seconds between two looks whether its client may still ask.
_RIGHTS_S: Final = 1.0


class QueryEnded(ServiceError):
    """A query was ended before it was complete: its time was over, or nobody read its rows."""


class RightsLost(QueryEnded):
    """A query was ended since its client may not ask any more."""


class TooManyQueries(ServiceError):
    """One more query would exceed the number that may run at once."""


class QueryState(StrEnum):
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    ENDED = "ended"


class Budget:
    """The rows, or the time, that all queries of a server together may take, a second's worth at
    once. May be called from any thread."""

    def __init__(self, per_second: float) -> None:
        self._rate = per_second
        self._left = self._rate
        self._refilled = time.monotonic()
        self._lock = threading.Lock()

    def spend(self, amount: float) -> None:
        """Takes what was used."""
        with self._lock:
            self._left -= amount

    def wait_s(self) -> float:
        """Returns the seconds until more may be used; 0 for now."""
        with self._lock:
            now = time.monotonic()
            self._left = min(self._rate, self._left + (now - self._refilled) * self._rate)
            self._refilled = now
            return 0.0 if self._left > 0 else -self._left / self._rate


class Query:
    """An ad-hoc statement that runs, or has run.

    `client`: who asked, by name; `by`: the same as a principal; `started_ms`: when, since 1970;
    `rows_read`: rows of its tables; `warnings`: settings and options without effect. `session`: the
    one that it ends with, as `lives` tells; without one it ends when nobody reads its rows.
    `rights` raises the SqlError for which the client may not ask any more, `lost` is that error."""

    def __init__(
        self,
        identity: str,
        sql: str,
        client: str,
        started_ms: int,
        limits: QueryLimits,
        budget: Budget,
        timeout_s: float | None = None,
        by: Principal = TRUSTED,
        session: str = "",
        lives: Callable[[], bool] | None = None,
        rights: Callable[[], object] = lambda: None,
    ) -> None:
        self.by = by
        self.session = session
        self._lives = lives
        self._rights = rights
        self._entitled_until = time.monotonic() + _RIGHTS_S
        self.lost: SqlError | None = None
        self.identity = identity
        self.sql = sql
        self.client = client
        self.started_ms = started_ms
        self.buffer = ResultBuffer()
        self.set_aside = RowsSetAside()
        self.warnings: list[str] = []
        self.rows_read = 0
        self._limits = limits
        self._asked_s = timeout_s or math.inf
        self._timeout_s = min(limits.timeout_s, self._asked_s)
        self._began = time.monotonic()
        self._budget = budget
        self._stopping = threading.Event()
        self._space = True
        limited = StepLimits(lambda job, version: None, lambda: None, self._step_ended)
        self.guard = StepGuard(f"query {identity}", limited)

    @cached_property
    def shown(self) -> str:
        """The text for people, its beginning where it is long. Each page has it."""
        return shown(self.sql)

    @property
    def size(self) -> int:
        """The bytes that are held for it, about: its text, and rows that wait for its client."""
        return len(self.sql) + self.buffer.size

    @property
    def state(self) -> QueryState:
        """The state of the statement; its rows may be read in any."""
        if self._stopping.is_set():
            return QueryState.ENDED
        if not self.buffer.ended:
            return QueryState.RUNNING
        return QueryState.FINISHED if self.buffer.error is None else QueryState.FAILED

    @property
    def wanted(self) -> bool:
        """False once the session is over that the statement ends with."""
        return self._lives is None or self._lives()

    @property
    def abandoned(self) -> bool:
        """True once its client has stopped it, does not ask for it any more, may not, or has waited
        for as long as it wanted to."""
        if self._stopping.is_set() or not self.wanted or not self._is_entitled():
            return True
        if time.monotonic() - self._began > self._asked_s:
            return True
        return self._lives is None and self.buffer.silent_for() > self._limits.silence_s

    def _is_entitled(self) -> bool:
        """Looks now and then whether the client may still ask; False for good once it may not."""
        now = time.monotonic()
        if self.lost is None and now >= self._entitled_until:
            self._entitled_until = now + _RIGHTS_S
            try:
                self._rights()
            except SqlError as error:
                self.lost = error
        return self.lost is None

    def stop(self) -> None:
        """Ends the statement for its client: its thread ends with the epoch that runs, the rows
        that nobody has read are dropped."""
        if not self.buffer.ended:
            self._stopping.set()
        self.buffer.complete()
        self.buffer.drop()
        self.watch()

    def give(self, batch: Batch) -> None:
        """Puts rows into the buffer, and waits there while too many bytes wait for the client. Of a
        query that must end meanwhile no more rows are taken."""
        self.buffer.put(batch)
        try:
            while not (self._stopping.is_set() or self.buffer.wait_for_bytes(TURN_S)):
                self._space = False
                self.check()
        except QueryEnded as error:  # a sink that raised it would seem to refuse rows
            self.buffer.complete(error)

    def proceed(self, rows_read: int, *, complete: bool) -> bool:
        """Waits until the next rows may be read; False if none are to be read.

        `complete`: all rows of the result are made. Raises QueryEnded for a query over its time,
        or whose client is silent."""
        self._budget.spend(rows_read - self.rows_read)
        self.rows_read = rows_read
        while not (complete or self._stopping.is_set()):
            self.check()
            self._space = self.buffer.wait_for_space(TURN_S)
            if self._space and self._may_read():
                break
        return not (complete or self._stopping.is_set())

    def _may_read(self) -> bool:
        """Waits a moment where the rows of this second are read."""
        wait_s = self._budget.wait_s()
        if wait_s:
            self._stopping.wait(min(TURN_S, wait_s))
        return not wait_s

    def watch(self) -> None:
        """Ends a step that does not see itself that it must end. Called by other threads."""
        view = self.guard.view()
        ended = None if view is None else self._step_ended(view)
        if view is not None and ended is not None:
            self.guard.throw(view.number, ended)

    def _step_ended(self, view: StepView) -> StepEnded | None:
        if self._stopping.is_set():
            return StepEnded("the query was stopped")
        try:
            self.check()
        except QueryEnded as error:
            return StepEnded(error.message)
        return None

    def check(self) -> None:
        """Raises QueryEnded for a query over its time, or whose client is silent, RightsLost where
        that may not ask any more."""
        if not self._is_entitled():
            raise RightsLost(
                "the query was ended, its client may not ask any more",
                detail=None if self.lost is None else str(self.lost),
            )
        silence = self._limits.silence_s if self._space else self._limits.pause_s
        if time.monotonic() - self._began > self._timeout_s:
            asked = self._timeout_s < self._limits.timeout_s
            raise QueryEnded(
                f"the query was ended after {self._timeout_s:g} s",
                detail=None if asked else "that is the longest that a query may run here",
                hint=None
                if asked
                else "'sql serve --query-timeout' sets it; or submit it as a job",
            )
        if not self.wanted:
            raise QueryEnded(
                "the query was ended with its session", detail="nobody used it for long"
            )
        if self._lives is None and self.buffer.silent_for() > silence:
            raise QueryEnded(
                "the query was ended, nobody reads its rows",
                detail=f"they were last asked for {silence:g} s ago",
            )
