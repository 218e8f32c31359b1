"""Whatever a result may depend on besides rows is in the record of its epoch, or beside it: after a
crash, at another time and with files changed, every epoch is repeated with equal rows in equal
batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.machine import THIS
from tests.connectors.tables import Clock
from tests.engine.by_hand import append, die, step

TABLES = """
CREATE TABLE events (id BIGINT, ms BIGINT, host STRING, pt AS PROCTIME(), ts AS TO_TIMESTAMP_LTZ(ms, 3),
  WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json', 'scan.watermark.idle-timeout' = '3 s');
CREATE TABLE names (host STRING, name STRING)
WITH ('connector' = 'filesystem', 'path' = 'names.json', 'format' = 'json',
  'lookup.full-cache.periodic-reload.interval' = '1 s');
"""
QUERIES = {
    "clocks": (
        "SELECT id, PROCTIME(), CURRENT_TIMESTAMP, NOW(), LOCALTIME, CURRENT_DATE FROM events"
    ),
    "chance": "SELECT id, RAND(), RAND_INTEGER(1000), UUID() FROM events WHERE RAND() < 0.9",
    "windows of processing time": (
        """SELECT host, COUNT(*), window_end
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(pt), INTERVAL '2' SECOND)) GROUP BY host, window_start, window_end"""
    ),
    "windows that wait for idle shards": (
        """SELECT COUNT(*), window_end
        FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY window_start, window_end"""
    ),
    "time to live": (
        "SET 'table.exec.state.ttl' = '2 s'; SELECT host, COUNT(*) FROM events GROUP BY host"
    ),
    "early results": (
        """SET 'table.exec.emit.early-fire.enabled' = 'true'; SET 'table.exec.emit.early-fire.delay' = '1 s';
        SELECT host, COUNT(*), MAX(id) FROM events GROUP BY host, TUMBLE(ts, INTERVAL '1' MINUTE)"""
    ),
    "look-ups in a file": (
        """SELECT e.id, n.name FROM events AS e LEFT JOIN names FOR SYSTEM_TIME AS OF e.pt AS n
        ON e.host = n.host"""
    ),
    "a random order": (
        "SELECT id, n FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY host ORDER BY pt DESC) AS n"
        " FROM events) WHERE n <= 2"
    ),
}


def opened(clock: Clock, taken: list[str]) -> Engine:
    """An engine that tells of each batch that a sink is given."""

    def taker(name: str) -> Callable[[pa.RecordBatch], object]:
        return lambda rows: taken.append(f"{name}: {rows.to_pylist()}")

    config = Config(data=Path("data"), checkpoint_ms=1 << 60, plan_cache=False)
    callables = {name: taker(name) for name in QUERIES}
    return Engine(config, replace(THIS, clock=clock), callables=callables)


def job(name: str, query: str) -> str:
    at = query.index("SELECT")
    return f"""{query[:at]}CREATE TABLE `{name}`
        WITH ('connector' = 'python', 'callable' = '{name}') AS {query[at:]}"""


def test_epochs_are_repeated_to_the_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("names.json").write_text(
        '{"host": "h0", "name": "first"}\n{"host": "h1", "name": "other"}\n'
    )
    clock, taken = Clock(1_700_000_000_000), list[str]()
    engine = opened(clock, taken)
    engine.broker.create_topic("events", 2)
    engine.submit("tables", TABLES)
    for name, query in QUERIES.items():
        engine.submit(name.replace(" ", "-"), job(name, query))
    for second in range(8):
        append(engine, 700 * second, 700 * second + 1, 700 * second + 2)
        if second in (0, 6):  # silent for long in between
            append(engine, 700 * second + 3, shard=1)
        if second == 3:
            Path("names.json").write_text('{"host": "h0", "name": "second"}\n')
        step(engine)
        clock.now += 1000
        step(engine)
    told = {line.partition(":")[0] for line in taken}
    before = list(taken)
    die(engine)
    taken.clear()
    clock.now += 123_456
    Path("names.json").write_text('{"host": "h0", "name": "third"}\n')
    engine = opened(clock, taken)
    assert told == QUERIES.keys()
    assert taken == before
    engine.close()
