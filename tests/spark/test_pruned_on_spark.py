"""What conditions on partitions and on rows of Parquet leave out, both executors leave out, with the
same rows. Nothing here starts a JVM but one test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlengine.config import Target
from sqlengine.engine import Engine
from sqlengine.executors.embedded import PRUNED, EmbeddedExecutor
from sqlengine.machine import THIS
from sqlengine.session.environment import open_runner
from sqlengine.session.runner import EmbeddedRunner, Runner
from sqlengine.session.session import Session
from sqlengine.session.spark import script_runner
from tests.engine.by_hand import die
from tests.spark.scripting import Collected, Outcome
from tests.spark.staged import RepeatedFrames, Staged
from tests.spark.test_engine_on_spark import World, rows
from tests.support import eventually

GROUPS, PER_GROUP = 12, 50
TABLES = """
CREATE TABLE readings (n BIGINT, v DOUBLE, s STRING, dt STRING, hr INT) PARTITIONED BY (dt, hr)
WITH ('connector' = 'filesystem', 'path' = '{folder}/readings', 'format' = 'parquet');
"""
OFF = """SET 'table.optimizer.source.predicate-pushdown-enabled' = 'false';
SET 'execution.runtime-mode' = 'batch';"""
PARTITIONS = "SELECT n, hr FROM readings WHERE dt = '2024-05-01' AND hr BETWEEN 6 AND 7"
# The rows of a query, and the groups of rows that it leaves out of the two files that can be read.
QUERIES = {
    PARTITIONS: (2 * GROUPS * PER_GROUP, 0),
    f"{PARTITIONS} AND n >= 580": (20 + 600, 11),
    f"{PARTITIONS} AND n < 0": (0, 24),
    f"{PARTITIONS} AND (n = 5 OR s IS NULL)": (1, 23),
    f"SELECT COUNT(*), SUM(v) FROM ({PARTITIONS.replace('n, hr', '*')} AND n >= 1150) AS r": (
        1,
        23,
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Partitions of hours: two of a day can be read, and all others hold what is no Parquet."""
    for day, hour in [(1, 5), (1, 6), (1, 7), (1, 8), (2, 6)]:
        place = tmp_path / "readings" / f"dt=2024-05-0{day}" / f"hr={hour}"
        place.mkdir(parents=True)
        first = 600 * (hour - 6)
        ids = pa.array(range(first, first + GROUPS * PER_GROUP), pa.int64())
        table = pa.table({"n": ids, "v": ids.cast(pa.float64()), "s": ids.cast(pa.string())})
        if (day, hour) in ((1, 6), (1, 7)):
            pq.write_table(table, place / "a.parquet", row_group_size=PER_GROUP)
        else:
            (place / "a.parquet").write_text("whoever opens this fails")
    return tmp_path


def outcome(
    text: str, opened: AbstractContextManager[Runner], patch: pytest.MonkeyPatch
) -> tuple[Outcome, int]:
    """The rows of a script, and how many groups of rows were left out."""
    made: list[EmbeddedExecutor] = []
    with opened as runner:
        assert isinstance(runner, EmbeddedRunner)
        executor = runner.executor

        def watched(number: int, settings: Mapping[str, str]) -> EmbeddedExecutor:
            made.append(executor(number, settings))
            return made[-1]

        patch.setattr(runner, "executor", watched)
        collected = Collected(text)
        Session(runner, collected).run(text)
    counted = Counter[str]()
    for one in made:
        for node in one.running.values():
            counted.update(node.context.counters)
    found = collected.finish()
    assert not found.errors
    return found, counted[PRUNED]


def total(found: Outcome) -> int:
    return sum(n for row, n in found.rows.items() if "[" in row or "{" in row)


@pytest.mark.parametrize("query", QUERIES)
def test_both_executors_leave_out_the_same(
    query: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    off = OFF + TABLES.format(folder=folder) + query + ";"
    text = off.replace("'false'", "'true'")
    wanted = outcome(off, open_runner(folder / "off", 100, "embedded"), monkeypatch)
    assert wanted[1] == 0
    count, pruned = QUERIES[query]
    assert total(wanted[0]) == count
    places: Iterator[AbstractContextManager[Runner]] = iter(
        (
            open_runner(folder / "here", 100, "embedded"),
            script_runner(folder / "there", 100, Staged(2)),
            script_runner(folder / "again", 100, Staged(3, RepeatedFrames)),
        )
    )
    for opened in places:
        found = outcome(text, opened, monkeypatch)
        assert found[0].rows == wanted[0].rows
        assert found[1] == pruned


def test_explain_has_what_is_wanted(folder: Path) -> None:
    where = "[reads parts where ((n >= 580) AND (v IS NOT NULL))]"
    text = f"EXPLAIN {PARTITIONS} AND n >= 580 AND v IS NOT NULL AND 1 / v > 0;"
    for settings, told in ((OFF.replace("'false'", "'true'"), True), (OFF, False)):
        whole = settings + TABLES.format(folder=folder) + text
        with open_runner(folder / str(told), 100, "embedded") as runner:
            collected = Collected(whole)
            Session(runner, collected).run(whole)
        assert (where in str(collected.finish().rows)) == told


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
def test_spark_leaves_out_the_same(
    spark: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, (count, pruned) = list(QUERIES.items())[1]
    text = OFF.replace("'false'", "'true'") + TABLES.format(folder=folder) + query + ";"
    found = outcome(text, open_runner(folder / "there", 100, "spark"), monkeypatch)
    assert (total(found[0]), found[1]) == (count, pruned)


WATCHED = """CREATE TABLE readings (n BIGINT) WITH ('connector' = 'filesystem', 'format' = 'parquet',
  'path' = '{folder}', 'source.monitor-interval' = '10 ms');
CREATE TABLE found (job STRING, n BIGINT) WITH ('connector' = 'topic', 'topic' = 'found', 'format' = 'json')"""


def write(folder: Path, number: int) -> None:
    """A file with ten groups of ten rows, numbered on from those of the files before."""
    ids = pa.array(range(100 * number, 100 * number + 100), pa.int64())
    hidden = folder / f".{number}"
    pq.write_table(pa.table({"n": ids}), hidden, row_group_size=10)
    hidden.rename(folder / f"{number}.parquet")


@pytest.mark.parametrize("target", ["embedded", "spark"])
def test_jobs_that_come_and_go(target: Target, tmp_path: Path) -> None:
    """Each gets all of its rows, whatever those that it shares the table with want, and a kill
    repeats nothing."""
    world = World(tmp_path / "data", replace(THIS, spark=lambda config: Staged(2)))
    folder = tmp_path / "in"
    folder.mkdir()
    wanted = {"a": range(5, 18), "b": range(340, 341), "all": range(10**6)}
    engine = world.open(target)
    engine.broker.create_topic("found", 1)
    engine.submit("tables", WATCHED.format(folder=folder))

    def submit(job: str) -> None:
        where = f"n >= {wanted[job].start} AND n < {wanted[job].stop}" if job != "all" else "TRUE"
        engine.submit(job, f"INSERT INTO found SELECT '{job}', n FROM readings WHERE {where}")

    def has(files: int, *jobs: str) -> bool:
        there = sorted((r["job"], r["n"]) for r in rows(engine, "found"))
        return there == sorted((j, n) for j in jobs for n in wanted[j] if n < 100 * files)

    write(folder, 0)
    submit("a")
    eventually(lambda: has(1, "a"))
    write(folder, 1)
    submit("b")
    for number in (2, 3):
        write(folder, number)
    eventually(lambda: has(4, "a", "b"))
    die(engine)
    engine = world.open(target)
    submit("all")
    eventually(lambda: has(4, "a", "b", "all"))
    engine.remove("all")
    write(folder, 4)
    eventually(lambda: has_read_all(engine))
    pruned = engine.graphs.totals().operators[PRUNED]
    assert pruned >= 10, "nobody wants a row of the last file"
    engine.close()


def has_read_all(engine: Engine) -> bool:
    graphs = {name: engine.graphs.of(name) for name in ("a", "b")}
    read = (s for g in graphs.values() for s in g.runner.inputs.running.values())
    return all(len(s.positions) == 5 and set(s.positions.values()) == {100} for s in read)
