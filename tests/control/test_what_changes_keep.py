"""What a change leaves as it was: state, state reports and settings of versions, over a rename and
a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlengine.engine.requests import Request
from sqlengine.jobs.job import JobState, Origin
from sqlengine.jobs.planning import JobText
from tests.engine.by_hand import EVENTS, WINDOW, append, die, of_job, open_engine, step

BEST = """CREATE TABLE best (place BIGINT, id BIGINT, PRIMARY KEY (place) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'best', 'format' = 'json', 'upsert' = 'true');"""
TOP = """INSERT INTO best SELECT n, id FROM (SELECT id, ROW_NUMBER() OVER (ORDER BY id DESC) AS n FROM events)
WHERE n <= {}"""
DIVIDES = "INSERT INTO outs SELECT 'a', 100 / (id - 1) FROM events"


def test_a_rename_reports_state_as_kept(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    engine.submit("window", WINDOW)
    held = engine.validate("window", WINDOW).state
    assert {s.outcome for s in held} == {"kept"}
    texts = {"again": JobText("again", WINDOW, "again.sql")}
    outcome = engine.change(Request(Origin.SDK, texts, renames={"window": "again"}))["again"]
    assert (outcome.status, outcome.version) == ("renamed", 1)
    assert outcome.state == held
    assert engine.history("again")[0].file == "again.sql"
    engine.close()


def test_names_that_come_back_do_not_double_what_the_job_was(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    for least in (1, 2):
        engine.submit("one", f"INSERT INTO outs SELECT 'a', id FROM events WHERE id > {least}")
    for turn in range(12):
        old, new = ("one", "two") if turn % 2 == 0 else ("two", "one")
        assert engine.change(Request(Origin.SDK, renames={old: new}))[new].status == "renamed"
    # One more with each turn.
    assert [len(engine.history(name)) for name in ("one", "two")] == [
        8,
        7,
    ]
    assert [v.sql[-6:] for v in engine.history("one")] == ["id > 1", *["id > 2"] * 7]
    assert engine.job("one").version == 8
    engine.rollback("one", 1)
    die(engine)
    engine = open_engine(tmp_path)
    append(engine, 2)
    step(engine)
    assert of_job(engine, "a") == [2]
    engine.close()


def test_another_bound_of_a_top_n_resets_it_and_leaves_the_ranks_that_are_no_more(
    tmp_path: Path,
) -> None:
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS + BEST)
    engine.submit("top", TOP.format(3))
    assert {s.outcome for s in engine.validate("top", TOP.format(3)).state} == {"kept"}
    report = {
        s.operator.split(" of ")[0]: s.outcome for s in engine.validate("top", TOP.format(2)).state
    }
    assert report == {"Rank 1 to 2 by id DESC AS over$0": "reset", "the rows in best": "left"}
    engine.close()


def test_a_replay_treats_rows_in_error_as_the_version_of_their_time(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    engine.submit("a", DIVIDES)
    append(engine, 11)
    step(engine)
    engine.graph.runner.checkpoint(wait=True)
    append(engine, 1, 2)  # divides by zero
    step(engine)
    engine.submit("a", "SET 'job.on-error' = 'fail';\n" + DIVIDES)
    append(engine, 3)
    step(engine)
    die(engine)
    engine = open_engine(tmp_path)
    append(engine, 5)
    step(engine)
    assert engine.job("a").state is JobState.RUNNING, engine.job("a").reason
    assert of_job(engine, "a") == [10, 100, 50, 25]
    engine.close()


def test_the_job_log_does_not_grow_with_every_start_and_stop(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    engine.submit("a", DIVIDES)
    for _ in range(20):
        engine.stop_job("a")
        engine.start_job("a")
    engine.close()
    engine = open_engine(tmp_path)
    records = engine.broker.read("_jobs", 0, 0)
    assert records is not None
    assert records.keys is not None
    kept = [
        key
        for key, value in zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True)
        if value
    ]
    assert sorted(kept) == [b"job:a", b"job:tables", b"version:a@1", b"version:tables@1"]
    engine.close()


@pytest.mark.parametrize(
    "only", ["host = 'h1'", "host LIKE '%1%'", "host IS NOT NULL", "ms > 5", "UPPER(host) = 'H1'"]
)
def test_a_rule_that_alone_read_a_column_leaves_the_others_alone(tmp_path: Path, only: str) -> None:
    """After a restart both are compiled as one, and the column is read no more."""
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    engine.submit("a", "INSERT INTO outs SELECT 'a', id FROM events WHERE id > 3")
    engine.submit("b", f"INSERT INTO outs SELECT 'b', id FROM events WHERE {only}")
    append(engine, 4)
    step(engine)
    engine.close()
    engine = open_engine(tmp_path)
    append(engine, 5)
    step(engine)
    engine.remove("b")
    append(engine, 2, 6, 7)
    step(engine)
    assert of_job(engine, "a") == [4, 5, 6, 7]
    engine.submit("b", f"INSERT INTO outs SELECT 'b', id FROM events WHERE {only}")
    append(engine, 10)
    step(engine)
    assert (of_job(engine, "a")[4:], of_job(engine, "b")[-1]) == ([10], 10)
    engine.close()
