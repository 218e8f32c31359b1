"""However its subtasks are stepped, killed and moved, a distributed graph leaves what one that is not
divided leaves."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from sqlengine.broker.embedded import EmbeddedBroker
from tests.subtasks.group import Group, broker_in, planned, run_locally, values_of

PARALLELISM, SHARDS = 3, 4
OUT = ("windows", "pairs", "counts", "big", "sessions")
JOBS = """
    CREATE TEMPORARY TABLE events (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
    WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
    CREATE TEMPORARY TABLE windows (s TIMESTAMP(3), k STRING, n BIGINT, v BIGINT) WITH ({to}, 'topic' = 'windows');
    CREATE TEMPORARY TABLE sessions (s TIMESTAMP(3), k STRING, n BIGINT) WITH ({to}, 'topic' = 'sessions');
    CREATE TEMPORARY TABLE pairs (k STRING, a INT, b INT) WITH ({to}, 'topic' = 'pairs');
    CREATE TEMPORARY TABLE big (k STRING, v INT) WITH ({to}, 'topic' = 'big');
    CREATE TEMPORARY TABLE counts (n BIGINT, k BIGINT, PRIMARY KEY (n) NOT ENFORCED)
    WITH ({to}, 'topic' = 'counts', 'upsert' = 'true');
    INSERT INTO windows SELECT window_start, k, COUNT(*), SUM(v)
    FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end, k;
    INSERT INTO sessions SELECT window_start, k, COUNT(*)
    FROM TABLE(SESSION(TABLE events PARTITION BY k, DESCRIPTOR(ts), INTERVAL '3' SECOND))
    GROUP BY window_start, window_end, k;
    INSERT INTO pairs SELECT a.k, a.v, b.v FROM events a JOIN events b ON a.k = b.k AND a.v = b.v - 7;
    INSERT INTO counts SELECT n, COUNT(*) FROM (SELECT k, COUNT(*) AS n FROM events GROUP BY k) GROUP BY n;
    INSERT INTO big SELECT k, v FROM events WHERE v > 50;
""".format(to="'connector' = 'topic', 'format' = 'json'")
JOB = planned("all", JOBS)


def events(broker: EmbeddedBroker, numbers: range = range(72)) -> None:
    broker.create_topic("events", SHARDS, if_not_exists=True)
    for i in numbers:
        row = {"k": f"k{i % 5}", "v": i, "ts": f"2024-01-01 00:00:{i * 59 // 71:02}"}
        broker.append("events", i % SHARDS, [json.dumps(row).encode()], timestamp_ms=0)


def left(broker: EmbeddedBroker) -> dict[str, object]:
    found: dict[str, object] = {t: Counter(values_of(broker, t)) for t in OUT if t != "counts"}
    return {**found, "counts": broker.read_latest("counts")}


def _alone() -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder, broker_in(Path(folder)) as broker:
        events(broker)
        run_locally(Group(broker), JOB).close()
        return left(broker)


EXPECTED = _alone()
ACTIONS = ("step", "step", "step", "kill", "in step", "move", "checkpoint")
SCHEDULES = st.lists(
    st.tuples(st.integers(0, PARALLELISM - 1), st.sampled_from(ACTIONS)), max_size=25
)


@settings(max_examples=2, deadline=None)
@given(schedule=SCHEDULES, seed=st.integers(0, 1 << 16), rows=st.sampled_from((1, 3, 100)))
def test_any_schedule_leaves_the_same(
    schedule: list[tuple[int, str]], seed: int, rows: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, broker_in(Path(folder)) as broker:
        events(broker)
        group, chance = Group(broker, parallelism=PARALLELISM, rows_per_read=rows), Random(seed)
        group.start()
        group.submit(JOB)
        for subtask, action in schedule:
            group.act(subtask, action, chance)
        group.run(chance)
        group.close()
        assert left(broker) == EXPECTED
