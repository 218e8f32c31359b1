"""A job whose epoch on Spark takes long can be removed, stopped and timed out, and a server with
such an epoch ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sqlengine.engine import Engine
from sqlengine.machine import THIS
from tests.spark.test_engine_on_spark import RULE, TABLES, TOTALS, World, await_totals, rows
from tests.support import eventually

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

ON_SPARK = "SET 'execution.target' = 'spark';"
# 40,000 events meet 40,000: minutes.
HOG = """INSERT INTO alerts SELECT 'hog', a.v FROM events a JOIN events b
ON a.v + b.v > 100 AND CHAR_LENGTH(REPEAT(a.k, 100) || b.k) > 200"""
ROWS = 40_000


@pytest.fixture
def engine(spark: Any, tmp_path: Path) -> Iterator[Engine]:
    world = World(tmp_path / "data", replace(THIS))
    engine = world.open("embedded")
    engine.submit("tables", TABLES)
    lines = [b'{"id": 1, "k": "a", "v": 1, "ts": "2024-01-01 00:00:00"}'] * ROWS
    engine.broker.append("events", 0, lines, timestamp_ms=0)
    yield engine
    engine.close()


def begun(engine: Engine, job: str) -> None:
    """Waits until an epoch of the job takes long, in whatever graph it is."""

    def runs() -> bool:
        graph = engine.graphs.of(job).name
        views = [v for v in engine._steps.slow() if v.graph == graph and job in v.jobs]
        return any(v.seconds > 3 for v in views)

    eventually(runs)


def took(began: float) -> float:
    return time.monotonic() - began


@pytest.mark.parametrize("how", ["remove", "stop"])
def test_it_leaves_and_the_others_go_on(engine: Engine, how: str) -> None:
    engine.submit("rule", RULE.format(1))
    engine.submit("totals", ON_SPARK + TOTALS.format("TRUE"))
    engine.submit("hog", ON_SPARK + HOG)
    begun(engine, "hog")
    began = time.monotonic()
    engine.remove("hog") if how == "remove" else engine.stop_job("hog")
    assert took(began) < 30
    world = World(Path(), THIS, [{"k": "a", "v": 1}] * ROWS)
    await_totals(engine, world)
    eventually(lambda: len(rows(engine, "alerts")) == ROWS)
    assert not engine.graphs.runs("hog")


def test_its_timeout_ends_it(engine: Engine) -> None:
    engine.submit("hog", ON_SPARK + "SET 'job.step-timeout' = '5 s';" + HOG)
    eventually(lambda: engine.job("hog").state.value == "failed")
    assert "a job on Spark took it" in str(engine.job("hog").reason)


def test_a_server_ends_in_the_midst_of_it(engine: Engine) -> None:
    engine.submit("hog", ON_SPARK + HOG)
    begun(engine, "hog")
    began = time.monotonic()
    engine.close()
    assert took(began) < 30
