"""What users see of jobs that fail and start again: REST, the command topic, metrics."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.service.harness import Process, User, running
from tests.support import eventually

JOB = """CREATE TEMPORARY TABLE numbers (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'numbers',
  'format' = 'json');
CREATE TEMPORARY TABLE taken (id BIGINT) WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{path}',
  'table-name' = 'taken', 'sink.max-retries' = '0');
INSERT INTO taken SELECT id FROM numbers;"""
REFUSE = (
    "CREATE TRIGGER refuse BEFORE INSERT ON taken BEGIN SELECT RAISE(ABORT, 'it is closed'); END"
)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "taken.db"
    run(path, "CREATE TABLE taken (id BIGINT)")
    return path


def run(path: Path, sql: str) -> list[int]:
    with closing(sqlite3.connect(path, timeout=10)) as connection, connection:
        return [row[0] for row in connection.execute(sql)]


def taken(path: Path) -> list[int]:
    return run(path, "SELECT id FROM taken ORDER BY id")


def test_attempts_are_shown_and_a_command_starts_elsewhere(tmp_path: Path, database: Path) -> None:
    settings = {"restart-strategy.exponential-delay.initial-backoff": "100 ms"}
    with running(tmp_path / "data", settings=settings) as (_, user):
        user.topic("numbers")
        user.submit("copy", JOB.format(path=database))
        run(database, REFUSE)
        user.write("numbers", {"id": 1})
        job = eventually(lambda: (j := user.job("copy"))["restarts"] > 1 and j, "two failures")
        assert "it is closed" in job["reason"]
        eventually(lambda: user.job("copy")["state"] == "restarting", "a pause")
        assert user.metric("sqlengine_job_restarts_total") >= 1
        run(database, "DROP TRIGGER refuse")
        eventually(lambda: taken(database) == [1], "the row that was refused")
        user.client.post("/api/v1/jobs/copy/stop", {})
        stopped = user.job("copy")
        assert (stopped["state"], stopped["position"], stopped["next_ms"]) == (
            "stopped",
            "kept",
            None,
        )
        refused = user.refused(lambda: user.client.post("/api/v1/jobs/copy/start?from=soon", b""))
        assert "cannot start from 'soon'" in str(refused)
        assert user.command(op="start", name="copy", **{"from": "earliest"})["status"] == "started"
        eventually(lambda: taken(database) == [1, 1], "the topic from its beginning")


def test_a_start_shortens_the_pause(tmp_path: Path, database: Path) -> None:
    settings = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 h"}
    with running(tmp_path / "data", settings=settings) as (_, user):
        user.topic("numbers")
        user.submit("copy", JOB.format(path=database))
        run(database, REFUSE)
        user.write("numbers", {"id": 1})
        eventually(lambda: user.job("copy")["state"] == "restarting", "a pause")
        run(database, "DROP TRIGGER refuse")
        user.client.post("/api/v1/jobs/copy/start", {})
        eventually(lambda: taken(database) == [1], "the row that was refused")
        job = user.job("copy")
        assert (job["state"], job["restarts"], job["next_ms"]) == ("running", 0, None)


def test_a_killed_server_goes_on_with_what_was_refused(tmp_path: Path, database: Path) -> None:
    data = tmp_path / "data"

    def alive(user: User) -> str:
        return str(user.job("copy")["state"])

    with Process(data) as server:
        user = server.user()
        user.submit("copy", JOB.format(path=database))
        user.write("numbers", {"id": 1})
        eventually(lambda: taken(database) == [1], "the first row")
        run(database, REFUSE)
        user.write("numbers", {"id": 2})
        eventually(lambda: alive(user) == "restarting", "the failure")
        user.write("numbers", {"id": 3})
        server.end(signal.SIGKILL)
    run(database, "DROP TRIGGER refuse")
    with Process(data) as server:
        user = server.user()
        eventually(lambda: taken(database) == [1, 2, 3], lambda: str(user.job("copy")))
        user.write("numbers", {"id": 4})
        eventually(lambda: taken(database) == [1, 2, 3, 4], lambda: str(user.job("copy")))
        assert server.end(signal.SIGTERM) == os.EX_OK
