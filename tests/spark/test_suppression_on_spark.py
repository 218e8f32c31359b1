"""Rules that hold alerts back, with a row at the end of each time, in tasks of Spark:
they give what a walk over the rows gives, through kills."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sqlengine.config import Target
from sqlengine.engine import Engine
from sqlengine.machine import THIS
from tests.engine.by_hand import die
from tests.operators.test_alert_periods import expected, watermarks_of
from tests.spark.staged import Staged
from tests.spark.test_engine_on_spark import World, rows
from tests.support import eventually

PERIOD_S, MOST = 10, 2
TABLES = """
CREATE TABLE logins (id BIGINT, host STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'topic', 'topic' = 'logins', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE found (id BIGINT, host STRING, ts TIMESTAMP(3), n BIGINT)
WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json');
"""
HEAD = f"-- @rule\n-- limit: {MOST}/{PERIOD_S}s by host, then count into n\n"
INSERTED = HEAD + "INSERT INTO found (id, host, ts) SELECT id, host, ts FROM logins"
CALLED = f"""INSERT INTO found SELECT * FROM TABLE(SUPPRESSION(TABLE logins PARTITION BY host,
DESCRIPTOR(ts), INTERVAL '{PERIOD_S}' SECOND, {MOST})) WHERE suppressed IS NOT NULL"""
Login = tuple[str, int]
# A host, and a second; the last ones end all times before.
LOGINS: Sequence[Login] = [
    ("ab"[n % 3 == 0], 11 + n - (4 if n % 5 == 0 else 0)) for n in range(40)
] + [("c", 100), ("c", 200)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "data", replace(THIS, spark=lambda config: Staged(2)))


def opened(world: World, target: Target) -> Engine:
    engine = world.open(target)
    engine.broker.create_topic("logins", if_not_exists=True)
    return engine


def write(engine: Engine, first: int, logins: Sequence[Login]) -> None:
    for number, (host, second) in enumerate(logins, first):
        at = f"2024-01-01 00:{second // 60:02}:{second % 60:02}"
        line = json.dumps({"id": number, "host": host, "ts": at}).encode()
        engine.broker.append("logins", 0, [line], timestamp_ms=number)


def wanted() -> Iterator[tuple[int, int]]:
    """The ids of the rows that come, each with its number."""
    millis = [(host, 1000 * second) for host, second in LOGINS]
    marks = watermarks_of(millis, 1000)
    for _, row, held in expected(millis, marks, 1000 * PERIOD_S, MOST):
        if held is not None:
            yield row, held


def came(engine: Engine) -> list[tuple[int, int]]:
    return sorted((r["id"], r["n"]) for r in rows(engine, "alerts"))


@pytest.mark.parametrize("text", [INSERTED, CALLED])
@pytest.mark.parametrize("target", ["spark", "embedded"])
def test_each_time_ends_with_a_row(world: World, text: str, target: Target) -> None:
    engine = opened(world, target)
    engine.submit("tables", TABLES)
    engine.submit("held", text)
    for first in range(0, len(LOGINS), 11):
        write(engine, first, LOGINS[first : first + 11])
        die(engine)
        engine = opened(world, target)
    told = sorted(wanted())
    assert sum(n > 0 for _, n in told) > 3
    eventually(lambda: came(engine) == told, lambda: (came(engine), told))
    engine.close()
