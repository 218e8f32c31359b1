"""A registry that is away when a server starts again: schemas that it has told are in the data folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.formats.avro.kept_answers import FOLDER
from tests.formats.test_avro_confluent import _record, written
from tests.servers.registry import Registry, running
from tests.support import eventually

JOB = """
CREATE TABLE taken (id BIGINT, name STRING) WITH ('connector' = 'topic', 'topic' = 'taken', {options});
CREATE TABLE given (id BIGINT, name STRING) WITH ('connector' = 'topic', 'topic' = 'given', {options});
INSERT INTO given SELECT id, name FROM taken;
"""
ID, NAME = {"name": "id", "type": "long"}, {"name": "name", "type": "string"}


class Life:
    """A server over one folder, whose registry comes and goes, and a job that copies a topic."""

    def __init__(self, folder: Path, registry: Registry) -> None:
        self._folder, self.registry = folder, registry
        self._told = 0
        self.schemas = [_record(ID), _record(ID, NAME)]
        for schema in self.schemas:
            registry.add("taken-value", json.dumps(schema))

    @contextmanager
    def open(self, **more: str) -> Iterator[Engine]:
        self.engine = Engine(Config(data=self._folder))
        self.engine.start()
        for name in ("taken", "given"):
            self.engine.broker.create_topic(name, if_not_exists=True)
        if not self.engine.jobs():
            given = {"format": "avro-confluent", "avro-confluent.url": self.registry.url, **more}
            options = ", ".join(f"'{k}' = '{v}'" for k, v in given.items())
            self.engine.submit("copies", JOB.format(options=options))
        yield self.engine
        self.engine.close()

    def write(self, schema: int, number: int) -> None:
        value = {"id": number, "name": "n"}
        record = written(schema, self.schemas[schema - 1], value)
        self.engine.broker.append("taken", 0, [record], timestamp_ms=0)

    def await_records(self, count: int) -> None:
        broker = self.engine.broker
        eventually(
            lambda: broker.end_offset("given", 0) == count, lambda: self.engine.job("copies")
        )

    def heads(self) -> set[bytes]:
        """The heads of all records that the job has written."""
        found = self.engine.broker.read("given", 0, 0, max_records=100)
        assert found is not None
        return {bytes(r[:5]) for r in found.values.to_pylist()}


def no_letters(engine: Engine) -> bool:
    topics = {t.name for t in engine.broker.topics()}
    return "_dead_letters" not in topics or engine.broker.end_offset("_dead_letters", 0) == 0


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    with running() as registry:
        yield Life(tmp_path / "data", registry)


def test_what_it_has_told_is_enough_to_go_on(life: Life, caplog: pytest.LogCaptureFixture) -> None:
    """Records of a schema that was never read wait for it."""
    with life.open():
        life.write(1, 0)
        life.await_records(1)
    life.registry.closed = True
    with life.open():
        life.write(1, 1)
        life.await_records(2)
        assert "does not answer (HTTP Error 503" in caplog.text
        life.write(2, 2)
        eventually(lambda: "restarting" in str(life.engine.job("copies").state), life.engine.jobs)
        life.registry.closed = False
        life.await_records(3)
        assert life.heads() == {b"\0\0\0\0\3"}


def test_it_is_right_where_it_answers(life: Life) -> None:
    """One that was made anew has other schemas under the same ids."""
    with life.open():
        life.write(1, 0)
        life.await_records(1)
    life.registry.schemas.insert(0, json.dumps(_record(NAME)))
    life.schemas.insert(0, _record(NAME))
    with life.open():
        life.write(2, 1)
        life.await_records(2)
        assert life.heads() == {b"\0\0\0\0\3", b"\0\0\0\0\4"}


def test_damaged_files_are_not_taken(
    life: Life, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQLENGINE_SECRET_REGISTRY", "tok")
    token = {"avro-confluent.bearer-auth.token": "${secret:REGISTRY}"}
    with life.open(**token):
        life.write(1, 0)
        life.await_records(1)
    kept = list((tmp_path / "data" / FOLDER).glob("*/*"))
    assert len(kept) == 2
    for path in kept:
        path.write_bytes(path.read_bytes().replace(b"long", b"lonG"))
    life.registry.closed = True
    with life.open():
        life.write(1, 1)
        eventually(lambda: "restarting" in str(life.engine.job("copies").state), life.engine.jobs)
        life.registry.closed = False
        life.await_records(2)


# The schema of the table below, as it derives it.
MADE = (
    '{"type":"record","name":"record","namespace":"org.apache.flink.avro.generated",'
    '"fields":[{"name":"id","type":["null","long"],"default":null}]}'
)
WRITES = """
CREATE TABLE plain (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'plain', 'format' = 'json');
CREATE TABLE made (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'made', {options});
INSERT INTO made SELECT id FROM plain;
"""
OTHER = """
CREATE TABLE beside (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'beside', 'format' = 'json');
INSERT INTO beside SELECT id FROM plain;
"""


@pytest.mark.parametrize("more", [{}, {"avro-confluent.properties.auto.register.schemas": "false"}])
def test_rows_to_be_written_wait_for_it_too(life: Life, more: dict[str, str]) -> None:
    """Rows whose schema it does not take, or does not answer for, are no dead letters: their job
    fails with the reason and starts again, and other jobs run on."""
    registering = not more
    life.registry.closed = registering
    given = {"format": "avro-confluent", "avro-confluent.url": life.registry.url, **more}
    options = ", ".join(f"'{k}' = '{v}'" for k, v in given.items())
    with life.open() as engine:
        for name in ("plain", "made", "beside"):
            engine.broker.create_topic(name)
        engine.submit("writes", WRITES.format(options=options))
        engine.submit("other", OTHER)
        engine.broker.append("plain", 0, [b'{"id": 1}', b'{"id": 2}'], timestamp_ms=0)
        words = "does not answer" if registering else "has not the schema of the table"
        eventually(lambda: words in str(engine.job("writes").reason), lambda: engine.jobs())
        engine.broker.append("plain", 0, [b'{"id": 3}'], timestamp_ms=0)
        eventually(lambda: engine.broker.end_offset("beside", 0) == 3, lambda: engine.jobs())
        assert engine.broker.end_offset("made", 0) == 0
        assert no_letters(engine)
    with life.open() as engine:  # rows that wait are kept over a restart
        life.registry.closed = False
        if not registering:
            life.registry.add("made-value", MADE)
        eventually(lambda: engine.broker.end_offset("made", 0) == 3, lambda: engine.jobs())
        found = engine.broker.read("made", 0, 0, max_records=10)
        assert found is not None
        assert len(set(found.values.to_pylist())) == 3
        assert no_letters(engine)


def test_a_schema_that_it_refuses_fails_its_job(life: Life) -> None:
    life.registry.add("made-value", json.dumps(_record(NAME)))
    with life.open() as engine:
        for name in ("plain", "made"):
            engine.broker.create_topic(name)
        options = f"'format' = 'avro-confluent', 'avro-confluent.url' = '{life.registry.url}'"
        engine.submit(
            "writes", WRITES.replace("id BIGINT", "id BIGINT NOT NULL").format(options=options)
        )
        engine.broker.append("plain", 0, [b'{"id": 1}'], timestamp_ms=0)
        eventually(lambda: "not compatible" in str(engine.job("writes").reason), engine.jobs)
        assert no_letters(engine)
