"""What every table that is read has to stand, on a real server: values of all types, large and malformed
records, servers that are killed, a job that reads no more, stops and kills of ours, tasks of Spark."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from hashlib import md5
from pathlib import Path

import pytest

from tests.connectors.contract.copying import (
    KILLS,
    LARGE,
    came,
    copying,
    hint,
    ids,
    listens,
    named,
    text,
)
from tests.connectors.contract.entries import cases
from tests.connectors.contract.place import Place
from tests.connectors.lives import JOB, life
from tests.servers.process import free_ports
from tests.service.harness import running
from tests.support import eventually

pytestmark = pytest.mark.slow


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
