"""Rows that the driver reads go to several tasks, and come back as if one had had them all. Nothing here
starts a JVM."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sqlengine.executors.spark import splits
from sqlengine.executors.spark.executor import SparkExecutor
from sqlengine.executors.spark.options import SparkOptions
from sqlengine.formats.results import rows_of
from tests.spark.feeding import Fed, Told, fed, run_epoch
from tests.spark.staged import Staged

QUERIES = {
    "rows": "SELECT k, i, RAND() FROM e WHERE i > 2",
    "keys": "SELECT k, COUNT(*), SUM(i), LAST_VALUE(i) FROM e GROUP BY k",
    "windows": """SELECT k, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '3' SECOND))
        GROUP BY k, window_start, window_end""",
    "joined": "SELECT e.k, e.i, f.m FROM e JOIN f ON e.k = f.k",
}


def told(case: Fed, folder: Path) -> tuple[Sequence[object], int]:
    """The rows that come, in their order, and how many splits there were."""
    folder.mkdir()
    executor, seen = SparkExecutor(Staged(), SparkOptions(folder, 3, carried=0)), Told()
    executor.switch(executor.prepare(case.plan))
    for epoch, turns in enumerate((range(4), range(4, 6)), 1):
        run_epoch(executor, case, epoch, turns, seen.write)
    rows = [row for batch in seen.batches for row in rows_of(batch)]
    return rows, executor.state_files["batches by files"]


@pytest.mark.parametrize("name", QUERIES)
def test_several_tasks_are_as_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = fed(QUERIES[name], 4, chunks=6)
    found = {}
    for turns in (1, 2, 100):
        monkeypatch.setattr(splits, "TURNS_PER_SPLIT", turns)
        found[turns] = told(case, tmp_path / str(turns))
    assert found[1][0] == found[2][0] == found[100][0] != []
    assert found[1][1] > found[2][1] > found[100][1]
