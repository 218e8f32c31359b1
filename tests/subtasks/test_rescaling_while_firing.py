"""Jobs whose windows fire over many epochs go into subtasks, among these and back between two of
them: what is left is neither lost in the operations behind nor given twice."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.executors.storage import RunnerOptions
from sqlengine.graphs import runners
from sqlengine.graphs.opening import open_graph
from sqlengine.graphs.running import RunningGraph
from sqlengine.jobs.planning import PlannedJob
from sqlengine.snapshots.job_snapshot import JobSnapshot, capture
from tests.subtasks.group import START, Group, broker_in, planned, run_locally, values_of
from tests.subtasks.quiesced import merged_snapshot, quiesce

JOB = """
    CREATE TEMPORARY TABLE events (k STRING, ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
    WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
    CREATE TEMPORARY TABLE outs (name STRING, k STRING, s TIMESTAMP_LTZ(3), n BIGINT) WITH ('connector' = 'topic', 'topic' = 'out', 'format' = 'json');
    CREATE TEMPORARY VIEW sliding AS SELECT k, window_time AS wt, COUNT(*) AS n
    FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '20' SECOND)) GROUP BY k, window_start, window_end, window_time;
    INSERT INTO outs SELECT 'of windows', k, TUMBLE_START(wt, INTERVAL '7' SECOND), SUM(n) FROM sliding GROUP BY k, TUMBLE(wt, INTERVAL '7' SECOND);
    INSERT INTO outs SELECT 'other keys', 'all', TUMBLE_START(wt, INTERVAL '7' SECOND), SUM(n) FROM sliding GROUP BY TUMBLE(wt, INTERVAL '7' SECOND);
    INSERT INTO outs SELECT 'over', k, wt, SUM(n) OVER (PARTITION BY n ORDER BY wt RANGE BETWEEN INTERVAL '3' SECOND PRECEDING AND CURRENT ROW) FROM sliding;
    INSERT INTO outs SELECT 'join', a.k, a.wt, a.n FROM sliding AS a LEFT JOIN events AS b ON a.n = CHAR_LENGTH(b.k)
      AND b.ts BETWEEN a.wt - INTERVAL '5' SECOND AND a.wt;
"""
EVENTS = (
    (0, "a"), (4_000, "b"), (9_000, "a"), (9_500, "c"), (31_000, "b"), (35_000, "e"), (900_000, "a"), (901_000, "d"), (960_000, "c"), (961_000, "f"),
)  # fmt: skip


def events(broker: EmbeddedBroker) -> None:
    broker.create_topic("out")
    broker.create_topic("events", 2)
    for i, (ms, k) in enumerate(EVENTS):
        row = json.dumps({"k": k, "ms": START + ms}).encode()
        broker.append("events", i % 2, [row], timestamp_ms=0)


def written(broker: EmbeddedBroker) -> Counter[bytes]:
    return Counter(values_of(broker, "out"))


def begun(group: Group, job: PlannedJob, turns: int) -> RunningGraph:
    """The job in a graph that is not distributed, which still fires."""
    group.plans[job.name, 1] = job
    graph = open_graph("alone", group.host(), group.plan_of)
    graph.switch(graph.change(graph.runner.graph, {job.name: job}, {job.name: 1}, {}))
    for _ in range(turns):
        graph.loop.turn()
    assert graph.executor.firing.unfinished
    return graph


def through_parts(
    broker: EmbeddedBroker, job: PlannedJob, snapshot: JobSnapshot, parallelism: int, steps: int
) -> JobSnapshot:
    """Goes through subtasks, which make a few steps."""
    group = Group(broker, parallelism=parallelism, graph=f"g{parallelism}")
    group.snapshots["in"] = snapshot
    group.start()
    group.take(job, "in")
    for n in range(steps):
        group.step(n % parallelism)
    quiesce(group)
    snapshot = merged_snapshot(group, job.name)
    for subtask in group.open.values():
        subtask.abandon()
    return snapshot


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Counter[bytes]:
    with broker_in(tmp_path_factory.mktemp("whole")) as broker:
        events(broker)
        run_locally(Group(broker), planned("all", JOB)).close()
        return written(broker)


@pytest.mark.parametrize("turns", [4, 7])
@pytest.mark.parametrize("ways", [((2, 5),), ((2, 3), (3, 4)), ((1, 3), (2, 30))])
def test_it_goes_on_with_what_is_left(
    turns: int,
    ways: tuple[tuple[int, int], ...],
    expected: Counter[bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runners, "RunnerOptions", partial(RunnerOptions, firing_cost=300))
    job = planned("all", JOB)
    with broker_in(tmp_path) as broker:
        events(broker)
        graph = begun(Group(broker), job, turns)
        snapshot = capture(graph.runner, job.name)
        graph.abandon()
        for parallelism, steps in ways:
            snapshot = through_parts(broker, job, snapshot, parallelism, steps)
        run_locally(Group(broker), job, "last", snapshot).close()
        found = written(broker)
        assert {"missing": expected - found, "more": found - expected} == {
            "missing": Counter(),
            "more": Counter(),
        }
