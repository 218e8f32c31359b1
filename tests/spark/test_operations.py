"""What people see of jobs on Spark: progress, cost, stages, Spark itself. Runs in stages, without a
JVM."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from parser.errors import ExecutionError
from sqlengine.api.app import create_app
from sqlengine.config import Target
from sqlengine.engine import Engine
from sqlengine.jobs.job import Job
from sqlengine.machine import THIS
from sqlengine.metrics import render
from tests.service.answers import faults
from tests.spark.staged import Frames, Staged
from tests.spark.test_engine_on_spark import (
    RULE,
    TABLES,
    TOTALS,
    WINDOWS,
    World,
    await_totals,
    rows,
)
from tests.support import eventually

JOBS = {
    "tables": TABLES,
    "totals": TOTALS.format("TRUE"),
    "windows": WINDOWS,
    "sums": "INSERT INTO alerts SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY ts) FROM events",
    "rule1": RULE.format(1),
    "rule9": "INSERT INTO alerts SELECT 'nine', id FROM events WHERE MOD(v, 9) = CHAR_LENGTH(k) - 1",
}


@contextmanager
def running(folder: Path, target: Target, spark: Staged) -> Iterator[tuple[Engine, World]]:
    """An engine with jobs that have read 45 events."""
    world = World(folder, replace(THIS, spark=lambda config: spark))
    engine = world.open(target)
    try:
        for name, text in JOBS.items():
            engine.submit(name, text)
        world.write(engine, 45)
        for name in JOBS.keys() - {"tables"}:
            job = engine.job(name)
            eventually(partial(_has_read_all, engine, job))
        eventually(lambda: len(rows(engine, "windows")) > 15)
        yield engine, world
    finally:
        engine.close()


def _has_read_all(engine: Engine, job: Job) -> bool:
    return engine.progress.of(job).tables[0].behind == 0


def waits(engine: Engine) -> dict[str, list[str]]:
    found = engine.progress.all(engine.jobs())
    return {
        job: [f"{w.operation} {w.number} {w.summary}" for w in p.waits] for job, p in found.items()
    }


def test_what_waits_is_what_waits_in_one_process(tmp_path: Path) -> None:
    with running(tmp_path / "here", "embedded", Staged(2)) as (engine, _):
        last = "waits for watermark 2024-01-01T00:00:50, has 00:00:43"
        wanted = eventually(lambda: last in str((seen := waits(engine))["windows"]) and seen)
    assert wanted["sums"], "rows of OVER wait, too"
    with running(tmp_path / "there", "spark", Staged(2)) as (engine, _):
        eventually(lambda: waits(engine) == wanted, lambda: str(waits(engine)))


@pytest.mark.parametrize("target", ["embedded", "spark"])
def test_all_time_of_operators_is_that_of_jobs(tmp_path: Path, target: Target) -> None:
    with running(tmp_path, target, Staged(2)) as (engine, _):
        graphs = list(engine.graphs.by_name.values())
        eventually(lambda: all(g.runner.guard.view() is None for g in graphs))
        by_job = engine.costs_by_job()
        total = sum(
            sum(g.executor.node_seconds().values()) + sum(g.executor.own_seconds().values())
            for g in graphs
        )
        assert all(by_job[name].seconds > 0 for name in JOBS.keys() - {"tables"})
        assert by_job["tables"].seconds == 0
        # Graphs are gone in which jobs have caught up.
        assert (
            sum(cost.seconds for cost in by_job.values()) > total * (1 - 1e-9) > 0
        )  # sums in another order
        engine.isolate("totals")
        seconds = engine.costs_by_job()["totals"].seconds
        assert seconds >= by_job["totals"].seconds, "a move takes nothing from it"


def test_spark_is_seen(tmp_path: Path) -> None:
    """Its session, and what graphs did there, in `sql spark` and in the metrics."""
    with running(tmp_path, "spark", Staged(2)) as (engine, _):
        client = create_app(engine).test_client()
        answer = client.get("/api/v1/spark")
        kind = "application/json"
        assert not list(faults("GET", "/api/v1/spark", 200, kind, answer.data, strict=True))
        body: Any = answer.get_json()
        assert body["session"]["ui"] == "http://127.0.0.1:4040"
        (graph,) = (g for g in body["graphs"] if g["graph"] == "main")
        assert graph["jobs"] == len(JOBS) - 1
        assert graph["partitions"] == 2
        # A task of each partition of each stage, in each epoch.
        assert graph["tasks"] >= 4 * graph["epochs"] > 0
        assert graph["state_bytes"] > graph["state_files"] > 0
        job: Any = client.get("/api/v1/jobs/totals").get_json()
        assert (job["target"], job["spark_ui"]) == ("spark", "http://127.0.0.1:4040")
        assert job["cost_s"] > 0
        metrics = render(engine).decode()
        for name in ("epoch_seconds_count", "tasks_total", "task_cpu_seconds_total"):
            found = re.findall(rf'^sqlengine_spark_{name}{{graph="main"}} (.*)$', metrics, re.M)
            assert [float(value) > 0 for value in found] == [True]
        assert 'sqlengine_spark_state_total{graph="main",unit="bytes"}' in metrics


def test_a_job_shows_its_stages_as_they_run(tmp_path: Path) -> None:
    """Of a graph that it shares, those parts that are its own."""
    with running(tmp_path, "spark", Staged(2)) as (engine, _):
        text = engine.explain("totals").partition("== stages on Spark ==\n")[2].partition("\n\n")[0]
        assert re.sub(r"\d+ ms", "N ms", text).splitlines() == [
            "stage 0: a task for each part of what is read",
            "  <- events, read by the driver",
            "  Scan events (topic)  [N ms of CPU]",
            "  AssignWatermark ts AS ts  [N ms of CPU]",
            "  Project k, v  [N ms of CPU]",
            "  LocalAggregate by k: COUNT(*) AS aggregate$0, SUM(v) AS aggregate$1  [N ms of CPU]",
            "  -> stage 1, by k: GlobalAggregate",
            "stage 1: 2 tasks, one for each partition, with its state in files",
            "  GlobalAggregate by k: COUNT(*) AS aggregate$0, SUM(v) AS aggregate$1  [N ms of CPU]",
            "  Project CHECK NOT NULL(k, 'k') AS k, aggregate$0 AS n, aggregate$1 AS s  [N ms of CPU]",
            "  DropUpdateBefore  [N ms of CPU]",
            "  -> totals, written by the driver",
        ]
        stages: Any = engine.explain_json("rule9")["stages"]
        assert [(s["stage"], s["writes"][0]["where"]) for s in stages] == [(0, "driver")]


def test_an_epoch_that_is_repeated_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    left = ["twice", "and again"]

    class GivesUp(Staged):
        def createDataFrame(self, table: Any) -> Frames:  # noqa: N802
            if left:
                raise ExecutionError("Spark gave up", detail=left.pop())
            return super().createDataFrame(table)

    with (
        caplog.at_level(logging.WARNING, "sqlengine.spark"),
        running(tmp_path, "spark", GivesUp(2)) as (engine, world),
    ):
        await_totals(engine, world)
        told = [r.getMessage() for r in caplog.records if "is repeated" in r.getMessage()]
        assert [t.partition("repeated, ")[2] for t in told] == [
            "2 attempts left: Spark gave up (and again)",
            "1 attempt left: Spark gave up (twice)",
        ]
        repeated = sum(
            float(n)
            for n in re.findall(
                r"^sqlengine_spark_epochs_repeated_total{.*} (.*)$", render(engine).decode(), re.M
            )
        )
        assert repeated == 2
