"""Aggregates in two steps leave the same rows as in one, and fewer of them cross the exchange.
Nothing here starts a JVM."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sqlengine.executors.spark.executor import SparkExecutor
from sqlengine.executors.spark.local_phases import with_local_phases
from sqlengine.executors.spark.options import SparkOptions
from sqlengine.executors.spark.plan import cut_plan
from tests.spark.feeding import Fed, Told, fed, in_one_process, run_epoch
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
_CALLS = "COUNT(*), SUM(i), MIN(m), MAX(k), AVG(i), COUNT(*) FILTER (WHERE m > 0)"
_OF = "FROM TABLE({}(TABLE e, DESCRIPTOR(ts), {})) GROUP BY window_start, window_end, k"
WINDOWS = {
    "tumble": "SELECT k, window_start, {} " + _OF.format("TUMBLE", "INTERVAL '2' SECOND"),
    "tumble, shifted": "SELECT k, window_time, {} "
    + _OF.format("TUMBLE", "INTERVAL '3' SECOND, INTERVAL '1' SECOND")
    + ", window_time",
    "hop": "SELECT k, window_end, {} "
    + _OF.format("HOP", "INTERVAL '1' SECOND, INTERVAL '3' SECOND"),
    "hop without overlap": "SELECT k, window_end, {} "
    + _OF.format("HOP", "INTERVAL '2' SECOND, INTERVAL '2' SECOND"),
    "cumulate": "SELECT k, window_end, {} "
    + _OF.format("CUMULATE", "INTERVAL '1' SECOND, INTERVAL '4' SECOND"),
    "no keys": "SELECT window_end, {} FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '1' SECOND))"
    " GROUP BY window_start, window_end",
    "of windows": "SELECT window_end, COUNT(*), SUM(n) FROM (SELECT k, window_start, window_end, COUNT(*) AS n "
    + _OF.format("TUMBLE", "INTERVAL '2' SECOND")
    + ") GROUP BY window_start, window_end",
    "grouped by time": "SELECT k, TUMBLE_END(ts, INTERVAL '2' SECOND), {} FROM e"
    " GROUP BY k, TUMBLE(ts, INTERVAL '2' SECOND)",
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


def staged(
    case: Fed, folder: Path, phases: str, counted: Counter[str] | None = None
) -> Counter[str]:
    """The rows that tasks leave, after two epochs."""
    told = Told()
    options = SparkOptions(folder, 100, phases=phases)
    executor = SparkExecutor(Staged(), options)  # what is asked of a session
    executor.switch(executor.prepare(case.plan))
    for epoch, turns in enumerate((range(4), range(4, 6)), 1):
        run_epoch(executor, case, epoch, turns, told.write)
    if counted is not None:
        for running in executor.running.values():
            counted.update(running.context.counters)
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
    assert staged(two, tmp_path / "two", phases) == wanted
    over = Counter[str]()
    assert staged(one, tmp_path / "one", phases, over) == wanted
    assert 0 < over["rows_over_exchange"] < over["rows_before_exchange"]
    assert staged(one, tmp_path / "off", "ONE_PHASE") == wanted


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_in_two_steps(name: str, seed: int, tmp_path: Path) -> None:
    """Late rows among them, which count as before."""
    case = fed(WINDOWS[name].format(_CALLS), seed, chunks=6)
    in_one, counted, off = Counter[str](), Counter[str](), Counter[str]()
    wanted = in_one_process(case, in_one)
    assert wanted
    assert staged(case, tmp_path / "two", "AUTO", counted) == wanted
    assert 0 < counted["rows_over_exchange"] < counted["rows_before_exchange"]
    assert staged(case, tmp_path / "one", "ONE_PHASE", off) == wanted
    assert not off["rows_over_exchange"]
    assert counted["late_rows"] == off["late_rows"] == in_one["late_rows"] > 0


@pytest.mark.parametrize("name", ONE_STEP)
def test_one_step(name: str) -> None:
    query, mini_batch, phases = ONE_STEP[name]
    counted = Counter[str]()
    assert in_one_process(fed(query, 3, 2, mini_batch, phases), counted)
    assert not counted["rows_before_exchange"]


def test_the_first_step_stands_before_the_exchange() -> None:
    cut = cut_plan(with_local_phases(fed(QUERIES["keys"], 3, 2).plan, "AUTO"))
    (source,) = cut.sources.values()
    assert type(source.nodes[-1].plan).__name__ == "LocalAggregate"
    assert type(cut.keyed[0].nodes[0].plan).__name__ == "GlobalAggregate"
    assert [e.keys for e in cut.exchange.values()] == [("k",)]
