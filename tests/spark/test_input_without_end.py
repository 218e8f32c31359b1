"""Input without an end on Spark: what there is by now is a batch, and state goes from batch to
batch."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sqlengine.batch import Batch
from sqlengine.executors.spark.session import OwnSpark, Spark
from sqlengine.formats.results import rows_of
from sqlengine.session.session import Session
from sqlengine.session.spark import SparkRunner, script_runner
from tests.spark.scripting import Collected
from tests.spark.staged import Staged

TABLES = """
    CREATE TABLE t (ts TIMESTAMP(3), k STRING, v INT, now AS PROCTIME(), WATERMARK FOR ts AS ts)
    WITH ('connector' = 'filesystem', 'path' = '{0}/t', 'format' = 'json', 'source.follow' = 'true');
    CREATE TABLE over_soon (ts TIMESTAMP(3), k STRING, WATERMARK FOR ts AS ts)
    WITH ('connector' = 'filesystem', 'path' = '{0}/over_soon', 'format' = 'json');
"""


class Enough(Exception): ...


class Watched(Collected):
    """After so many rows `then` is called, behind the last of them comes Enough."""

    def __init__(self, text: str, steps: list[tuple[int, Callable[[], object]]], last: int) -> None:
        super().__init__(text)
        self.seen: list[list[object]] = []
        self._steps, self._last = steps, last

    def rows(self, stmt: int, batch: Batch) -> None:
        self.seen += [[op, *row] for op, row in rows_of(batch)]
        while self._steps and len(self.seen) >= self._steps[0][0]:
            self._steps.pop(0)[1]()
        if len(self.seen) >= self._last:
            raise Enough


def line(second: int, key: str, value: int) -> str:
    return f'{{"ts": "2024-01-01 00:00:{second:02}", "k": "{key}", "v": {value}}}\n'


def grown(
    folder: Path,
    spark: Spark,
    query: str,
    steps: list[tuple[int, list[str] | Callable[[], object]]],
    last: int,
    more: str = "",
) -> list[list[object]]:
    """The rows of a query over files that grow."""
    (folder / "t").mkdir()
    (folder / "over_soon").mkdir()
    (folder / "over_soon" / "0.json").write_text(line(0, "a", 1))
    file = folder / "t" / "0.json"
    file.write_text(line(1, "a", 1) + line(2, "b", 2) + more)

    def append(lines: list[str]) -> None:
        with file.open("a") as out:
            out.write("".join(lines))

    acts = [(n, partial(append, s) if isinstance(s, list) else s) for n, s in steps]
    shown = Watched("", acts, last)
    with script_runner(folder / "data", 100, spark) as runner, pytest.raises(Enough):
        _session(runner, shown).run(TABLES.format(folder) + query)
    return shown.seen


def _session(runner: SparkRunner, shown: Watched) -> Session:
    return Session(runner, shown)


def by_key(spark: Spark, folder: Path) -> None:
    seen = grown(
        folder,
        spark,
        "SELECT k, SUM(v) FROM t GROUP BY k",
        [(2, [line(3, "a", 5)]), (4, [line(4, "b", 7)])],
        6,
    )
    assert sorted(map(str, seen[:2])) == ["['+I', 'a', 1]", "['+I', 'b', 2]"]
    assert seen[2:] == [["-U", "a", 1], ["+U", "a", 6], ["-U", "b", 2], ["+U", "b", 9]]


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
def test_state_from_batch_to_batch_on_spark(spark: Any, tmp_path: Path) -> None:
    by_key(OwnSpark(), tmp_path)


def test_state_from_batch_to_batch(tmp_path: Path) -> None:
    by_key(Staged(), tmp_path)


def test_a_table_that_ends_does_not_hold_time_back(tmp_path: Path) -> None:
    query = """SELECT window_start, COUNT(*)
        FROM TABLE(TUMBLE((SELECT ts, k FROM t UNION ALL SELECT ts, k FROM over_soon), DESCRIPTOR(ts), INTERVAL '5' SECOND))
        GROUP BY window_start, window_end"""
    seen = grown(tmp_path, Staged(), query, [], 1, line(9, "a", 3))
    assert seen == [["+I", "2024-01-01T00:00", 3]]


def test_windows_go_on_over_a_rotated_log(tmp_path: Path) -> None:
    query = """SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND))
        GROUP BY window_start, window_end"""

    def rotate() -> None:
        log = tmp_path / "t" / "0.json"
        with log.open("a") as file:
            file.write(line(8, "a", 1))
        log.rename(tmp_path / "t" / "0.json.1")
        log.write_text(line(11, "b", 1) + line(21, "b", 1))

    seen = grown(tmp_path, Staged(), query, [(1, rotate)], 3, line(7, "a", 3))
    assert seen == [
        ["+I", "2024-01-01T00:00", 2],
        ["+I", "2024-01-01T00:00:05", 2],
        ["+I", "2024-01-01T00:00:10", 1],
    ]


def test_windows_of_the_clock_end_without_rows(tmp_path: Path) -> None:
    query = (
        "SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(now), INTERVAL '1' SECOND)) GROUP BY"
        " window_start, window_end"
    )
    (row,) = grown(tmp_path, Staged(), query, [], 1)
    assert row == ["+I", 2]


def test_rows_that_come_one_after_the_other(tmp_path: Path) -> None:
    """With a rate of its own `datagen` has an end, and takes its time."""
    text = """CREATE TABLE t (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '500',
        'number-of-rows' = '200', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '200');
        SELECT n FROM t;"""
    began, collected = time.monotonic(), Collected(text)
    with script_runner(tmp_path, 4096, Staged(2)) as runner:
        Session(runner, collected).run(text)
    assert time.monotonic() - began > 0.35
    assert sum(collected.finish().rows.values()) >= 200
