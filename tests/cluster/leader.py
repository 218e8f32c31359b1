"""An engine that leads a distributed graph, and its instances in threads of this process."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from sqlengine.broker.remote.request_handler import handle_request
from sqlengine.cluster.distributed_graph import DistributedGraph
from sqlengine.cluster.instance import Instance
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.executors.build import OperatorFactory
from sqlengine.machine import THIS
from sqlengine.system.spawning import Place
from tests.support import eventually

TABLES = """
CREATE TABLE events (id BIGINT, word STRING)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
CREATE TABLE found (id BIGINT, word STRING)
WITH ('connector' = 'topic', 'topic' = 'found', 'format' = 'json');
CREATE TABLE kept (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{folder}/kept', 'format' = 'csv')
"""
ALL = "INSERT INTO found SELECT id, word FROM events"
SHARED = "shared"


class IdleProcess:
    """A process that runs no subtasks until it is told to end."""

    pid = 0

    def __init__(self) -> None:
        self._ended = threading.Event()

    def poll(self) -> int | None:
        return 0 if self._ended.is_set() else None

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired("idle", timeout or 0.0)
        return 0

    def terminate(self) -> None:
        self._ended.set()

    kill = terminate


class LeaderHarness:
    """An engine that leads, and instances that are threads of this process."""

    def __init__(
        self, data: Path, parts: int | None = 2, instances: int = 1, rows_per_read: int = 4096
    ) -> None:
        self.config = Config(
            data=data,
            instances=instances,
            parts=parts,
            session_ms=1000,
            checkpoint_ms=500,
            isolation=False,
            rows_per_read=rows_per_read,
        )
        self.engine = Engine(self.config, replace(THIS, spawn=lambda work: IdleProcess()))
        self.engine.start()
        self.numbers: list[int] = []
        self._stopping: dict[str, threading.Event] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._instances: dict[str, Instance] = {}

    @property
    def graph(self) -> DistributedGraph:
        graph = self.engine.graphs.by_name[SHARED]
        assert isinstance(graph, DistributedGraph)
        return graph

    def look(self) -> None:
        """Once at which job should be where, as a server does each second."""
        self.engine._thread.run(self.engine._isolation.check)

    def start(self, name: str, config: Config | None = None, graph: str = SHARED) -> None:
        config = config or self.config
        stores = THIS.stores(self.config.data / "parts")
        place = Place(name, graph, self.config.session_ms)

        def ask(question: bytes, again: bool) -> bytes:
            return handle_request(self.engine.broker, question)

        instance = Instance(place, ask, config, THIS, OperatorFactory(config.rules), stores)
        stopping = self._stopping[name] = threading.Event()
        self._instances[name] = instance
        self._threads[name] = threading.Thread(target=instance.run, args=(stopping.is_set,))
        self._threads[name].start()
        leading = self.engine.graphs.by_name[graph]
        assert isinstance(leading, DistributedGraph)
        eventually(lambda: name in leading.owned())

    def stop(self, name: str) -> None:
        self._stopping.pop(name).set()
        self._instances.pop(name).stop_soon()
        self._threads.pop(name).join()

    def close(self) -> None:
        for name in list(self._threads):
            self.stop(name)
        self.engine.close()

    def prepare(self, folder: Path) -> None:
        self.engine.broker.create_topic("events", 2)
        self.engine.submit("tables", TABLES.format(folder=folder))

    def write(self, *numbers: int) -> None:
        for n in numbers:
            row = json.dumps({"id": n, "word": f"w{n}"}).encode()
            self.engine.broker.append("events", n % 2, [row], timestamp_ms=n)

    def found(self) -> list[int]:
        return sorted(int(str(row["id"])) for row in self.rows("found"))

    def letters(self, job: str) -> int:
        """Dead letters of a job."""
        return sum(row["job"] == job for row in self.rows("_dead_letters"))

    def rows(self, topic: str) -> list[dict[str, object]]:
        """All of shard 0."""
        found: list[dict[str, object]] = []
        offset = 0
        while (records := self.engine.broker.read(topic, 0, offset)) is not None:
            found += map(json.loads, records.values.to_pylist())
            offset = records.next_offset
        return found

    def latest(self, topic: str) -> list[dict[str, object]]:
        """The last value of each key."""
        return [json.loads(value) for value in self.engine.broker.read_latest(topic).values()]

    def entries(self) -> list[type]:
        return [type(entry) for _, entry in self.graph.control.read()]


@contextmanager
def leading(folder: Path, *instances: str, rows_per_read: int = 4096) -> Iterator[LeaderHarness]:
    harness = LeaderHarness(folder / "data", rows_per_read=rows_per_read)
    try:
        harness.prepare(folder)
        for name in instances:
            harness.start(name)
        yield harness
    finally:
        harness.close()
