"""Rows far in the future: they are dead letters, and windows go on as if they had not come; after a
crash the same ones are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from parser.errors import PlanError
from planner.settings import MAX_FUTURE
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.engine.dead_letters import DeadLetterFilter
from sqlengine.machine import THIS
from tests.connectors.tables import Clock
from tests.engine.by_hand import append, die, rows, step

NOW = 1_700_000_000_000
HOUR, DAY = 3_600_000, 86_400_000
OUTS = "CREATE TABLE outs (s STRING, n BIGINT) WITH ('connector' = 'topic', 'topic' = 'out', 'format' = 'json');"
LTZ = "ts AS TO_TIMESTAMP_LTZ(ms, 3)"
LOCAL = "ts AS TO_TIMESTAMP(FROM_UNIXTIME(ms / 1000))"
BOUND = ", 'scan.watermark.max-future' = '1 h'"
COUNTS = """INSERT INTO outs SELECT CAST(window_start AS STRING), COUNT(*)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end"""
COPIES = "INSERT INTO outs SELECT 'row', id FROM events"


def tables(time: str = LTZ, bound: str = BOUND) -> str:
    return f"""CREATE TABLE events (id BIGINT, ms BIGINT, {time}, WATERMARK FOR ts AS ts)
        WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json'{bound}); {OUTS}"""


def opened(folder: Path, clock: Clock, **settings: str) -> Engine:
    config = Config(data=folder, checkpoint_ms=1 << 60, settings=settings)
    engine = Engine(config, replace(THIS, clock=clock))
    for topic in ("events", "out"):
        engine.broker.create_topic(topic, if_not_exists=True)
    return engine


def counts(engine: Engine) -> list[object]:
    return [n for _, n in rows(engine)]


def reasons(engine: Engine) -> list[str]:
    return [letter.reason for letter in engine.dead_letters.read(DeadLetterFilter())]


@pytest.mark.parametrize("bound", ["of the table", "of the server", "of the job"])
def test_windows_go_on_as_if_it_had_not_come(bound: str, tmp_path: Path) -> None:
    server = {MAX_FUTURE: "1 h"} if bound == "of the server" else {}
    own = f"SET '{MAX_FUTURE}' = '1 h';" if bound == "of the job" else ""
    engine = opened(tmp_path, Clock(NOW), **server)
    engine.submit("tables", tables(bound=BOUND if bound == "of the table" else ""))
    engine.submit("windows", own + COUNTS)
    append(engine, NOW, NOW + 2000 * DAY, NOW + HOUR, NOW + 1)
    step(engine)
    assert counts(engine) == [1], "the row at the bound is over the first window, and the last late"
    (reason,) = reasons(engine)
    assert reason == (
        "row time ts = 2029-05-06T22:13:20Z is more than 1 h ahead of the processing time"
        " 2023-11-14T22:13:20Z: see 'scan.watermark.max-future' and 'table.exec.source.max-future'"
    )
    engine.close()


def test_off_by_default(tmp_path: Path) -> None:
    engine = opened(tmp_path, Clock(NOW))
    engine.submit("tables", tables(bound=""))
    engine.submit("windows", COUNTS)
    append(engine, NOW, NOW + 2000 * DAY, NOW + 1)
    step(engine)
    assert (counts(engine), reasons(engine)) == ([1], [])
    engine.close()


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "UTC", "America/New_York"])
def test_a_time_without_a_zone_is_one_of_the_jobs(zone: str, tmp_path: Path) -> None:
    """What a clock on the wall says now is not the future, wherever it hangs."""
    engine = opened(tmp_path, Clock(NOW))
    engine.submit("tables", tables(LOCAL))
    engine.submit("copy", f"SET 'table.local-time-zone' = '{zone}'; {COPIES}")
    append(engine, NOW + HOUR - 1000, NOW + HOUR + 1000)
    step(engine)
    assert counts(engine) == [NOW + HOUR - 1000]
    assert len(reasons(engine)) == 1
    engine.close()


def test_the_same_rows_after_a_crash_and_once_more_when_they_are_replayed(tmp_path: Path) -> None:
    clock = Clock(NOW)
    engine = opened(tmp_path, clock)
    engine.submit("tables", tables())
    engine.submit("copy", COPIES)
    append(engine, NOW, NOW + 2 * HOUR, NOW + 1)
    step(engine)
    before = counts(engine)
    assert before == [NOW, NOW + 1]
    die(engine)
    clock.now += 3 * HOUR  # the row is in the past now
    engine = opened(tmp_path, clock)
    step(engine)
    assert (counts(engine), len(reasons(engine))) == (before, 1)
    assert len(engine.replay("copy").letters) == 1
    assert counts(engine) == [*before, NOW + 2 * HOUR]
    engine.close()


def test_no_duration(tmp_path: Path) -> None:
    engine = opened(tmp_path, Clock(NOW))
    with pytest.raises(PlanError, match="max-future"):
        engine.submit("tables", tables(bound=", 'scan.watermark.max-future' = 'soon'") + COPIES)
    engine.close()
