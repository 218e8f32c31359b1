"""An isolation group whose jobs run in a process of their own: what ends that process ends no other
job, and no row is lost."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.jobs.job import JobState
from tests.support import eventually

TABLES = """
CREATE TABLE events (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
CREATE TABLE alerts (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json');
CREATE TABLE counts (k BIGINT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'counts', 'format' = 'json', 'upsert' = 'true');
"""


@pytest.fixture(params=["none"])
def engine(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Engine]:
    """`param`: the restart strategy."""
    settings = {"restart-strategy.type": request.param}
    engine = Engine(Config(data=tmp_path / "data", settings=settings))
    for topic in ("events", "alerts"):
        engine.broker.create_topic(topic)
    engine.broker.create_topic("counts", compacted=True)
    engine.submit("tables", TABLES)
    engine.start()
    engine.submit("rule", "INSERT INTO alerts SELECT id FROM events")
    grouped = (
        "SET 'job.isolation' = 'error-sensitive'; INSERT INTO counts SELECT id % 3, COUNT(*) FROM"
        " events GROUP BY id % 3"
    )
    engine.submit("grouped", grouped)
    yield engine
    engine.close()


def append(engine: Engine, start: int, end: int) -> None:
    engine.broker.append(
        "events", 0, [json.dumps({"id": i}).encode() for i in range(start, end)], timestamp_ms=0
    )


def records(engine: Engine, topic: str) -> list[dict[str, int]]:
    found: list[dict[str, int]] = []
    while (read := engine.broker.read(topic, 0, len(found))) is not None:
        found += [json.loads(v) for v in read.values.to_pylist()]
    return found


def counts(engine: Engine) -> dict[int, int]:
    """What the changelog leaves; a count never falls."""
    left: dict[int, int] = {}
    for record in records(engine, "counts"):
        assert record["n"] > left.get(record["k"], 0)
        left[record["k"]] = record["n"]
    return left


def kill(engine: Engine, times: int) -> None:
    """Kills the process of the group until it has come again so often, or is given up."""

    def killed() -> bool:
        views = engine.instances.views()
        for view in views:
            with suppress(ProcessLookupError):
                if view.pid is not None and view.restarts < times:
                    os.kill(view.pid, signal.SIGKILL)
        return not views or views[0].restarts == times

    eventually(killed, "it is started again")


@pytest.mark.slow
def test_a_process_that_dies_takes_its_group_along_alone_and_comes_again(engine: Engine) -> None:
    append(engine, 0, 300)
    eventually(lambda: counts(engine) == {0: 100, 1: 100, 2: 100}, "the group counts")
    (view,) = engine.instances.views()
    assert view.graph == engine.job("grouped").graph
    kill(engine, 1)
    append(engine, 300, 600)
    eventually(
        lambda: [a["id"] for a in records(engine, "alerts")] == list(range(600)), "the others go on"
    )
    eventually(lambda: counts(engine) == {0: 200, 1: 200, 2: 200}, "the group goes on")


@pytest.mark.slow
def test_a_process_that_dies_again_and_again_fails_the_jobs_of_its_group(engine: Engine) -> None:
    kill(engine, 5)
    eventually(lambda: engine.job("grouped").state is JobState.FAILED, "it is given up")
    reason = engine.job("grouped").reason
    assert reason is not None
    assert "died 5 times in a row (code -9); it left its graph without its position" in reason
    append(engine, 0, 30)
    eventually(lambda: len(records(engine, "alerts")) == 30, "the others go on")
    eventually(lambda: set(engine.graphs.by_name) == {"main"}, "nothing of the group is left")
    engine.start_job("grouped")
    append(engine, 30, 60)
    eventually(lambda: counts(engine) == {0: 10, 1: 10, 2: 10}, "it begins anew")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["exponential-delay"], indirect=True)
def test_a_group_that_is_started_again_goes_on_where_its_process_died(engine: Engine) -> None:
    settings = "SET 'job.isolation' = 'error-sensitive'; SET 'restart-strategy.type' = 'none';"
    engine.submit("once", f"{settings} INSERT INTO alerts SELECT id FROM events WHERE id < 0")
    append(engine, 0, 300)
    eventually(lambda: counts(engine) == {0: 100, 1: 100, 2: 100}, "the group counts")
    graph = engine.job("grouped").graph
    assert engine.job("once").graph == graph
    kill(engine, 5)
    append(engine, 300, 600)
    eventually(lambda: counts(engine) == {0: 200, 1: 200, 2: 200}, "the group goes on")
    job = engine.job("grouped")
    assert (job.state, job.graph, job.restarts) == (JobState.RUNNING, graph, 1)
    (view,) = engine.instances.views()
    assert view.restarts == 5
    assert engine.job("once").state is JobState.FAILED
