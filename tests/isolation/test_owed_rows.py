"""Rows that a table owes to a job which has left its graph come, whoever else writes to the table
meanwhile: of each graph the table knows only the last epoch."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from parser.errors import SqlError
from sqlengine.engine import Engine
from sqlengine.executors.failures import JobsFailed
from sqlengine.jobs.job import MAIN, JobState
from tests.engine.by_hand import EVENTS, append, die, step
from tests.isolation.test_locks import SEEN, feed, opened, seen
from tests.support import eventually

RULE = "INSERT INTO seen SELECT '{0}', id FROM events"
REFUSE = "CREATE TRIGGER refuse BEFORE INSERT ON seen BEGIN SELECT RAISE(ABORT, 'closed'); END"


@pytest.fixture
def other(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "app.db", isolation_level=None)) as database:
        database.execute("CREATE TABLE seen (job TEXT, id BIGINT)")
        yield database


def submit(engine: Engine, *names: str) -> None:
    for name in names:
        engine.submit(name, RULE.format(name))


def owing(folder: Path, other: sqlite3.Connection) -> Engine:
    """An engine in which rows 1 and 2 of job 'one', in a graph of its own, wait for the table."""
    engine = opened(folder)
    engine.submit("rule", "INSERT INTO outs SELECT 'rule', id FROM events")
    submit(engine, "one")
    feed(engine, 0)
    other.execute("BEGIN IMMEDIATE")
    feed(engine, 1, 2)
    assert engine.isolate("one").status == "isolated"
    return engine


def free(engine: Engine, other: sqlite3.Connection) -> None:
    """The lock goes. First the graph writes that the rows have left."""
    append(engine, 3)
    engine.graphs.main.runner.step()
    other.execute("COMMIT")
    engine.graphs.main.runner.complete()
    step(engine)


@pytest.mark.parametrize("dies", [False, True])
def test_a_new_job_stays_apart_until_they_have_come(
    other: sqlite3.Connection, tmp_path: Path, dies: bool
) -> None:
    engine = owing(tmp_path, other)
    if dies:
        die(engine)
        engine = opened(tmp_path)
    submit(engine, "two")
    free(engine, other)
    assert seen(other) == [("one", 0), ("one", 1), ("one", 2), ("one", 3), ("two", 3)]
    for name in ("two", "one"):
        assert engine.merge(name).status == "merged"
    feed(engine, 4)
    assert seen(other)[-3:] == [("one", 4), ("two", 3), ("two", 4)]
    assert engine.job("one").graph == engine.job("two").graph == MAIN
    engine.close()


def test_another_job_is_not_merged_before(other: sqlite3.Connection, tmp_path: Path) -> None:
    engine = owing(tmp_path, other)
    submit(engine, "two")
    assert engine.merge("two").status == "merging"
    assert "'seen' has not taken all rows" in (engine.job("two").reason or "")
    free(engine, other)
    assert [i for name, i in seen(other) if name == "one"] == [0, 1, 2, 3]
    engine.close()


def test_a_job_that_runs_cannot_turn_to_the_table_before(
    other: sqlite3.Connection, tmp_path: Path
) -> None:
    engine = owing(tmp_path, other)
    with pytest.raises(SqlError, match="cannot write to table 'seen' now"):
        submit(engine, "rule")
    free(engine, other)
    submit(engine, "rule")
    feed(engine, 4)
    assert seen(other) == [*(("one", i) for i in range(5)), ("rule", 4)]
    engine.close()


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("retries", [1000, 999])
def test_rows_that_a_table_has_refused_wait_for_their_job(
    other: sqlite3.Connection, tmp_path: Path, dies: bool, retries: int
) -> None:
    """Others write meanwhile, in graphs of their own; also where the table is defined anew under
    its name, with options by which its database does not tell two writers apart."""
    never = {"restart-strategy.type": "none"}
    engine = opened(tmp_path, never)
    submit(engine, "one")
    feed(engine, 0)
    other.execute(REFUSE)
    append(engine, 1)
    with pytest.raises(JobsFailed, match="closed"):
        eventually(lambda: step(engine))
    engine._failures.report(frozenset({"one"}), "closed")
    engine._thread.submit(lambda: None).result()
    assert engine.job("one").state is JobState.FAILED
    other.execute("DROP TRIGGER refuse")
    if dies:
        die(engine)
        engine = opened(tmp_path, never)
    engine.submit("tables", EVENTS + SEEN.format(folder=tmp_path).replace("1000", str(retries)))
    submit(engine, "two")
    feed(engine, 2)
    assert seen(other) == [("one", 0), ("two", 2)]
    assert engine.start_job("one").status == "started"
    step(engine)
    assert seen(other) == [("one", 0), ("one", 1), ("one", 2), ("two", 2)]
    engine.close()
