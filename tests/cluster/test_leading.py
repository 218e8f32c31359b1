"""Changes of a divided graph: instances in threads beside the engine that leads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parser.errors import JobError, ServiceError, SqlError
from sqlengine.cluster.control_log import Abandon, Pause, Prepare, Switch
from sqlengine.config import Config
from sqlengine.jobs.job import JobState
from tests.cluster.led import ALL, SHARED, Led, led
from tests.support import eventually


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
    (tmp_path / "data" / "functions" / "more.py").write_text(
        "def more(n: int) -> int:\n    return n + 1\n"
    )
    with led(tmp_path, "one") as group:
        group.engine.submit("all", ALL)
        group.engine.submit("more", "CREATE FUNCTION more AS 'more.more' LANGUAGE PYTHON")
        group.start(
            "poor", Config(data=tmp_path / "elsewhere")
        )  # it has not the sources of the function
        eventually(
            lambda: (
                "poor" in group.graph.worker_reports.latest()
                and group.graph.worker_reports.latest()["poor"].subtasks
            )
        )
        with pytest.raises(SqlError) as refused:
            group.engine.submit("all", ALL.replace("id,", "more(id),"))
        assert refused.value.message != "internal error"
        assert group.engine.job("all").version == 1
        assert group.entries()[-2:] == [Prepare, Abandon]
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


def test_what_a_server_held_that_died_goes_on(tmp_path: Path) -> None:
    with led(tmp_path) as group:
        group.engine.submit("all", ALL)
        group.graph.control.append(Pause(), 0)
    held = Led(tmp_path / "data")
    try:
        held.start("one")
        held.write(1)
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
        assert {
            name for name, (graph, _) in group.engine.graphs.running().items() if graph == SHARED
        } == {
            "all",
            "more",
            "most",
        }


def test_what_all_checkpoints_hold_is_forgotten(tmp_path: Path) -> None:
    with led(tmp_path, "one", "two") as group:
        for name in ("a", "b", "c"):
            group.engine.submit(name, ALL)

        def switches() -> list[int]:
            group.engine.broker.compact(group.graph.control.topic)
            return [
                entry.version
                for _, entry in group.graph.control.read()
                if isinstance(entry, Switch)
            ]

        eventually(lambda: switches() == [3])
        group.stop("one")
        group.write(1, 2)
        eventually(lambda: group.found() == [1, 1, 1, 2, 2, 2])
        group.engine.submit("d", ALL)
        group.start("three")
        group.write(3)
        eventually(lambda: group.found() == [1, 1, 1, 2, 2, 2, 3, 3, 3, 3])
    held = Led(tmp_path / "data")
    try:
        held.start("one")
        held.write(4)
        eventually(lambda: held.found()[-4:] == [4, 4, 4, 4])
    finally:
        held.close()


def test_what_cannot_run_in_parts_says_so(tmp_path: Path) -> None:
    with led(tmp_path, "one") as group:
        group.engine.submit("all", ALL)
        group.engine.submit("file", "INSERT INTO kept SELECT id FROM events")
        assert group.engine.job("file").graph == "main"
        assert "table 'kept' is written by connector 'filesystem'" in group.engine.explain("file")
        with pytest.raises(JobError, match="runs in parts, and this text cannot"):
            group.engine.submit("all", "INSERT INTO kept SELECT id FROM events")
        with pytest.raises(JobError, match="a replay is not possible: job 'all' runs in instances"):
            group.engine.replay("all")


def test_a_job_that_fails_in_an_instance_fails_with_its_reason(tmp_path: Path) -> None:
    with led(tmp_path, "one", "two") as group:
        group.engine.submit("all", ALL)
        strict = (
            "SET 'job.on-error' = 'fail';\nINSERT INTO found SELECT 1 / (id - 4), word FROM events"
            " WHERE id > 3"
        )
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
