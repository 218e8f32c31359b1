"""Counts of jobs go on over restarts, crashes, moves, catching up and new versions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.executors.job_counts import JobCounts
from sqlengine.jobs.job import Origin
from sqlengine.jobs.planning import JobText
from sqlengine.snapshots.checkpoints import CheckpointMetadata
from tests.engine.by_hand import EVENTS, WINDOW, append, die, of_job, open_engine, step

COPY = "INSERT INTO outs SELECT 'copy', {} FROM events"
LATE = "SET 'job.late-rows' = 'dead-letter';" + WINDOW.format(name="late")


EARLIEST = "'scan.startup.mode' = 'earliest-offset', 'topic' = 'events'"


def opened(folder: Path, tables: str = EVENTS) -> Engine:
    engine = open_engine(folder)
    engine.submit("tables", tables)
    return engine


def closed_and_opened(engine: Engine, folder: Path) -> Engine:
    engine.close()
    return open_engine(folder)


def killed_and_opened(engine: Engine, folder: Path) -> Engine:
    die(engine)
    return open_engine(folder)


def checkpointed_and_killed(engine: Engine, folder: Path) -> Engine:
    for graph in engine.graphs.by_name.values():
        graph.runner.checkpoint(wait=True)
    append(engine, 4000)
    step(engine)
    die(engine)
    return open_engine(folder)


Restart = Callable[[Engine, Path], Engine]


@pytest.mark.parametrize(
    ("restart", "more"),
    [(closed_and_opened, 0), (killed_and_opened, 0), (checkpointed_and_killed, 1)],
)
def test_a_restart_takes_nothing_from_them(restart: Restart, more: int, tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.submit("copy", COPY.format("id"))
    engine.submit("late", LATE)
    append(engine, 1000, 5000, 2000, 3)
    step(engine)
    before = engine.counts()
    assert before["copy"] == JobCounts(4, 0, 0, 1, 4)
    assert before["late"] == JobCounts(1, 2, 2, 1, 1)
    engine = restart(engine, tmp_path)
    step(engine)
    assert engine.counts()["copy"] == JobCounts(4 + more, 0, 0, 1, 4 + more)
    assert engine.counts()["late"] == JobCounts(1, 2 + more, 2 + more, 1, 1)
    append(engine, 7000)
    step(engine)
    assert engine.counts()["copy"].rows == 5 + more
    engine.close()


def test_they_move_with_the_job(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.submit("late", LATE)
    engine.submit("copy", COPY.format("id"))
    append(engine, 1000, 5000, 2000)
    step(engine)
    for change in (engine.isolate, engine.merge, engine.isolate):
        assert change("late").status in ("isolated", "merged")
        assert engine.counts()["late"] == JobCounts(1, 1, 1, 1, 1)
    append(engine, 6500, 4)
    step(engine)
    assert engine.counts()["late"] == JobCounts(2, 2, 2, 1, 2)
    engine = killed_and_opened(engine, tmp_path)
    step(engine)
    assert engine.merge("late").status == "merged"
    assert engine.counts()["late"] == JobCounts(2, 2, 2, 1, 2)
    engine.close()
    engine = open_engine(tmp_path)
    assert engine.counts()["late"] == JobCounts(2, 2, 2, 1, 2)
    assert engine.counts()["copy"].rows == 5
    engine.close()


def test_rows_of_a_job_that_catches_up_count(tmp_path: Path) -> None:
    engine = opened(tmp_path, EVENTS.replace("'topic' = 'events'", EARLIEST))
    engine.submit("first", COPY.format("id"))
    append(engine, 1, 2, 3)
    step(engine)
    engine.submit("copy", COPY.format("ms"))
    assert engine.job("copy").graph != "main"
    step(engine)
    assert engine.merge("copy").status == "merged"
    append(engine, 4)
    step(engine)
    assert engine.job("copy").graph == "main"
    assert engine.counts()["copy"].rows == 4
    engine.close()
    engine = open_engine(tmp_path)
    assert engine.counts()["copy"].rows == 4
    engine.close()


def test_a_new_version_goes_on_and_begins_a_count_of_its_own(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.submit("copy", COPY.format("id"))
    append(engine, 1, 2, 3)
    step(engine)
    engine.submit("copy", COPY.format("id + 1"))
    append(engine, 4)
    step(engine)
    assert engine.counts()["copy"] == JobCounts(4, 0, 0, 2, 1)
    engine = killed_and_opened(engine, tmp_path)
    step(engine)
    assert engine.counts()["copy"] == JobCounts(4, 0, 0, 2, 1)
    engine.close()


def test_a_job_that_was_stopped_goes_on(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.submit("copy", COPY.format("id"))
    append(engine, 1, 2, 3)
    step(engine)
    engine.isolate("copy")  # its graph goes when it stops
    engine.stop_job("copy")
    assert engine.counts()["copy"].rows == 3
    engine.close()
    engine = open_engine(tmp_path)
    assert engine.counts()["copy"].rows == 3
    engine.start_job("copy")
    append(engine, 4)
    step(engine)
    assert engine.counts()["copy"].rows >= 4
    engine.close()


def test_starts_from_what_was_kept_and_from_a_savepoint_go_on(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.submit("copy", COPY.format("id"))
    append(engine, 1, 2, 3)
    step(engine)
    engine.save_job("copy", stop=True)
    append(engine, 4, 5)
    engine.start_job("copy")
    step(engine)
    assert engine.counts()["copy"] == JobCounts(5, 0, 0, 1, 5)
    saved = engine.save_job("copy").savepoint
    engine.remove("copy")
    append(engine, 6)
    engine.submit("copy", f"SET 'execution.state-recovery.path' = '{saved}'; " + COPY.format("id"))
    step(engine)
    found = engine.counts()["copy"]
    assert found.rows == len(of_job(engine, "copy")) == 6
    engine = killed_and_opened(engine, tmp_path)
    step(engine)
    assert engine.counts()["copy"] == found
    assert found.version == engine.job("copy").version
    engine.close()


def test_late_rows_count_for_the_jobs_that_were_there(tmp_path: Path) -> None:
    """Jobs that were submitted together share the window."""
    engine = opened(tmp_path)
    texts = {name: WINDOW.format(name=name) for name in ("a", "b")}
    engine.change(Request(Origin.SDK, {n: JobText(n, t) for n, t in texts.items()}))
    append(engine, 1000, 5000, 2000)
    step(engine)
    assert {n: engine.counts()[n].late_rows for n in texts} == {"a": 1, "b": 1}
    engine.stop_job("a")
    append(engine, 3)
    step(engine)
    assert {n: engine.counts()[n].late_rows for n in texts} == {"a": 1, "b": 2}
    engine.close()


def test_replayed_rows_count(tmp_path: Path) -> None:
    engine = opened(tmp_path)
    engine.submit("copy", COPY.format("10 / (id - 1)"))
    append(engine, 1, 2)
    step(engine)
    assert engine.counts()["copy"] == JobCounts(1, 0, 1, 1, 1)
    engine.submit("copy", COPY.format("id"))
    assert len(engine.replay("copy").letters) == 1
    assert engine.counts()["copy"] == JobCounts(2, 0, 1, 2, 1)
    engine = killed_and_opened(engine, tmp_path)
    assert engine.counts()["copy"] == JobCounts(2, 0, 1, 2, 1)
    engine.close()


def test_checkpoints_of_earlier_versions_have_none() -> None:
    written = msgspec.to_builtins(
        CheckpointMetadata("main", 1, 1, 1, {}, [], [], {}, counts={"a": JobCounts(1)})
    )
    del written["counts"]
    assert msgspec.convert(written, CheckpointMetadata).counts == {}
