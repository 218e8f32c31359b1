"""Interrupts end code of operators and nothing else: not what undoes it, not what must run whole."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from sqlengine.batch import Batch
from sqlengine.engine import Engine
from sqlengine.executors.failures import OperatorFailed, StepEnded
from sqlengine.functions.limits import FunctionLimits
from sqlengine.functions.process import WorkerProcess
from sqlengine.operators.base import Stream
from sqlengine.operators.windows.aggregate import WindowAggregateOperator
from sqlengine.system.interrupts import Interrupts, uninterrupted
from tests.engine.by_hand import EVENTS, WINDOW, append, open_engine

PATIENCE_S = 60.0
PROFILED = """
import sys
from sqlengine.system.interrupts import Interrupts
interrupts = Interrupts(KeyboardInterrupt)
interrupts.begin()
interrupts.permit()
interrupts.forbid()
interrupts.end()
sys.setprofile(lambda frame, event, argument: None)
(lambda: None)()
"""


class Interrupted(BaseException):
    """The error of interrupts here."""


class Work:
    """Work of a thread, which says how far it is."""

    def __init__(self) -> None:
        self.interrupts = Interrupts(Interrupted)
        self.inside, self.asked = threading.Event(), threading.Event()
        self.whole: list[str] = []

    def spin(self) -> None:
        """Computes in Python for ever."""
        self.interrupts.permit()
        self.inside.set()
        while True:
            pass

    def in_one_piece(self) -> None:
        """Is asked to end in a part that must run whole."""
        self.interrupts.permit()
        with uninterrupted():
            self.inside.set()
            assert self.asked.wait(PATIENCE_S)
            self.whole.append("first")
        self.whole.append("second")

    def forbidden(self) -> None:
        """Is asked to end where nothing may end, until it goes on in an operator."""
        self.inside.set()
        assert self.asked.wait(PATIENCE_S)
        self.whole.append("first")
        self.interrupts.permit()
        self.whole.append("second")

    def tidy_up(self) -> None:
        """Is asked again while it undoes what the first interrupt has left."""
        try:
            self.spin()
        except Interrupted:
            self.inside.clear()
            with uninterrupted():
                self.inside.set()
                assert self.asked.wait(PATIENCE_S)
                self.whole.append("first")
            self.whole.append("second")


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def begin(pool: ThreadPoolExecutor, work: Work, body: Callable[[], None]) -> Future[None]:
    def run() -> None:
        work.interrupts.begin()
        try:
            body()
        finally:
            work.interrupts.permitted = False
            work.interrupts.end()

    future = pool.submit(run)
    assert work.inside.wait(PATIENCE_S)
    return future


def test_a_loop_in_python_ends_and_the_thread_goes_on(pool: ThreadPoolExecutor) -> None:
    work = Work()
    future = begin(pool, work, work.spin)
    work.interrupts.ask()
    with pytest.raises(Interrupted):
        future.result(PATIENCE_S)
    assert pool.submit(sum, range(100_000)).result(PATIENCE_S) == 4999950000


@pytest.mark.parametrize("body", ["in_one_piece", "forbidden"])
def test_what_must_run_whole_does_and_nothing_behind_it(
    pool: ThreadPoolExecutor, body: str
) -> None:
    work = Work()
    future = begin(pool, work, getattr(work, body))
    work.interrupts.ask()
    work.asked.set()
    with pytest.raises(Interrupted):
        future.result(PATIENCE_S)
    assert work.whole == ["first"]


def test_what_undoes_an_interrupted_call_runs_whole(pool: ThreadPoolExecutor) -> None:
    work = Work()
    future = begin(pool, work, work.tidy_up)
    work.inside.clear()
    work.interrupts.ask()
    assert work.inside.wait(PATIENCE_S)
    work.interrupts.ask()
    work.asked.set()
    with pytest.raises(Interrupted):
        future.result(PATIENCE_S)
    assert work.whole == ["first"]


def test_a_process_is_started_whole(pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    """Interrupted in between, it would run on unknown, with the lock of what starts processes."""
    work = Work()
    started: list[WorkerProcess] = []

    def start() -> None:
        work.interrupts.permit()
        with uninterrupted():
            work.inside.set()
            started.append(WorkerProcess(tmp_path, FunctionLimits()))

    future = begin(pool, work, start)
    while not future.done():
        work.interrupts.ask()
    assert isinstance(future.exception(), Interrupted)
    started[0].kill()


def test_an_operator_that_has_failed_is_undone_in_peace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def process(self: WindowAggregateOperator, port: int, batch: Batch) -> Stream:
        raise ZeroDivisionError("put there by hand")

    engine: Engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    engine.submit("bad", WINDOW.format(name="bad"))
    append(engine, 1, 2)
    runner = engine.graph.runner
    monkeypatch.setattr(WindowAggregateOperator, "process", process)
    with runner.guard.step("a step around the step"):
        with pytest.raises(OperatorFailed):
            runner.step()
        view = runner.guard.view()
        assert view is not None
        runner.guard.throw(view.number, StepEnded("too late"))
        assert sum(1 for _ in range(10_000)) == 10_000
    engine.close()


def test_work_that_nobody_interrupts_leaves_no_trace_in_the_interpreter() -> None:
    """CPython 3.11 looks at every call for an interrupt that was taken back before there was one:
    that is slow, and never ends while a profiler is on."""
    subprocess.run([sys.executable, "-c", PROFILED], check=True, timeout=PATIENCE_S / 2)
