"""A module's worker, whatever its functions do to it: it is started when it is needed, started
again when it was lost, and the rows that cost it its life are found and set aside."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex

import pyarrow as pa

from sqlengine.functions.limits import FunctionLimits
from sqlengine.functions.process import Lost, Serve, WorkerProcess
from sqlengine.functions.protocol import Header
from sqlengine.system.interrupts import uninterrupted

Failure = tuple[int, str]
# Blobs for the rows from start to end, and what else the request says.
Ask = Callable[[int, int], tuple[dict[str, object], list[pa.Buffer]]]
Take = Callable[[int, int, list[pa.Buffer]], None]

_DESCRIBE_S = 20.0
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Binding:
    """A function with the schemas of its arguments and of its result. `whole`: it is called for
    whole batches, so that nobody knows which row a hang belongs to."""

    place: str
    schemas: tuple[pa.Schema, ...]
    whole: bool = False
    number: int = field(default_factory=lambda: next(_numbers))


class ModuleHost:
    """The functions of one content. Any thread may call; calls wait for one another.

    `losses`: the last crashes, hangs and lacks of memory, each with the place of the function and
    the reason, for who takes them out; no more than switch a function off. `forgiven` is another
    word each time that what went wrong is forgotten."""

    def __init__(
        self,
        content: str,
        folder: Path,
        limits: FunctionLimits,
        on_broken: Callable[[str, str], None],
    ) -> None:
        self.content = content
        self.folder = folder
        self.limits = limits
        self._on_broken = on_broken
        self._lock = threading.RLock()
        self._worker: WorkerProcess | None = None
        self._failures: dict[str, deque[float]] = {}
        self._broken: dict[str, str] = {}
        self.losses: deque[tuple[str, str]] = deque(maxlen=limits.failures)
        self.forgiven = ""
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        """The process that runs now, if one does."""
        worker = self._worker
        return None if worker is None else worker.pid

    def describe(self, place: str) -> Header:
        """Returns the worker's description of a function: {'spec'}, or {'error', 'hint'}."""
        with self._lock:
            try:
                return self._started().ask({"op": "describe", "place": place}, row_s=_DESCRIBE_S)[0]
            except Lost as lost:
                self._worker = None
                return {"error": f"the module cannot be imported: {lost.reason}", "hint": None}

    def start(self) -> None:
        """Makes the process ready before the first row comes, and forgets what went wrong
        before."""
        with self._lock:
            self.forgive()
            self._started()

    def forgive(self) -> None:
        """Forgets what went wrong before."""
        with self._lock:
            self._broken.clear()
            self._failures.clear()
            self.forgiven = token_hex(4)

    def stop(self) -> None:
        with self._lock:
            worker, self._worker = self._worker, None
            _kill(worker)

    def run(
        self, binding: Binding, rows: int, ask: Ask, take: Take, serve: Serve | None = None
    ) -> list[Failure]:
        """Sends `ask(start, end)` for all rows in order and hands the answers to `take`, in order;
        `serve` answers what the worker asks meanwhile.

        Returns the rows without an answer, with the reason. Rows that kill or block the worker are
        found by the row it was at, or by halving."""
        failures: list[Failure] = []
        waiting = [(0, rows)]
        with self._lock:
            while waiting:
                start, end = waiting.pop()
                broken = self._broken.get(binding.place)
                if broken is not None:
                    failures += [(row, broken) for row in range(start, end)]
                    continue
                try:
                    part = (start, end, rows)
                    done, short = self._once(binding, part, ask, take, failures, serve)
                    if done < end - start and not short:  # the rest is asked for at a time
                        waiting.append((start + done, end))
                    elif done < end - start:  # memory was short: the rest gets a new process
                        self.note(binding.place, "it needs more memory than it may have")
                        worker, self._worker = self._worker, None
                        _kill(worker)
                        waiting.append((start + done, end))
                except Lost as lost:
                    self._worker = None
                    waiting += self._around(binding, start, end, lost, failures)
                except BaseException:
                    # The step was ended while the worker computed: its answer must not be taken
                    # for that of the next call. First a plain write: a call could be interrupted.
                    worker, self._worker = self._worker, None
                    _kill(worker)
                    raise
        return sorted(failures)

    def _once(
        self,
        binding: Binding,
        part: tuple[int, int, int],
        ask: Ask,
        take: Take,
        failures: list[Failure],
        serve: Serve | None,
    ) -> tuple[int, bool]:
        """Asks for the rows from start to end of so many. Returns how many were done, and whether
        memory was short for the others."""
        start, end, rows = part
        worker = self._started()
        if binding.number not in worker.bound:
            request = {"op": "bind", "id": binding.number, "place": binding.place}
            answer, _ = worker.ask(
                request, [s.serialize() for s in binding.schemas], row_s=_DESCRIBE_S
            )
            assert "error" not in answer
            worker.bound.add(binding.number)
        about, blobs = ask(start, end)
        limit = self._limit(binding, end - start, rows)
        answer, parts = worker.ask(
            {"op": "call", "id": binding.number, "rows": end - start, **about}, blobs, limit, serve
        )
        failed, done = answer["failures"], answer["done"]
        assert isinstance(failed, list)
        assert isinstance(done, int)
        failures += [(start + row, reason) for row, reason in failed]
        take(start, start + done, parts)
        return done, "more" not in answer

    def _limit(self, binding: Binding, part: int, rows: int) -> float:
        """A part of a batch has to be done in its part of the time: the halves of a search do not
        add up to minutes."""
        return self.limits.call_s * max(part / rows, 0.125) if binding.whole else self.limits.row_s

    def _around(
        self, binding: Binding, start: int, end: int, lost: Lost, failures: list[Failure]
    ) -> Sequence[tuple[int, int]]:
        """Returns the ranges that are left after a crash: all but the row at fault, or two halves
        to find it in. The last range comes first."""
        if end - start == 1:
            row = start
        elif lost.start >= 0 and not binding.whole:
            row = start + lost.start
        else:
            first, last = (
                (start + lost.start, start + lost.end) if lost.start >= 0 else (start, end)
            )
            if last - first == 1:
                row = first
            else:
                middle = (first + last) // 2
                parts = [(start, first), (first, middle), (middle, last), (last, end)]
                return [p for p in reversed(parts) if p[0] < p[1]]
        self.note(binding.place, lost.reason)
        failures.append((row, f"{binding.place}: {lost.reason}"))
        return [p for p in ((row + 1, end), (start, row)) if p[0] < p[1]]

    @uninterrupted()
    def note(self, place: str, reason: str) -> None:
        """Counts a loss, here or in another process that calls the function for this one; after too
        many the function is switched off, which is told to whom it concerns."""
        self.losses.append((place, reason))
        now = time.monotonic()
        times = self._failures.setdefault(place, deque())
        times.append(now)
        while times[0] < now - self.limits.failures_s:
            times.popleft()
        if len(times) >= self.limits.failures:
            self.switch_off(
                place,
                f"function {place} is switched off after {len(times)} failures, the last: {reason}",
            )

    @uninterrupted()
    def switch_off(self, place: str, why: str) -> None:
        """Lets a function be called no more, and tells those whom it concerns, once."""
        if place not in self._broken:
            self._broken[place] = why
            self._on_broken(f"{place}@{self.content[:16]}", why)

    @property
    def switched_off(self) -> Mapping[str, str]:
        """The functions that are called no more, by place, with the reasons."""
        return self._broken

    def _started(self) -> WorkerProcess:
        if self._worker is None:
            with uninterrupted():  # a process that nobody knows would never end
                self._worker = WorkerProcess(self.folder, self.limits)
                self.restarts += 1
        return self._worker


def _kill(worker: WorkerProcess | None) -> None:
    if worker is not None:
        with uninterrupted():
            worker.kill()
