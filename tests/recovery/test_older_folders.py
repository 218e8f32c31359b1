"""A data folder that is older than the tables outside of it: restored from a backup, its jobs write
again what they have written since, and nothing is taken for a repetition."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from sqlengine.engine import Engine
from sqlengine.jobs.job import JobState
from tests.engine.by_hand import EVENTS, append, die, open_engine, rows, step
from tests.hostile.injector import HANG, Fault, Injector
from tests.support import eventually

SEEN = """CREATE TABLE seen (id BIGINT)
WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{folder}/app.db', 'table-name' = 'seen');
"""
# A job that failed is started again by the test alone.
BY_HAND = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.delay": "1 h",
    "restart-strategy.fixed-delay.attempts": "9",
}


def feed(engine: Engine, *ids: int) -> None:
    for each in ids:
        append(engine, each)
        step(engine)


@pytest.mark.parametrize("dies", [False, True])
def test_a_backup_goes_on_where_it_was(
    tmp_path: Path, dies: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(sqlite3.connect(tmp_path / "app.db")) as database:
        database.execute("CREATE TABLE seen (id BIGINT)")
    data, backup = tmp_path / "data", tmp_path / "backup"
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS + SEEN.format(folder=tmp_path))
    engine.submit("copies", "INSERT INTO seen SELECT id FROM events")
    feed(engine, 0, 1, 2)
    (die if dies else Engine.close)(engine)
    shutil.copytree(data, backup)
    later = open_engine(tmp_path)
    feed(later, 3, 4, 5, 6)
    later.close()
    assert "older" not in caplog.text
    shutil.rmtree(data)
    shutil.copytree(backup, data)
    restored = open_engine(tmp_path)
    assert "'seen' has rows of later epochs" in caplog.text
    feed(restored, 7, 8)
    restored.close()
    again = open_engine(tmp_path)
    feed(again, 9)
    again.close()
    with closing(sqlite3.connect(tmp_path / "app.db")) as database:
        found = [row[0] for row in database.execute("SELECT id FROM seen ORDER BY rowid")]
    assert found == list(range(10))


def _older(folder: Path) -> Path:
    """A data folder with a job that has written 0 to 2 of the rows 0 to 6 which its table has, and
    what it reads; returns the file of the table."""
    file, data, backup = folder / "app.db", folder / "data", folder / "backup"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE seen (id BIGINT)")
    engine = open_engine(folder)
    engine.submit("tables", EVENTS + SEEN.format(folder=folder))
    engine.submit("copies", "INSERT INTO seen SELECT id FROM events")
    engine.submit("others", "INSERT INTO outs SELECT 'others', id FROM events")
    feed(engine, 0, 1, 2)
    engine.close()
    shutil.copytree(data, backup)
    later = open_engine(folder)
    feed(later, 3, 4, 5, 6)
    later.close()
    shutil.rmtree(data)
    shutil.copytree(backup, data)
    return file


def _seen(file: Path) -> list[int]:
    with closing(sqlite3.connect(file)) as database:
        return [row[0] for row in database.execute("SELECT id FROM seen ORDER BY rowid")]


def _turn_until_left(engine: Engine, job: str) -> None:
    """Steps the graphs as their loops do, until the job has left its graph."""
    _turn_while(engine, lambda: engine.graphs.runs(job))
    settled = engine._thread.submit(lambda: None)  # the thread that takes it out has ended that
    _turn_while(engine, lambda: not settled.done())


def _turn_while(engine: Engine, goes_on: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while goes_on():
        assert time.monotonic() < deadline
        for graph in list(engine.graphs.by_name.values()):
            graph.loop.turn()


def test_a_table_that_was_away_at_the_start_gets_all_rows(tmp_path: Path) -> None:
    """Nobody could ask it for its last epoch: its job reads nothing before somebody has."""
    file = _older(tmp_path)
    file.rename(tmp_path / "away.db")
    restored = open_engine(tmp_path, settings=BY_HAND)
    append(restored, 7)
    _turn_until_left(restored, "copies")
    assert restored.job("copies").state is JobState.RESTARTING
    assert "'seen'" in (restored.job("copies").reason or "")
    feed(restored, 8)
    assert [n for _, n in rows(restored)] == [0, 1, 2, 7, 8]
    (tmp_path / "away.db").rename(file)
    restored.start_job("copies")
    feed(restored, 9)
    restored.close()
    again = open_engine(tmp_path)
    feed(again, 10)
    again.close()
    assert _seen(file) == list(range(11))


def test_a_job_that_the_folder_does_not_know_yet_gets_all_rows(tmp_path: Path) -> None:
    """The table has epochs of the same graph, in which another life of the job has run."""
    file, data, backup = tmp_path / "app.db", tmp_path / "data", tmp_path / "backup"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE seen (id BIGINT)")
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS + SEEN.format(folder=tmp_path))
    engine.close()
    shutil.copytree(data, backup)
    later = open_engine(tmp_path)
    later.submit("copies", "INSERT INTO seen SELECT id FROM events")
    feed(later, 0, 1, 2, 3)
    later.close()
    shutil.rmtree(data)
    shutil.copytree(backup, data)
    restored = open_engine(tmp_path)
    restored.submit("copies", "INSERT INTO seen SELECT id FROM events")
    feed(restored, 4, 5)
    die(restored)
    again = open_engine(tmp_path)
    feed(again, 6)
    again.close()
    assert _seen(file) == list(range(7))


def test_tables_that_do_not_answer_are_waited_for_together(tmp_path: Path) -> None:
    names = [f"seen{n}" for n in range(4)]
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    for name in names:
        (tmp_path / name).mkdir()
        with closing(sqlite3.connect(tmp_path / name / "app.db")) as database:
            database.execute("CREATE TABLE seen (id BIGINT)")
        table = SEEN.format(folder=tmp_path / name).replace("TABLE seen", f"TABLE {name}")
        engine.submit(f"{name}_table", table)
        engine.submit(name, f"INSERT INTO {name} SELECT id FROM events")
    feed(engine, 0)
    engine.close()
    with Injector() as injector:
        for name in names:
            injector.switch_on(name, Fault("open", HANG))
        began = time.monotonic()
        again = open_engine(tmp_path, settings=BY_HAND)
        took = time.monotonic() - began
        for name in names:
            injector.switch_off(name)
    append(again, 1)
    for name in names:
        _turn_until_left(again, name)
        again.start_job(name)
    step(again)
    again.close()
    assert [_seen(tmp_path / name / "app.db") for name in names] == [[0, 1]] * 4
    assert took < 3.5  # s; one after the other they take a second each


def test_other_jobs_do_not_wait_for_a_new_table_that_is_asked(tmp_path: Path) -> None:
    """Which epochs it has is asked before the graph is changed, not between two of its epochs."""
    file = _older(tmp_path)
    restored = open_engine(tmp_path)
    restored.stop_job("copies")
    restored.start()
    hangs = Fault("last_epoch", HANG)
    with Injector() as injector, ThreadPoolExecutor(1) as user:
        injector.switch_on("seen", hangs)
        added = user.submit(restored.submit, "again", "INSERT INTO seen SELECT id FROM events")
        eventually(lambda: hangs.calls, "the question")
        append(restored, 7)
        eventually(lambda: ["others", 7] in rows(restored), "the row of the other job")
        assert not added.done()
        injector.switch_off("seen")
        added.result(60)
    append(restored, 8)
    eventually(lambda: 8 in _seen(file))
    restored.close()
    assert _seen(file) == [*range(7), 8]
