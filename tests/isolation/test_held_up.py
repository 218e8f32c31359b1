"""In a server that runs: what one job takes long for, the others do not wait for."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.jobs.job import MAIN, Cause
from tests.support import eventually

TABLES = """
CREATE TABLE events (id BIGINT, host STRING) WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
CREATE TABLE alerts (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json');
CREATE TABLE bad (n BIGINT) WITH ('connector' = 'topic', 'topic' = 'bad', 'format' = 'json');
CREATE TABLE seen (id BIGINT)
WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{folder}/app.db', 'table-name' = 'seen', 'sink.max-retries' = '100');
"""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with closing(sqlite3.connect(tmp_path / "app.db")) as database:
        database.execute("CREATE TABLE seen (id BIGINT)")
    engine = Engine(Config(data=tmp_path / "data"))
    for topic in ("events", "alerts", "bad"):
        engine.broker.create_topic(topic)
    engine.submit("tables", TABLES.replace("{folder}", str(tmp_path)))
    engine.submit("rule", "INSERT INTO alerts SELECT id FROM events")
    engine.start()
    yield engine
    engine.close()


def append(engine: Engine, start: int, end: int) -> None:
    lines = [json.dumps({"id": i, "host": f"h{i % 3}"}).encode() for i in range(start, end)]
    engine.broker.append("events", 0, lines, timestamp_ms=0)


def alerts(engine: Engine) -> list[int]:
    found: list[int] = []
    while (records := engine.broker.read("alerts", 0, len(found))) is not None:
        found += [json.loads(v)["id"] for v in records.values.to_pylist()]
    return found


def has_more_alerts(engine: Engine, than: int) -> bool:
    return len(alerts(engine)) > than


def test_a_sink_whose_database_is_locked_holds_up_its_own_job_alone(
    engine: Engine, tmp_path: Path
) -> None:
    engine.submit(
        "slow", "SET 'job.isolation.commit-time' = '50 ms'; INSERT INTO seen SELECT id FROM events"
    )
    number = 0

    def append_one() -> None:
        nonlocal number
        append(engine, number, number + 1)
        number += 1

    with closing(sqlite3.connect(tmp_path / "app.db", isolation_level=None)) as other:

        def written() -> list[int]:
            return [i for (i,) in other.execute("SELECT id FROM seen ORDER BY rowid")]

        while engine.job("slow").graph == MAIN:
            other.execute("BEGIN IMMEDIATE")
            append_one()
            # So long the sink waits, if it has come to it; else it does so in the next round.
            time.sleep(0.5)
            other.execute("COMMIT")
            eventually(lambda: written() == list(range(number)), "the sink goes on")
        assert engine.job("slow").cause is Cause.SINK
        other.execute("BEGIN IMMEDIATE")
        there = number
        for _ in range(5):
            append_one()
            eventually(
                lambda: alerts(engine) == list(range(number)),
                "the others go on while the sink waits",
            )
        assert written() == list(range(there))
        other.execute("COMMIT")
        eventually(lambda: written() == list(range(number)), "the sink goes on")


def test_a_lock_on_a_table_of_several_jobs_holds_up_none_but_these(
    engine: Engine, tmp_path: Path
) -> None:
    """They stay in the graph that they share with the rule; what they write comes once, and in
    order."""
    for name in ("one", "two"):
        engine.submit(
            name,
            f"SET 'job.isolation' = 'off'; INSERT INTO seen SELECT id FROM events WHERE '{name}' <>"
            " host",
        )
    with closing(sqlite3.connect(tmp_path / "app.db", isolation_level=None)) as other:

        def written() -> list[int]:
            return sorted(i for (i,) in other.execute("SELECT id FROM seen"))

        append(engine, 0, 3)
        eventually(lambda: written() == sorted([*range(3)] * 2), "both write")
        other.execute("BEGIN IMMEDIATE")
        for number in range(3, 8):
            began = time.monotonic()
            append(engine, number, number + 1)
            eventually(partial(has_more_alerts, engine, number), "the others go on")
            assert time.monotonic() - began < 15, "they wait for the database"
        assert alerts(engine) == [*range(8)]
        assert written() == sorted([*range(3)] * 2)
        assert {engine.job(n).graph for n in ("one", "two", "rule")} == {MAIN}
        assert engine.graph.runner.outputs.uncommitted.blocked
        other.execute("COMMIT")
        eventually(lambda: written() == sorted([*range(8)] * 2), "the sink goes on")
    eventually(
        lambda: not engine.graph.runner.outputs.uncommitted.blocked, "nothing waits any more"
    )
