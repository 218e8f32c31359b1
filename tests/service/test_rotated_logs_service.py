"""A server that follows a log while it is rotated, and is killed: every line once."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.rotations import Log
from tests.service.harness import Process, User, running
from tests.support import eventually

_LIVES = 4
_JOBS = """
CREATE TABLE log (line STRING, `file.path` STRING METADATA VIRTUAL)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'raw', 'source.follow' = 'true');
CREATE TABLE seen (line STRING, path STRING)
WITH ('connector' = 'topic', 'topic' = 'seen', 'format' = 'json');
INSERT INTO seen SELECT line, `file.path` FROM log WHERE line <> '{version}';
"""
_TIMED = """
CREATE TABLE log (id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json', 'source.follow' = 'true');
CREATE TABLE counts (n BIGINT) WITH ('connector' = 'topic', 'topic' = 'counts', 'format' = 'json');
INSERT INTO counts SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE log, DESCRIPTOR(ts), INTERVAL '10' SECOND))
GROUP BY window_start, window_end;
"""


def jobs(log: Log, version: int = 1) -> str:
    """A job that copies the lines of the log into a topic."""
    return _JOBS.format(path=log.path, version=version)


def lines(user: User) -> list[str]:
    return [row["line"] for row in user.read("seen")]


def shard(user: User) -> dict[str, Any]:
    """What the job `count` tells of the one file that it reads."""
    (table,) = user.job("count")["tables"]
    found: dict[str, Any] = table["shards"][0] if table["shards"] else {"watermark": None}
    return found


def wait_for_all(user: User, log: Log) -> None:
    """Returns when all that was written was read, and asserts that it was read once."""
    expected = sorted(line.decode() for line in log.written)

    def arrived() -> bool:
        return len(lines(user)) >= len(expected)

    eventually(arrived, f"{len(expected)} lines")
    assert sorted(lines(user)) == expected


def disturb(log: Log, chance: random.Random, times: int) -> None:
    """The writer writes, and what rotates logs does, as quickly as they can."""
    for _ in range(times):
        log.write(chance.randint(1, 5))
        match chance.randrange(6):
            case 0:
                log.rotate()
            case 1:
                log.move()
                log.write()
                log.reopen()
            case 2:
                log.copy()
                log.truncate()
            case 3:
                log.compress(chance.randint(1, 2))
        time.sleep(chance.choice([0, 0, 0.01, 0.05]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_kills_between_rotations_lose_and_repeat_nothing(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    log = Log(tmp_path / "app.log")
    log.write()
    for life in range(_LIVES):
        with Process(tmp_path / "data") as server:
            user = server.user()
            if not life:
                user.topic("seen")
                user.submit("follow", jobs(log))
            disturb(log, chance, 30)
            if life == _LIVES - 1:
                wait_for_all(user, log)
                assert {row["path"] for row in user.read("seen")} == {str(log.path)}
                assert user.states() == {"follow": "running"}
            server.end(signal.SIGKILL)
            assert "Traceback" not in server.said()
        disturb(log, chance, 8)
    log.close()


def test_versions_stops_and_savepoints_go_on_behind_a_rotation(tmp_path: Path) -> None:
    log = Log(tmp_path / "app.log")
    log.write(3)
    with running(tmp_path / "data") as (_, user):
        user.topic("seen")
        user.submit("follow", jobs(log))
        wait_for_all(user, log)
        log.rotate()
        log.write(2)
        user.submit("follow", jobs(log, version=2))
        wait_for_all(user, log)
        user.client.post("/api/v1/jobs/follow/stop", b"")
        log.write(2)
        log.rotate()
        log.write(2)
        log.compress(1)
        user.client.post("/api/v1/jobs/follow/start", b"")
        wait_for_all(user, log)
        stopped: Any = user.client.post("/api/v1/jobs/follow/stop", b"", savepoint="true")
        log.write()
        log.copy()
        log.truncate()
        log.write(9)
        user.client.post("/api/v1/jobs/follow/start", b"", savepoint=stopped["savepoint"])
        wait_for_all(user, log)
    log.close()


def test_a_window_does_not_wait_for_files_of_before(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_text('{"id": 1, "ts": "2026-01-01 00:00:01"}\n')
    with running(tmp_path / "data") as (_, user):
        user.topic("counts")
        user.submit("count", _TIMED.format(path=path))
        eventually(lambda: shard(user)["watermark"] == "2026-01-01T00:00:01", "the first row")
        path.rename(tmp_path / "app.log.1")
        path.write_text(
            '{"id": 2, "ts": "2026-01-01 00:00:02"}\n{"id": 3, "ts": "2026-01-01 00:00:20"}\n'
        )
        assert eventually(lambda: user.read("counts")) == [{"n": 2}]
