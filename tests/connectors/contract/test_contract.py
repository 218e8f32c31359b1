"""What every connector has to stand, on a real server: values of all types, large and malformed
records, servers that are killed, tables that take or are read no more, stops and kills of ours, and
tasks of Spark."""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

from sqlengine import service as services
from sqlengine.engine import Engine
from sqlengine.executors import outputs
from sqlengine.machine import THIS
from sqlengine.service import Service
from sqlengine.system import back_off
from tests.connectors.contract.entries import cases
from tests.connectors.contract.place import Direction, Place, Property, Row
from tests.connectors.lives import JOB, life
from tests.servers.process import free_ports
from tests.service.harness import User, running
from tests.spark.staged import Staged
from tests.support import eventually

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("SQLENGINE_KILLS", "50"))
LARGE = 10_000_000  # bytes of a record


def named(ids: Sequence[int]) -> list[Row]:
    return [{"id": i, "name": f"n{i}"} for i in ids]


def ids(rows: Sequence[Row]) -> Counter[int]:
    return Counter(row["id"] for row in rows)


def text(
    place: Place, direction: Direction, shown: Property, made: str = "", name: str = "name"
) -> str:
    """A job from the table to a topic, or from there (or from the table that `made` declares) to the
    table. `name`: what becomes of a name."""
    columns = place.types if shown == "types" else "id BIGINT, name STRING"
    key = place.constraint if direction == "in" else ""
    upsert = ", 'upsert' = 'true'" if key else ""
    topic = f"'connector' = 'topic', 'topic' = 'here', 'format' = 'json'{upsert}"
    tables = made or f"CREATE TABLE here ({columns}{key}) WITH ({topic});\n"
    if direction == "in":
        tables += place.create("source", "in", shown)
        rows = f"id, {name} FROM (SELECT {place.select} FROM source) AS t (id, name)"
        return f"{tables}INSERT INTO here SELECT {'* FROM source' if shown == 'types' else rows};"
    tables += place.create("target", "out", shown)
    rows = f"{place.select} FROM (SELECT id, {name} FROM here) AS t (id, name)"
    last = " ON CONFLICT DO DEDUPLICATE" if place.key else ""
    return f"{tables}INSERT INTO target SELECT {'* FROM here' if shown == 'types' else rows}{last};"


@contextmanager
def copying(
    place: Place,
    direction: Direction,
    shown: Property,
    data: Path,
    name: str = "name",
    *,
    rows: Sequence[Row] = (),
    **config: Any,
) -> Iterator[tuple[Service, User]]:
    """A server that runs the job, and hears what comes. `rows`: the first of the table."""
    if rows and place.bounded:
        place.put(rows)
    with running(data, checkpoint_ms=200, **config) as (service, user):
        place.serve(service.port)
        user.topic("here")
        user.submit(JOB, text(place, direction, shown, name=name))
        listens(place, direction, service)
        if rows and not place.bounded:
            place.put(rows)
        yield service, user


def listens(place: Place, direction: Direction, service: Service) -> None:
    if direction == "in":
        eventually(partial(place.listening, service), lambda: service.engine.receivers.views())


def came(user: User, count: int) -> Sequence[Row]:
    """The rows that the server has got, once there are so many."""
    found: Sequence[Row] = eventually(
        lambda: len(rows := user.read("here")) >= count and rows,
        lambda: (count, len(user.read("here")), user.job(JOB), user.letters()[:2]),
    )
    return found


def arrived(place: Place, user: User, count: int) -> Sequence[Row]:
    """The rows that the table has, once there are so many."""
    found: Sequence[Row] = eventually(
        lambda: len(rows := place.got()) >= count and rows,
        lambda: (count, len(place.got()), user.job(JOB), user.letters()[:2]),
    )
    return found


def hint(service: Service) -> str:
    """What the job says it waits for, once it does."""
    return eventually(lambda: service.engine.hints().get(JOB, ""), "a word of it")


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is away is asked again each second."""
    monkeypatch.setattr(back_off, "_LONGEST_S", 1.0)


# ---- tables that are read


@pytest.mark.parametrize("place", cases("types", "in"), indirect=True)
def test_all_types_and_nulls_come(place: Place, tmp_path: Path) -> None:
    rows = [place.full, {**dict.fromkeys(place.full), "id": 1}]
    with copying(place, "in", "types", tmp_path / "data") as (_, user):
        place.put(rows)
        assert came(user, 2) == rows


@pytest.mark.parametrize("place", cases("large", "in"), indirect=True)
def test_a_large_record_comes(place: Place, tmp_path: Path) -> None:
    names = ["a", "x" * LARGE, "c"]
    rows = [{"id": n, "name": name} for n, name in enumerate(names)]
    with copying(place, "in", "large", tmp_path / "data", "MD5(name)", rows=rows) as (_, user):
        found = came(user, 3)
    assert [row["name"] for row in found] == [md5(name.encode()).hexdigest() for name in names]


@pytest.mark.parametrize("place", cases("malformed", "in"), indirect=True)
def test_a_malformed_record_is_a_dead_letter(place: Place, tmp_path: Path) -> None:
    with copying(place, "in", "malformed", tmp_path / "data") as (_, user):
        place.put(named([1]))
        place.put_records([place.malformed])
        place.put(named([3]))
        assert came(user, 2) == named([1, 3])
        (letter,) = eventually(user.letters)
        assert letter["subject"].endswith("source")


@pytest.mark.parametrize("place", cases("reconnect", "in"), indirect=True)
def test_a_killed_server_is_read_on(place: Place, tmp_path: Path, soon: None) -> None:
    with copying(place, "in", "reconnect", tmp_path / "data") as (service, user):
        place.put(named([1]))
        came(user, 1)
        place.kill()
        assert "source" in hint(service)
        place.start()
        listens(place, "in", service)
        place.put(named([2]))
        assert came(user, 2) == named([1, 2])
        eventually(lambda: not service.engine.hints())
        assert user.states() == {JOB: "running"}
        assert not service.engine.restarts_by_job()


@pytest.mark.parametrize("place", cases("back-pressure", "in"), indirect=True)
def test_no_more_is_taken_than_is_read(place: Place, tmp_path: Path) -> None:
    """Whoever sends more waits, or is told to, and nothing is lost."""
    rows = [{"id": i, "name": f"{i}" + "x" * 1000} for i in range(600)]

    def put() -> None:
        for begin in range(0, len(rows), 20):
            place.put(rows[begin : begin + 20])

    with copying(place, "in", "back-pressure", tmp_path / "data") as (service, user):
        graph = service.engine.graphs.of(JOB)
        graph.loop.call(lambda: graph.runner.inputs.pause({}))
        sending = threading.Thread(target=put, daemon=True)
        sending.start()
        assert "wait to be read" in hint(service)
        time.sleep(0.5)
        (view,) = service.engine.receivers.views()
        assert 80 <= view.unread <= 400
        graph.loop.call(lambda: setattr(graph.runner.inputs, "bounds", {}))
        sending.join()
        assert ids(came(user, len(rows))) == Counter(range(len(rows)))


@pytest.mark.parametrize("place", cases("stops", "in"), indirect=True)
def test_a_reader_that_was_stopped_goes_on(place: Place, tmp_path: Path) -> None:
    with copying(place, "in", "stops", tmp_path / "data") as (service, user):
        place.put(named(range(20)))
        came(user, 20)
        user.client.post(f"/api/v1/jobs/{JOB}/stop", {}, savepoint="true")
        meanwhile = threading.Thread(target=place.put, args=[named(range(20, 40))], daemon=True)
        meanwhile.start()
        user.client.post(f"/api/v1/jobs/{JOB}/start", {})
        listens(place, "in", service)
        meanwhile.join()
        place.put(named(range(40, 60)))
        assert came(user, 60) == named(range(60))


@pytest.mark.parametrize("place", cases("spark", "in"), indirect=True)
def test_tasks_of_spark_compute_with_it(place: Place, tmp_path: Path, on_spark: None) -> None:
    rows, data = named(range(100)), tmp_path / "data"
    with copying(place, "in", "spark", data, "UPPER(name)", rows=rows, target="spark") as (_, user):
        found = came(user, 100)
    assert sorted(row["name"] for row in found) == sorted(row["name"].upper() for row in rows)


class Sending(threading.Thread):
    """Puts rows into a table until it is told to stop."""

    def __init__(self, place: Place) -> None:
        super().__init__(daemon=True)
        self._place, self._done, self._count = place, threading.Event(), 0

    def run(self) -> None:
        while not self._done.is_set():
            self._place.put(named(range(self._count, self._count + 10)))
            self._count += 10
            time.sleep(0.01)

    def stop(self) -> int:
        """Ends it; returns how many rows it has put there."""
        self._done.set()
        self.join()
        return self._count


@pytest.mark.parametrize("place", cases("kills", "in"), indirect=True)
def test_rows_that_are_read_count_once_through_kills(place: Place, tmp_path: Path) -> None:
    chance, (port,) = random.Random(KILLS), free_ports(1)
    place.serve(port)
    job, sending = text(place, "in", "kills"), Sending(place)
    with life(tmp_path / "data", job, port):
        sending.start()
    for number in range(KILLS - 1):
        with life(tmp_path / "data", job, port, awaited=number % 3 != 0):
            time.sleep(chance.uniform(0, 0.7))
    with running(tmp_path / "data") as (service, user):
        place.serve(service.port)
        count = sending.stop()
        assert count > 10 * KILLS
        found = ids(came(user, count))
    assert found == Counter(range(count)) if place.once else found.keys() == {*range(count)}


# ---- tables that are written


@pytest.mark.parametrize("place", cases("types", "out"), indirect=True)
def test_all_types_and_nulls_are_written(place: Place, tmp_path: Path) -> None:
    rows = [place.full, {**dict.fromkeys(place.full), "id": 1}]
    with copying(place, "out", "types", tmp_path / "data") as (_, user):
        user.write("here", *map(dict, rows))
        found = arrived(place, user, 2)
    assert sorted(found, key=lambda row: -row["id"]) == rows


@pytest.mark.parametrize("place", cases("large", "out"), indirect=True)
def test_a_large_record_is_written(place: Place, tmp_path: Path) -> None:
    with copying(place, "out", "large", tmp_path / "data", f"REPEAT(name, {LARGE})") as (_, user):
        user.write("here", {"id": 1, "name": "x"})
        (row,) = arrived(place, user, 1)
    assert row["name"] == "x" * LARGE


@pytest.mark.parametrize("place", cases("malformed", "out"), indirect=True)
def test_a_row_that_is_refused_is_a_dead_letter(place: Place, tmp_path: Path) -> None:
    with copying(place, "out", "malformed", tmp_path / "data") as (_, user):
        user.write("here", *map(dict, (*named([1]), place.refused, *named([3]))))
        assert ids(arrived(place, user, 2)) == Counter([1, 3])
        (letter,) = eventually(user.letters)
        assert letter["job"] == JOB


@pytest.mark.parametrize("place", cases("reconnect", "out"), indirect=True)
def test_rows_wait_for_a_killed_server_and_few_are_read_meanwhile(
    place: Place, tmp_path: Path, soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "_WAITING_ROWS", 1000)
    data = tmp_path / "data"
    with copying(place, "out", "reconnect", data, rows_per_read=100) as (service, user):
        user.write("here", *map(dict, named([0])))
        before = ids(arrived(place, user, 1))
        place.kill()
        for begin in range(1, 5001, 500):
            user.write("here", *map(dict, named(range(begin, begin + 500))))
        waits = "its rows wait|does not take rows now|cannot be written now|cannot open the"
        eventually(lambda: re.search(waits, str(user.job(JOB))), lambda: user.job(JOB))
        time.sleep(1)
        assert place.fails or 3000 < user.metric("sqlengine_job_behind") <= 4000
        place.start()
        eventually(
            lambda: len((before | ids(place.got())).keys()) == 5001,
            lambda: (len(place.got()), user.job(JOB)),
        )
        eventually(lambda: user.states() == {JOB: "running"} and not user.job(JOB)["hint"])
        assert place.fails or not service.engine.restarts_by_job()
        assert not place.once or ids(place.got()) == Counter(range(5001))


@pytest.mark.parametrize("place", cases("stops", "out"), indirect=True)
def test_a_writer_that_was_stopped_goes_on(place: Place, tmp_path: Path) -> None:
    with copying(place, "out", "stops", tmp_path / "data") as (_, user):
        user.write("here", *map(dict, named(range(20))))
        arrived(place, user, 20)
        user.client.post(f"/api/v1/jobs/{JOB}/stop", {}, savepoint="true")
        user.write("here", *map(dict, named(range(20, 40))))
        user.client.post(f"/api/v1/jobs/{JOB}/start", {})
        user.write("here", *map(dict, named(range(40, 60))))
        assert ids(arrived(place, user, 60)) == Counter(range(60))


@pytest.mark.parametrize("place", cases("spark", "out"), indirect=True)
def test_tasks_of_spark_compute_for_it(place: Place, tmp_path: Path, on_spark: None) -> None:
    with copying(place, "out", "spark", tmp_path / "data", "UPPER(name)", target="spark") as (
        _,
        user,
    ):
        user.write("here", *map(dict, named(range(100))))
        found = arrived(place, user, 100)
    assert Counter(row["name"] for row in found) == Counter(f"N{i}" for i in range(100))


MADE = """CREATE TABLE here (id BIGINT, name STRING) WITH ('connector' = 'datagen', 'rows-per-second' = '4000',
  'number-of-rows' = '{count}', 'fields.id.kind' = 'sequence', 'fields.id.start' = '0', 'fields.id.end' = '{last}',
  'fields.name.length' = '5');
"""


@pytest.mark.parametrize("place", cases("kills", "out"), indirect=True)
def test_rows_that_are_written_are_there_once_through_kills(place: Place, tmp_path: Path) -> None:
    count, chance = 1000 * KILLS, random.Random(KILLS)
    job = text(place, "out", "kills", MADE.format(count=count, last=count - 1))
    for number in range(KILLS):
        with life(tmp_path / "data", job, awaited=number % 3 != 0):
            time.sleep(chance.uniform(0, 0.4))
    assert len(place.got()) < count, "it was not killed while it wrote"
    with running(tmp_path / "data") as (_, user):
        found = ids(arrived(place, user, count))
    assert found == Counter(range(count)) if place.once else found.keys() == {*range(count)}


@pytest.fixture
def on_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers whose operators run in tasks, as Spark runs them."""
    staged = replace(THIS, spark=lambda _: Staged(2))
    opened: Callable[..., Engine] = partial(Engine, machine=staged)
    monkeypatch.setattr(services, "Engine", opened)
