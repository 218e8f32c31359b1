"""Where each job runs: in the server's process or in tasks of Spark, as its text, the request or a
move says, with what it has read and counted."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self

import pytest

from parser.errors import OptionError, SqlError, UnsupportedError
from sqlengine.config import Target
from sqlengine.engine import Engine
from sqlengine.executors.spark.executor import SparkExecutor
from sqlengine.machine import THIS
from tests.engine.by_hand import die
from tests.spark.staged import Staged
from tests.spark.test_engine_on_spark import (
    RULE,
    TABLES,
    TOTALS,
    WINDOWS,
    World,
    await_totals,
    counted,
    rows,
)
from tests.support import eventually

ON_SPARK = "SET 'execution.target' = 'spark';"
HERE = "SET 'execution.target' = 'embedded';"
UNION = """INSERT INTO windows SELECT k, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE all_events, DESCRIPTOR(ts),
INTERVAL '10' SECOND)) GROUP BY k, window_start, window_end"""
BOTH = """CREATE TABLE others (id BIGINT, k STRING, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'others', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE VIEW all_events AS SELECT k, ts FROM events UNION ALL SELECT k, ts FROM others"""


def runs_on_spark(engine: Engine, job: str) -> bool:
    graph = engine.graphs.of(job)
    assert job in graph.runner.jobs
    return isinstance(graph.executor, SparkExecutor)


def runs_on(engine: Engine, job: str, target: Target) -> bool:
    # In between it is nowhere.
    return engine.graphs.runs(job) and runs_on_spark(engine, job) == (target == "spark")


def test_the_text_says_where_a_job_runs(engine: Engine, world: World) -> None:
    engine.submit("totals", ON_SPARK + TOTALS.format("TRUE"))
    engine.submit("rule", RULE.format(5))
    assert (runs_on_spark(engine, "totals"), runs_on_spark(engine, "rule")) == (True, False)
    assert engine.job("totals").graph == "main.spark"
    world.write(engine, 30)
    await_totals(engine, world)
    eventually(lambda: len(rows(engine, "alerts")) == sum(e["v"] >= 5 for e in world.events))
    assert "on Spark" in engine.explain("totals")
    # Where all others run on Spark, one may stay in the server's process.
    engine.close()
    engine = world.open("spark")
    engine.submit("here", HERE + RULE.format(9))
    assert not runs_on_spark(engine, "here")
    engine.close()


def test_a_job_moves_with_its_state(engine: Engine, world: World) -> None:
    engine.submit("totals", TOTALS.format("TRUE"))
    engine.submit("windows", WINDOWS)
    for turn in range(4):
        world.write(engine, 15)
        target: Target = "embedded" if turn % 2 else "spark"
        for job in ("totals", "windows"):
            assert engine.move(job, target).status in ("moved", "moving")
            eventually(partial(runs_on, engine, job, target))
        world.write(engine, 15)
        await_totals(engine, world)
    engine.drain_job("windows")
    found = counted(rows(engine, "windows"))
    assert sum(found.values()) == len(world.events)
    assert max(found.values()) <= 10
    assert len(rows(engine, "windows")) == len(found)


def test_moves_and_kills(world: World) -> None:
    engine = world.open("embedded")
    engine.submit("tables", TABLES)
    engine.submit("totals", TOTALS.format("TRUE"))
    for turn in range(3):
        world.write(engine, 10)
        engine.move("totals", "embedded" if turn % 2 else "spark")
        die(engine)
        engine = world.open("embedded")
        assert runs_on_spark(engine, "totals") == (turn % 2 == 0)
        world.write(engine, 10)
        await_totals(engine, world)
    # The next text stays where the job was moved to, unless it says something else.
    engine.submit("totals", TOTALS.format("TRUE") + "; " + RULE.format(8))
    assert runs_on_spark(engine, "totals")
    engine.submit("totals", HERE + TOTALS.format("TRUE"))
    eventually(partial(runs_on, engine, "totals", "embedded"))
    world.write(engine, 10)
    await_totals(engine, world)
    engine.close()


@pytest.mark.parametrize("first", ["embedded", "spark"])
def test_windows_over_a_union_move_with_their_watermarks(
    engine: Engine, world: World, first: Target
) -> None:
    """The other table is silent from then on: what it had reached is known after the move."""
    engine.broker.create_topic("others")
    engine.submit("both", BOTH)
    engine.submit("windows", (ON_SPARK if first == "spark" else "") + UNION)
    line = b'{"id": 1, "k": "x", "v": 1, "ts": "2024-01-01 00:00:45"}'
    engine.broker.append("others", 0, [line], timestamp_ms=0)
    world.write(engine, 25)
    eventually(lambda: {e for _, e in counted(rows(engine, "windows"))} == {0, 1})
    engine.move("windows", "embedded" if first == "spark" else "spark")
    world.write(engine, 75)
    eventually(lambda: {e for _, e in counted(rows(engine, "windows"))} == {0, 1, 2, 3})
    found = counted(rows(engine, "windows"))
    assert sum(found.values()) == 40
    assert len(rows(engine, "windows")) == len(found)


def test_what_spark_cannot_run_stays(engine: Engine, world: World) -> None:
    engine.submit("fine", "SET 'pipeline.auto-watermark-interval' = '1 s';" + WINDOWS)
    with pytest.raises(UnsupportedError, match="watermarks at intervals"):
        engine.move("fine", "spark")
    assert not runs_on_spark(engine, "fine")
    assert engine.move("fine", "embedded").status == "unchanged"
    with pytest.raises(UnsupportedError, match="watermarks at intervals"):
        engine.submit(
            "fine", ON_SPARK + "SET 'pipeline.auto-watermark-interval' = '1 s';" + WINDOWS
        )
    assert engine.job("fine").version == 1
    with pytest.raises(OptionError, match=r"'execution\.target' cannot be 'yarn'"):
        engine.submit("other", "SET 'execution.target' = 'yarn';" + RULE.format(1))


def test_a_stopped_job_starts_where_it_is_told_to(engine: Engine, world: World) -> None:
    engine.submit("totals", TOTALS.format("TRUE"))
    world.write(engine, 20)
    await_totals(engine, world)
    engine.stop_job("totals")
    engine.move("totals", "spark")
    world.write(engine, 20)
    engine.start_job("totals")
    assert runs_on_spark(engine, "totals")
    await_totals(engine, world)


def test_without_spark_the_job_that_asks_for_it_is_refused(tmp_path: Path) -> None:
    class Missing(Staged):
        def session(self) -> Self:
            raise SqlError("Spark is not installed")

    machine = replace(THIS, spark=lambda config: Missing())
    engine = World(tmp_path / "data", machine).open("embedded")
    engine.submit("tables", TABLES)
    with pytest.raises(SqlError, match="Spark is not installed"):
        engine.submit("totals", ON_SPARK + TOTALS.format("TRUE"))
    engine.submit("rule", RULE.format(1))
    with pytest.raises(SqlError, match="Spark is not installed"):
        engine.move("rule", "spark")
    assert not runs_on_spark(engine, "rule")
    engine.close()


def test_a_limit_of_memory_holds_in_tasks(engine: Engine, world: World) -> None:
    """Other jobs on Spark go on."""
    engine.submit("totals", ON_SPARK + TOTALS.format("id < 10"))
    keys = "INSERT INTO alerts SELECT 'x', id FROM (SELECT DISTINCT id, k || CAST(id AS STRING) FROM events)"
    engine.submit("large", ON_SPARK + "SET 'memory.limit' = '1 mb';" + keys)
    lines = [
        b'{"id": %d, "k": "a", "v": 1, "ts": "2024-01-01 00:00:00"}' % n for n in range(30_000)
    ]
    engine.broker.append("events", 0, lines, timestamp_ms=0)
    eventually(lambda: not engine.graphs.runs("large"))
    assert "'memory.limit' is 1.0 MB" in str(engine.job("large").reason)
    assert engine.graphs.runs("totals")
