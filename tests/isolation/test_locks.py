"""While another holds a table, epochs go on, and the rows of several of them wait for it: each
comes once, whatever dies."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sqlengine.connectors.base import Busy
from sqlengine.engine import Engine
from sqlengine.executors.runner import GraphRunner
from sqlengine.executors.sinks import uncommitted
from tests.engine.by_hand import EVENTS, append, die, of_job, open_engine, step

SEEN = """CREATE TABLE seen (job STRING, id BIGINT)
WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{folder}/app.db', 'table-name' = 'seen', 'sink.max-retries' = '1000');
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "app.db", isolation_level=None)) as database:
        database.execute("CREATE TABLE seen (job TEXT, id BIGINT)")
        yield database


@pytest.fixture
def engine(tmp_path: Path, other: sqlite3.Connection) -> Engine:
    engine = opened(tmp_path)
    engine.submit("rule", "INSERT INTO outs SELECT 'rule', id FROM events")
    for name in ("one", "two"):
        engine.submit(name, f"INSERT INTO seen SELECT '{name}', id FROM events")
    return engine


def opened(folder: Path, settings: dict[str, str] | None = None) -> Engine:
    engine = open_engine(folder, settings=settings)
    engine.submit("tables", EVENTS + SEEN.format(folder=folder))
    return engine


def seen(other: sqlite3.Connection) -> list[tuple[str, int]]:
    return sorted(other.execute("SELECT job, id FROM seen"))


def feed(engine: Engine, *ids: int) -> None:
    for each in ids:
        append(engine, each)
        step(engine)


def of_both(ids: int) -> list[tuple[str, int]]:
    return [(name, i) for name in ("one", "two") for i in range(ids)]


def free(engine: Engine, other: sqlite3.Connection) -> None:
    """The lock goes, and the rows come: at once, since who asks for all output waits for no
    turn."""
    other.execute("COMMIT")
    engine.graph.runner.complete()


def test_epochs_go_on_and_their_rows_come_later(
    engine: Engine, other: sqlite3.Connection, tmp_path: Path
) -> None:
    feed(engine, 0)
    other.execute("BEGIN IMMEDIATE")
    feed(engine, 1, 2, 3)
    assert of_job(engine, "rule") == [0, 1, 2, 3]
    assert seen(other) == of_both(1)
    free(engine, other)
    assert seen(other) == of_both(4)
    die(engine)  # no checkpoint was made since: all epochs come again
    again = opened(tmp_path)
    feed(again, 4)
    assert (of_job(again, "rule"), seen(other)) == ([0, 1, 2, 3, 4], of_both(5))
    again.close()


def test_a_death_while_rows_wait(engine: Engine, other: sqlite3.Connection, tmp_path: Path) -> None:
    feed(engine, 0)
    other.execute("BEGIN IMMEDIATE")
    feed(engine, 1, 2)
    engine.graph.runner.checkpoint_when_due()
    assert engine.graph.checkpoints.stored is None, "what waits must come again"
    die(engine)
    other.execute("COMMIT")
    again = opened(tmp_path)
    feed(again, 3)
    assert (of_job(again, "rule"), seen(other)) == ([0, 1, 2, 3], of_both(4))
    again.close()


@pytest.mark.parametrize("dies", [False, True])
def test_rows_that_wait_go_along_with_their_job(
    engine: Engine,
    other: sqlite3.Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    dies: bool,
) -> None:
    """Also where the server dies before the graph that the job has left has a checkpoint: it writes
    them again then."""
    engine.remove("two")
    feed(engine, 0)
    other.execute("BEGIN IMMEDIATE")
    feed(engine, 1, 2)
    append(engine, 3)
    with monkeypatch.context() as patch:
        if dies:
            patch.setattr(GraphRunner, "checkpoint", lambda self, wait=False: None)
        assert engine.isolate("one").status == "isolated"
        engine.graph.runner.step()
    if dies:
        die(engine)
        other.execute("COMMIT")
        engine = opened(tmp_path)
    else:
        other.execute("COMMIT")
    feed(engine, 4)
    assert of_job(engine, "rule") == [0, 1, 2, 3, 4]
    assert [i for _, i in seen(other)] == [0, 1, 2, 3, 4]
    engine.close()


def test_too_many_rows_hold_the_graph_up(
    engine: Engine, other: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uncommitted, "_WAITING_ROWS", 4)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Busy):
        feed(engine, 0, 1, 2, 3)
    assert of_job(engine, "rule") == [0, 1]
    free(engine, other)
    feed(engine)
    step(engine)
    assert (of_job(engine, "rule"), seen(other)) == ([0, 1], of_both(2))
    engine.close()
