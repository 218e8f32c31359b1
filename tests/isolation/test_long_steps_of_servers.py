"""A server in a long step, and one that repeats it after it was killed: it says so, and takes
removals and SIGTERM."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from sqlengine.cli.outcomes import items_of
from sqlengine.client import Json
from tests.isolation.test_long_steps import JOIN, SOON, TABLES
from tests.service.harness import Process, User
from tests.support import eventually

OPTIONS = "rows_per_read=100_000, checkpoint_ms=1 << 40, step_timeout_s=None"
ROWS, EVERY = 60_000, 600
LISTENING = "listening on "


@pytest.mark.slow
def test_a_killed_server_repeats_a_long_step_and_can_be_stopped_and_rid_of_the_job(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    with Process(data, options=OPTIONS) as process:
        begin_long_step(process.user())
        process.end(signal.SIGKILL)

    with Process(data, options=OPTIONS) as process:
        user = process.user(LISTENING)
        await_step(user)
        refused = user.refused(lambda: user.client.get("/readyz"))
        assert refused.status == 503
        assert "of job 'hog'" in str(refused.body["problem"])
        jobs = {job["name"]: job["hint"] for job in jobs_of(user)}
        assert jobs.keys() == {"tables", "rule", "hog"}
        assert "is in one step for" in str(jobs["hog"])
        refused = user.refused(lambda: user.submit("other", "SELECT 1"))
        assert (refused.status, refused.body["message"]) == (503, "the server starts")
        began = time.monotonic()
        assert process.end(signal.SIGTERM) == 0
        assert time.monotonic() - began < SOON
        assert "ready on" not in process.said()

    with Process(data, options=OPTIONS) as process:
        user = process.user(LISTENING)
        await_step(user)
        began = time.monotonic()
        assert user.client.delete("/api/v1/jobs/hog")["status"] == "removed"
        assert time.monotonic() - began < SOON
        await_alerts(process.user())
        process.end(signal.SIGKILL)

    with Process(data, options=OPTIONS) as process:
        user = process.user()
        assert {job["name"]: job["state"] for job in jobs_of(user)} == {
            "rule": "running",
            "tables": "defined",
        }
        await_alerts(user)
        assert process.end(signal.SIGTERM) == 0


def jobs_of(user: User) -> list[Json]:
    return items_of(user.client.get("/api/v1/jobs"), "jobs")


def begin_long_step(user: User) -> None:
    for topic in ("events", "alerts", "pairs", "totals"):
        user.topic(topic)
    user.submit("tables", TABLES)
    user.submit("rule", f"INSERT INTO alerts SELECT id FROM events WHERE MOD(id, {EVERY}) = 0")
    user.submit("hog", JOIN)
    user.write(
        "events", *({"id": i, "host": "h", "ts": "2026-01-01 00:00:00"} for i in range(ROWS))
    )
    await_step(user)


def await_step(user: User) -> None:
    """Waits until the server says that it is in a long step."""

    def told() -> bool:
        return "is in one step for" in str(user.client.get("/healthz")["problem"])

    eventually(told, "a long step")


def await_alerts(user: User) -> None:
    """Waits for the alerts of the other job, and that each came once."""
    eventually(lambda: len(user.read("alerts")) >= ROWS // EVERY, "alerts")
    assert [row["id"] for row in user.read("alerts")] == list(range(0, ROWS, EVERY))
