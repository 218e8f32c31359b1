"""The proof of the form for the operators of queries, on Spark: two inputs, several exchanges, one
behind the other and side by side. Epochs that are repeated after a crash are the same, buckets
move to another number of partitions, and what is left in the end is what one process leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sqlengine.batch import Batch
from sqlengine.executors.dataflow.flow import SinkWrite
from sqlengine.executors.spark import keyed as spark_keyed
from sqlengine.executors.spark.executor import SparkExecutor
from sqlengine.executors.spark.options import SparkOptions
from sqlengine.executors.spark.plan import cut_plan
from sqlengine.executors.spark.session import OwnSpark, Spark
from sqlengine.executors.spark.tasks.state import TaskState
from sqlengine.executors.wire import encode_batch
from tests.spark.feeding import Told, fed, in_one_process, run_epoch
from tests.spark.staged import Staged

_HOP = "TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '4' SECOND))"
_WINDOWS = (
    f"SELECT k, COUNT(*) AS n, window_time AS t FROM {_HOP} GROUP BY k, window_start, window_end,"
    " window_time"
)
_TIMED = "f.ts BETWEEN e.ts - INTERVAL '1' SECOND AND e.ts"
_COUNTS = "(SELECT i, COUNT(*) AS n FROM e GROUP BY i) AS a"
_SUMS = "(SELECT i, SUM(m) AS s FROM f GROUP BY i) AS b"
QUERIES = {
    "join": "SELECT e.k, e.i, f.i, f.m FROM e LEFT JOIN f ON e.k = f.k AND e.i = f.i",
    "interval-join": f"SELECT e.k, e.ts, f.ts FROM e LEFT JOIN f ON e.k = f.k AND {_TIMED}",
    "over": "SELECT k, i, SUM(i) OVER (PARTITION BY k ORDER BY ts) FROM e",
    "top": (
        "SELECT * FROM (SELECT k, i, m, ROW_NUMBER() OVER (PARTITION BY k ORDER BY i DESC, m) AS n"
        " FROM e) WHERE n <= 3"
    ),
    "match": (
        """SELECT * FROM e MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.i AS a, LAST(B.i) AS b, C.ts AS t
        AFTER MATCH SKIP PAST LAST ROW PATTERN (A B*? C) DEFINE C AS C.i > A.i)"""
    ),
    "windows-of-windows": (
        f"""WITH w AS ({_WINDOWS}) SELECT window_end, SUM(n), COUNT(*)
        FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(t), INTERVAL '6' SECOND)) GROUP BY window_start, window_end"""
    ),
    "sessions-of-late-rows": (
        f"""WITH j AS (SELECT e.k, e.i, f.i AS j, e.ts FROM e LEFT JOIN f ON e.k = f.k AND {_TIMED})
        SELECT i, COUNT(*), window_start, window_end, CURRENT_WATERMARK(window_time)
        FROM TABLE(SESSION(TABLE j PARTITION BY i, DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY i, window_start, window_end, window_time"""
    ),
    "windows-joined": (
        f"""WITH w AS ({_WINDOWS}) SELECT w.k, w.n, f.i
        FROM w JOIN f ON w.k = f.k AND w.t BETWEEN f.ts AND f.ts + INTERVAL '3' SECOND"""
    ),
    "aggregate-of-a-join": (
        f"SELECT n, COUNT(*), SUM(s) FROM {_COUNTS} JOIN {_SUMS} ON a.i = b.i GROUP BY n"
    ),
    "no-keys": (
        "SELECT COUNT(*), MAX(s) FROM (SELECT k, SUM(i) AS s FROM e GROUP BY k UNION ALL SELECT k,"
        " i FROM f)"
    ),
}
STAGES = {
    "windows-of-windows": 2,
    "sessions-of-late-rows": 2,
    "windows-joined": 2,
    "aggregate-of-a-join": 3,
    "no-keys": 2,
}
SOME = ("join", "over", "top", "match", "windows-joined", "aggregate-of-a-join")


class Killed(Exception): ...


@dataclass
class Sink:
    """Rows by epoch; one that comes again must be the same. The driver dies before the first
    attempt of the epochs in `kill` is complete."""

    kill: set[int]
    epochs: dict[int, list[bytes]] = field(default_factory=dict)
    told: Told = field(default_factory=Told)

    def commit(self, epoch: int, batches: Sequence[Batch]) -> None:
        data = [encode_batch(batch) for batch in batches]
        if epoch in self.epochs:
            assert self.epochs[epoch] == data
            return
        self.epochs[epoch] = data
        for batch in batches:
            self.told.write("", batch)
        if epoch in self.kill:
            raise Killed


def prove(spark: Spark, folder: Path, name: str) -> None:
    """Epochs of several turns; the second and the last are repeated by another driver, the last has
    its buckets in other partitions."""
    case, sink = fed(QUERIES[name], 5, chunks=9), Sink(kill={2, 3})
    state = None

    def run(epoch: int, turns: Sequence[int], partitions: int) -> TaskState | None:
        executor = SparkExecutor(spark, SparkOptions(folder, 100, partitions=partitions))
        executor.switch(executor.prepare(case.plan))
        executor.restore_tasks(state)
        batches: list[Batch] = []
        run_epoch(executor, case, epoch, turns, lambda _, batch: batches.append(batch))
        sink.commit(epoch, batches)
        return executor.task_state()

    state = run(1, range(3), 2)
    for epoch, turns, partitions in ((2, range(3, 5), 2), (3, range(5, 9), 3)):
        with pytest.raises(Killed):
            run(epoch, turns, partitions)
        state = run(epoch, turns, partitions)
    wanted = in_one_process(case)
    assert wanted
    assert sink.told.left() == wanted


@pytest.mark.parametrize("name", QUERIES)
def test_same_rows_in_stages(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it but Spark itself; workers remember nothing."""
    monkeypatch.setattr(spark_keyed, "_cache", lambda instance, key: None)
    prove(Staged(), tmp_path, name)


@pytest.mark.parametrize("name", QUERIES)
def test_stages(name: str) -> None:
    assert len(cut_plan(fed(QUERIES[name], 1, 2).plan).keyed) == STAGES.get(name, 1)


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SOME)
def test_same_rows_on_spark(spark: Any, tmp_path: Path, name: str) -> None:
    prove(OwnSpark(), tmp_path, name)


def test_an_epoch_is_repeated_in_another_number_of_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of the first attempt, which hold other buckets, are not taken for its own."""
    monkeypatch.setattr(spark_keyed, "_cache", lambda instance, key: None)
    case, told, state = fed(QUERIES["over"], 5, chunks=9), Told(), None

    def run(
        epoch: int, turns: Sequence[int], partitions: int, write: SinkWrite
    ) -> TaskState | None:
        executor = SparkExecutor(Staged(), SparkOptions(tmp_path, 100, partitions=partitions))
        executor.switch(executor.prepare(case.plan))
        executor.restore_tasks(state)
        run_epoch(executor, case, epoch, turns, write)
        return executor.task_state()

    for epoch, turns in ((1, range(3)), (2, range(3, 5)), (3, range(5, 9))):
        run(epoch, turns, 3, lambda sink, batch: None)  # the driver dies before it writes
        state = run(epoch, turns, 2, told.write)
    assert told.left() == in_one_process(case)
