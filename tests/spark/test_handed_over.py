"""Rows that go by files are the rows that Spark would carry. Nothing here starts a JVM but one test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sqlengine.executors.spark.executor import SparkExecutor
from sqlengine.executors.spark.options import SparkOptions
from tests.spark.feeding import Told, fed, in_one_process, run_epoch
from tests.spark.scripting import run
from tests.spark.staged import Staged

QUERIES = {
    "rows": "SELECT k, i, m FROM e WHERE i > 2",
    "keys": "SELECT k, COUNT(*), SUM(i) FROM e GROUP BY k",
    "joined": "SELECT e.k, e.i, f.m FROM e JOIN f ON e.k = f.k",
    "stages": "SELECT n, COUNT(*) FROM (SELECT k, COUNT(*) AS n FROM e GROUP BY k) GROUP BY n",
}


@pytest.mark.parametrize("carried", [0, 2_000])
@pytest.mark.parametrize("name", QUERIES)
def test_rows_by_files_are_the_same(name: str, carried: int, tmp_path: Path) -> None:
    case, told = fed(QUERIES[name], 4, chunks=6), Told()
    wanted = in_one_process(case)
    executor = SparkExecutor(Staged(), SparkOptions(tmp_path, 100, carried=carried))
    executor.switch(executor.prepare(case.plan))
    for epoch, turns in enumerate((range(4), range(4, 6)), 1):
        run_epoch(executor, case, epoch, turns, told.write)
    assert wanted
    assert told.left() == wanted
    assert executor.state_files["batches by files"] > 0
    assert not list((tmp_path / "handed-over").glob("*")), "what was read is deleted"


def test_few_rows_need_no_file(tmp_path: Path) -> None:
    case, told = fed(QUERIES["rows"], 4, chunks=6), Told()
    executor = SparkExecutor(Staged(), SparkOptions(tmp_path, 100))
    executor.switch(executor.prepare(case.plan))
    run_epoch(executor, case, 1, range(6), told.write)
    assert told.left() == in_one_process(case)
    assert executor.state_files["batches by files"] == 0


LARGE = """
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '24000',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '23999');
CREATE TABLE nowhere (n BIGINT, s STRING) WITH ('connector' = 'blackhole');
INSERT INTO nowhere SELECT n, REPEAT(CAST(n AS STRING), 10000) FROM numbers;
"""


@pytest.mark.spark
def test_results_are_larger_than_the_memory_of_the_driver(spark: Any, tmp_path: Path) -> None:
    """Over 1 GB in one epoch; Spark's driver has 1 GB, and gives up a job beyond that."""
    outcome = run(LARGE, tmp_path, tmp_path, "spark")
    assert not outcome.errors
