"""The threads of one process, all in one: what goes on next is drawn. A future that somebody waits
for lets others go on until it is there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from sqlengine.system.threads import Turning, Work
from tests.simulation.world import Death, World

T = TypeVar("T")
P = ParamSpec("P")
# So many turns of others and a life does not end.
_PATIENCE = 100_000


class Promise(Future[T]):
    """A future that is worked for where it is waited for."""

    def __init__(self, work: Callable[[], None], now: Callable[[], float]) -> None:
        super().__init__()
        self._work = work
        self._now = now

    def result(self, timeout: float | None = None) -> T:
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        """TimeoutError comes from `result`."""
        until = None if timeout is None else self._now() + timeout
        for _ in range(_PATIENCE):
            if self.done() or (until is not None and self._now() >= until):
                return
            self._work()
        raise AssertionError("what somebody waits for does not come")


class Line(Executor):
    """Work in order, a piece when it is drawn."""

    def __init__(self, threads: SimulatedThreads, name: str) -> None:
        self.name = name
        self.waiting: deque[Callable[[], None]] = deque()
        self.busy = False
        self._threads = threads
        self._closed = False

    def submit(self, work: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> Future[T]:
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        promise: Promise[T] = Promise(self.turn, self._threads.now)

        def run() -> None:
            try:
                promise.set_result(work(*args, **options))
            except Death:
                raise
            except BaseException as error:  # noqa: BLE001  handed to who waits
                promise.set_exception(error)

        self.waiting.append(run)
        return promise

    def turn(self) -> None:
        """The next piece of work."""
        if self._threads.dead:
            raise Death
        if self.busy or not self.waiting:
            raise AssertionError(
                f"a deadlock: nobody does what is waited for in the line {self.name}"
            )
        self.busy = True
        try:
            with self._threads.world.doing(self.name):
                self.waiting.popleft()()
        except Death:
            self._threads.dead = True
            raise
        self.busy = False

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._closed = True
        while wait and self.waiting:
            self.turn()


@dataclass
class Thread:
    """A thread that turns when it is drawn. What the turns of a graph do is an epoch."""

    threads: SimulatedThreads
    turning: Turning
    place: str
    started: bool = False
    busy: bool = False
    ended: bool = False

    def start(self) -> None:
        self.started = True

    def is_alive(self) -> bool:
        return self.started and not self.ended

    def join(self, timeout: float | None = None) -> None:
        self.ended = True
        self.turning.shut()

    def turn(self) -> bool:
        self.busy = True
        with self.threads.world.doing(self.place):
            done = self.turning.turn()
        self.busy = False
        return done


@dataclass
class Timer:
    """`every`: ms between two times; None for once."""

    at_ms: int
    work: Work
    every: int | None = None
    over: bool = False

    def cancel(self) -> None:
        self.over = True

    stop = cancel


@dataclass
class SimulatedThreads:
    """See `Threads`. `others`: what other processes may do while somebody here waits, who is
    `waiting` then. `is_dead`: whether the process has died on one of its disks. What is tidied up
    on the way out waits for nobody then."""

    world: World
    others: Callable[[], list[Callable[[], object]]] = list
    is_dead: Callable[[], bool] = bool
    waiting: int = 0
    lines: list[Line] = field(default_factory=list)
    threads: list[Thread] = field(default_factory=list)
    timers: list[Timer] = field(default_factory=list)
    dead: bool = False

    def serial_executor(self, name: str) -> Executor:
        line = Line(self, name)
        self.lines.append(line)
        return line

    def future(self) -> Future[object]:
        return Promise(self.beside, self.now)

    def thread(self, name: str, turning: Turning) -> Thread:
        thread = Thread(self, turning, "epoch" if name.startswith("graph-") else "upkeep")
        self.threads.append(thread)
        return thread

    def every(self, name: str, seconds: float, work: Work) -> Timer:
        ms = int(seconds * 1000)
        return self._timer(Timer(self.world.up_ms + ms, work, ms))

    def later(self, seconds: float, work: Work) -> Timer:
        return self._timer(Timer(self.world.up_ms + int(seconds * 1000), work))

    def _timer(self, timer: Timer) -> Timer:
        self.timers.append(timer)
        return timer

    def now(self) -> float:
        return self.world.up_ms / 1000

    def lanes(self) -> None:
        """Calls run where they are made."""

    # ---- what the simulation does ----------------------------------------------------------------

    def beside(self) -> None:
        """Somebody waits for a graph: graphs go on, and checkpoints are written."""
        if self.dead or self.is_dead():
            raise Death
        lines = [x.turn for x in self.lines if x.waiting and not x.busy and x.name == "checkpoint"]
        others = self.others()
        if self.world.kind == "parts":  # somebody may have died, and is given up after a while
            self.world.now_ms += self.world.chance.choice((0, 1, 5, 40))
        self.waiting += 1
        self.world.chance.choice([*lines, *(t.turn for t in self.idle_threads()), *others])()
        self.waiting -= 1

    def idle_threads(self) -> list[Thread]:
        self.threads = [t for t in self.threads if not t.ended]
        return [t for t in self.threads if t.started and not t.busy]

    def possible(self) -> list[Callable[[], object]]:
        """All that may go on now."""
        self.lines = [x for x in self.lines if x.waiting or not x._closed]
        found: list[Callable[[], object]] = [x.turn for x in self.lines if x.waiting and not x.busy]
        found += [t.turn for t in self.idle_threads()]
        return found + self._due()

    def _due(self) -> list[Callable[[], object]]:
        self.timers = [t for t in self.timers if not t.over]
        return [lambda t=t: self._fire(t) for t in self.timers if t.at_ms <= self.world.up_ms]  # type: ignore[misc]

    def _fire(self, timer: Timer) -> None:
        if timer.every is None:
            timer.over = True
        else:
            timer.at_ms = self.world.up_ms + timer.every
        timer.work()

    def settle(self) -> bool:
        """Lets all go on once; whether anything was done."""
        before = len(self.world.trace)
        for fire in self._due() if self.world.kind == "parts" else ():
            fire()
        busy = False
        for line in list(self.lines):
            if line.waiting and not line.busy:
                line.turn()
                busy = True
        turned = [t.turn() for t in self.idle_threads()]
        return busy or any(turned) or len(self.world.trace) > before
