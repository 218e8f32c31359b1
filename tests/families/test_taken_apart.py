"""A family whose operators fail, or take too long, is taken apart: the job at fault fails, the
others lose and double no row."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlengine.batch import Batch
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.operators.base import Stream
from sqlengine.operators.windows.aggregate import WindowAggregateOperator
from tests.engine.by_hand import rows
from tests.families.shapes import SHAPES, TABLES, TOPICS, lengths
from tests.support import eventually

JOBS = 4


@pytest.fixture(params=["raises", "takes long"])
def fault(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Window aggregates do so once a row of host h0 comes."""
    sound = WindowAggregateOperator.process

    def process(self: WindowAggregateOperator, port: int, batch: Batch) -> Stream:
        if batch.num_rows and "h0" in batch.column("host").to_pylist():
            if request.param == "raises":
                raise ZeroDivisionError("put there by hand")
            while True:
                time.sleep(0.01)
        return sound(self, port, batch)

    monkeypatch.setattr(WindowAggregateOperator, "process", process)
    return str(request.param)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    settings = {"restart-strategy.type": "none"}
    engine = Engine(Config(data=tmp_path, step_timeout_s=1.0, isolation=False, settings=settings))
    for topic in TOPICS:
        engine.broker.create_topic(topic)
    engine.submit("tables", TABLES)
    for n in range(JOBS):
        where = f"host = 'h{n}'"
        values = {"name": f"j{n}", "where": where, "least": 0, **lengths("1")}
        engine.submit(f"j{n}", SHAPES["tumble"].format(**values))
    engine.start()
    yield engine
    engine.close()


def append(engine: Engine, *hosts: int, ms: int) -> None:
    lines = [json.dumps({"id": 1, "ms": ms, "host": f"h{n}"}).encode() for n in hosts]
    engine.broker.append("events", 0, lines, timestamp_ms=0)


def test_the_job_at_fault_fails_alone(engine: Engine, fault: str) -> None:
    assert len(engine.graph.executor.run.member_of) == JOBS
    append(engine, 1, 2, 3, ms=500)
    append(engine, 3, 2, 1, ms=1500)
    eventually(lambda: len(rows(engine)) == 3)
    append(engine, 1, 0, 2, ms=2500)
    append(engine, 1, 2, ms=3500)
    eventually(lambda: engine.job("j0").state.value == "failed")
    append(engine, 1, ms=9000)
    eventually(lambda: len(rows(engine)) == 3 + 3 + 2 + 2)
    assert sorted(map(str, rows(engine))) == sorted(
        str([f"j{n}", f"h{n}", 1]) for n in (1, 2, 3, 1, 2, 3, 1, 2, 1, 2)
    )
    assert {engine.job(f"j{n}").state.value for n in range(1, JOBS)} == {"running"}
    assert not engine.graph.executor.run.member_of
    reason = str(engine.job("j0").reason)
    assert ("put there by hand" if fault == "raises" else "job.step-timeout") in reason
