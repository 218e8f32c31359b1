"""One scripted life, ended at every write that it makes, before the write and after it: whoever
opens the folder again and goes on gets what an undisturbed life gives, row by row and in order."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import Origin
from sqlengine.jobs.planning import JobText
from tests.engine.by_hand import step
from tests.recovery.crash_points import CrashAtWrite, Life, Outputs, check_every_death

EVENTS = """
CREATE TABLE events (id BIGINT, ts TIMESTAMP(3), host STRING, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset')"""
ALERTS = (
    "CREATE TABLE alerts (rule STRING, {}) WITH ('connector' = 'topic', 'topic' = 'alerts',"
    " 'format' = 'json')"
)
TOTALS = """
CREATE TEMPORARY TABLE totals (host STRING, n BIGINT, s TIMESTAMP(3))
WITH ('connector' = 'topic', 'topic' = 'totals', 'format' = 'json');
CREATE TEMPORARY TABLE too_late (id BIGINT, late_watermark TIMESTAMP_LTZ(3))
WITH ('connector' = 'topic', 'topic' = 'too_late', 'format' = 'json');
SET 'job.late-rows.table' = 'too_late';
INSERT INTO totals SELECT host, COUNT(*), window_start
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY host, window_start, window_end"""
LATE = """
CREATE TEMPORARY TABLE late (id BIGINT)
WITH ('connector' = 'filesystem', 'path' = '{folder}/late', 'format' = 'csv');
INSERT INTO late SELECT id FROM events WHERE host <> 'h0'"""
OPERATIONS: tuple[tuple[str, object], ...] = (
    ("submit", {"events": EVENTS, "alerts": ALERTS.format("id BIGINT"), "r1": "INSERT INTO alerts SELECT 'r1', id FROM events WHERE host = 'h1'"}),
    ("feed", 1),
    ("submit", {"w1": TOTALS}),
    ("submit", {"r2": "INSERT INTO alerts SELECT 'r2', id FROM events WHERE id > 4"}),
    ("feed", 2),
    ("checkpoint", None),
    ("submit", {"r2": "INSERT INTO alerts SELECT 'r2b', id FROM events WHERE id > 9"}),
    ("feed", 3),
    ("rename", {"w1": "w2", "r1": "r3"}),
    ("feed", 4),
    ("submit", {"late": LATE}),
    ("feed", 5),
    ("submit", {"alerts": ALERTS.format("id BIGINT, host STRING"),
                "r2": "INSERT INTO alerts SELECT 'r2c', id, host FROM events WHERE id > 20",
                "r3": "INSERT INTO alerts SELECT 'r3c', id, host FROM events WHERE host = 'h1'"}),
    ("feed", 6),
    ("remove", "r2"),
    ("feed", 7),
    ("checkpoint", None),
    ("feed", 8),
)  # fmt: skip
PER_BATCH = 8


def event(number: int) -> bytes:
    second = number - (7 if number % 9 == 5 else 0)
    text = f"2026-01-01 00:{max(second, 0) // 60:02}:{max(second, 0) % 60:02}"
    return json.dumps({"id": number, "ts": text, "host": f"h{number % 3}"}).encode()


def feed(engine: Engine, batch: int) -> None:
    numbers = range((batch - 1) * PER_BATCH, batch * PER_BATCH)
    engine.broker.append(
        "events", 0, [event(n) for n in numbers], timestamp_ms=0, writer="feeder", epoch=batch
    )
    step(engine)


def act(folder: Path, kind: str, what: object, engine: Engine) -> None:
    """One operation. It may be done already: the life before may have died behind it."""
    match kind, what:
        case "submit", dict():
            texts = {n: JobText(n, sql.replace("{folder}", str(folder))) for n, sql in what.items()}
            done = engine.change(Request(Origin.SDK, texts))
            assert not [o.error for o in done.values() if o.error], done
            step(engine)
        case "rename", dict():
            engine.change(Request(Origin.SDK, renames=what))
            for name in [n for n in what if n in engine.log.jobs]:
                engine.remove(name)
        case "remove", str():
            if what in engine.log.jobs:
                engine.remove(what)
        case "feed", int():
            feed(engine, what)
        case "checkpoint", _:
            for graph in engine.graphs.by_name.values():
                graph.runner.checkpoint(wait=True)


def open_engine(folder: Path) -> Engine:
    engine = Engine(Config(data=folder / "data", rows_per_read=3, checkpoint_ms=1 << 60))
    for topic in ("events", "alerts", "totals", "too_late"):
        engine.broker.create_topic(topic, if_not_exists=True)
    return engine


def live(folder: Path, chosen: CrashAtWrite) -> Outputs:
    operations = [partial(act, folder, kind, what) for kind, what in OPERATIONS]
    return Life(lambda: open_engine(folder), operations, partial(outputs, folder)).live(chosen)


def outputs(folder: Path, engine: Engine) -> Outputs:
    found = {}
    for topic in ("alerts", "totals", "too_late"):
        records = engine.broker.read(topic, 0, 0)
        found[topic] = [] if records is None else [v.decode() for v in records.values.to_pylist()]
    found["late"] = [
        line for p in (folder / "late").glob("part-*") for line in p.read_text().splitlines()
    ]
    return found


def test_a_death_at_every_127th_write_changes_nothing(tmp_path: Path) -> None:
    check_every_death(tmp_path, live, lambda writes: range(1, writes + 1, 127))


@pytest.mark.slow
@pytest.mark.parametrize("eighth", range(8))
def test_a_death_at_any_write_changes_nothing(tmp_path: Path, eighth: int) -> None:
    check_every_death(tmp_path, live, lambda writes: range(1 + eighth, writes + 1, 8))
