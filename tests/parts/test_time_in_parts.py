"""Time that does not come with rows: silent shards, and the clock."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

from tests.parts.group import Group, broker_in, planned, values_of

EVENTS = """
    CREATE TEMPORARY TABLE events (k STRING, v INT, {time}) WITH ('connector' = 'topic', 'topic' = 'events',
      'format' = 'json', 'scan.startup.mode' = 'earliest-offset', 'scan.watermark.idle-timeout' = '5 s');
    CREATE TEMPORARY TABLE o (k STRING, n BIGINT) WITH ('connector' = 'topic', 'topic' = 'o', 'format' = 'json');
    INSERT INTO o SELECT k, COUNT(*) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '10' SECOND))
    GROUP BY window_start, window_end, k;
"""


def test_a_part_that_hears_nothing_holds_nobody_back(tmp_path: Path) -> None:
    with broker_in(tmp_path) as broker:
        broker.create_topic("events", 3)
        rows = [json.dumps({"k": f"k{i % 4}", "v": i, "ts": f"2024-01-01 00:00:{i:02}"}).encode() for i in range(40)]
        broker.append("events", 1, rows, timestamp_ms=0)
        group = Group(broker, rows_per_read=2)  # the last rows come when the silence of the others is known
        group.start()
        group.submit(planned("a", EVENTS.format(time="ts TIMESTAMP(3), WATERMARK FOR ts AS ts")))
        group.run(Random(1), unrest=0.05)
        found = Counter(json.loads(v)["k"] for v in values_of(broker, "o"))
        assert found == {f"k{i}": 3 for i in range(4)}, "of the fourth window nobody knows that it is over"
        group.close()


def test_windows_of_the_clock(tmp_path: Path) -> None:
    with broker_in(tmp_path) as broker:
        broker.create_topic("events", 3)
        group = Group(broker, rows_per_read=3)
        group.start()
        group.submit(planned("a", EVENTS.format(time="ts AS PROCTIME()")))
        for i in range(60):
            broker.append("events", i % 3, [json.dumps({"k": f"k{i % 4}", "v": i}).encode()], timestamp_ms=0)
        group.run(Random(2), unrest=0.1)
        for _ in range(20):
            for index in range(3):
                group.step(index)
        found: Counter[str] = Counter()
        for row in map(json.loads, values_of(broker, "o")):
            found[row["k"]] += row["n"]
        assert found == {f"k{i}": 15 for i in range(4)}
        group.close()
