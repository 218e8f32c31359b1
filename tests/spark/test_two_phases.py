"""Aggregates in two steps leave the same rows as in one, and fewer of them cross the exchange.
Nothing here starts a JVM."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sqlengine.executors.spark.executor import SparkExecutor, SparkOptions
from sqlengine.executors.spark.plan import cut_plan
from tests.spark.feeding import Told, fed, in_one_process, run_epoch
from tests.spark.staged import Staged

QUERIES = {
    "keys": (
        "SELECT k, COUNT(*), COUNT(i), SUM(i), MIN(m), MAX(m), AVG(i), SUM(m), AVG(m) FROM e GROUP"
        " BY k"
    ),
    "filter": "SELECT k, i, COUNT(*) FILTER (WHERE m > 0), MAX(k) FROM e GROUP BY k, i",
    "no keys": "SELECT COUNT(*), MIN(ts), MAX(k), SUM(m) FROM e",
    "sums of halves": (
        "SELECT k, SUM(CAST(i AS DOUBLE) / 2), AVG(CAST(i AS FLOAT)) FROM e GROUP BY k"
    ),
    "distinct": "SELECT DISTINCT k, i FROM e",
    "of aggregates": (
        "SELECT n, COUNT(*) FROM (SELECT k, COUNT(*) AS n FROM e GROUP BY k) GROUP BY n"
    ),
    "of a union": (
        "SELECT k, MAX(i), COUNT(*) FROM (SELECT k, i FROM e UNION ALL SELECT k, i FROM f) GROUP"
        " BY k"
    ),
    "joined": (
        "SELECT a.k, n, s FROM (SELECT k, COUNT(*) AS n FROM e GROUP BY k) AS a "
        "JOIN (SELECT k, SUM(i) AS s FROM f GROUP BY k) AS b ON a.k = b.k"
    ),
}
ONE_STEP = {
    "mini-batch is off": ("SELECT k, COUNT(*) FROM e GROUP BY k", False, "TWO_PHASE"),
    "ONE_PHASE": ("SELECT k, COUNT(*) FROM e GROUP BY k", True, "ONE_PHASE"),
    "DISTINCT": ("SELECT k, COUNT(DISTINCT i) FROM e GROUP BY k", True, "TWO_PHASE"),
    "another function": ("SELECT k, LAST_VALUE(i) FROM e GROUP BY k", True, "TWO_PHASE"),
    "AUTO, and sums are rounded": (
        "SELECT k, SUM(CAST(i AS DOUBLE)) FROM e GROUP BY k",
        True,
        "AUTO",
    ),
}


def staged(query: str, folder: Path, phases: str) -> Counter[str]:
    case, told = fed(query, 3, chunks=6, phases=phases), Told()
    executor = SparkExecutor(Staged(), SparkOptions(folder, 100))  # what is asked of a session
    executor.switch(executor.prepare(case.plan))
    for epoch, turns in enumerate((range(4), range(4, 6)), 1):
        run_epoch(executor, case, epoch, turns, told.write)
    return told.left()


@pytest.mark.parametrize("name", QUERIES)
def test_two_steps_leave_what_one_leaves(name: str, tmp_path: Path) -> None:
    phases = "TWO_PHASE" if name == "sums of halves" else "AUTO"
    one, counted = fed(QUERIES[name], 3, chunks=6), Counter[str]()
    two = fed(QUERIES[name], 3, chunks=6, phases=phases)
    wanted = in_one_process(one)
    assert wanted
    assert in_one_process(two, counted) == wanted
    assert 0 < counted["rows_over_exchange"] < counted["rows_before_exchange"]
    assert staged(QUERIES[name], tmp_path, phases) == wanted


@pytest.mark.parametrize("name", ONE_STEP)
def test_one_step(name: str) -> None:
    query, mini_batch, phases = ONE_STEP[name]
    counted = Counter[str]()
    assert in_one_process(fed(query, 3, 2, mini_batch, phases), counted)
    assert not counted["rows_before_exchange"]


def test_the_first_step_stands_before_the_exchange() -> None:
    cut = cut_plan(fed(QUERIES["keys"], 3, 2, phases="AUTO").plan)
    (source,) = cut.sources.values()
    assert type(source.nodes[-1].plan).__name__ == "LocalAggregate"
    assert type(cut.keyed[0].nodes[0].plan).__name__ == "GlobalAggregate"
    assert [e.keys for e in cut.exchange.values()] == [("k",)]
