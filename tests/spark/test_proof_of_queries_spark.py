"""The proof of the form for the operators of queries, on Spark: two inputs, several exchanges, one behind the other and side
by side. Batches that are repeated after a crash are the same, buckets move to another number of partitions, and what is
left in the end is what one process leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sqlengine.batch import Batch
from sqlengine.executors.spark import SparkRunner
from sqlengine.executors.spark_plan import cut_plan
from sqlengine.executors.spark_sources import to_table
from sqlengine.executors.wire import encode_batch
from tests.spark.feeding import Fed, Told, fed, in_one_process, spark_plan, works

_HOP = "TABLE(HOP(TABLE {}, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '4' SECOND))"
_WINDOWS = f"SELECT k, COUNT(*) AS n, window_start AS s, window_end AS e, window_time AS t FROM {_HOP.format('e')} GROUP BY k, window_start, window_end, window_time"
# By the number of their keyed stages.
QUERIES = {
    "join": (1, "SELECT e.k, e.i, f.i, f.m FROM e LEFT JOIN f ON e.k = f.k AND e.i = f.i"),
    "interval-join": (
        1,
        "SELECT e.k, e.ts, f.ts FROM e LEFT JOIN f ON e.k = f.k AND f.ts BETWEEN e.ts - INTERVAL '1' SECOND AND e.ts",
    ),
    "over": (1, "SELECT k, i, SUM(i) OVER (PARTITION BY k ORDER BY ts) FROM e"),
    "top": (
        1,
        "SELECT * FROM (SELECT k, i, m, ROW_NUMBER() OVER (PARTITION BY k ORDER BY i DESC, m) AS n FROM e) WHERE n <= 3",
    ),
    "match": (
        1,
        "SELECT * FROM e MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.i AS a, LAST(B.i) AS b, LAST(B.ts) AS c"
        " AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+) DEFINE B AS B.i > A.i)",
    ),
    "windows-of-windows": (
        2,
        f"SELECT window_end, SUM(n), COUNT(*) FROM TABLE(TUMBLE((SELECT * FROM ({_WINDOWS})), DESCRIPTOR(t), INTERVAL '6' SECOND))"
        " GROUP BY window_start, window_end",
    ),
    "window-join": (
        2,
        f"WITH a AS ({_WINDOWS}) SELECT a.k, a.n, f.i FROM a JOIN f ON a.k = f.k AND a.t BETWEEN f.ts AND f.ts + INTERVAL '3' SECOND",
    ),
    "aggregate-of-a-join-of-aggregates": (
        3,
        "SELECT n, COUNT(*), SUM(s) FROM (SELECT i, COUNT(*) AS n FROM e GROUP BY i) AS a"
        " JOIN (SELECT i, SUM(m) AS s FROM f GROUP BY i) AS b ON a.i = b.i GROUP BY n",
    ),
    "no-keys": (2, "SELECT COUNT(*), MAX(s) FROM (SELECT k, SUM(i) AS s FROM e GROUP BY k UNION ALL SELECT k, i FROM f)"),
}


class Killed(Exception): ...


@dataclass
class Sink:
    """Rows by batch; a batch that comes again must be the same. The driver dies at the batches of `kill`."""

    kill: set[int]
    batches: dict[int, list[bytes]] = field(default_factory=dict)
    told: Told = field(default_factory=Told)

    def deliver(self, number: int, results: list[tuple[int, int, Batch]]) -> None:
        assert all(port >= 0 for _, port, _ in results), "no row fails"
        data = [encode_batch(batch) for _, _, batch in results]
        if number in self.batches:
            assert self.batches[number] == data
            return
        self.batches[number] = data
        for _, port, batch in results:
            self.told.write(str(port), batch)
        if number in self.kill:
            raise Killed


@pytest.mark.parametrize("name", QUERIES)
def test_stages(name: str) -> None:
    stages, query = QUERIES[name]
    assert len(cut_plan(fed(query, 1, 2).plan).keyed) == stages


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", QUERIES)
def test_same_rows_on_spark(spark: Any, tmp_path: Path, name: str) -> None:
    """Batches of several turns; the second and the last are repeated, the last with its buckets in other partitions."""
    case = fed(QUERIES[name][1], 5, chunks=9)
    sink = Sink(kill={1, 2})
    state = (tmp_path / "state").as_uri()

    def run(batch: int, turns: Sequence[int], partitions: int) -> None:
        plans = {1: spark_plan(case, name, tmp_path)}
        runner = SparkRunner(spark, plans, 1, state, sink.deliver, partitions, clock=lambda: 0)
        runner.run(spark.createDataFrame(to_table(works(case, turns))), batch, end=batch == 2)

    run(0, range(3), 2)
    for batch, turns, partitions in ((1, range(3, 5), 2), (2, range(5, 9), 3)):
        with pytest.raises(Killed):
            run(batch, turns, partitions)
        run(batch, turns, partitions)
    wanted = in_one_process(case)
    assert wanted
    assert sink.told.left() == wanted
