"""A long step in a part of a graph: the leader shows it, limits and ends it, and the rows of the other
jobs come, each once. What the leader has ended is not repeated by whoever opens the part next."""

from __future__ import annotations

import json
import logging
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlengine.engine.engine import Engine
from sqlengine.jobs.job import JobState
from sqlengine.metrics import render
from tests.cluster.leader import ALL, SHARED, TABLES, LeaderHarness, leading
from tests.service.harness import Process
from tests.support import ROOT, eventually

# Puts out slices without rows, for minutes.
HOG = (
    "INSERT INTO found SELECT a.id, b.word FROM events a JOIN events b ON a.word = b.word"
    " WHERE a.id + b.id < 0"
)
FAR_OFF = "SET 'job.step-timeout' = 'off'; "
ROWS = 60_000
SOON = 30.0  # seconds; the step takes minutes
# What each instance does first: its joins wait in a call that nothing cuts short.
BLOCKING = """import threading
from sqlengine.operators.joins.regular import JoinOperator
def block(self, port, batch):
    threading.Event().wait()
    yield
JoinOperator.process = block
"""
OPTIONS = "instances=2, parts=2, session_ms=2000, checkpoint_ms=500"


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[LeaderHarness]:
    with leading(tmp_path, "one", rows_per_read=ROWS) as harness:
        harness.engine.submit("all", ALL)
        harness.write(-2, -1)
        eventually(lambda: harness.found() == [-2, -1], "the parts run")
        yield harness


def begin_long_step(harness: LeaderHarness, settings: str = FAR_OFF, sql: str = HOG) -> None:
    """Starts a job that is at fault, and waits until it is seen in its step."""
    engine = harness.engine
    engine.submit("hog", settings + sql)
    eventually(lambda: _runs(harness, "hog"), "the parts have switched")
    rows = [json.dumps({"id": n, "word": "w"}).encode() for n in range(ROWS)]
    engine.broker.append("events", 0, rows, timestamp_ms=0)
    eventually(lambda: bool(engine.slow_steps()), "a long step")


def _runs(harness: LeaderHarness, job: str) -> bool:
    version = harness.graph.runner.graph.version
    parts = harness.graph.worker_reports.subtasks().values()
    assert job in harness.graph.runner.jobs
    return all(part.version == version for part in parts)


def await_all(harness: LeaderHarness) -> None:
    """Waits for the rows of the other job, and that each came once."""
    eventually(lambda: len(harness.found()) >= ROWS + 2, "the other rows")
    assert harness.found() == [-2, -1, *range(ROWS)]


def is_gone(engine: Engine, job: str) -> bool:
    return job not in engine.graphs.by_name[SHARED].runner.jobs


def kinds(harness: LeaderHarness, topic: str) -> list[object]:
    """The entries of the control topic that are kept."""
    return [entry["type"] for entry in harness.latest(topic)]


def reopen(harness: LeaderHarness) -> None:
    """Another instance takes the parts up: the first one leaves nothing in memory."""
    harness.stop("one")
    harness.start("two")
    harness.write(ROWS)
    eventually(lambda: ROWS in harness.found(), "the next instance")


def test_it_is_shown_and_a_removal_ends_it(
    harness: LeaderHarness, caplog: pytest.LogCaptureFixture
) -> None:
    engine = harness.engine
    with caplog.at_level(logging.WARNING, "sqlengine.steps"):
        begin_long_step(harness)
        eventually(lambda: "of job 'hog'" in caplog.text, "it is logged")
    (step,) = engine.slow_steps()
    assert (step.graph, step.part is None, set(step.jobs)) == (SHARED, False, {"hog"})
    hints = engine.hints()
    assert hints["hog"].startswith("in one step for ")
    assert f"of graph '{SHARED}' is in one step for " in hints["all"]
    shown = render(engine).decode()
    assert f'sqlengine_slow_steps_total{{graph="{SHARED}"}} 1.0' in shown
    began = time.monotonic()
    assert engine.remove("hog").status == "removed"
    assert time.monotonic() - began < SOON
    await_all(harness)
    assert {job.name for job in engine.jobs()} == {"tables", "all"}
    assert engine.slow_steps() == []
    reopen(harness)
    topic = harness.graph.control.topic
    eventually(lambda: "EndSteps" not in kinds(harness, topic), "no recovery needs it any more")


def test_the_timeout_of_a_job_ends_that_job_alone(harness: LeaderHarness) -> None:
    begin_long_step(harness, "SET 'job.step-timeout' = '1500 ms'; ")
    eventually(lambda: is_gone(harness.engine, "hog"), "it leaves")
    await_all(harness)
    hog = harness.engine.job("hog")
    assert (hog.state, "'job.step-timeout' is 1.5 s" in str(hog.reason)) == (JobState.FAILED, True)
    assert harness.engine.job("all").state is JobState.RUNNING
    reopen(harness)


@pytest.mark.slow
def test_a_stop_ends_it(harness: LeaderHarness) -> None:
    begin_long_step(harness)
    began = time.monotonic()
    harness.engine.stop_job("hog")
    assert time.monotonic() - began < SOON
    await_all(harness)
    assert harness.engine.job("hog").state is JobState.STOPPED


@pytest.mark.slow
def test_a_new_text_takes_effect(harness: LeaderHarness) -> None:
    begin_long_step(harness)
    began = time.monotonic()
    harness.engine.submit("hog", "INSERT INTO found SELECT id, 'new' FROM events WHERE id = 100001")
    assert time.monotonic() - began < SOON
    await_all(harness)
    harness.write(100_000, 100_001)
    eventually(lambda: len(harness.found()) == ROWS + 5, "the new text")
    assert harness.engine.job("hog").state is JobState.RUNNING


@pytest.mark.slow
def test_a_memory_limit_holds_within_it(harness: LeaderHarness) -> None:
    every_pair = HOG.removesuffix(" WHERE a.id + b.id < 0")
    begin_long_step(harness, f"{FAR_OFF}SET 'memory.limit' = '60 mb'; ", every_pair)
    eventually(lambda: is_gone(harness.engine, "hog"), "it leaves")
    await_all(harness)
    hog = harness.engine.job("hog")
    assert (hog.state, "'memory.limit' is 60.0 MB" in str(hog.reason)) == (JobState.FAILED, True)


@pytest.mark.slow
def test_an_instance_stops_in_the_middle_of_it(harness: LeaderHarness) -> None:
    begin_long_step(harness)
    began = time.monotonic()
    harness.stop("one")
    assert time.monotonic() - began < SOON
    harness.start("two")  # repeats the step
    eventually(lambda: bool(harness.engine.slow_steps()), "the long step comes again")
    harness.engine.remove("hog")
    await_all(harness)


@pytest.mark.slow
def test_a_call_that_does_not_come_back_costs_its_process_and_its_job(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(BLOCKING)
    before = f"import sys; sys.path[:0] = [{str(site)!r}, {str(ROOT)!r}]"
    with Process(tmp_path / "data", options=OPTIONS, before=before) as process:
        user = process.user()
        user.topic("events", shards=2)
        user.submit("tables", TABLES.format(folder=tmp_path))
        user.submit("all", ALL)
        user.submit("hog", f"SET 'job.step-timeout' = '1500 ms'; {HOG}")
        eventually(lambda: user.job("hog")["graph"] == SHARED, "it runs in parts")
        for shard in (0, 1):
            user.write("events", {"id": shard, "word": "w"}, shard=shard)
        eventually(lambda: user.job("hog")["state"] == "failed", process.said)
        assert "'job.step-timeout' is 1.5 s" in user.job("hog")["reason"]
        eventually(lambda: len(user.read("found")) == 2, process.said)
        eventually(lambda: user.client.get("/healthz")["problem"] is None, process.said)
        assert sorted(row["id"] for row in user.read("found")) == [0, 1]
        assert process.end(signal.SIGTERM) == 0
