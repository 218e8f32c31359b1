"""Changes of a divided graph: instances in threads beside the engine that leads them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from parser.errors import JobError, ServiceError, SqlError
from sqlengine.broker.wire import answer
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.executors.build import OperatorFactory
from sqlengine.instances.control import GiveUp, Prepare, Switch
from sqlengine.instances.instance import Instance, Place
from sqlengine.instances.leader import DividedGraph
from sqlengine.jobs.log import JobState
from sqlengine.machine import THIS
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


class Led:
    """An engine that leads, and instances that are threads of this process."""

    def __init__(self, data: Path, parts: int = 2) -> None:
        self.config = Config(data=data, instances=1, parts=parts, session_ms=1000)
        self.engine = Engine(self.config)
        for graph in self.engine.fleet.graphs.values():  # and not the processes
            graph.loop.start()
        self._stopping: dict[str, threading.Event] = {}
        self._threads: dict[str, threading.Thread] = {}

    @property
    def graph(self) -> DividedGraph:
        graph = self.engine.fleet.graphs[SHARED]
        assert isinstance(graph, DividedGraph)
        return graph

    def start(self, name: str, config: Config | None = None) -> None:
        config = config or self.config
        stores = THIS.stores(self.config.data / "parts")
        place = Place(name, SHARED, self.config.session_ms)

        def ask(question: bytes, again: bool) -> bytes:
            return answer(self.engine.broker, question)

        instance = Instance(place, ask, config, THIS, OperatorFactory(config.rules), stores)
        stopping = self._stopping[name] = threading.Event()
        self._threads[name] = threading.Thread(target=instance.run, args=(stopping.is_set,))
        self._threads[name].start()
        eventually(lambda: name in self.graph.owned())

    def stop(self, name: str) -> None:
        self._stopping.pop(name).set()
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
        records = self.engine.broker.read("found", 0, 0)
        return sorted(json.loads(v)["id"] for v in records.values.to_pylist()) if records is not None else []

    def entries(self) -> list[type]:
        return [type(entry) for _, entry in self.graph.control.read()]


@contextmanager
def led(folder: Path, *instances: str) -> Iterator[Led]:
    held = Led(folder / "data")
    try:
        held.prepare(folder)
        for name in instances:
            held.start(name)
        yield held
    finally:
        held.close()


def test_a_change_is_made_by_all_and_reads_from_where_it_was_made(tmp_path: Path) -> None:
    with led(tmp_path) as group:
        group.engine.submit("all", ALL)  # nobody is there: it counts all the same
        group.write(1, 2, 3)
        group.start("one")
        group.start("two")
        eventually(lambda: group.found() == [1, 2, 3])
        group.engine.submit("all", ALL + " WHERE id > 4")
        group.write(4, 5, 6)
        eventually(lambda: group.found() == [1, 2, 3, 5, 6])
        eventually(lambda: group.engine.rows_of("all") == 5)
        assert "in graph 'shared', in 2 parts" in group.engine.explain("all")
        group.engine.stop_job("all")
        group.write(7)
        group.engine.start_job("all")
        group.write(8)
        eventually(lambda: group.found() == [1, 2, 3, 5, 6, 8])
        assert group.entries() == [Prepare, Switch] * 4


def test_what_one_instance_refuses_none_makes(tmp_path: Path) -> None:
    (tmp_path / "data" / "functions").mkdir(parents=True)
    (tmp_path / "data" / "functions" / "more.py").write_text("def more(n: int) -> int:\n    return n + 1\n")
    with led(tmp_path, "one") as group:
        group.engine.submit("all", ALL)
        group.engine.submit("more", "CREATE FUNCTION more AS 'more.more' LANGUAGE PYTHON")
        group.start("poor", Config(data=tmp_path / "elsewhere"))  # it has not the sources of the function
        eventually(lambda: "poor" in group.graph.heard.latest() and group.graph.heard.latest()["poor"].parts)
        with pytest.raises(SqlError) as refused:
            group.engine.submit("all", ALL.replace("id,", "more(id),"))
        assert refused.value.message != "internal error"
        assert group.engine.job("all").version == 1
        assert group.entries()[-2:] == [Prepare, GiveUp]
        group.write(1, 2)
        eventually(lambda: group.found() == [1, 2])
        group.stop("poor")
        group.engine.submit("all", ALL.replace("id,", "more(id),"))
        group.write(3)
        eventually(lambda: group.found() == [1, 2, 4])


def test_who_is_dead_is_not_waited_for(tmp_path: Path) -> None:
    with led(tmp_path, "one") as group:
        broker, name = group.engine.broker, group.graph.group
        broker.join(name, "dead", [name], session_ms=500)
        group.engine.submit("all", ALL)
        group.write(1, 2)
        eventually(lambda: group.found() == [1, 2])
        assert set(group.graph.owned()) == {"one"}


def test_a_switch_that_its_leader_did_not_live_to_make_counts(tmp_path: Path) -> None:
    with led(tmp_path) as group:
        group.engine.submit("all", ALL)
        group.engine.stop_job("all")
        told = [entry for _, entry in group.graph.control.read() if isinstance(entry, Switch)]
        again = Switch(3, told[0].jobs, {}, told[0].starts)
        group.graph.control.append(again, 0)
    held = Led(tmp_path / "data")
    try:
        assert held.engine.job("all").state is JobState.RUNNING
        held.write(1)
        held.start("one")
        eventually(lambda: held.found() == [1])
    finally:
        held.close()


def test_a_switch_that_its_leader_cannot_write_down_counts(tmp_path: Path) -> None:
    with led(tmp_path, "one") as group:
        group.engine.submit("all", ALL)
        group.engine.broker.alter_topic("_epochs", max_bytes=1)
        group.engine.submit("more", ALL + " WHERE id > 1")
        group.write(1, 2)
        eventually(lambda: group.found() == [1, 2, 2])
        with pytest.raises(ServiceError, match="is full"):
            group.engine.submit("most", ALL)
        group.engine.broker.alter_topic("_epochs", max_bytes=None)
        group.engine.submit("most", ALL)
        group.write(3)
        eventually(lambda: group.found() == [1, 2, 2, 3, 3, 3])
        assert {name for name, (graph, _) in group.engine.fleet.running().items() if graph == SHARED} == {
            "all",
            "more",
            "most",
        }


def test_what_cannot_run_in_parts_says_so(tmp_path: Path) -> None:
    with led(tmp_path, "one") as group:
        group.engine.submit("all", ALL)
        group.engine.submit("file", "INSERT INTO kept SELECT id FROM events")
        assert group.engine.job("file").graph == "main"
        assert "table 'kept' is written by connector 'filesystem'" in group.engine.explain("file")
        with pytest.raises(JobError, match="runs in parts, and this text cannot"):
            group.engine.submit("all", "INSERT INTO kept SELECT id FROM events")
        with pytest.raises(JobError, match="a savepoint is not possible: job 'all' runs in instances"):
            group.engine.save_job("all")
        with pytest.raises(JobError, match="a look at its state is not possible"):
            group.engine.state.operations("all")
    with pytest.raises(ServiceError, match="'shared' is divided, and there are no instances"):
        Engine(Config(data=tmp_path / "data"))


def test_a_job_that_fails_in_an_instance_fails_with_its_reason(tmp_path: Path) -> None:
    with led(tmp_path, "one", "two") as group:
        group.engine.submit("all", ALL)
        strict = "SET 'job.on-error' = 'fail';\nINSERT INTO found SELECT 1 / (id - 4), word FROM events WHERE id > 3"
        group.engine.submit("strict", strict)
        group.engine.submit("lax", strict.replace("'fail'", "'dead-letter'"))
        group.write(1, 2, 3, 4)
        eventually(lambda: group.engine.job("strict").state is JobState.FAILED)
        assert "division by zero" in str(group.engine.job("strict").reason).lower()
        eventually(lambda: group.found() == [1, 2, 3, 4])
        assert group.engine.job("lax").state is JobState.RUNNING
        letters = group.engine.broker.read("_dead_letters", 0, 0)
        assert letters is not None
        assert [json.loads(v)["job"] for v in letters.values.to_pylist()] == ["lax"]
