"""A graph that catches up waits for others that do, but not for a long step of theirs."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from sqlengine.graphs.loop import CatchUpScheduler


def test_a_long_step_of_one_graph_holds_no_other_up() -> None:
    now = [10.0]
    scheduler = CatchUpScheduler(lambda: now[0])
    began, may_end = threading.Event(), threading.Event()
    ran = []

    def long_step() -> bool:
        began.set()
        return may_end.wait(60)

    def step() -> bool:
        ran.append(now[0])
        now[0] += 0.05
        return True

    with ThreadPoolExecutor(1) as other:
        running = other.submit(scheduler.run, long_step)
        assert began.wait(60)
        # It is not its turn, but calls of other threads get theirs.
        assert scheduler.run(step) == (True, 0.0)
        assert not ran
        now[0] += 1.0
        busy, rest_s = scheduler.run(step)
        assert (busy, round(rest_s, 3), ran) == (True, 0.05, [11.0])
        may_end.set()
        assert running.result() == (True, 0.1)
    assert scheduler.run(lambda: False) == (False, 0.0)
