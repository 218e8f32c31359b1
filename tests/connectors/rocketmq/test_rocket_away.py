"""A server and its RocketMQ die together, and RocketMQ comes back later: what was read before is there
once, and other jobs do not wait."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from pathlib import Path

import pytest

from sqlengine.broker.rocketmq.errors import RocketError
from sqlengine.broker.rocketmq.topic import RocketTopic
from tests.connectors.databases import sqlite
from tests.connectors.life_of_jobs import LifeOfJobs
from tests.connectors.rocketmq.cluster import Cluster, ids, send_ids
from tests.support import eventually

TABLES = """
CREATE TABLE taken (id BIGINT, name STRING) WITH ({taken});
CREATE TABLE given (id BIGINT, name STRING) WITH ({given});
CREATE TABLE kept (id BIGINT) WITH ('connector' = 'jdbc', 'url' = '{sqlite}', 'table-name' = 'kept');
CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '20');
CREATE TABLE near (n BIGINT) WITH ('connector' = 'jdbc', 'url' = '{near}', 'table-name' = 'near');
"""
JOBS = {
    "copies": "INSERT INTO given SELECT id, name FROM taken",
    "keeps": "INSERT INTO kept SELECT id FROM taken",
    "near": "INSERT INTO near SELECT n FROM ticks",
}


def _answers(topic: RocketTopic) -> bool:
    with suppress(RocketError):
        return len(topic.route().writable) == 2
    return False


@pytest.mark.slow
def test_rows_are_there_once_when_rocketmq_comes_later(cluster: Cluster, tmp_path: Path) -> None:
    taken, given = cluster.topic(2), cluster.topic(2)
    for folder in ("kept", "near"):
        (tmp_path / folder).mkdir()
    kept, near = sqlite(tmp_path / "kept"), sqlite(tmp_path / "near")
    kept.execute("CREATE TABLE kept (id BIGINT)")
    near.execute("CREATE TABLE near (n BIGINT)")
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    tables = TABLES.format(
        taken=cluster.sql(taken), given=cluster.sql(given, keyColumns="id"), sqlite=kept.url,
        near=near.url,
    )  # fmt: skip
    for name, text in {"a_tables": tables, **JOBS}.items():
        (scripts / f"{name}.sql").write_text(text)
    chance, sent, waited, kills = random.Random(1), 0, 0, 5
    life = LifeOfJobs(tmp_path / "data", scripts)
    life.states()
    try:
        for _ in range(kills):
            until = time.monotonic() + chance.uniform(0.5, 2.0)
            while time.monotonic() < until:
                send_ids(taken, range(sent, sent + 20), queue=sent // 20 % 2)
                sent += 20
                time.sleep(0.02)
            expected = sent - chance.randrange(40)
            eventually(lambda: len(kept.rows("kept, (SELECT 0)")) >= expected)  # noqa: B023
            life.kill()
            cluster.server.kill()
            life = LifeOfJobs(tmp_path / "data", scripts)
            states = life.states()
            assert states["near"] == "running"
            waited += states["copies"] == states["keeps"] == "restarting"
            before = len(near.rows("near, (SELECT 0)"))
            eventually(lambda: len(near.rows("near, (SELECT 0)")) > before)  # noqa: B023
            cluster.server.start()
            eventually(lambda: _answers(taken), "RocketMQ")
        eventually(lambda: len(kept.rows("kept, (SELECT 0)")) >= sent, "all rows in SQLite")
        eventually(lambda: len(ids(cluster.options(given))) >= sent, "all rows in RocketMQ")
        found = sorted(str(n) for n in ids(cluster.options(given)))
        assert [row[0] for row in kept.rows("kept, (SELECT 0)")] == list(range(sent))
    finally:
        life.kill()
    assert found == sorted(map(str, range(sent)))
    assert waited > kills // 2
