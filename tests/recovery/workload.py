"""One engine life under load, made to be killed: feeds numbered events, runs rules and a window, says how far it is.

The feeder writes batches as a writer with epochs of its own, so that every life goes on where the last one died."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.jobs import Origin

EVENTS_PER_BATCH = 40
TABLES = """
CREATE TABLE events (id BIGINT, ts TIMESTAMP(3), host STRING, command STRING, amount INT,
  WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE alerts (rule STRING, id BIGINT)
WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json');
CREATE TABLE totals (host STRING, n BIGINT, total INT, least INT, most INT, mean INT, window_end TIMESTAMP(3))
WITH ('connector' = 'topic', 'topic' = 'totals', 'format' = 'json');
CREATE TABLE lines (id BIGINT, command STRING)
WITH ('connector' = 'filesystem', 'path' = '{folder}/lines', 'format' = 'csv');
CREATE TABLE lake (id BIGINT, command STRING, host STRING) PARTITIONED BY (host)
WITH ('connector' = 'filesystem', 'path' = '{folder}/lake', 'format' = 'parquet', 'sink.rolling-policy.file-size' = '4 kb');
CREATE TABLE all_alerts (rule STRING, id BIGINT)
WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE counts (rule STRING, n BIGINT, latest BIGINT, PRIMARY KEY (rule) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'counts', 'format' = 'json', 'upsert' = 'true');
CREATE TABLE hosts (host STRING, n BIGINT, total INT, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{folder}/app.db', 'table-name' = 'hosts');
CREATE TABLE seen (id BIGINT, command STRING)
WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{folder}/app.db', 'table-name' = 'seen');
"""
DATABASE = """
CREATE TABLE IF NOT EXISTS hosts (host TEXT PRIMARY KEY, n BIGINT, total INT);
CREATE TABLE IF NOT EXISTS seen (id BIGINT, command TEXT);
"""
RULES = {
    "curl": "LOWER(command) LIKE '%curl%'",
    "shadow": "command LIKE '%/etc/shadow%' AND amount > 10",
    "pattern": r"REGEXP(command, 'ba(sh|se64) -[a-z]')",
    "hosts": "host IN ('h1', 'h3') AND amount BETWEEN 5 AND 9",
    "null": "host IS NULL",
}
WINDOW = """
INSERT INTO totals SELECT host, COUNT(*), SUM(amount), MIN(amount), MAX(amount), AVG(amount), window_end
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND))
GROUP BY host, window_start, window_end
"""
FILES = "INSERT INTO lines SELECT id, command FROM events WHERE amount = 7"
LAKE = "INSERT INTO lake SELECT id, command, host FROM events WHERE amount < 3"
CHAINED = "INSERT INTO counts SELECT rule, COUNT(*), MAX(id) FROM all_alerts GROUP BY rule"
HOSTS = "INSERT INTO hosts SELECT host, COUNT(*), SUM(amount) FROM events WHERE host IS NOT NULL GROUP BY host"
SEEN = "INSERT INTO seen SELECT id, command FROM events WHERE amount IN (3, 11)"
COMMANDS = ("ls -l", "curl http://x", "cat /etc/shadow", "bash -c id", "base64 -d x", "CURL -k", "vi notes")


def event(number: int) -> dict[str, object]:
    """The numbered event: times move on by 250 ms and jump back now and then, some far enough to be late."""
    back = 0 if number % 17 else 3_000 if number % 34 else 15_000
    at = 1_700_000_000_000 + number * 250 - back
    seconds, ms = divmod(at, 1000)
    host = None if number % 23 == 0 else f"h{number * 7 % 5}"
    text = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds)) + f".{ms:03}"
    command = COMMANDS[number * number % len(COMMANDS)]
    return {"id": number, "ts": text, "host": host, "command": command, "amount": number * 13 % 20}


def feed(engine: Engine, batches: int, pause_s: float) -> None:
    """Appends what is missing of the batches."""
    done = engine.broker.last_epoch("events", 0, "feeder")
    for batch in range(0 if done is None else done, batches):
        start = batch * EVENTS_PER_BATCH
        lines = [json.dumps(event(n)).encode() for n in range(start, start + EVENTS_PER_BATCH)]
        engine.broker.append("events", 0, lines, timestamp_ms=0, writer="feeder", epoch=batch + 1)
        time.sleep(pause_s)


def submit(engine: Engine, folder: Path) -> None:
    """All jobs; those that run already are left alone."""
    for name in ("events", "alerts", "totals"):
        engine.broker.create_topic(name, if_not_exists=True)
    with closing(sqlite3.connect(folder / "app.db")) as database:
        database.executescript(DATABASE)
    engine.submit("tables", TABLES.replace("{folder}", str(folder)), Origin.SDK)
    for name, where in RULES.items():
        engine.submit(name, f"INSERT INTO alerts SELECT '{name}', id FROM events WHERE {where}")
    engine.submit("window", WINDOW)
    for name, text in {"files": FILES, "lake": LAKE, "chained": CHAINED, "by_host": HOSTS, "seen": SEEN}.items():
        engine.submit(name, text)


def live(folder: Path, batches: int, pause_s: float, say: int) -> None:
    """One life: ends by itself once all batches are processed; writes a byte to `say` when it runs, and one at the end."""
    config = Config(data=folder / "data", rows_per_read=64, checkpoint_ms=50, checkpoint_rows=500)
    engine = Engine(config)
    submit(engine, folder)
    engine.start()
    os.write(say, b"r")
    feeder = threading.Thread(target=feed, args=(engine, batches, pause_s), daemon=True)
    feeder.start()
    feeder.join()
    wait_until_read(engine, batches * EVENTS_PER_BATCH)
    engine.close()
    os.write(say, b"e")


def wait_until_read(engine: Engine, records: int) -> None:
    """Until the graph has read so many events, and all alerts that came of them."""

    def done() -> bool:
        running = engine.graph.runner.inputs.running.values()
        read = {s.scan.table.options["topic"]: s.positions["0"] for s in running}
        return read["events"] >= records and read["alerts"] >= engine.broker.end_offset("alerts", 0)

    while not engine.graph.loop.call(done):
        if engine.graph.loop.problem is not None:
            raise RuntimeError(engine.graph.loop.problem)
        time.sleep(0.01)


if __name__ == "__main__":
    live(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), 1)
