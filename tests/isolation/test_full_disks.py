"""Where one sink has no space, its job goes with the rows that it could not write; others go on,
and nothing is doubled."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sqlengine.broker.errors import BrokerFull
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.engine.watch.isolation import Isolation
from sqlengine.jobs.job import MAIN, Cause
from sqlengine.machine import THIS
from sqlengine.system.disk import Data, MachineDisk
from tests.engine.by_hand import die
from tests.isolation.workload import TOPICS

TABLES = """
CREATE TABLE events (id BIGINT)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE alerts (job STRING, id BIGINT) WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json');
CREATE TABLE a (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{folder}/small/a', 'format' = 'csv');
CREATE TABLE b (id BIGINT, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{folder}/small/b', 'format' = 'csv');
"""
JOBS = {
    "rule": "INSERT INTO alerts SELECT 'rule', id FROM events",
    "a": "INSERT INTO a SELECT id FROM events",
    "b": "INSERT INTO b SELECT id, id * 2 FROM events",
}


class SmallDisk(MachineDisk):
    """Below folders named `small` there is room for so many bytes more."""

    room = 1 << 20

    def __init__(self) -> None:
        self._small: set[int] = set()

    def open(
        self, path: Path, *, make: bool = False, empty: bool = False, mode: int = 0o600
    ) -> int:
        file = super().open(path, make=make, empty=empty, mode=mode)
        (self._small.add if "small" in path.parts else self._small.discard)(file)
        return file

    def pwrite(self, file: int, data: Data, position: int) -> int:
        if file in self._small:
            if len(data) > self.room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.room -= len(data)
        return super().pwrite(file, data, position)


class Life:
    """One data folder, whose engines are stepped by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.disk, self.fed = folder, SmallDisk(), 0
        self.open()

    def open(self) -> None:
        self.engine = Engine(
            Config(data=self.folder / "data", checkpoint_ms=1 << 60, plan_cache=False),
            replace(THIS, disk=self.disk),
        )
        for topic in ("events", *TOPICS):
            self.engine.broker.create_topic(topic, if_not_exists=True)
        self.engine.submit("tables", TABLES.replace("{folder}", str(self.folder)))
        for name, sql in JOBS.items():
            if name not in self.engine.log.jobs:
                self.engine.submit(name, sql)
        registry, graphs = self.engine._registry, self.engine.graphs
        self.isolation = Isolation(
            registry,
            graphs,
            self.engine._placement,
            self.engine._migrations,
            self.engine._moves,
            lambda: 0.0,
        )

    def feed(self) -> None:
        """Ten rows, as far as each graph comes with them."""
        lines = [json.dumps({"id": i}).encode() for i in range(self.fed, self.fed + 10)]
        self.engine.broker.append("events", 0, lines, timestamp_ms=0)
        self.fed += 10
        self.step()

    def step(self) -> None:
        for graph in list(self.engine.graphs.by_name.values()):
            try:
                while graph.runner.step():
                    pass
            except BrokerFull:
                assert graph.runner.outputs.uncommitted.blocked

    def alerts(self) -> list[int]:
        records = self.engine.broker.read("alerts", 0, 0)
        return (
            [json.loads(v)["id"] for v in records.values.to_pylist()] if records is not None else []
        )

    def lines(self, name: str) -> list[int]:
        files = (self.folder / "small" / name).glob("part-*")
        return sorted(int(line.split(",")[0]) for f in files for line in f.read_text().splitlines())


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    life = Life(tmp_path)
    life.feed()
    yield life
    life.engine.close()


@pytest.mark.parametrize("dies", [False, True])
def test_jobs_whose_sinks_are_full_leave_with_what_they_owe(life: Life, dies: bool) -> None:
    life.disk.room = 0
    life.feed()
    life.feed()
    assert life.alerts() == list(range(20))  # the third epoch waits for the second
    life.isolation.check()
    life.isolation.check()
    for name in ("a", "b"):
        job = life.engine.job(name)
        assert job.graph != MAIN
        assert job.cause is Cause.SINK
        assert job.reason is not None
        assert job.reason.startswith(f"sink '{name}' waited: no space")
    life.step()
    life.feed()
    assert life.alerts() == list(range(40))
    assert life.lines("a") == life.lines("b") == list(range(10))
    if dies:
        die(life.engine)
        life.open()
        life.feed()
        assert life.alerts() == list(range(50))
    life.disk.room = 1 << 20
    life.step()
    life.feed()
    assert life.lines("a") == life.lines("b") == life.alerts() == list(range(life.fed))
