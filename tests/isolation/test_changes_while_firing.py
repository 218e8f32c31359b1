"""Changes of a job whose windows fire over many epochs, between two of them: nothing is lost in the
operations behind, and nothing given twice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.executors.storage import RunnerOptions
from sqlengine.graphs import runners
from tests.engine.by_hand import die, rows, step

TABLES = """
CREATE TABLE events (k STRING, v INT, ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE outs (name STRING, k STRING, s TIMESTAMP_LTZ(3), n BIGINT) WITH ('connector' = 'topic', 'topic' = 'out', 'format' = 'json');
"""
JOB = """
CREATE TEMPORARY VIEW sliding AS SELECT k, window_time AS wt, COUNT(*) AS n
FROM TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '20' SECOND)) GROUP BY k, window_start, window_end, window_time;
INSERT INTO outs SELECT 'itself', k, wt, n FROM sliding;
INSERT INTO outs SELECT 'of windows', k, TUMBLE_START(wt, INTERVAL '7' SECOND), SUM(n) FROM sliding GROUP BY k, TUMBLE(wt, INTERVAL '7' SECOND);
INSERT INTO outs SELECT 'other keys', 'all', TUMBLE_START(wt, INTERVAL '7' SECOND), SUM(n) FROM sliding GROUP BY TUMBLE(wt, INTERVAL '7' SECOND);
INSERT INTO outs SELECT 'over', k, wt, SUM(n) OVER (PARTITION BY k ORDER BY wt ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) FROM sliding;
INSERT INTO outs SELECT 'union', k, TUMBLE_START(wt, INTERVAL '7' SECOND), SUM(n)
FROM (SELECT * FROM sliding UNION ALL SELECT k, ts, 1000 FROM events) GROUP BY k, TUMBLE(wt, INTERVAL '7' SECOND);
INSERT INTO outs SELECT 'join', a.k, a.wt, a.n + COALESCE(b.v, 0) FROM sliding AS a LEFT JOIN events AS b
ON a.k = b.k AND b.ts BETWEEN a.wt - INTERVAL '5' SECOND AND a.wt;
"""
START = 1_700_000_000_000
EVENTS = [
    (0, "a"),
    (4_000, "b"),
    (9_000, "a"),
    (9_500, "c"),
    (31_000, "b"),
    (900_000, "a"),
    (960_000, "c"),
]


def opened(folder: Path) -> Engine:
    config = Config(data=folder, checkpoint_ms=1 << 60, savepoints=(folder / "kept",))
    engine = Engine(config)
    for topic in ("events", "out"):
        engine.broker.create_topic(topic, if_not_exists=True)
    return engine


def fed(folder: Path) -> Engine:
    engine = opened(folder)
    engine.submit("tables", TABLES)
    engine.submit("job", JOB)
    lines = [json.dumps({"k": k, "v": 1, "ms": START + ms}).encode() for ms, k in EVENTS]
    engine.broker.append("events", 0, lines, timestamp_ms=0)
    return engine


def once(engine: Engine) -> None:
    for graph in list(engine.graphs.by_name.values()):
        graph.runner.step()


def written(engine: Engine) -> Counter[str]:
    return Counter(json.dumps(row) for row in rows(engine))


def isolated(engine: Engine) -> None:
    engine.isolate("job")


def isolated_and_back(engine: Engine) -> None:
    engine.isolate("job")
    once(engine)
    engine.merge("job")


def saved(engine: Engine) -> None:
    path = engine.save_job("job", stop=True).savepoint
    engine.remove("job")
    engine.submit("job", f"SET 'execution.state-recovery.path' = '{path}'; {JOB}")


def stopped(engine: Engine) -> None:
    engine.stop_job("job")
    engine.start_job("job")


def beside_another(engine: Engine) -> None:
    engine.submit(
        "other",
        JOB.replace(
            "SELECT 'itself', k, wt, n FROM sliding",
            "SELECT 'other', k, wt, n FROM sliding WHERE n > 99",
        ),
    )


def replaced(engine: Engine) -> None:
    engine.submit("job", JOB.replace("wt, SUM(n) OVER", "wt, 0 + SUM(n) OVER"))


def untouched(engine: Engine) -> None: ...


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> Counter[str]:
    engine = fed(tmp_path_factory.mktemp("whole"))
    step(engine)
    rows = written(engine)
    engine.close()
    return rows


@pytest.mark.parametrize("then", ["goes on", "dies"])
@pytest.mark.parametrize(
    "change",
    [untouched, isolated, isolated_and_back, saved, stopped, replaced],
)
def test_a_change_between_two_epochs(
    change: Callable[[Engine], None],
    then: str,
    wanted: Counter[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runners, "RunnerOptions", partial(RunnerOptions, firing_cost=300))
    engine = fed(tmp_path)
    for _ in range(4):
        once(engine)
    assert any(g.runner.executor.firing.unfinished for g in engine.graphs.by_name.values()), (
        "it fires"
    )
    change(engine)
    once(engine)
    if then == "dies":
        die(engine)
        engine = opened(tmp_path)
    step(engine)
    found = written(engine)
    assert (wanted - found, found - wanted) == (Counter(), Counter())
    engine.close()


def test_a_job_that_comes_beside_it(
    wanted: Counter[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its operations are the same; what they have fired already it does not get."""
    monkeypatch.setattr(runners, "RunnerOptions", partial(RunnerOptions, firing_cost=300))
    engine = fed(tmp_path)
    for _ in range(4):
        once(engine)
    beside_another(engine)
    step(engine)
    found = written(engine)
    assert not wanted - found
    assert not found - wanted - wanted, "each row at most once for each of the two"
    engine.close()
