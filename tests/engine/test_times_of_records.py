"""A server reads times of records in either standard; a table may ask for one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.by_hand import open_engine, rows, step

TABLES = """CREATE TABLE events (ts TIMESTAMP(3))
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json'{});
CREATE TABLE outs (ts TIMESTAMP(3)) WITH ('connector' = 'topic', 'topic' = 'out', 'format' = 'json');
INSERT INTO outs SELECT ts FROM events"""
SQL, ISO = "2024-05-01 12:00:00", "2024-05-01T13:00:00Z"


@pytest.mark.parametrize(
    ("option", "read"),
    [
        ("", [SQL, "2024-05-01 13:00:00"]),
        (", 'json.timestamp-format.standard' = 'SQL'", [SQL]),
    ],
)
def test_times_with_a_t_and_a_zone(tmp_path: Path, option: str, read: list[str]) -> None:
    engine = open_engine(tmp_path)
    engine.submit("job", TABLES.format(option))
    lines = [json.dumps({"ts": text}).encode() for text in (SQL, ISO)]
    engine.broker.append("events", 0, lines, timestamp_ms=0)
    step(engine)
    assert rows(engine) == [[text] for text in read]
    engine.close()
