"""The connector on Spark: the driver reads, tasks make the messages, and the driver sends them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from parser.errors import ServiceError
from sqlengine.executors.spark.java import require_spark
from sqlengine.session import spark
from tests.connectors.rocketmq.cluster import Cluster, ids, messages
from tests.spark.scripting import run
from tests.spark.staged import RepeatedFrames, Staged

WRITTEN = """
CREATE TABLE made (id BIGINT, name STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '300',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '299', 'fields.name.length' = '3');
CREATE TABLE target (id BIGINT, name STRING) WITH ({target});
INSERT INTO target SELECT id, name FROM made WHERE id % 3 = 0;
"""
READ = """
CREATE TABLE target (id BIGINT, name STRING) WITH ({target});
SELECT id, id + 1 AS n FROM target WHERE id < 150;
"""


@pytest.mark.parametrize("where", ["stages", pytest.param("spark", marks=pytest.mark.spark)])
def test_written_and_read_on_spark(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    if where == "stages":
        monkeypatch.setattr(spark, "OwnSpark", lambda *_: Staged(3, RepeatedFrames))
    else:
        try:
            require_spark()
        except ServiceError as error:
            pytest.skip(error.message)
    topic = cluster.topic(3)
    target = cluster.sql(topic, keyColumns="id", **{"scan.bounded.mode": "latest-offset"})
    done = run(WRITTEN.format(target=target), tmp_path, tmp_path / "written", "spark")
    assert not done.errors
    assert Counter(ids(cluster.options(topic))) == Counter(range(0, 300, 3))
    assert len(messages(topic)) == 100
    read = run(READ.format(target=target), tmp_path, tmp_path / "read", "spark")
    assert not read.errors
    rows = [json.loads(row.partition(": ")[2]) for row in read.rows.elements()]
    found = sorted(row[1] for row in rows if isinstance(row, list))
    assert found == [[n, n + 1] for n in range(0, 150, 3)]
