"""Jobs of all kinds over two topics, and what comes of them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Literal

from sqlengine.config import Config
from sqlengine.engine import Engine

TABLES = """
CREATE TABLE events (id BIGINT, ts TIMESTAMP(3), host STRING, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE others (id BIGINT, ts TIMESTAMP(3), name STRING, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'topic', 'topic' = 'others', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE alerts (job STRING, id BIGINT)
WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json');
CREATE TABLE totals (host STRING, n BIGINT, s TIMESTAMP(3))
WITH ('connector' = 'topic', 'topic' = 'totals', 'format' = 'json');
CREATE TABLE counts (host STRING, n BIGINT, latest BIGINT, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'counts', 'format' = 'json', 'upsert' = 'true');
CREATE TABLE joined (id BIGINT, host STRING, name STRING)
WITH ('connector' = 'topic', 'topic' = 'joined', 'format' = 'json');
CREATE TABLE lines (id BIGINT, host STRING)
WITH ('connector' = 'filesystem', 'path' = '{folder}/lines', 'format' = 'csv');
CREATE TABLE hosts (host STRING, n BIGINT, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{folder}/app.db', 'table-name' = 'hosts');
CREATE TABLE seen (id BIGINT)
WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{folder}/app.db', 'table-name' = 'seen');
"""
JOBS = {
    "rule": "INSERT INTO alerts SELECT 'rule', id FROM events WHERE host = 'h1'",
    "window": (
        "INSERT INTO totals SELECT host, COUNT(*), window_start FROM TABLE(TUMBLE(TABLE events,"
        " DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY host, window_start, window_end"
    ),
    "counts": "INSERT INTO counts SELECT host, COUNT(*), MAX(id) FROM events GROUP BY host",
    "join": (
        "INSERT INTO joined SELECT e.id, e.host, o.name FROM events e JOIN others o ON e.id = o.id"
    ),
    "both": (
        "INSERT INTO alerts SELECT 'both', id FROM (SELECT id FROM events WHERE id > 3 "
        "UNION ALL SELECT id FROM others WHERE name = 'n1')"
    ),
    "files": "INSERT INTO lines SELECT id, host FROM events WHERE host <> 'h0'",
    "database": (
        "EXECUTE STATEMENT SET BEGIN "
        "INSERT INTO hosts SELECT host, COUNT(*) FROM events GROUP BY host; "
        "INSERT INTO seen SELECT id FROM events WHERE id % 2 = 0; END"
    ),
}
TOPICS = ("alerts", "totals", "counts", "joined")
PER_BATCH = 8


def open_engine(folder: Path, checkpoints: Literal["rocksdb", "topic"] = "rocksdb") -> Engine:
    """Stepped by hand; checkpoints only when told to. Each topic of events has two shards."""
    with closing(sqlite3.connect(folder / "app.db")) as database:
        database.executescript(
            "CREATE TABLE IF NOT EXISTS hosts (host TEXT PRIMARY KEY, n BIGINT);"
            "CREATE TABLE IF NOT EXISTS seen (id BIGINT);"
        )
    engine = Engine(
        Config(
            data=folder / "data",
            rows_per_read=3,
            checkpoint_ms=1 << 60,
            checkpoints=checkpoints,
            plan_cache=False,
        )
    )
    for topic in ("events", "others"):
        engine.broker.create_topic(topic, 2, if_not_exists=True)
    for topic in TOPICS:
        engine.broker.create_topic(topic, compacted=topic == "counts", if_not_exists=True)
    return engine


def submit_tables(engine: Engine, folder: Path) -> None:
    engine.submit("tables", TABLES.replace("{folder}", str(folder)))


def record(number: int) -> dict[str, object]:
    """The numbered record: times go on by 600 ms and jump back now and then, some too far."""
    ms = max(0, number * 600 - (7_000 if number % 11 == 7 else 1_300 if number % 5 == 3 else 0))
    text = f"2026-01-01 00:{ms // 60_000:02}:{ms // 1000 % 60:02}.{ms % 1000:03}"
    return {"id": number, "ts": text, "host": f"h{number % 3}", "name": f"n{number % 4}"}


def feed(engine: Engine, batch: int) -> None:
    """The batch of each shard of both topics, once."""
    for shift, topic in enumerate(("events", "others")):
        for shard in range(2):
            numbers = range((batch - 1) * PER_BATCH + shard, batch * PER_BATCH + shard, 2)
            lines = [json.dumps(record(n + shift)).encode() for n in numbers]
            engine.broker.append(topic, shard, lines, timestamp_ms=0, writer="feeder", epoch=batch)


def step(engine: Engine) -> None:
    """Until no graph has anything to do."""
    for graph in list(engine.graphs.by_name.values()):
        while graph.runner.step():
            pass


def outputs(engine: Engine, folder: Path) -> dict[str, list[str]]:
    """What came out: of upserts what they leave, all else as it is, sorted where jobs or shards
    share a place."""
    found: dict[str, list[str]] = {}
    for topic in TOPICS:
        records = engine.broker.read(topic, 0, 0)
        found[topic] = [] if records is None else [v.decode() for v in records.values.to_pylist()]
    found["counts"] = sorted({json.loads(v)["host"]: v for v in found["counts"]}.values())
    for topic in ("alerts", "totals", "joined"):
        found[topic] = sorted(found[topic])
    files = sorted((folder / "lines").glob("part-*"))
    found["lines"] = sorted(line for p in files for line in p.read_text().splitlines())
    with closing(sqlite3.connect(folder / "app.db")) as database:
        found["hosts"] = [str(r) for r in database.execute("SELECT * FROM hosts ORDER BY host")]
        found["seen"] = sorted(str(r) for r in database.execute("SELECT * FROM seen"))
    return found
