"""Tables that are being opened: a host that does not answer holds up nobody but who asks for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from parser.errors import ExecutionError, SqlError
from sqlengine.system.lanes import Call, Lanes

# Seconds until a call of a connector has failed that does not come back.
TIMEOUT_S: Final = 30.0
# The command that has jobs; others run statements.
SERVE: Final = "sql serve"
# Seconds that the thread of changes waits for a table to open.
_PATIENCE_S: Final = 1.0
# Seconds for which a failure that took long is told again: a change that fails asks for its tables
# once more, one job after the other, and would find them still opening.
_TOLD_S: Final = 5.0
# Seconds for which what was opened is kept for the one who asked for it.
_KEPT_S: Final = 60.0
# The longest time (s) until a host that did not answer is asked again.
_LONGEST_S: Final = 600.0


class StillOpening(ExecutionError):
    """A table is still being opened: the same request again finds it open, or failed."""

    call: Call[object] | None = None

    def wait(self, timeout_s: float) -> bool:
        """Waits until asking again is worth it; returns False where the engine stops."""
        call = self.call
        if call is None:
            return False
        while (left := timeout_s - call.silent_s) > 0:
            until = time.monotonic() + left
            if call.wait(left):
                return True
            if time.monotonic() < until:
                return False
        return True  # it has been silent for too long


@dataclass(frozen=True)
class Opening:
    """A table to open. `key` knows it from others, `place` is the host or path on which it depends;
    `close` closes what nobody takes; with `writes` rows may be written. `slow` is the error while
    it takes long, `silent` that once it took too long."""

    key: Hashable
    place: str
    work: Callable[[], object]
    close: Callable[[object], object]
    slow: Callable[[], StillOpening]
    silent: Callable[[], SqlError]
    writes: bool = False


@dataclass
class _Silence:
    """A place that did not answer: how often, and when (monotonic s) it may be asked again. With
    `writes` the call may yet write, and nobody else may meanwhile."""

    call: Call[object]
    writes: bool
    times: int
    again: float


class Openings:
    """The tables that one engine opens. Any thread.

    `timeout_s`: seconds that any call of a connector may take; `command`: what people have started,
    for hints."""

    def __init__(
        self,
        lanes: Lanes | None = None,
        timeout_s: float = TIMEOUT_S,
        command: str = SERVE,
    ) -> None:
        self.lanes = lanes
        self.timeout_s = timeout_s
        self.command = command
        self._lock = threading.Lock()
        self._running: dict[Hashable, tuple[Opening, Call[object]]] = {}
        self._silent: dict[str, _Silence] = {}
        # Failures that took long, and until when (monotonic s) they are told again.
        self._failed: dict[Hashable, tuple[Exception, float]] = {}
        # By place what went wrong the last time, and until when (monotonic s) it is told.
        self._troubles: dict[str, tuple[str, float]] = {}

    def open(self, opening: Opening, *, patient: bool = False) -> object:
        """Opens a table in a lane and returns what was opened.

        Raises StillOpening after a moment, `patient` only after `timeout_s`; then `silent`, at
        once for a while."""
        patience = self.timeout_s if patient else min(_PATIENCE_S, self.timeout_s)
        while True:
            call = self._begun(opening)
            if not call.wait(max(patience - call.silent_s, 0.0)):
                raise self._late(opening, call)
            with self._lock:
                mine = self._running.get(opening.key, (opening, None))[1] is call
                if mine:
                    del self._running[opening.key]
            if mine:
                return self._result(opening, call)

    def begin(self, opening: Opening) -> None:
        """Begins to open a table beside others: `open` goes on waiting, and tells what is wrong."""
        with suppress(SqlError):
            self._begun(opening)

    def _result(self, opening: Opening, call: Call[object]) -> object:
        try:
            opened = call.result()
        except Exception as error:
            now = time.monotonic()
            with self._lock:
                self._troubles[opening.place] = _words(error), now + _LONGEST_S
                if now - call.began > _PATIENCE_S:
                    self._failed[opening.key] = error, now + _TOLD_S
            raise
        with self._lock:
            self._troubles.pop(opening.place, None)
        return opened

    def _begun(self, opening: Opening) -> Call[object]:
        """Returns the running call that opens the table, or begins it."""
        assert self.lanes is not None
        with self._lock:
            self._sweep()
            if opening.key in self._running:
                return self._running[opening.key][1]
            if opening.key in self._failed:
                raise self._failed[opening.key][0]
            self._require_answers(opening)
            call = self.lanes.begin(opening.work)
            self._running[opening.key] = opening, call
            return call

    def _require_answers(self, opening: Opening) -> None:
        """Raises an error for a place that keeps somebody else waiting, or did."""
        silence = self._silent.get(opening.place)
        if silence is not None and silence.call.done:
            del self._silent[opening.place]
            silence = None
        if silence is not None and (
            time.monotonic() < silence.again or (silence.writes and opening.writes)
        ):
            raise opening.silent()
        for other, call in self._running.values():
            if other.place == opening.place and not call.done and call.silent_s >= _PATIENCE_S:
                raise self._slow(opening, call)

    def _late(self, opening: Opening, call: Call[object]) -> SqlError:
        if call.silent_s < self.timeout_s:
            with self._lock:
                return self._slow(opening, call)
        with self._lock:
            self._running.pop(opening.key, None)
            before = self._silent.get(opening.place)
            times = 0 if before is None else before.times + 1
            again = time.monotonic() + min(self.timeout_s * 2**times, _LONGEST_S)
            self._silent[opening.place] = _Silence(call, False, times, again)
        call.afterwards(partial(_close, opening, call))
        return opening.silent()

    def _slow(self, opening: Opening, call: Call[object]) -> StillOpening:
        """Returns the error while a table takes long, and what went wrong before; with the lock."""
        error = opening.slow()
        if opening.place in self._troubles:
            parts = (error.detail, f"the last time: {self._troubles[opening.place][0]}")
            detail = "; ".join(part for part in parts if part)
            error = StillOpening(error.message, detail=detail, hint=error.hint)
        error.call = call
        return error

    def _sweep(self) -> None:
        """Closes what was opened and nobody has asked for since, and forgets old failures."""
        now = time.monotonic()
        self._troubles = {p: told for p, told in self._troubles.items() if told[1] > now}
        self._failed = {k: told for k, told in self._failed.items() if told[1] > now}
        for key, (opening, call) in list(self._running.items()):
            if self.lanes is not None and call.done and call.silent_s > _KEPT_S + self.timeout_s:
                del self._running[key]
                self.lanes.begin(partial(_close, opening, call))

    def left(self, place: str, call: Call[object], *, writes: bool) -> None:
        """Notes that nobody waits any more for a call of a table that was open."""
        with self._lock:
            again = time.monotonic() + min(self.timeout_s, _LONGEST_S)
            known = self._silent.get(place)
            if known is None or known.call.done or (writes and not known.writes):
                self._silent[place] = _Silence(call, writes, 0, again)

    def stop(self) -> None:
        """Ends all waiting soon, and closes what was opened for nobody: the engine stops."""
        if self.lanes is None:
            return
        self.lanes.stop()
        with self._lock:
            running, self._running = self._running, {}
        for opening, call in running.values():
            call.afterwards(partial(_close, opening, call))


def _words(error: Exception) -> str:
    return error.reason if isinstance(error, SqlError) else str(error)


def _close(opening: Opening, call: Call[object]) -> None:
    with suppress(BaseException):  # what it has raised was nobody's concern
        opening.close(call.result())
