"""Calls of a connector: exceptions become errors of the table, and calls that may block run in a
lane, with a deadline."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from parser.errors import ExecutionError, SqlError
from sqlengine.broker.errors import NO_SPACE, cannot_write
from sqlengine.connectors.base import Busy
from sqlengine.connectors.boundary.answers import Nonsense
from sqlengine.connectors.boundary.openings import SERVE, Openings
from sqlengine.system.hidden import hidden, hide_handed_out
from sqlengine.system.lanes import Call

T = TypeVar("T")
log = logging.getLogger("sqlengine.connectors")

# The option of `sql serve`.
TIMEOUT_OPTION: Final = "--connector-timeout"
_SHOWN: Final = 300  # characters of an exception
# Seconds that closing may take before it is left to its thread.
_CLOSE_S: Final = 1.0


@dataclass(frozen=True)
class Opened:
    """A table that a connector opens. `verb`: what fails with it, 'read' or 'written'; `place`: the
    host or path on which it depends; `command`: what people have started."""

    table: str
    connector: str
    verb: str
    place: str
    timeout_s: float
    command: str = SERVE

    @property
    def _again(self) -> str:
        """The advice for when the cause is gone."""
        return "'sql start JOB'" if self.command == SERVE else "run the statement again"

    def failed(self, call: str, error: BaseException) -> SqlError:
        """Returns the error of the table for an exception that its connector has raised."""
        if isinstance(error, OSError) and error.errno in NO_SPACE and self.verb == "written":
            return cannot_write(f"table '{self.table}'", error)
        log.error(
            "connector '%s' failed in '%s' of table '%s'",
            self.connector,
            call,
            self.table,
            exc_info=error,
        )
        return ConnectorFailed(
            f"table '{self.table}' cannot be {self.verb}: its connector failed",
            detail=f"'{call}' of connector '{self.connector}' raised {_words(error)}",
            hint=f"put right what it names, then {self._again}",
        )

    def nonsense(self, call: str, what: str) -> SqlError:
        """Returns the error of the table for an answer that makes no sense."""
        return ConnectorFailed(
            f"table '{self.table}' cannot be {self.verb}: its connector answers nonsense",
            detail=f"'{call}' of connector '{self.connector}' {what}",
            hint="this is a fault of the connector: tell those who make it",
        )

    def silent(self, call: str) -> SqlError:
        """Returns the error of the table for a call that does not come back."""
        return ConnectorSilent(
            f"table '{self.table}' cannot be {self.verb}: no answer for {self.timeout_s:g} s",
            detail=f"'{call}' of connector '{self.connector}' does not come back",
            hint=f"see whether the host or the disk behind it is there, then {self._again}"
            + (f"; '{SERVE} {TIMEOUT_OPTION}' allows more" if self.command == SERVE else ""),
        )


class ConnectorFailed(ExecutionError):
    """A call of a connector raised what it must not, or answered what cannot be."""


class ConnectorSilent(ConnectorFailed):
    """A call of a connector has not come back in time."""


def _words(error: BaseException) -> str:
    """Returns an exception for people, without anything that it could do to a line."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001  a connector's exception may do anything
        text = ""
    text = hidden(text)
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return f"{type(error).__name__}: {shown}" if shown else type(error).__name__


class Calls:
    """The calls of one opened table, one at a time.

    `failure`: set for good once a call did not come back, or one failed whose caller takes no
    error; every later `need` raises it. With `openings` calls run in a thread of theirs, else in
    that of the caller."""

    def __init__(self, opened: Opened, openings: Openings | None) -> None:
        self.opened = opened
        self.failure: SqlError | None = None
        self._openings = openings
        self._lanes = None if openings is None else openings.lanes
        self._running: Call[object] | None = None
        self._name = ""
        self._lock = threading.Lock()

    @property
    def beside(self) -> bool:
        """True if calls run in a lane."""
        return self._lanes is not None

    @property
    def sound(self) -> bool:
        """True until there is a failure."""
        return self.failure is None

    @property
    def busy(self) -> bool:
        """True while a call runs that nobody waits for."""
        return self._running is not None and not self._running.done

    # ---- calls that are waited for ---------------------------------------------------------------

    def need(self, call: str, work: Callable[[], T]) -> T:
        """Returns the result of a call; SqlError where there is none in time."""
        self.require_sound()
        if self._lanes is None:
            return self.guarded(call, work)
        while (begun := self.begin(call, work)) is None:
            self.settle()
        return self.collect(begun)

    def ask(self, call: str, work: Callable[[], T], otherwise: T, patience_s: float) -> T:
        """Returns the result of a call, or `otherwise`. Never raises: the next `need` does."""
        if self.failure is not None or self.busy:
            return otherwise
        try:
            if self._lanes is None:
                return self.guarded(call, work)
            begun = self.begin(call, work)
            if begun is None or not begun.wait(min(patience_s, self.opened.timeout_s)):
                return otherwise
            return begun.result()
        except SqlError as error:
            self.failure = error
            return otherwise

    def require_sound(self) -> None:
        """Raises the failure, if there is one."""
        if self.failure is not None:
            raise self.failure

    def guarded(self, call: str, work: Callable[[], T]) -> T:
        """Runs the call here. What it raises becomes an SqlError, unless it controls the thread."""
        try:
            return work()
        except SqlError as error:
            raise hide_handed_out(error) from None
        except Nonsense as error:
            raise self.opened.nonsense(call, str(error)) from None
        except Exception as error:
            raise self.opened.failed(call, error) from error

    # ---- calls in a lane -------------------------------------------------------------------------

    def begin(self, call: str, work: Callable[[], T]) -> Call[T] | None:
        """Begins a call in the lane; None while another one runs."""
        assert self._lanes is not None
        with self._lock:
            if self.busy:
                return None
            begun = self._lanes.begin(partial(self.in_lane, call, work))
            self._running, self._name = begun, call
            return begun

    def in_lane(self, call: str, work: Callable[[], T]) -> T:
        """Runs the call in its lane. Nothing but SqlError leaves it."""
        try:
            return self.guarded(call, work)
        except SqlError:
            raise
        except BaseException as error:  # it would end the thread of whoever waits
            raise self.opened.failed(call, error) from error

    def touch(self) -> None:
        """Says within a call that it gets on."""
        if self._running is not None:
            self._running.touch()

    def settle(self) -> None:
        """Waits until no call runs. Raises the failure of one that does not come back."""
        running = self._running
        if running is not None and not running.done:
            self.wait(running)

    def collect(self, call: Call[T]) -> T:
        """Waits for a call and returns its result."""
        while not call.done:
            self.wait(call)
        return call.result()

    def wait(self, call: Call[T]) -> None:
        """Waits for a call as long as it may take; raises the failure if it takes longer."""
        left = self.opened.timeout_s - call.silent_s
        if not call.wait(max(left, 0.0)):
            self.require_in_time()
            raise Busy(
                f"table '{self.opened.table}' has not answered yet",
                detail="and the server stops",
            )

    def require_in_time(self) -> None:
        """Raises the failure, which is for good, if the running call has taken too long."""
        call = self._running
        if call is not None and not call.done and call.silent_s >= self.opened.timeout_s:
            self.failure = self.opened.silent(self._name)
            log.error("%s; %s", self.failure, self.failure.hint)
            self._leave(call)
            raise self.failure

    def ended_wait(self, call: Call[object]) -> bool:
        """Returns True if the engine stops and the call comes back before it has: its output would
        come again otherwise."""
        stops = self._lanes is not None and self._lanes.ends <= time.monotonic()
        return stops and call.wait(self.opened.timeout_s)

    # ---- the end ---------------------------------------------------------------------------------

    def close(self, work: Callable[[], object]) -> None:
        """Closes what was opened; after a call that still runs, in its thread. Never raises."""
        safely = partial(self._close, work)
        if self._lanes is None:
            safely()
        elif self.busy and self._running is not None:
            self._leave(self._running)
            self._running.afterwards(safely)
        else:
            with suppress(SqlError):  # too many calls hang
                begun = self.begin("close", safely)
                if begun is not None:
                    begun.wait(min(_CLOSE_S, self.opened.timeout_s))

    def _leave(self, call: Call[object]) -> None:
        """Leaves a call to itself."""
        if self._openings is not None:
            writes = self.opened.verb == "written"
            self._openings.left(self.opened.place, call, writes=writes)

    def _close(self, work: Callable[[], object]) -> None:
        with suppress(SqlError):  # logged, and nobody can do anything about it
            self.guarded("close", work)
