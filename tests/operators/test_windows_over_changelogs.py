"""Windows over changelogs: the output is that of the remaining rows."""

from __future__ import annotations

import numpy as np
import pytest

from parser.types import INT, STRING, Schema, timestamp
from planner.catalog import Catalog
from planner.graph.merge import Graph, merge
from planner.settings import MINI_BATCH
from sqlengine.batch import RowKind, from_pydict
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.memory.tables import Memory
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.runner import GraphRunner
from sqlengine.executors.storage import RunnerOptions
from sqlengine.formats.results import JsonValue, rows_of
from sqlengine.jobs.planning import JobText, plan_job

TABLES = """
CREATE TABLE t (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'memory', 'name' = 't', 'changelog-mode' = 'I,UB,UA,D');
CREATE TABLE o (k STRING, s TIMESTAMP(3), n BIGINT, total INT, least INT, kinds BIGINT)
WITH ('connector' = 'memory', 'name' = 'o');
"""
NEW, UB, UA, D = RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE
ROWS = [
    (NEW, 1_000, "a", 5),
    (NEW, 2_000, "a", 3),
    (NEW, 2_000, "b", 1),
    (UB, 1_000, "a", 5),
    (UA, 1_500, "a", 7),
    (D, 2_000, "b", 1),
    (D, 2_000, "a", 3),
    (NEW, 8_000, "a", 7),
    (NEW, 60_000, "c", 1),
]
STAY = [(1_500, "a", 7), (8_000, "a", 7), (60_000, "c", 1)]
WINDOWS = (
    "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)",
    "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)",
    "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)",
)


def told(
    window: str, rows: list[tuple[RowKind, int, str, int]], size: int
) -> list[list[JsonValue]]:
    memory = Memory()
    schema = Schema.of(ts=timestamp(3), k=STRING, v=INT)
    data: dict[str, list[object]] = {
        n: [r[i + 1] for r in rows] for i, n in enumerate(schema.names)
    }
    batch = from_pydict(schema, data)
    object.__setattr__(batch, "kinds", np.array([r[0] for r in rows], np.int8))
    memory.table("t").append(batch)
    environment = Environment(None, lambda: 0, "job", memory=memory)
    runner = GraphRunner(
        "g",
        EmbeddedExecutor(OperatorFactory()),
        environment,
        options=RunnerOptions(lambda owner: True, size),
    )
    query = f"""{TABLES} INSERT INTO o SELECT k, window_start, COUNT(*), SUM(v), MIN(v), COUNT(DISTINCT v)
    FROM TABLE({window}) GROUP BY window_start, window_end, k;"""
    job = plan_job(JobText("job", query), Catalog(), {MINI_BATCH: "true"})
    runner.apply(runner.prepare(merge(Graph(), {"job": job.sinks}), {"job": 1}))
    while not runner.finished:
        runner.step()
    held = memory.table("o").rows
    return [] if held is None else sorted((row for _, row in rows_of(held)), key=repr)


@pytest.mark.parametrize("window", WINDOWS)
def test_windows_over_changelogs(window: str) -> None:
    wanted = told(window, [(NEW, *row) for row in STAY], 100)
    assert wanted
    for size in (1, 3, 100):
        assert told(window, ROWS, size) == wanted
