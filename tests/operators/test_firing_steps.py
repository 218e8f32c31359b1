"""Windows that are due fire in steps, epoch by epoch; what comes out does not depend on the size of
a step, nor on a kill between two of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from time import process_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.types import INT, STRING, Schema, timestamp
from planner.catalog import Catalog
from planner.graph.merge import Graph, merge
from planner.logical import IntervalJoin, JoinKind, LogicalPlan, Over, TemporalSort
from sqlengine.batch import MIN_WATERMARK, Batch, IntArray, empty, from_pydict
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.memory.tables import Memory
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.epochs import LoggedChange
from sqlengine.executors.graph_change import GraphChange
from sqlengine.executors.recovery.repeating import repeat_epochs, restore
from sqlengine.executors.runner import GraphRunner
from sqlengine.executors.spark.worker import TaskContext
from sqlengine.executors.storage import GraphStorage, RunnerOptions
from sqlengine.formats.results import JsonValue, rows_of
from sqlengine.jobs.planning import JobText, plan_job
from sqlengine.operators.base import Stream
from sqlengine.operators.firing_steps import FiringLimit
from sqlengine.operators.joins.interval import IntervalJoinOperator
from sqlengine.operators.over.by_time import OverOperator
from sqlengine.operators.ranks.temporal_sort import TemporalSortOperator
from sqlengine.operators.windows.join import WindowJoinOperator
from sqlengine.snapshots.checkpoints import Checkpoints
from sqlengine.state.store import MemoryStore
from tests.operators.running import Log
from tests.operators.test_timed_joins import EQUAL, LEFT, SIDES

ROWS = Schema.of(ts=timestamp(3), k=STRING, v=INT)
OTHER = Schema.of(ts=timestamp(3), n=INT)
TABLES = """
CREATE TABLE t (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'memory', 'name' = 't');
CREATE TABLE s (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'memory', 'name' = 's');
CREATE TABLE u (ts TIMESTAMP(3), n INT) WITH ('connector' = 'memory', 'name' = 'u');
CREATE TABLE o (k STRING, s TIMESTAMP(3), e TIMESTAMP(3), n BIGINT, total INT)
WITH ('connector' = 'memory', 'name' = 'o');
"""
SELECT = "SELECT k, window_start, window_end, COUNT(*), SUM(v)"
GROUP = "GROUP BY k, window_start, window_end"
HOP = "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '1' MINUTE)"
SESSION = "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '2' SECOND)"
NEAR = "a.k = b.k AND a.ts BETWEEN b.ts - INTERVAL '5' SECOND AND b.ts + INTERVAL '10' SECOND"
PAIRS = "SELECT COALESCE(a.k, b.k) AS k, a.ts AS s, b.ts AS e, CAST(a.v AS BIGINT) AS n, b.v AS v"
QUERIES = {
    "tumble": f"{SELECT} FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND) {GROUP}",
    "hop": f"{SELECT} FROM {HOP} {GROUP}",
    "cumulate": (
        f"{SELECT} FROM CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND,"
        f" INTERVAL '1' MINUTE) {GROUP}"
    ),
    "hop with gaps": (
        "SELECT k, HOP_START(ts, INTERVAL '5' SECOND, INTERVAL '2' SECOND), HOP_END(ts, INTERVAL"
        " '5' SECOND, INTERVAL '2' SECOND), COUNT(*), SUM(v) FROM t GROUP BY k, HOP(ts, INTERVAL"
        " '5' SECOND, INTERVAL '2' SECOND)"
    ),
    "session": f"{SELECT} FROM {SESSION} {GROUP}",
    "rows of sessions": f"SELECT k, window_start, window_end, v, v FROM {SESSION}",
    "first rows of windows": (
        "SELECT k, window_start, window_end, v, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY"
        f" window_start, window_end, k ORDER BY v DESC) AS n FROM {HOP}) WHERE n <= 2"
    ),
    "session over hop": (
        "SELECT k, SESSION_START(wt, INTERVAL '2' SECOND), SESSION_END(wt, INTERVAL '2' SECOND),"
        f" COUNT(*), SUM(n) FROM (SELECT k, window_time AS wt, SUM(v) AS n FROM {HOP} {GROUP},"
        " window_time) GROUP BY k, SESSION(wt, INTERVAL '2' SECOND)"
    ),
    "tumble over hop": (
        "SELECT k, TUMBLE_START(wt, INTERVAL '7' SECOND), TUMBLE_END(wt, INTERVAL '7' SECOND),"
        f" COUNT(*), SUM(n) FROM (SELECT k, window_time AS wt, SUM(v) AS n FROM {HOP} {GROUP},"
        " window_time) GROUP BY k, TUMBLE(wt, INTERVAL '7' SECOND)"
    ),
    "session over tumble": (
        "SELECT 'x', window_start, window_end, COUNT(*), SUM(n) FROM TABLE(SESSION((SELECT window_time AS"
        " wt, SUM(v) AS n FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND) GROUP BY"
        " window_start, window_end, window_time), DESCRIPTOR(wt), INTERVAL '5' SECOND)) GROUP BY"
        " window_start, window_end"
    ),
    "over all before": (
        "SELECT k, ts, ts, COUNT(*) OVER w, SUM(v) OVER w FROM t WINDOW w AS"
        " (PARTITION BY k ORDER BY ts)"
    ),
    "over rows before": (
        "SELECT k, ts, ts, COUNT(*) OVER w, SUM(v) OVER w FROM t WINDOW w AS"
        " (PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"
    ),
    "over times before": (
        "SELECT k, ts, ts, COUNT(*) OVER w, SUM(v) OVER w FROM t WINDOW w AS (PARTITION BY k"
        " ORDER BY ts RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW)"
    ),
    "in order of time": "SELECT k, ts AS s, ts, v, v FROM t ORDER BY s",
    "match": (
        "SELECT k, s, e, n, v FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES"
        " FIRST(A.ts) AS s, LAST(B.ts) AS e, COUNT(*) AS n, LAST(B.v) AS v"
        " PATTERN (A+? B) DEFINE B AS B.v > A.v)"
    ),
    "match within": (
        "SELECT k, s, e, n, v FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES"
        " FIRST(A.ts) AS s, LAST(B.ts) AS e, COUNT(*) AS n, LAST(B.v) AS v"
        " PATTERN (A B+ C) WITHIN INTERVAL '40' SECOND DEFINE C AS C.v > LAST(B.v) + 1)"
    ),
    "near": f"{PAIRS} FROM t a JOIN s b ON {NEAR}",
    "near, left": f"{PAIRS} FROM t a LEFT JOIN s b ON {NEAR}",
    "near, full": f"{PAIRS} FROM t a FULL JOIN s b ON {NEAR}",
    "near, from the table that ends first": f"{PAIRS} FROM s a LEFT JOIN t b ON {NEAR}",
    "near, with a condition": f"{PAIRS} FROM t a FULL JOIN s b ON {NEAR} AND MOD(a.v + b.v, 3) <> 1",
    "near, in one table": f"{PAIRS} FROM t a FULL JOIN t b ON {NEAR} AND a.v < b.v",
    "near, for ever": (
        f"{PAIRS} FROM t a FULL JOIN s b ON a.k = b.k AND a.ts BETWEEN b.ts AND b.ts"
        " + INTERVAL '1' HOUR"
    ),
    "windows of near rows": (
        "SELECT 'x', TUMBLE_START(s, INTERVAL '7' SECOND), TUMBLE_END(s, INTERVAL '7' SECOND),"
        f" COUNT(*), SUM(v) FROM ({PAIRS} FROM t a LEFT JOIN s b ON {NEAR})"
        " GROUP BY TUMBLE(s, INTERVAL '7' SECOND)"
    ),
}
Row = tuple[int, str, int]


@dataclass
class Job:
    """A job over table t, and s, which has two of three of its rows, in one life behind the other:
    all that a life leaves is in the log, the checkpoints and the tables."""

    query: str
    rows: Sequence[Row]
    cost: int | None
    rows_per_read: int = 4
    memory: Memory = field(default_factory=Memory)
    log: Log = field(default_factory=Log)
    store: MemoryStore = field(default_factory=MemoryStore)

    def __post_init__(self) -> None:
        for name, rows in (("t", self.rows), ("s", [row for row in self.rows if row[2] % 3])):
            data = {n: [row[i] for row in rows] for i, n in enumerate(ROWS.names)}
            self.memory.table(name).append(from_pydict(ROWS, data))
        text = f"{TABLES} INSERT INTO o {self.query};"
        self.sinks = plan_job(JobText("job", text), Catalog(), {}).sinks

    def life(self) -> GraphRunner:
        """A life: the first begins, others take up where the last one ended."""
        runner = GraphRunner(
            "g",
            EmbeddedExecutor(OperatorFactory()),
            Environment(None, lambda: 0, "g", memory=self.memory),
            GraphStorage(self.log, Checkpoints(self.store, 1 << 60, 1 << 60)),
            RunnerOptions(rows_per_read=self.rows_per_read, firing_cost=self.cost),
        )
        assert runner.storage.checkpoints is not None
        position = runner.storage.checkpoints.position
        if position is not None:
            graph = merge(Graph(position.version - 1), {"job": self.sinks}, position.stateful)
            restore(runner, position, runner.prepare(graph, position.jobs))

        def prepare(graph: Graph, change: LoggedChange) -> GraphChange:
            return runner.prepare(merge(graph, {"job": self.sinks}), change.jobs)

        repeat_epochs(runner, prepare)
        if not runner.epoch:
            runner.apply(runner.prepare(merge(Graph(), {"job": self.sinks}), {"job": 1}))
        return runner

    def run(
        self, kills: Collection[int] = (), checkpoints: Collection[int] = ()
    ) -> list[list[JsonValue]]:
        """All that it writes, in order. `kills` and `checkpoints` happen behind these steps."""
        runner, steps = self.life(), 0
        while not runner.finished:
            runner.step()
            steps += 1
            if steps in checkpoints:
                runner.checkpoint(wait=True)
            if steps in kills:
                runner = self.life()
        held = self.memory.table("o").rows
        return [] if held is None else [row for _, row in rows_of(held)]


_jumps = st.sampled_from([0, 0, 1_000, 3_000, -4_000, -30_000, -90_000, 45_000, 400_000])


@st.composite
def streams(draw: st.DrawFn) -> list[Row]:
    """Rows whose times jump ahead of the windows, and back behind some of them or all."""
    steps = draw(st.lists(st.tuples(_jumps, st.sampled_from("abc")), min_size=1, max_size=14))
    now, rows = 1_000_000, list[Row]()
    for n, (jump, key) in enumerate(steps):
        rows.append((now + jump, key, n))
        now = max(now, now + jump)
    return rows


@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=5, deadline=None)
@given(rows=streams(), cost=st.sampled_from([1, 300, 2_000]), size=st.sampled_from([1, 4, 100]))
def test_the_size_of_a_step_does_not_show(name: str, rows: list[Row], cost: int, size: int) -> None:
    wanted = Job(QUERIES[name], rows, None, size).run()
    assert Job(QUERIES[name], rows, cost, size).run() == wanted


@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=4, deadline=None)
@given(
    rows=streams(),
    kills=st.sets(st.integers(1, 30), min_size=1),
    checkpoints=st.sets(st.integers(1, 30)),
)
def test_a_kill_between_two_steps_does_not_show(
    name: str, rows: list[Row], kills: set[int], checkpoints: set[int]
) -> None:
    wanted = Job(QUERIES[name], rows, None).run()
    assert Job(QUERIES[name], rows, 300).run(kills, checkpoints) == wanted


@pytest.mark.parametrize("name", QUERIES)
def test_windows_that_are_left_are_found_after_a_restart(name: str) -> None:
    """All rows are read, and a checkpoint was taken between two steps: only the state says that
    there is more to fire."""
    rows = [(1_000_000, "a", 1), (1_004_000, "a", 2), (1_030_000, "b", 3), (4_000_000, "c", 4)]
    wanted = Job(QUERIES[name], rows, None).run()
    job = Job(QUERIES[name], rows, 1)
    assert job.run({2, 3}, {2, 3}) == wanted
    assert any(record.resumed for record in job.log.records)


def test_an_epoch_has_its_limit() -> None:
    """A jump of an hour makes 120 windows of two keys due; an epoch fires some of them, and reads
    no rows until all have fired."""
    rows = [(1_000_000, "a", 1), (1_030_000, "b", 2), (4_000_000, "a", 3)]
    job = Job(QUERIES["hop"], rows, 300, 3)
    assert len(job.run()) == 180
    records = [r for r in job.log.records if r.ranges or r.resumed]
    assert records[0].ranges
    assert all(r.resumed and not r.ranges for r in records[1:])
    assert len(records) >= 4


@pytest.mark.parametrize("name", ["near", "near, full", "near, in one table"])
def test_rows_behind_a_jump_wait_for_rows_that_it_makes_due(name: str) -> None:
    """A jump of an hour makes 200 rows of a join due; those that come with it, and match, do not
    have them all removed in one epoch."""
    rows = [(1_000_000 + i, f"k{i}", 1) for i in range(200)]
    rows += [(5_000_000 + i, "a", 4 + 3 * (i % 2)) for i in range(4)]
    job = Job(QUERIES[name], rows, 80, 200)
    runner, sizes = job.life(), list[int]()
    while not runner.finished:
        runner.step()
        sizes.append(sum(map(len, runner.executor.tables.values())))
    assert max(before - after for before, after in pairwise(sizes)) <= 40
    assert sum(bool(record.resumed) for record in job.log.records) >= 20


def test_an_operator_gets_no_more_while_it_has_something_left() -> None:
    rows = [(1_000_000, "a", 1), (1_030_000, "b", 2), (4_000_000, "a", 3), (9_000_000, "a", 3)]
    over = (
        f"SELECT k, wt, wt, n, SUM(v) OVER (PARTITION BY k ORDER BY wt) FROM (SELECT k, window_time"
        f" AS wt, COUNT(*) AS n, SUM(v) AS v FROM {HOP} {GROUP}, window_time)"
    )
    job = Job(over, rows, 300)
    assert job.run() == Job(over, rows, None).run()
    resumed = [[r.node for r in record.resumed] for record in job.log.records if record.resumed]
    assert {len(nodes) for nodes in resumed} == {1}
    assert len({node for nodes in resumed for node in nodes}) == 2


def test_a_step_leaves_each_input_its_watermark() -> None:
    """The first input of the join has ended when steps go on at the time of the second."""
    rows = [(1_000_000 + i, f"k{i}", 1) for i in range(4)]
    rows += [(2_000_000 + 500_000 * i, "a", 3) for i in range(12)]
    query = QUERIES["near, from the table that ends first"].replace("LEFT", "FULL")
    found = Job(query, rows, 1).run()
    assert len(found) == 4 + 12
    assert found == Job(query, rows, None).run()


def test_rows_that_the_clock_makes_due_are_padded_in_steps() -> None:
    limit, node = FiringLimit(), IntervalJoin(*SIDES, JoinKind.LEFT, EQUAL, "t", "rt", -5, 5, True)
    limit.cost, join = 80, IntervalJoinOperator(node)
    join.steps.share(limit, "join")
    join.open(TaskContext())
    held = from_pydict(LEFT, {"id": list(range(100)), "k": ["a"] * 100, "t": [0] * 100})
    list(join.process(0, held))
    padded = list[int]()
    while not padded or limit.waiting:
        join.steps.resumed = bool(padded)
        out = join.process(0, empty(LEFT, proctime=1_000))
        padded.append(sum(rows.num_rows for _, rows in out))
    assert padded == [10] * 10


@pytest.mark.parametrize(
    "name", ["over all before", "over rows before", "over times before", "in order of time"]
)
@pytest.mark.parametrize("late", [0, 3])
def test_rows_between_two_steps_of_an_epoch_do_not_make_them_one(name: str, late: int) -> None:
    """What a third shard brings after a jump; `late` of its rows are behind the jump."""
    found, left, limit = _steps_of(name, late, 80)
    wanted, _, _ = _steps_of(name, late, None)
    assert [row for rows in found for row in rows] == [row for rows in wanted for row in rows]
    assert max(map(len, found)) <= 10
    assert left
    assert not limit.waiting


def _steps_of(
    name: str, late: int, cost: int | None
) -> tuple[list[list[JsonValue]], bool, FiringLimit]:
    """Returns the batches of rows that an operator puts out, whether a step before the last has
    left any, and the limit."""
    jump = [(3_000_000, f"k{i}", i) for i in range(10)]
    behind = [(1_900_000 + i, f"k{i}", i) for i in range(late)]
    steps = [
        (999_000, [(1_000_000 + i, f"k{i % 3}", i) for i in range(100)]),
        (1_999_000, [(2_000_000, "a", 0)]),
        (1_999_000, jump),
        (2_999_000, [*behind, *jump, (4_000_000, "a", 1)]),
    ]
    limit, (operator, schema) = FiringLimit(), _operator_of(name)
    limit.cost = cost
    operator.steps.share(limit, "it")
    operator.open(TaskContext())
    found, left, since = list[list[JsonValue]](), False, MIN_WATERMARK

    def process(batch: Batch) -> None:
        for port, out in operator.process(0, batch):
            if port == 0 and out.num_rows:
                found.append([row for _, row in rows_of(out)])

    for watermark, rows in steps:
        values = dict(zip((STRING, INT), zip(*(row[1:] for row in rows), strict=True), strict=True))
        times = [row[0] for row in rows]
        batch = from_pydict(schema, {c.name: values.get(c.type, times) for c in schema})
        before = np.full(len(rows), since)
        process(replace(batch, watermark=watermark, since=since, row_watermarks=before))
        left, since = left or bool(limit.waiting), watermark
    while limit.waiting:
        assert operator.steps.watermark is not None
        tick = replace(empty(schema), watermark=operator.steps.watermark)
        process(replace(tick, since=operator.steps.passed[0]))
    return found, left, limit


def _operator_of(name: str) -> tuple[OverOperator | TemporalSortOperator, Schema]:
    """The operator of a query, and the columns of its input."""
    job = plan_job(JobText("job", f"{TABLES} INSERT INTO o {QUERIES[name]};"), Catalog(), {})
    node: LogicalPlan = job.sinks[0]
    while not isinstance(node, Over | TemporalSort):
        (node,) = node.inputs
    made = OverOperator(node) if isinstance(node, Over) else TemporalSortOperator(node)
    return made, node.input.schema


@pytest.mark.parametrize("name", ["session", "rows of sessions"])
def test_sessions_of_many_keys_fire_over_several_epochs(name: str) -> None:
    rows = [(1_000_000, f"k{i}", i) for i in range(20_000)] + [(4_000_000, "end", 0)]
    job = Job(QUERIES[name], rows, 300, len(rows))
    assert len(job.run({2, 4}, {3})) == len(rows)
    assert len([record for record in job.log.records if record.resumed]) > 1


def test_rows_of_one_key_cost_in_proportion_to_their_number() -> None:
    """30,000 rows of one key and instant in one batch: 0.2 s of CPU, or 9 s where each is compared
    with those before it."""
    rows = [(1_000_000, "a", i) for i in range(30_000)] + [(4_000_000, "a", 0)]
    job = Job(QUERIES["over times before"], rows, None, len(rows))
    runner, begin = job.life(), process_time()
    while not runner.finished:
        runner.step()
    assert process_time() - begin < 3


def test_rows_behind_a_jump_do_not_make_it_one_step() -> None:
    """A row that is behind some of its windows makes those fire that would hold it: none, since its
    slice is its own."""
    rows = [(1_000_000, "a", 1), (1_050_000, "a", 2), (1_045_000, "b", 3), (1_046_000, "a", 4)]
    job = Job(QUERIES["hop"], rows, 1, 4)
    assert job.run() == Job(QUERIES["hop"], rows, None, 4).run()
    steps = [len(record.resumed) for record in job.log.records if record.resumed]
    assert sum(steps) > 50 + 50


def test_other_sources_are_read_while_windows_fire() -> None:
    """A jump of an hour makes 120 windows due; rows of another table come out in between."""
    rows = [(1_000_000, "a", 1), (1_030_000, "b", 2), (4_000_000, "a", 3)]
    job = Job(QUERIES["hop"] + " UNION ALL SELECT 'other', ts, ts, n, n FROM u", rows, 300, 3)
    job.memory.table("u").append(from_pydict(OTHER, {"ts": [0] * 30, "n": list(range(30))}))
    written = job.run({7, 12}, {5})
    assert [row[3] for row in written if row[0] == "other"] == list(range(30))
    assert len(written) == 180 + 30
    kinds = [bool(r.resumed) for r in job.log.records if r.ranges or r.resumed]
    first, last = kinds.index(True), len(kinds) - 1 - kinds[::-1].index(True)
    assert not all(kinds[first:last])


def test_windows_of_few_rows_are_joined_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """3,000 windows of a row on each side are a few steps, and come out in their order."""
    steps: list[int] = []
    fire = WindowJoinOperator._fire

    def counted(
        self: WindowJoinOperator, batch: Batch, due: Sequence[IntArray], *, last: bool
    ) -> Stream:
        steps.append(len(due[0]))
        return fire(self, batch, due, last=last)

    monkeypatch.setattr(WindowJoinOperator, "_fire", counted)
    windows = "(SELECT * FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND))"
    query = (
        f"SELECT a.k, a.window_start, a.window_end, a.v, b.v FROM {windows} a JOIN {windows} b"
        " ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.k = b.k"
    )
    rows = [(1_000_000 + 1_000 * i, "a", i) for i in range(3_001)] + [(9_000_000, "end", 0)]
    found = Job(query, rows, None, len(rows)).run()
    assert [row[3:] for row in found] == [*([i, i] for i in range(3_001)), [0, 0]]
    assert 1 <= len(steps) < 10
