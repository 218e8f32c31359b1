"""What one job in subtasks holds up, or spends, the others do not wait for: it leaves by itself, with
all that it has."""

from __future__ import annotations

import os
import random
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from sqlengine.jobs.job import Cause
from tests.cluster.leader import ALL, SHARED, LeaderHarness, leading
from tests.cluster.workload import Workload
from tests.service.harness import Process, User
from tests.support import eventually

OPTIONS = "instances=2, parts=4, session_ms=1000, checkpoint_ms=500"
FULL = ("alarms", "totals")
SLOW = """
import time

def slow(n: int) -> int:
    time.sleep(0.005)
    return n
"""


@pytest.mark.slow
def test_jobs_whose_topics_are_full_leave_their_parts_with_what_they_owe(tmp_path: Path) -> None:
    """A rule and an aggregate, which owe rows of several epochs of each subtask; instances and the
    server are killed on the way. `minutes` has all its windows while the others wait."""
    server = Process(tmp_path / "data", options=OPTIONS)
    try:
        work = Workload(server.user(), random.Random(0))
        work.prepare()
        work.write(200)
        eventually(
            lambda: work.alarms_found() == work.alarms() and work.totals_found() == work.totals(),
            server.said,
        )
        there = {topic: len(work.user.read(topic)) for topic in FULL}
        _bound(work, 1)
        for _ in range(3):
            work.write(200)
        _kill_one(work)
        work.write(200)
        for job in FULL:
            eventually(partial(_is_alone, work.user, job), server.said)
            reports = work.user.job(job)
            assert reports["isolated"] == "sink", reports
            assert reports["reason"].startswith(f"sink '{job}' waited: topic '{job}' is full")
        assert work.user.job("minutes")["graph"] == SHARED
        assert work.user.metric("sqlengine_isolated_jobs") == 2
        work.write(200)
        assert server.end(signal.SIGKILL) is not None
        server = Process(tmp_path / "data", options=OPTIONS)
        work.user = server.user()
        work.write(200)
        eventually(lambda: sum(work.minutes_found().values()) > 1000, server.said)
        assert {topic: len(work.user.read(topic)) for topic in FULL} == there
        _bound(work, None)
        eventually(
            lambda: work.alarms_found() == work.alarms() and work.totals_found() == work.totals(),
            server.said,
        )
        for job in FULL:
            work.user.client.post(f"/api/v1/jobs/{job}/merge")
            eventually(partial(_is_shared, work.user, job), server.said)
        work.write(200)
        eventually(
            lambda: work.alarms_found() == work.alarms() and work.totals_found() == work.totals(),
            server.said,
        )
        work.end()
        eventually(lambda: work.minutes_found() == work.minutes(), server.said)
        assert server.end(signal.SIGTERM) == 0
    finally:
        if server.process.poll() is None:
            server.end(signal.SIGKILL)


def _is_alone(user: User, job: str) -> bool:
    return str(user.job(job)["graph"]).startswith(f"{job}@")


def _is_shared(user: User, job: str) -> bool:
    return bool(user.job(job)["graph"] == SHARED)


def _bound(work: Workload, most: int | None) -> None:
    for topic in FULL:
        work.user.client.request("PATCH", f"/api/v1/topics/{topic}", {"max_bytes": most})


def _kill_one(work: Workload) -> None:
    found: object = work.user.client.get("/api/v1/instances")["instances"]
    assert isinstance(found, list)
    os.kill(next(i["pid"] for i in found if i["parts"]), signal.SIGKILL)


def _fed_until_gone(harness: LeaderHarness, job: str) -> int:
    """Writes events until the job has left its subtasks; how many."""
    fed = 0

    def gone() -> bool:
        nonlocal fed
        harness.write(*range(fed, fed + 20))
        fed += 20
        time.sleep(0.05)
        harness.look()
        return harness.engine.job(job).graph != SHARED

    eventually(gone, lambda: harness.engine.job(job))
    return fed


@pytest.mark.slow
def test_a_job_with_too_many_errors_leaves_its_parts(tmp_path: Path) -> None:
    """They are counted in all subtasks together. One that is not to be moved stays, with all its
    errors."""
    with leading(tmp_path, "one", "two") as harness:
        harness.engine.submit("all", ALL)
        harness.engine.submit("bad", "INSERT INTO found SELECT 1 / (id - id), word FROM events")
        harness.engine.submit(
            "kept",
            "SET 'job.isolation' = 'off';\nINSERT INTO found SELECT 1 / (id - id), '' FROM events",
        )
        fed = _fed_until_gone(harness, "bad")
        job = harness.engine.job("bad")
        assert job.cause is Cause.ERRORS
        assert "errors in" in str(job.reason)
        eventually(lambda: harness.found() == list(range(fed)))
        assert harness.engine.job("kept").graph == SHARED
        eventually(lambda: harness.letters("bad") == fed, lambda: (harness.letters("bad"), fed))


@pytest.mark.slow
def test_a_job_that_costs_too_much_leaves_its_parts(tmp_path: Path) -> None:
    """A function that sleeps takes the time of the instance for which the others wait."""
    (tmp_path / "data" / "functions").mkdir(parents=True)
    (tmp_path / "data" / "functions" / "slow.py").write_text(SLOW)
    with leading(tmp_path, "one") as harness:
        harness.engine.submit("all", ALL)
        harness.engine.submit("slow", "CREATE FUNCTION slow AS 'slow.slow' LANGUAGE PYTHON")
        harness.engine.submit("job", "INSERT INTO found SELECT slow(id), 'slow' FROM events")
        fed = _fed_until_gone(harness, "job")
        job = harness.engine.job("job")
        assert job.cause is Cause.COST
        assert "one of 2 parts that share a time" in str(job.reason)
        eventually(lambda: harness.found() == sorted([*range(fed), *range(fed)]))
