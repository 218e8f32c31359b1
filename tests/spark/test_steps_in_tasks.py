"""What takes long in a task costs its own job, and no other of the graph; and an epoch of tasks has
more time than a step of a server, before it is ended for a change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.executors.steps.guard import StepView
from sqlengine.executors.steps.limits import Steps
from sqlengine.machine import THIS
from tests.isolation.test_long_steps import HOGS, RULE, TABLES, TOTALS, append, await_rows
from tests.spark.staged import Staged
from tests.support import eventually


@pytest.mark.parametrize("hog", HOGS)
def test_its_timeout_ends_one_of_several_jobs(tmp_path: Path, hog: str) -> None:
    text, rows = HOGS[hog]
    config = Config(data=tmp_path, target="spark", fsync="none")
    engine = Engine(config, replace(THIS, spark=lambda config: Staged(2)))
    engine.start()
    try:
        for topic in ("events", "alerts", "pairs", "totals"):
            engine.broker.create_topic(topic, compacted=topic == "totals")
        engine.submit("tables", TABLES)
        append(engine, rows)
        for name, other in {"rule": RULE, "totals": TOTALS}.items():
            engine.submit(name, other)
        engine.submit("hog", f"SET 'job.step-timeout' = '2 s'; {text}")
        eventually(lambda: engine.job("hog").state.value == "failed")
        assert "job 'hog' took" in str(engine.job("hog").reason)
        assert "'job.step-timeout' is 2 s" in str(engine.job("hog").reason)
        await_rows(engine, rows)
        assert {engine.job(name).state.value for name in ("rule", "totals")} == {"running"}
    finally:
        engine.close()


@pytest.mark.parametrize(("patience", "seconds"), [(1.0, (1, 3)), (10.0, (10, 30))])
def test_a_patient_step_ends_later_for_a_change(patience: float, seconds: tuple[int, int]) -> None:
    steps = Steps(None, float)

    def first_end() -> int:
        views = (
            StepView("g", 1, float(s), "runs", frozenset("a"), 0, patience=patience)
            for s in range(100)
        )
        return next(int(view.seconds) for view in views if steps.ended(view) is not None)

    with steps.leaving("a"):
        leaving = first_end()
    with steps.replacing("a"):
        assert (leaving, first_end()) == seconds
