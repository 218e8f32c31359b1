"""What every table that is written has to stand, on a real server: values of all types, large rows and
such as it refuses, servers that are killed, stops and kills of ours, tasks of Spark."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from pathlib import Path

import pytest

from sqlengine.executors.sinks import uncommitted
from tests.connectors.contract.copying import (
    KILLS,
    LARGE,
    arrived,
    copying,
    ids,
    named,
    text,
)
from tests.connectors.contract.entries import cases
from tests.connectors.contract.place import Place
from tests.connectors.lives import JOB, life
from tests.service.harness import running
from tests.support import eventually

pytestmark = pytest.mark.slow


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
    monkeypatch.setattr(uncommitted, "_WAITING_ROWS", 1000)
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
        eventually(lambda: len(ids(place.got())) >= count, lambda: user.job(JOB))
    found = ids(place.got())
    assert found.keys() == {*range(count)}
    assert not place.once or found == Counter(range(count))
