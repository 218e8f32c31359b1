"""Shared definitions change in an engine that delivers at least once, and a table that is looked up
changes with the jobs that use it: no row is lost, and state goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.jobs.job import JobState
from tests.support import eventually

EVENTS = """CREATE TABLE events (id BIGINT, host STRING, t AS PROCTIME(){column})
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset')"""
HOSTS = """CREATE TABLE hosts (host STRING, owner STRING{column})
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"""
OUT = """CREATE TABLE totals (host STRING, n BIGINT, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'totals', 'format' = 'json', 'upsert' = 'true', 'topic.auto-create' = 'true');
CREATE TABLE owned (id BIGINT, owner STRING)
WITH ('connector' = 'topic', 'topic' = 'owned', 'format' = 'json', 'topic.auto-create' = 'true')"""
COUNT = "INSERT INTO totals SELECT host, COUNT(*) FROM events GROUP BY host"
OWNED = """INSERT INTO owned SELECT e.id, h.owner FROM events AS e
JOIN hosts FOR SYSTEM_TIME AS OF e.t AS h ON e.host = h.host"""


@pytest.fixture
def open_engine(tmp_path: Path) -> Iterator[Callable[[], Engine]]:
    opened: list[Engine] = []

    def opening() -> Engine:
        engine = Engine(Config(data=tmp_path / "data", delivery="at-least-once"))
        opened.append(engine)
        engine.start()
        return engine

    yield opening
    for engine in opened:
        engine.close()


def write(engine: Engine, *numbers: int) -> None:
    lines = [json.dumps({"id": n, "host": f"h{n % 2}"}).encode() for n in numbers]
    engine.broker.append("events", 0, lines, timestamp_ms=0)


def await_rows(engine: Engine, rows: int) -> None:
    """Waits for the count of all rows, and for the owner of each."""

    def totals() -> int:
        latest = engine.broker.read_latest("totals").values()
        return sum(json.loads(value)["n"] for value in latest)

    def owned() -> set[tuple[int, str]]:
        records = engine.broker.read("owned", 0, 0)
        values = [] if records is None else map(json.loads, records.values.to_pylist())
        return {(row["id"], row["owner"]) for row in values}

    expected = {(n, ("ann", "bob")[n % 2]) for n in range(rows)}
    eventually(lambda: totals() == rows, lambda: f"{totals()} of {rows}")
    eventually(lambda: owned() == expected, lambda: str(owned() ^ expected))


def test_definitions_change_and_their_jobs_go_on(
    tmp_path: Path, open_engine: Callable[[], Engine]
) -> None:
    path = tmp_path / "hosts.csv"
    path.write_text("h0,ann\nh1,bob\n")
    engine = open_engine()
    engine.broker.create_topic("events")
    engine.submit("events", EVENTS.format(column=""))
    engine.submit("hosts", HOSTS.format(path=path, column=""))
    engine.submit("out", OUT)
    engine.submit("count", COUNT)
    engine.submit("owned", OWNED)
    write(engine, 0, 1, 2)
    await_rows(engine, 3)

    changed = engine.submit("events", EVENTS.format(column=", extra STRING"))
    assert {outcome.name for outcome in changed.dependents} == {"count", "owned"}
    write(engine, 3, 4)
    await_rows(engine, 5)

    path.write_text("h0,ann,x\nh1,bob,y\n")
    changed = engine.submit("hosts", HOSTS.format(path=path, column=", room STRING"))
    assert {outcome.name for outcome in changed.dependents} == {"owned"}
    write(engine, 5, 6)
    await_rows(engine, 7)

    engine.rollback("events", 1)
    engine.close()
    again = open_engine()
    write(again, 7)
    await_rows(again, 8)
    assert {again.job(name).state for name in ("count", "owned")} == {JobState.RUNNING}
