"""A subtask whose target does not keep up reads no more until it has caught up; nothing is lost, and
nobody waits for ever."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from sqlengine.broker.base import Broker
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.cluster.counters import subtask_report
from sqlengine.connectors import shuffle
from tests.subtasks.group import Group, broker_in, planned, run_locally, values_of

PARALLELISM, SHARDS, ROWS = 3, 3, 150
# Rows are shuffled twice: by their own key, and by how often it came.
JOB = planned(
    "all",
    """
    CREATE TEMPORARY TABLE events (k STRING, v INT) WITH ('connector' = 'topic', 'topic' = 'events',
    'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
    CREATE TEMPORARY TABLE pairs (k STRING, a INT, b INT)
    WITH ('connector' = 'topic', 'format' = 'json', 'topic' = 'pairs');
    CREATE TEMPORARY TABLE counts (n BIGINT, k BIGINT, PRIMARY KEY (n) NOT ENFORCED)
    WITH ('connector' = 'topic', 'format' = 'json', 'topic' = 'counts', 'upsert' = 'true');
    INSERT INTO pairs SELECT a.k, a.v, b.v FROM events a JOIN events b ON a.k = b.k AND a.v = b.v - 7;
    INSERT INTO counts SELECT n, COUNT(*) FROM (SELECT k, COUNT(*) AS n FROM events GROUP BY k) GROUP BY n
    """,
)


def events(broker: Broker) -> None:
    broker.create_topic("events", SHARDS)
    for shard in range(SHARDS):
        rows = [json.dumps({"k": f"k{i % 7}", "v": i}).encode() for i in range(shard, ROWS, SHARDS)]
        broker.append("events", shard, rows, timestamp_ms=0)


def left(broker: EmbeddedBroker) -> object:
    return Counter(values_of(broker, "pairs")), broker.read_latest("counts")


def read(group: Group, index: int) -> int:
    """Rows of its sources that a subtask has read."""
    running = group.open[index].runner.inputs.running.values()
    return sum(sum(s.positions.values()) for s in running if s.scan.table.connector == "topic")


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few bytes may be unread that every run comes there."""
    monkeypatch.setattr(shuffle, "UNREAD_BYTES", 6_000)


def test_those_who_send_wait_for_a_part_that_stands_still(tmp_path: Path) -> None:
    with broker_in(tmp_path) as broker:
        events(broker)
        group = Group(broker, PARALLELISM, rows_per_read=4)
        group.start()
        group.submit(JOB)
        while any([group.step(0), group.step(2)]):
            pass
        waiting = [group.open[0], group.open[2]]
        assert all(subtask_report(subtask).backpressured_by.keys() == {1} for subtask in waiting)
        assert all(0 < read(group, subtask) < ROWS // PARALLELISM for subtask in (0, 2))
        group.kill(
            0
        )  # whoever opens it again knows nothing of what is unread, and sends as much once more at most
        while group.step(0):
            pass
        assert read(group, 0) < ROWS // PARALLELISM
        group.run()
        assert not any(subtask.runner.polling.backpressured_by for subtask in group.open.values())
        group.close()
        found = left(broker)
    with broker_in(tmp_path / "alone") as broker:
        events(broker)
        run_locally(Group(broker, rows_per_read=50), JOB).close()
        assert found == left(broker)


def test_they_go_on_whatever_dies_or_moves_meanwhile(tmp_path: Path) -> None:
    with broker_in(tmp_path) as broker:
        events(broker)
        group, chance = Group(broker, PARALLELISM, rows_per_read=5), Random(1)
        group.start()
        group.submit(JOB)
        group.run(chance, disturbance=0.1)
        assert [read(group, subtask) for subtask in range(PARALLELISM)] == [
            ROWS // SHARDS
        ] * PARALLELISM
        group.close()
