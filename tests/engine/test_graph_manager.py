"""A job that asks for records which the shared graph has read already reads alone, and sees all of
them once."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from sqlengine.config import Config
from sqlengine.engine import Engine
from tests.support import eventually

TABLES = """
CREATE TABLE events (id BIGINT)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE alerts (rule STRING, id BIGINT)
WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json');
"""


def append(engine: Engine, start: int, end: int) -> None:
    engine.broker.append(
        "events", 0, [json.dumps({"id": i}).encode() for i in range(start, end)], timestamp_ms=0
    )


def has_all(engine: Engine, rule: str) -> bool:
    return alerts(engine, rule) == list(range(150))


def alerts(engine: Engine, rule: str) -> list[int]:
    records = engine.broker.read("alerts", 0, 0)
    found = [json.loads(v) for v in records.values.to_pylist()] if records is not None else []
    return [a["id"] for a in found if a["rule"] == rule]


def test_a_late_job_reads_from_the_beginning_alone_and_survives_a_restart(tmp_path: Path) -> None:
    engine = Engine(Config(data=tmp_path))
    for topic in ("events", "alerts"):
        engine.broker.create_topic(topic)
    engine.start()
    engine.submit("tables", TABLES)
    engine.submit("first", "INSERT INTO alerts SELECT 'first', id FROM events")
    append(engine, 0, 100)
    assert eventually(lambda: len(alerts(engine, "first")) == 100)
    engine.submit("second", "INSERT INTO alerts SELECT 'second', id FROM events")
    assert engine.job("first").graph == "main"
    assert engine.job("second").graph != "main"
    assert eventually(lambda: alerts(engine, "second") == list(range(100)))
    engine.close()
    engine = Engine(Config(data=tmp_path))
    engine.start()
    append(engine, 100, 150)
    for rule in ("first", "second"):
        assert eventually(partial(has_all, engine, rule))
    own = engine.job("second").graph
    engine.remove("second")
    assert set(engine.graphs.by_name) == {"main"}
    assert not (tmp_path / "graphs" / own).exists()
    engine.close()
