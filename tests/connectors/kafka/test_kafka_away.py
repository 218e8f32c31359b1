"""A server and its Kafka die together, and Kafka comes back later: what was read before is there once,
and other jobs do not wait."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

from tests.connectors.databases import Database, sqlite
from tests.connectors.kafka.clients import Kafka, Record
from tests.connectors.life_of_jobs import LifeOfJobs, Where
from tests.connectors.tables import json_rows
from tests.servers.postgresql import PostgresServer
from tests.support import eventually

TABLES = """
CREATE TABLE taken (id BIGINT, name STRING) WITH ('connector' = 'kafka', 'topic' = '{taken}',
  'properties.bootstrap.servers' = '{kafka}', 'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
CREATE TABLE given (id BIGINT, name STRING) WITH ('connector' = 'kafka', 'topic' = '{given}',
  'properties.bootstrap.servers' = '{kafka}', 'format' = 'json', 'sink.delivery-guarantee' = 'exactly-once',
  'sink.transactional-id-prefix' = '{given}');
CREATE TABLE kept (id BIGINT, name STRING) WITH ('connector' = 'jdbc', 'url' = '{postgresql}',
  'table-name' = '{taken}', 'username' = 'postgres');
CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '20');
CREATE TABLE near (n BIGINT) WITH ('connector' = 'jdbc', 'url' = '{sqlite}', 'table-name' = 'near');
"""
JOBS = {
    "copies": "INSERT INTO given SELECT id, name FROM taken",
    "keeps": "INSERT INTO kept SELECT id, name FROM taken",
    "near": "INSERT INTO near SELECT n FROM ticks",
}


class Scene:
    """The jobs `copies` and `keeps` of a topic of Kafka, `near` of none, and what they write."""

    def __init__(self, kafka: Kafka, postgresql: PostgresServer, folder: Path) -> None:
        self.kafka, self.folder = kafka, folder
        self.taken, self._given = kafka.topic(2), kafka.topic(2)
        self._kept = Database(postgresql.url, "postgres")
        self._kept.execute(f"CREATE TABLE {self.taken} (id BIGINT, name TEXT)")
        self._near = sqlite(folder)
        self._near.execute("CREATE TABLE near (n BIGINT)")
        self._scripts = folder / "scripts"
        self._scripts.mkdir()
        tables = TABLES.format(
            taken=self.taken, given=self._given, kafka=kafka.address, postgresql=postgresql.url,
            sqlite=self._near.url,
        )  # fmt: skip
        for name, text in {"a_tables": tables, **JOBS}.items():
            (self._scripts / f"{name}.sql").write_text(text)

    def life(self, where: Where = "server") -> LifeOfJobs:
        return LifeOfJobs(self.folder / "data", self._scripts, where)

    def send(self, ids: range) -> None:
        records = zip(ids, json_rows(ids), strict=True)
        self.kafka.write(self.taken, [Record(v, partition=i % 2) for i, v in records])

    def given(self) -> list[int]:
        return sorted(json.loads(v or b"")["id"] for v in self.kafka.values(self._given))

    def kept(self) -> list[object]:
        return [row[0] for row in self._kept.rows(self.taken)]

    def near(self) -> int:
        return len(self._near.rows("near, (SELECT 0)"))


@pytest.mark.slow
@pytest.mark.parametrize(("kills", "seed"), [(1, 0), *((5, seed) for seed in range(1, 5))])
def test_rows_are_there_once_when_kafka_comes_later(
    kafka: Kafka, postgresql: PostgresServer, tmp_path: Path, kills: int, seed: int
) -> None:
    scene, chance, sent = Scene(kafka, postgresql, tmp_path), random.Random(seed), 0
    life, waited = scene.life(), 0
    life.states()
    try:
        for number in range(kills):
            until = time.monotonic() + chance.uniform(0.5, 2.0)
            while time.monotonic() < until:
                scene.send(range(sent, sent + 20))
                sent += 20
                time.sleep(0.02)
            # Before each death some rows are out, those of one table at least, and others may be.
            expected = sent - chance.randrange(40)
            eventually(lambda: len(scene.kept()) >= expected, "rows")  # noqa: B023
            life.kill()
            kafka.server.kill()
            life = scene.life()
            states = life.states()
            assert states["near"] == "running"
            waited += states["copies"] == states["keeps"] == "restarting"
            before = scene.near()
            eventually(lambda: scene.near() > before, "rows of another job")  # noqa: B023
            if number % 2:
                time.sleep(chance.uniform(0.0, 5.0))
            kafka.server.start()
        eventually(lambda: len(scene.given()) >= sent and len(scene.kept()) >= sent, "all rows")
        given, kept = scene.given(), scene.kept()
    finally:
        life.kill()
        if not kafka.server.running:
            kafka.server.start()
    assert given == kept == list(range(sent))
    assert waited > kills // 2


@pytest.mark.slow
@pytest.mark.parametrize("where", ["instances", "tasks"])
def test_rows_are_there_once_where_parts_and_tasks_wait_for_kafka(
    kafka: Kafka, postgresql: PostgresServer, tmp_path: Path, where: Where
) -> None:
    scene, chance, sent = Scene(kafka, postgresql, tmp_path), random.Random(9), 0
    life = scene.life(where)
    life.states()
    try:
        for _ in range(3):
            for _ in range(20):
                scene.send(range(sent, sent + 20))
                sent += 20
                time.sleep(0.02)
            expected = sent - chance.randrange(40)
            eventually(lambda: min(len(scene.kept()), len(scene.given())) >= expected, "rows")  # noqa: B023
            life.kill()
            kafka.server.kill()
            life = scene.life(where)
            life.states()
            time.sleep(chance.uniform(2.0, 6.0))
            kafka.server.start()
        eventually(lambda: len(scene.given()) >= sent and len(scene.kept()) >= sent, "all rows")
        given, kept = scene.given(), scene.kept()
    finally:
        life.kill()
        if not kafka.server.running:
            kafka.server.start()
    assert given == kept == list(range(sent))
