"""Time that does not come with rows: silent shards, and the clock."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.subtasks.group import Group, broker_in, planned, values_of

EVENTS = """
    CREATE TEMPORARY TABLE events (k STRING, v INT, {time}) WITH ('connector' = 'topic', 'topic' = 'events',
      'format' = 'json', 'scan.startup.mode' = 'earliest-offset', 'scan.watermark.idle-timeout' = '5 s');
    CREATE TEMPORARY TABLE o (k STRING, n BIGINT) WITH ('connector' = 'topic', 'topic' = 'o', 'format' = 'json');
    INSERT INTO o SELECT k, COUNT(*) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND))
    GROUP BY window_start, window_end, k;
"""

TOLD = """
    CREATE TEMPORARY TABLE events (v INT, ts AS PROCTIME()) WITH ('connector' = 'topic', 'topic' = 'events',
      'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
    CREATE TEMPORARY TABLE o (s TIMESTAMP(3), e TIMESTAMP(3), n BIGINT, PRIMARY KEY (s, e) NOT ENFORCED)
    WITH ('connector' = 'topic', 'topic' = 'o', 'format' = 'json', 'upsert' = 'true');
    INSERT INTO o {query};
"""


def test_a_part_that_hears_nothing_holds_nobody_back(tmp_path: Path) -> None:
    with broker_in(tmp_path) as broker:
        broker.create_topic("events", 3)
        rows = [
            json.dumps({"k": f"k{i % 4}", "v": i, "ts": f"2024-01-01 00:00:{i:02}"}).encode()
            for i in range(40)
        ]
        broker.append("events", 1, rows, timestamp_ms=0)
        group = Group(
            broker, rows_per_read=2
        )  # the last rows come when the silence of the others is known
        group.start()
        group.submit(planned("a", EVENTS.format(time="ts TIMESTAMP(3), WATERMARK FOR ts AS ts")))
        group.run(Random(1), disturbance=0.05)
        found = Counter(json.loads(v)["k"] for v in values_of(broker, "o"))
        assert found == {f"k{i}": 3 for i in range(4)}, (
            "of the fourth window nobody knows that it is over"
        )
        group.close()


def test_windows_of_the_clock(tmp_path: Path) -> None:
    with broker_in(tmp_path) as broker:
        broker.create_topic("events", 3)
        group = Group(broker, rows_per_read=3)
        group.start()
        group.submit(planned("a", EVENTS.format(time="ts AS PROCTIME()")))
        for i in range(60):
            broker.append(
                "events", i % 3, [json.dumps({"k": f"k{i % 4}", "v": i}).encode()], timestamp_ms=0
            )
        group.run(Random(2), disturbance=0.1)
        for _ in range(20):
            for index in range(3):
                group.step(index)
        found: Counter[str] = Counter()
        for row in map(json.loads, values_of(broker, "o")):
            found[row["k"]] += row["n"]
        assert found == {f"k{i}": 15 for i in range(4)}
        group.close()


TABLED = (
    "SELECT window_start, window_end, COUNT(*) FROM TABLE({}) GROUP BY window_start, window_end"
)
GROUPED = """SELECT TUMBLE_START(ts, INTERVAL '10' SECOND), TUMBLE_END(ts, INTERVAL '10' SECOND), COUNT(*)
    FROM events GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)"""
EARLY = {"table.exec.emit.early-fire.enabled": "true", "table.exec.emit.early-fire.delay": "60 s"}


@pytest.mark.parametrize(
    ("query", "settings", "of_each"),
    [
        (TABLED.format("TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND)"), {}, 1),
        (
            TABLED.format(
                "HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '20' SECOND)"
            ),
            {},
            2,
        ),
        (
            TABLED.format(
                "CUMULATE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '20' SECOND)"
            ),
            {},
            2,
        ),
        (GROUPED, EARLY, 1),
    ],
    ids=["tumble", "hop", "cumulate", "early"],
)
def test_a_window_of_the_clock_is_told_once(
    tmp_path: Path, query: str, settings: dict[str, str], of_each: int
) -> None:
    with broker_in(tmp_path) as broker:
        broker.create_topic("events", 2)
        group = Group(broker, parallelism=2, tick_ms=0)
        group.start()
        group.submit(planned("a", TOLD.format(query=query), settings))
        for shard in range(2):
            broker.append("events", shard, [json.dumps({"v": shard}).encode()], timestamp_ms=0)
        group.step(0)
        for index, after_ms in (
            (0, 25_000),
            (1, -25_000),
            (0, 25_000),
        ):  # subtask 1 hears late what time it is
            group.now += after_ms
            group.step(index)
        for _ in range(20):
            group.now += 5_000
            group.step(0)
            group.step(1)
        logged = [json.loads(value) for value in values_of(broker, "o")]
        windows = [(row["s"], row["e"]) for row in logged]
        assert len(windows) == len(set(windows)), logged
        assert sum(row["n"] for row in logged) == 2 * of_each, logged
        group.close()
