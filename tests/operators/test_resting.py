"""Operators to which no tick comes before they need one: what comes out, and in which order, is what
comes out where each gets every tick."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

import pytest

from parser.types import INT, STRING, Schema, timestamp
from planner.catalog import Catalog
from planner.graph.merge import Graph, merge
from sqlengine.batch import Batch, from_pydict
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.memory.tables import Memory
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.runner import GraphRunner
from sqlengine.executors.ticks.earliest import Earliest
from sqlengine.formats.results import JsonValue, rows_of
from sqlengine.jobs.planning import JobText, plan_job
from sqlengine.operators.rules import RulesOperator

ROWS = Schema.of(ts=timestamp(3), k=STRING, v=INT)
TABLES = """
CREATE TABLE t (ts TIMESTAMP(3), k STRING, v INT, p AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'memory', 'name' = 't');
CREATE TABLE o (name STRING, n BIGINT, total BIGINT) WITH ('connector' = 'memory', 'name' = 'o');
CREATE TABLE changes (name STRING, n BIGINT, total BIGINT, PRIMARY KEY (name, n) NOT ENFORCED)
WITH ('connector' = 'memory', 'name' = 'changes', 'changelog-mode' = 'I,UB,UA,D');
CREATE VIEW pairs AS SELECT k, window_start AS s, COUNT(*) AS n, SUM(v) AS total FROM
TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND)) WHERE v < 9 GROUP BY k, window_start, window_end;
"""
WINDOWS = {
    "tumble": "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '3' SECOND)",
    "hop": "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '4' SECOND)",
    "cumulate": "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '5' SECOND)",
    "session": "SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND)",
    "by the clock": "TUMBLE(TABLE t, DESCRIPTOR(p), INTERVAL '3' SECOND)",
}
FRAMES = {
    "rows": "ROWS BETWEEN 2 PRECEDING",
    "range": "RANGE BETWEEN INTERVAL '2' SECOND PRECEDING",
    "all": "RANGE BETWEEN UNBOUNDED PRECEDING",
}
QUERIES = (
    *(
        f"INSERT INTO o SELECT '{name}', COUNT(*), SUM(v) FROM TABLE({window}) WHERE k = 'a{i}'"
        " GROUP BY window_start, window_end"
        for i, (name, window) in enumerate(WINDOWS.items())
    ),
    # Filters over what comes out of windows, over which others count.
    "INSERT INTO o SELECT 'many', n, total FROM pairs WHERE n > 1 AND k <> 'a0'",
    "INSERT INTO changes SELECT k, n, SUM(total) FROM pairs WHERE n > 1 GROUP BY k, n",
    *(
        f"INSERT INTO o SELECT '{name}', v, SUM(v) OVER (PARTITION BY k ORDER BY ts {frame} AND"
        f" CURRENT ROW) FROM t WHERE k > 'a{i}'"
        for i, (name, frame) in enumerate(FRAMES.items())
    ),
    "INSERT INTO changes SELECT k, 0, SUM(v) FROM t WHERE k IN ('a1', 'a2') GROUP BY k",
    (
        "INSERT INTO changes SELECT k, r, v FROM (SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER"
        " BY v) AS r FROM t WHERE k < 'a3') WHERE r < 3"
    ),
    (
        "INSERT INTO o SELECT k, 1, v FROM (SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts)"
        " AS r FROM t WHERE v > 3) WHERE r = 1"
    ),
    # Several inputs, which combine watermarks.
    (
        "INSERT INTO o SELECT a.k, a.v, b.v FROM t a LEFT JOIN t b ON a.v = b.v AND b.k = 'a2' AND b.ts"
        " BETWEEN a.ts AND a.ts + INTERVAL '2' SECOND WHERE a.k = 'a1'"
    ),
    (
        "INSERT INTO o SELECT 'both', COUNT(*), SUM(v) FROM TABLE(TUMBLE((SELECT ts, v FROM t WHERE k ="
        " 'a1' UNION ALL SELECT ts, v FROM t WHERE k = 'a4'), DESCRIPTOR(ts), INTERVAL '2' SECOND))"
        " GROUP BY window_start, window_end"
    ),
)


class Stepped:
    """A graph of all queries, with a clock by hand."""

    def __init__(self, settings: Mapping[str, str], *, resting: bool) -> None:
        self.now, self.memory = 0, Memory()
        self.memory.table("t").open = True
        environment = Environment(None, lambda: self.now, "job", memory=self.memory)
        executor = EmbeddedExecutor(OperatorFactory())
        self.runner = GraphRunner("g", executor, environment)
        text = f"{TABLES} EXECUTE STATEMENT SET BEGIN {'; '.join(QUERIES)}; END"
        job = plan_job(JobText("job", text), Catalog(), settings)
        self.runner.apply(self.runner.prepare(merge(Graph(), {"job": job.sinks}), {"job": 1}))
        for node in executor.running.values():
            if isinstance(node.operator, RulesOperator) and not resting:
                node.operator.ticks = None

    def after(self, now: int, rows: Batch | None) -> list[list[list[JsonValue]]]:
        """Returns all rows of both tables, once these were read at this time."""
        self.now = now
        if rows is not None:
            self.memory.table("t").append(rows)
        while self.runner.step():
            pass
        held = (self.memory.table(name).rows for name in ("o", "changes"))
        return [[] if h is None else [[kind, *row] for kind, row in rows_of(h)] for h in held]

    @property
    def withheld(self) -> int:
        running = self.runner.executor.running.values()
        return sum(node.context.counters["ticks_withheld"] for node in running)


def arriving(chance: random.Random) -> Iterator[tuple[int, Batch | None]]:
    """Times, each with few rows or none: of one key for a while, at times late or far ahead."""
    now = reached = 0
    for turn in range(70):
        now += chance.choice((0, 40, 400, 3_000))
        reached += chance.choice((0, 200, 200, 900, 15_000))
        times = [max(0, reached - chance.choice((0, 500, 4_000))) for _ in range(turn % 4)]
        key = f"a{chance.randrange(6)}"
        data: dict[str, Sequence[object]] = {
            "ts": times,
            "k": [key] * len(times),
            "v": [chance.randrange(10) for _ in times],
        }
        yield now, from_pydict(ROWS, data) if times else None


@pytest.mark.parametrize("settings", [{}, {"table.exec.state.ttl": "5 s"}])
@pytest.mark.parametrize("seed", range(2))
def test_rests_unseen(seed: int, settings: Mapping[str, str]) -> None:
    rests, ticks = (Stepped(settings, resting=r) for r in (True, False))
    for now, rows in arriving(random.Random(seed)):
        assert rests.after(now, rows) == ticks.after(now, rows)
    for graph in (rests, ticks):
        graph.memory.table("t").open = False
    found = rests.after(1 << 40, None)
    assert found == ticks.after(1 << 40, None)
    named = {row[1] for table in found for row in table}
    assert named > {*WINDOWS, *FRAMES, "many", "both"}, "each query has results"
    assert rests.withheld > 100
    assert ticks.withheld < 20, "those of the first watermarks"


def test_the_earliest_of_many() -> None:
    earliest, known = Earliest[int](), dict[int, int]()
    chance = random.Random(5)
    for _ in range(2_000):
        key, at = chance.randrange(30), chance.choice((None, *range(50)))
        earliest.put(key, at)
        known.pop(key, None)
        if at is not None:
            known[key] = at
        assert earliest.first() == min(known.values(), default=None)
        if chance.random() < 0.1:
            due = {k for k, at in known.items() if at <= 10}
            assert set(earliest.take(10)) == due
            known = {k: at for k, at in known.items() if k not in due}
