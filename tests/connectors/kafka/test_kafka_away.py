"""A server and its Kafka die together, and Kafka comes back later: what was read before is there once,
and other jobs do not wait. Where Kafka alone dies a table tells it until Kafka is back."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from sqlengine.connectors.registry import open_source
from tests.connectors.databases import Database, sqlite
from tests.connectors.kafka.clients import Kafka, Record
from tests.connectors.life_of_jobs import LifeOfJobs, Where
from tests.connectors.tables import environment, json_rows, table
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


class Lives:
    """Lives of a server over a scene, which end with Kafka's; `sent`: rows so far."""

    def __init__(self, scene: Scene, where: Where, seed: int) -> None:
        self.scene, self.chance, self.sent = scene, random.Random(seed), 0
        self._where = where
        self.life = scene.life(where)
        self.states = self.life.states()

    def feed(self, seconds: float, written: Callable[[], int]) -> None:
        """Sends rows for a while. Most of them are out then, others may be."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.scene.send(range(self.sent, self.sent + 20))
            self.sent += 20
            time.sleep(0.02)
        expected = self.sent - self.chance.randrange(40)
        eventually(lambda: written() >= expected, "rows")

    def die(self) -> None:
        """Kills the server and Kafka; the next life begins without it."""
        self.life.kill()
        self.scene.kafka.server.kill()
        self.life = self.scene.life(self._where)
        self.states = self.life.states()

    def end(self) -> None:
        """Ends the last life; Kafka is there again."""
        self.life.kill()
        if not self.scene.kafka.server.running:
            self.scene.kafka.server.start()


@contextmanager
def each_row_once(scene: Scene, where: Where, seed: int) -> Iterator[Lives]:
    """Gives lives, behind which each row that was sent is in both tables once."""
    lives = Lives(scene, where, seed)
    try:
        yield lives
        sent = lives.sent
        eventually(lambda: min(len(scene.given()), len(scene.kept())) >= sent, "all rows")
        given, kept = scene.given(), scene.kept()
    finally:
        lives.end()
    assert given == kept == list(range(sent))


@pytest.mark.slow
@pytest.mark.parametrize(("kills", "seed"), [(1, 0), *((5, seed) for seed in range(1, 5))])
def test_rows_are_there_once_when_kafka_comes_later(
    kafka: Kafka, postgresql: PostgresServer, tmp_path: Path, kills: int, seed: int
) -> None:
    scene, waited = Scene(kafka, postgresql, tmp_path), 0
    with each_row_once(scene, "server", seed) as lives:
        for number in range(kills):
            # Before each death some rows are out, those of one table at least, and others may be.
            lives.feed(lives.chance.uniform(0.5, 2.0), lambda: len(scene.kept()))
            lives.die()
            assert lives.states["near"] == "running"
            waited += lives.states["copies"] == lives.states["keeps"] == "restarting"
            before = scene.near()
            eventually(lambda: scene.near() > before, "rows of another job")  # noqa: B023
            if number % 2:
                time.sleep(lives.chance.uniform(0.0, 5.0))
            kafka.server.start()
    assert waited > kills // 2


@pytest.mark.slow
@pytest.mark.parametrize("where", ["instances", "tasks"])
def test_rows_are_there_once_where_parts_and_tasks_wait_for_kafka(
    kafka: Kafka, postgresql: PostgresServer, tmp_path: Path, where: Where
) -> None:
    scene = Scene(kafka, postgresql, tmp_path)
    with each_row_once(scene, where, seed=9) as lives:
        for _ in range(3):
            lives.feed(0.5, lambda: min(len(scene.kept()), len(scene.given())))
            lives.die()
            time.sleep(lives.chance.uniform(2.0, 6.0))
            kafka.server.start()


@pytest.mark.slow
def test_a_silent_topic_tells_that_kafka_is_back(kafka: Kafka) -> None:
    """Nothing is written to it that would show it, and no row comes twice or is missing after that."""
    topic = kafka.topic()
    kafka.write(topic, json_rows(range(3)))
    options = kafka.options(topic, {"scan.startup.mode": "earliest-offset"})
    with closing(open_source(table(options), environment())) as source:
        (shard,), health = source.shards(), source.health
        assert health is not None
        assert eventually(partial(source.read, shard, 0, max_rows=10)).num_rows == 3

        def works() -> bool:
            assert source.read(shard, 3, max_rows=10) is None
            return health.trouble is None

        eventually(lambda: works() and source.end(shard) == 3)
        for _ in range(2):
            kafka.server.kill()
            try:
                eventually(lambda: not works(), "the trouble")
                until = time.monotonic() + 5.0
                while time.monotonic() < until:  # it is looked for meanwhile
                    works()
                    time.sleep(0.02)
                assert not works()
            finally:
                kafka.server.start()
            eventually(works, lambda: health.trouble, patience_s=30.0)
        kafka.write(topic, json_rows(range(3, 5)))
        again = eventually(partial(source.read, shard, 3, max_rows=10))
        assert (again.start, again.end) == (3, 5)
