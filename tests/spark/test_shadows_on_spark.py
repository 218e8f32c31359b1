"""Shadows of rules whose jobs run on Spark: they run there, too, and take their place."""

from __future__ import annotations

import json

import pytest

from parser.errors import JobError
from sqlengine.engine import Engine
from tests.engine.by_hand import die
from tests.spark.test_engine_on_spark import TABLES, WINDOWS, World, counted, rows
from tests.spark.test_targets import HERE, ON_SPARK, runs_on_spark
from tests.support import eventually

LEAST = "INSERT INTO alerts SELECT 'r', id FROM events WHERE v >= {}"
SHADOW = "-- @rule\n-- status: shadow\n"


def shadowed(engine: Engine, topic: str = "_shadow") -> list[dict[str, object]]:
    if topic not in engine.broker.topic_names():
        return []
    records = engine.broker.read(topic, 0, 0)
    return [] if records is None else [json.loads(v) for v in records.values.to_pylist()]


@pytest.mark.parametrize("said", ["", ON_SPARK, HERE])
def test_a_shadow_runs_where_the_live_version_does(engine: Engine, world: World, said: str) -> None:
    """Whatever its own text says: from its promotion on that counts."""
    engine.submit("r", ON_SPARK + LEAST.format(5))
    engine.submit("r", SHADOW + said + LEAST.format(3))
    assert runs_on_spark(engine, "r@shadow")
    world.write(engine, 20)
    wanted = [sum(e["v"] >= least for e in world.events) for least in (3, 5)]
    eventually(lambda: [len(shadowed(engine)), len(rows(engine, "alerts"))] == wanted)
    counts = engine.counts()
    assert (counts["r@shadow"].rows, counts["r"].rows) == (wanted[0], wanted[1])
    (told,) = engine.difference("r").tables
    assert (told.both, told.added, told.left_out) == (wanted[1], wanted[0] - wanted[1], 0)
    engine.promote("r")
    world.write(engine, 20)
    more = sum(e["v"] >= 3 for e in world.events[20:])
    eventually(lambda: len(rows(engine, "alerts")) == wanted[1] + more)
    eventually(lambda: engine.graphs.runs("r") and runs_on_spark(engine, "r") == (said == ON_SPARK))


def test_it_cannot_run_elsewhere(engine: Engine) -> None:
    engine.submit("r", LEAST.format(5))
    with pytest.raises(JobError, match="a shadow runs where its rule does, which is 'embedded'"):
        engine.submit("r", SHADOW + LEAST.format(3), target="spark")
    engine.move("r", "spark")
    eventually(lambda: engine.graphs.runs("r") and runs_on_spark(engine, "r"))
    engine.submit("r", SHADOW + LEAST.format(3), target="spark")
    engine.promote("r")
    assert runs_on_spark(engine, "r")


def test_state_goes_over_and_survives_kills(world: World) -> None:
    engine = world.open("embedded")
    engine.submit("tables", TABLES)
    engine.submit("w", ON_SPARK + WINDOWS)
    world.write(engine, 15)
    engine.submit("w", SHADOW + ON_SPARK + WINDOWS + " HAVING COUNT(*) > 1")
    world.write(engine, 15)
    die(engine)
    engine = world.open("embedded")
    assert runs_on_spark(engine, "w@shadow")
    world.write(engine, 15)
    engine.promote("w")
    die(engine)
    engine = world.open("embedded")
    assert runs_on_spark(engine, "w")
    assert "w@shadow" not in engine.log.jobs
    world.write(engine, 15)
    engine.drain_job("w")
    found = counted(rows(engine, "windows"))
    assert max(found.values()) <= 10
    assert len(rows(engine, "windows")) == len(found)
    engine.close()
