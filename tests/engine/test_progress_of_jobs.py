"""How far jobs are: rows behind, watermarks, idle shards, late rows, and what waits for which
watermark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.engine.views.job_progress import JobProgress
from sqlengine.machine import THIS
from tests.connectors.tables import Clock
from tests.engine.by_hand import append, step

NOW = 1_700_000_000_000  # 2023-11-14T22:13:20Z
TABLES = """
CREATE TABLE events (id BIGINT, ms BIGINT, host STRING, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json'{option});
CREATE TABLE others (id BIGINT, ms BIGINT, host STRING, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'others', 'format' = 'json');
CREATE TABLE locals (id BIGINT, ms BIGINT, host STRING, ts AS TO_TIMESTAMP(FROM_UNIXTIME(ms / 1000)), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
CREATE TABLE slow (id BIGINT, ms BIGINT, host STRING, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
CREATE TABLE versions (id BIGINT, ms BIGINT, host STRING, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts,
PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'topic', 'topic' = 'others', 'format' = 'json');
CREATE TABLE outs (n BIGINT) WITH ('connector' = 'blackhole');
"""
TUMBLE = "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY {by}window_start, window_end"
WINDOWS = "TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
# What waits after rows at 1, 2 and 3 s behind NOW: the number, and the seconds that it waits for.
WAITS = {
    "tumble": (TUMBLE.format(table="events", by=""), "1 window", 10),
    "tumble by key": (TUMBLE.format(table="events", by="host, "), "3 window", 10),
    "session": (
        (
            "SELECT COUNT(*) FROM TABLE(SESSION(TABLE events, DESCRIPTOR(ts), INTERVAL '5' SECOND))"
            " GROUP BY window_start, window_end"
        ),
        "1 window",
        8,
    ),
    "session rows": (
        "SELECT id FROM TABLE(SESSION(TABLE events, DESCRIPTOR(ts), INTERVAL '5' SECOND))",
        "1 window",
        8,
    ),
    "group window": (
        "SELECT COUNT(*) FROM events GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)",
        "1 window",
        10,
    ),
    "early results": (
        (
            "SELECT COUNT(*) FROM events GROUP BY TUMBLE(ts, INTERVAL '10' SECOND) EMIT WITH DELAY '1'"
            " SECOND BEFORE WATERMARK"
        ),
        "1 window",
        10,
    ),
    "window top": (
        (
            "SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER"
            " BY id) AS n FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)))"
            " WHERE n <= 5"
        ),
        "3 window",
        10,
    ),
    "join": (
        (
            "SELECT a.id FROM events AS a LEFT JOIN others AS b ON a.id = b.id AND b.ts BETWEEN a.ts"
            " AND a.ts + INTERVAL '20' SECOND"
        ),
        "3 row",
        21.001,
    ),
    "window join": (
        (
            f"SELECT a.id FROM {WINDOWS.format(table='events')} AS a JOIN {WINDOWS.format(table='others')} AS b ON"
            " a.id = b.id AND a.window_start = b.window_start AND a.window_end = b.window_end"
        ),
        "3 window",
        10,
    ),
    "temporal join": (
        (
            "SELECT s.id FROM events AS s LEFT JOIN versions FOR SYSTEM_TIME AS OF s.ts AS v ON s.id"
            " = v.id"
        ),
        "3 row",
        1,
    ),
    "over": ("SELECT COUNT(*) OVER (PARTITION BY host ORDER BY ts) FROM slow", "3 row", 1),
    "match": (
        (
            "SELECT x FROM slow MATCH_RECOGNIZE (ORDER BY ts MEASURES A.id AS x AFTER MATCH SKIP PAST"
            " LAST ROW PATTERN (A B) DEFINE A AS A.id > 0, B AS B.id > 0)"
        ),
        "3 row",
        1,
    ),
    "sort": ("SELECT id FROM slow ORDER BY ts", "3 row", 1),
    "first rows": (
        (
            "SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY host ORDER BY ts) AS n FROM"
            " slow) WHERE n = 1"
        ),
        "3 row",
        1,
    ),
}


def opened(folder: Path, option: str = "", shards: int = 1) -> Engine:
    config = Config(data=folder, checkpoint_ms=1 << 60)
    engine = Engine(config, replace(THIS, clock=Clock(NOW)))
    for topic, number in {"events": shards, "others": 1}.items():
        engine.broker.create_topic(topic, number)
    engine.submit("tables", TABLES.format(option=option))
    return engine


def progress(engine: Engine, job: str = "job") -> JobProgress:
    return engine.progress.of(engine.job(job))


def given(engine: Engine, query: str, *seconds: int, shard: int = 0) -> JobProgress:
    engine.submit("job", f"INSERT INTO outs {query}")
    append(engine, *(NOW + 1000 * s for s in seconds), shard=shard)
    step(engine)
    return progress(engine)


@pytest.mark.parametrize("name", WAITS)
def test_what_waits_says_for_which_watermark(name: str, tmp_path: Path) -> None:
    query, number, seconds = WAITS[name]
    engine = opened(tmp_path)
    (wait,) = given(engine, query, 1, 2, 3).waits
    assert f"{wait.number} {wait.unit}" == number
    assert wait.until.ms == NOW + round(1000 * seconds)
    engine.close()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM events",
        "SELECT COUNT(*) FROM events GROUP BY host",
        (
            "SELECT a.id FROM events AS a JOIN others AS b ON a.id = b.id AND b.ts BETWEEN a.ts AND"
            " a.ts + INTERVAL '20' SECOND"
        ),
        (
            "SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY host ORDER BY ts DESC) AS n"
            " FROM slow) WHERE n = 1"
        ),
        (
            "SELECT COUNT(*) FROM (SELECT host, PROCTIME() AS p FROM events) GROUP BY TUMBLE(p, INTERVAL"
            " '10' SECOND)"
        ),
        "SELECT COUNT(*) OVER (ORDER BY p) FROM (SELECT PROCTIME() AS p FROM events)",
    ],
)
def test_others_wait_for_nothing(query: str, tmp_path: Path) -> None:
    engine = opened(tmp_path)
    assert given(engine, query, 1, 2, 3).waits == ()
    engine.close()


def test_the_row_that_is_missing_ends_the_wait(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    (wait,) = given(engine, TUMBLE.format(table="events", by=""), 1, 3).waits
    assert wait.summary == "waits for watermark 2023-11-14T22:13:30Z, has 22:13:23"
    assert wait.hint == "a later row in shard 0 of table 'events' moves the watermark on"
    append(engine, NOW + 9999)
    step(engine)
    assert progress(engine).waits == ()
    engine.close()


def test_a_silent_shard_is_named_and_the_option_that_helps(tmp_path: Path) -> None:
    engine = opened(tmp_path, shards=2)
    (wait,) = given(engine, TUMBLE.format(table="events", by=""), 1, 15).waits
    assert wait.summary == "waits for watermark 2023-11-14T22:13:30Z, has none yet"
    assert (wait.table, wait.shard) == ("events", "1")
    assert "has given no row" in wait.hint
    assert "'scan.watermark.idle-timeout' = '1 min'" in wait.hint
    append(engine, NOW + 2000, shard=1)
    step(engine)
    (wait,) = progress(engine).waits
    assert (wait.shard, str(wait.reached)) == ("1", "2023-11-14T22:13:22Z")
    assert "is behind" in wait.hint
    engine.close()


def test_the_slower_of_two_tables_is_named(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    both = "(SELECT * FROM events UNION ALL SELECT * FROM others)"
    query = f"SELECT COUNT(*) FROM {both} GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)"
    (wait,) = given(engine, query, 1, 15).waits
    assert (wait.table, wait.shard, wait.reached) == ("others", "0", None)
    assert "'scan.watermark.idle-timeout'" in wait.hint
    engine.close()


def test_of_tables_that_are_all_idle_the_furthest_is_named(tmp_path: Path) -> None:
    engine = opened(tmp_path, ", 'scan.watermark.idle-timeout' = '5 s'")
    both = "(SELECT * FROM events UNION ALL SELECT * FROM others)"
    query = f"SELECT COUNT(*) FROM {both} GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)"
    engine.submit("idle", f"SET 'table.exec.source.idle-timeout' = '5 s'; INSERT INTO outs {query}")
    append(engine, NOW + 1000)
    step(engine)
    clock = engine._clock
    assert isinstance(clock, Clock)
    for _ in range(2):
        clock.now += 5_000
        step(engine)
    (wait,) = progress(engine, "idle").waits
    assert wait.summary == "waits for watermark 2023-11-14T22:13:30Z, has 22:13:21"
    assert wait.hint == "all of table 'events' is idle: a later row moves its watermark on"
    engine.close()


def test_a_table_says_how_far_it_is(tmp_path: Path) -> None:
    engine = opened(tmp_path, ", 'scan.watermark.idle-timeout' = '5 s'", shards=2)
    engine.submit("job", "INSERT INTO outs " + TUMBLE.format(table="events", by=""))
    append(engine, NOW - 60_000, NOW - 40_000, NOW - 55_000)
    (table,) = progress(engine).tables
    assert (table.table, table.behind, table.watermark) == ("events", 3, None)
    step(engine)
    clock = engine._clock
    assert isinstance(clock, Clock)
    clock.now += 5_000
    step(engine)
    clock.now += 1_000
    append(engine, NOW - 30_000)
    step(engine)
    (table,) = progress(engine).tables
    assert (table.behind, table.unit, table.idle_shards) == (0, "records", ["1"])
    assert (str(table.watermark), table.lag_ms) == ("2023-11-14T22:12:50Z", 36_000)
    assert [(s.shard, s.offset, s.end) for s in table.shards] == [("0", 4, 4), ("1", 0, 0)]
    engine.close()


def test_late_rows_count_by_table_and_job(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.submit("rows", "INSERT INTO outs SELECT id FROM events")
    (table,) = given(engine, TUMBLE.format(table="events", by=""), 1, 15, 2, 3).tables
    assert table.late_rows == 2
    assert progress(engine, "rows").tables[0].late_rows == 0
    engine.close()


def test_a_time_without_a_zone_has_none(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    zone = "SET 'table.local-time-zone' = 'Asia/Tokyo';"
    engine.submit("job", f"{zone} INSERT INTO outs {TUMBLE.format(table='locals', by='')}")
    append(engine, NOW - 7000)
    step(engine)
    shown = progress(engine)
    assert str(shown.tables[0].watermark) == "2023-11-15T07:13:13"
    assert shown.tables[0].lag_ms == 7000
    assert shown.waits[0].summary == "waits for watermark 2023-11-15T07:13:20, has 07:13:13"
    engine.close()


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[Engine]:
    engine = opened(tmp_path)
    given(engine, TUMBLE.format(table="events", by=""), 1)
    engine.stop_job("job")
    yield engine
    engine.close()


def test_a_stopped_job_has_no_progress(stopped: Engine) -> None:
    assert progress(stopped) == JobProgress()
