"""The life of a server whose data folder is kept for good, and what comes after an upgrade.

    python -m tests.state.kept_life ARCHIVE     records a folder with the version at hand

An archive in `kept/` is never recorded again: it is what users of that version have."""

from __future__ import annotations

import json
import os
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path

from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.jobs.job import Origin
from tests.engine.by_hand import EVENTS, die, step

TOPICS = ("out", "counts", "ranks", "pairs", "runs", "patterns")
TABLES = """
CREATE TABLE counts (host STRING, n BIGINT, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'counts', 'format' = 'json', 'upsert' = 'true');
CREATE TABLE ranks (host STRING, id BIGINT, nth BIGINT, PRIMARY KEY (host, nth) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'ranks', 'format' = 'json', 'upsert' = 'true');
CREATE TABLE pairs (a BIGINT, b BIGINT) WITH ('connector' = 'topic', 'topic' = 'pairs', 'format' = 'json');
CREATE TABLE runs (id BIGINT, total BIGINT) WITH ('connector' = 'topic', 'topic' = 'runs', 'format' = 'json');
CREATE TABLE patterns (a BIGINT, b BIGINT) WITH ('connector' = 'topic', 'topic' = 'patterns', 'format' = 'json');
CREATE TABLE lines (id BIGINT, host STRING) WITH ('connector' = 'filesystem', 'path' = 'out/lines', 'format' = 'json');
CREATE VIEW busy AS SELECT host, id, ts FROM events WHERE id > 0;
"""
JOBS = {
    "window": (
        "INSERT INTO outs SELECT 'window', COUNT(*) FROM TABLE(TUMBLE(TABLE busy, DESCRIPTOR(ts),"
        " INTERVAL '1' SECOND)) GROUP BY window_start, window_end"
    ),
    "session": (
        "INSERT INTO outs SELECT 'session', SUM(id) FROM TABLE(SESSION(TABLE events PARTITION BY"
        " host, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY host, window_start, window_end"
    ),
    "counts": "INSERT INTO counts SELECT host, COUNT(*) FROM events GROUP BY host",
    "ranks": (
        "INSERT INTO ranks SELECT host, id, nth FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY"
        " host ORDER BY id DESC) AS nth FROM events) WHERE nth <= 2"
    ),
    "pairs": (
        "INSERT INTO pairs SELECT a.id, b.id FROM events AS a JOIN events AS b ON a.host = b.host"
        " AND a.id < b.id AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '3' SECOND"
    ),
    "runs": (
        "INSERT INTO runs SELECT id, SUM(id) OVER (PARTITION BY host ORDER BY ts ROWS BETWEEN 2"
        " PRECEDING AND CURRENT ROW) FROM events"
    ),
    "patterns": (
        "INSERT INTO patterns SELECT * FROM events MATCH_RECOGNIZE (ORDER BY ts MEASURES A.id AS a,"
        " B.id AS b PATTERN (A B) DEFINE B AS B.id > A.id + 500)"
    ),
    "lines": "INSERT INTO lines SELECT id, host FROM events",
    "saved": (
        "INSERT INTO outs SELECT 'saved', SUM(id) FROM events GROUP BY TUMBLE(ts, INTERVAL '4'"
        " SECOND)"
    ),
    "stopped": "INSERT INTO outs SELECT 'stopped', id FROM events",
}
# Events of the life before the upgrade, in two parts with a checkpoint between them, and after it.
BEFORE = ((100, 200, 1300, 1350, 2100), (2600, 3700))
AFTER = (3900, 4400, 6100, 9000, 12_500)


def opened() -> Engine:
    """Opens the engine over `data` in the working directory. It writes no checkpoint by itself."""
    return Engine(Config(data=Path("data"), checkpoint_ms=1 << 60, plan_cache=False))


def events(engine: Engine, times: Iterable[int]) -> None:
    """Appends an event for each time, in ms, and processes them, one epoch after the other."""
    for time in times:
        line = json.dumps({"id": time, "ms": time, "host": f"h{time % 3}"}).encode()
        engine.broker.append("events", 0, [line], timestamp_ms=0)
        step(engine)


def before(*, killed: bool) -> Engine | None:
    """Lives until the upgrade. Where the server is killed, epochs are behind its last checkpoint;
    otherwise it runs on, as a server that was never upgraded."""
    engine = opened()
    for topic in ("events", *TOPICS):
        engine.broker.create_topic(topic, compacted=topic in ("counts", "ranks"))
    engine.submit("tables", EVENTS + TABLES, Origin.FOLDER)
    for name, sql in JOBS.items():
        engine.submit(name, "INSERT INTO outs SELECT 'old', 1 FROM events WHERE FALSE")
        engine.submit(name, sql, Origin.CLI)
    first, second = BEFORE
    events(engine, first)
    engine.broker.append("events", 0, [b"{"], timestamp_ms=0)
    step(engine)
    engine.broker.commit("readers", "out", {0: 1})
    engine.stop_job("stopped")
    engine.save_job("saved", "data/savepoints")
    engine.graph.runner.checkpoint(wait=True)
    events(engine, second)
    if not killed:
        return engine
    die(engine)
    return None


def results(engine: Engine) -> dict[str, list[tuple[bytes | None, bytes | None]]]:
    """The records of all topics that jobs write to, with their keys."""
    found = {}
    for topic in TOPICS:
        records = engine.broker.read(topic, 0, 0, max_records=10_000)
        assert records is not None, topic
        keys = records.keys.to_pylist() if records.keys is not None else [None] * records.num_rows
        found[topic] = list(zip(keys, records.values.to_pylist(), strict=True))
    return found


def record(archive: Path) -> None:
    """Records the folder of a killed server."""
    archive = archive.absolute()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        before(killed=True)
        with tarfile.open(archive, "x:gz") as tar:
            for path in sorted(
                p for p in Path().rglob("*") if p.is_file() and p.name not in ("lock", "LOG")
            ):
                tar.add(path)


if __name__ == "__main__":
    record(Path(sys.argv[1]))
