"""Changes of a distributed graph: instances in threads beside the engine that leads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parser.errors import JobError, ServiceError, SqlError
from sqlengine.cluster.control_log import Abandon, Pause, Prepare, Switch
from sqlengine.config import Config
from sqlengine.jobs.job import JobState
from tests.cluster.leader import ALL, SHARED, LeaderHarness, leading
from tests.support import eventually


def test_a_change_is_made_by_all_and_reads_from_where_it_was_made(tmp_path: Path) -> None:
    with leading(tmp_path) as harness:
        harness.engine.submit("all", ALL)  # nobody is there: it counts all the same
        harness.write(1, 2, 3)
        harness.start("one")
        harness.start("two")
        eventually(lambda: harness.found() == [1, 2, 3])
        harness.engine.submit("all", ALL + " WHERE id > 4")
        harness.write(4, 5, 6)
        eventually(lambda: harness.found() == [1, 2, 3, 5, 6])
        eventually(lambda: harness.engine.rows_of("all") == 5)
        assert "in graph 'shared', in 2 parts" in harness.engine.explain("all")
        harness.engine.stop_job("all")
        harness.write(7)
        harness.engine.start_job("all", begin="configured")
        harness.write(8)
        eventually(lambda: harness.found() == [1, 2, 3, 5, 6, 8])
        # All parts paused while what the job had was taken out of them.
        changes = [kind for kind in harness.entries() if kind in (Prepare, Switch)]
        assert changes == [Prepare, Switch] * 4


def test_what_one_instance_refuses_none_makes(tmp_path: Path) -> None:
    (tmp_path / "data" / "functions").mkdir(parents=True)
    (tmp_path / "data" / "functions" / "more.py").write_text(
        "def more(n: int) -> int:\n    return n + 1\n"
    )
    with leading(tmp_path, "one") as harness:
        harness.engine.submit("all", ALL)
        harness.engine.submit("more", "CREATE FUNCTION more AS 'more.more' LANGUAGE PYTHON")
        harness.start(
            "poor", Config(data=tmp_path / "elsewhere")
        )  # it has not the sources of the function
        eventually(
            lambda: (
                "poor" in harness.graph.worker_reports.latest()
                and harness.graph.worker_reports.latest()["poor"].subtasks
            )
        )
        with pytest.raises(SqlError) as refused:
            harness.engine.submit("all", ALL.replace("id,", "more(id),"))
        assert refused.value.message != "internal error"
        assert harness.engine.job("all").version == 1
        assert harness.entries()[-2:] == [Prepare, Abandon]
        harness.write(1, 2)
        eventually(lambda: harness.found() == [1, 2])
        harness.stop("poor")
        harness.engine.submit("all", ALL.replace("id,", "more(id),"))
        harness.write(3)
        eventually(lambda: harness.found() == [1, 2, 4])


def test_who_is_dead_is_not_waited_for(tmp_path: Path) -> None:
    with leading(tmp_path, "one") as harness:
        broker, name = harness.engine.broker, harness.graph.group
        broker.join(name, "dead", [name], session_ms=500)
        harness.engine.submit("all", ALL)
        harness.write(1, 2)
        eventually(lambda: harness.found() == [1, 2])
        assert set(harness.graph.owned()) == {"one"}


def test_a_switch_that_its_leader_did_not_live_to_make_counts(tmp_path: Path) -> None:
    with leading(tmp_path, "one") as harness:
        harness.engine.submit("all", ALL)
        harness.engine.stop_job("all")
        harness.stop("one")
        reports = [entry for _, entry in harness.graph.control.read() if isinstance(entry, Switch)]
        again = Switch(3, reports[0].jobs, {}, reports[0].starts)
        harness.graph.control.append(again, 0)
    harness = LeaderHarness(tmp_path / "data")
    try:
        assert harness.engine.job("all").state is JobState.RUNNING
        harness.write(1)
        harness.start("one")
        eventually(lambda: harness.found() == [1])
    finally:
        harness.close()


def test_what_a_server_held_that_died_goes_on(tmp_path: Path) -> None:
    with leading(tmp_path) as harness:
        harness.engine.submit("all", ALL)
        harness.graph.control.append(Pause(), 0)
    harness = LeaderHarness(tmp_path / "data")
    try:
        harness.start("one")
        harness.write(1)
        eventually(lambda: harness.found() == [1])
    finally:
        harness.close()


def test_a_switch_that_its_leader_cannot_write_down_counts(tmp_path: Path) -> None:
    with leading(tmp_path, "one") as harness:
        harness.engine.submit("all", ALL)
        harness.engine.broker.alter_topic("_epochs", max_bytes=1)
        harness.engine.submit("more", ALL + " WHERE id > 1")
        harness.write(1, 2)
        eventually(lambda: harness.found() == [1, 2, 2])
        with pytest.raises(ServiceError, match="is full"):
            harness.engine.submit("most", ALL)
        harness.engine.broker.alter_topic("_epochs", max_bytes=None)
        harness.engine.submit("most", ALL)
        harness.write(3)
        eventually(lambda: harness.found() == [1, 2, 2, 3, 3, 3])
        assert {
            name for name, (graph, _) in harness.engine.graphs.running().items() if graph == SHARED
        } == {
            "all",
            "more",
            "most",
        }


def test_what_all_checkpoints_hold_is_forgotten(tmp_path: Path) -> None:
    with leading(tmp_path, "one", "two") as harness:
        for name in ("a", "b", "c"):
            harness.engine.submit(name, ALL)

        def switches() -> list[int]:
            harness.engine.broker.compact(harness.graph.control.topic)
            return [
                entry.version
                for _, entry in harness.graph.control.read()
                if isinstance(entry, Switch)
            ]

        eventually(lambda: switches() == [3])
        harness.stop("one")
        harness.write(1, 2)
        eventually(lambda: harness.found() == [1, 1, 1, 2, 2, 2])
        harness.engine.submit("d", ALL)
        harness.start("three")
        harness.write(3)
        eventually(lambda: harness.found() == [1, 1, 1, 2, 2, 2, 3, 3, 3, 3])
    harness = LeaderHarness(tmp_path / "data")
    try:
        harness.start("one")
        harness.write(4)
        eventually(lambda: harness.found()[-4:] == [4, 4, 4, 4])
    finally:
        harness.close()


def test_what_cannot_run_in_parts_says_so(tmp_path: Path) -> None:
    with leading(tmp_path, "one") as harness:
        harness.engine.submit("all", ALL)
        harness.engine.submit("file", "INSERT INTO kept SELECT id FROM events")
        assert harness.engine.job("file").graph == "main"
        assert "table 'kept' is written by connector 'filesystem'" in harness.engine.explain("file")
        with pytest.raises(JobError, match="runs in parts, and this text cannot"):
            harness.engine.submit("all", "INSERT INTO kept SELECT id FROM events")
        with pytest.raises(JobError, match="a replay is not possible: job 'all' runs in instances"):
            harness.engine.replay("all")


def test_a_job_that_fails_in_an_instance_fails_with_its_reason(tmp_path: Path) -> None:
    with leading(tmp_path, "one", "two") as harness:
        harness.engine.submit("all", ALL)
        strict = (
            "SET 'job.on-error' = 'fail';\nINSERT INTO found SELECT 1 / (id - 4), word FROM events"
            " WHERE id > 3"
        )
        harness.engine.submit("strict", strict)
        harness.engine.submit("lax", strict.replace("'fail'", "'dead-letter'"))
        harness.write(1, 2, 3, 4)
        eventually(lambda: harness.engine.job("strict").state is JobState.FAILED)
        assert "division by zero" in str(harness.engine.job("strict").reason).lower()
        eventually(lambda: harness.found() == [1, 2, 3, 4])
        assert harness.engine.job("lax").state is JobState.RUNNING
        letters = harness.engine.broker.read("_dead_letters", 0, 0)
        assert letters is not None
        assert [json.loads(v)["job"] for v in letters.values.to_pylist()] == ["lax"]
