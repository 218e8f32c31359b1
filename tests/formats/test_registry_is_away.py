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
