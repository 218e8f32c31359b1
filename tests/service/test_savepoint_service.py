"""Savepoints of a real server, over HTTP: it is killed when the job has stopped, and the job goes
on where it was."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.service.harness import WINDOW, Process, User
from tests.support import eventually

COUNT = """CREATE TEMPORARY TABLE words (word STRING, n BIGINT, PRIMARY KEY (word) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'words', 'format' = 'json', 'upsert' = 'true');
INSERT INTO words SELECT word, COUNT(*) FROM events GROUP BY word"""


def counted(user: User) -> list[int]:
    return [r["n"] for r in user.read("words")]


def stop(user: User, name: str) -> str:
    done: Any = user.client.post(f"/api/v1/jobs/{name}/stop", b"", savepoint="true")
    assert done["status"] == "stopped"
    return str(done["savepoint"])


def start(user: User, name: str, path: str) -> None:
    done: Any = user.client.post(f"/api/v1/jobs/{name}/start", b"", savepoint=path)
    assert (done["status"], done["savepoint"]) == ("started", path)


@pytest.mark.slow
def test_a_server_that_is_killed_between_stop_and_start_and_after_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Process(data) as server:
        user = server.user()
        user.prepare()
        user.topic("words")
        user.submit("count", COUNT)
        user.submit("window", WINDOW)
        user.write("events", user.event("a"), user.event("a"))
        user.write("timed", *({"id": n, "ts": f"2026-01-01 00:01:0{n}"} for n in range(1, 4)))
        assert eventually(lambda: counted(user) == [2])
        paths = {name: stop(user, name) for name in ("count", "window")}
        user.write("events", user.event("a"))
        server.end(signal.SIGKILL)
    with Process(data) as server:
        user = server.user()
        assert {n: user.states()[n] for n in paths} == dict.fromkeys(paths, "stopped")
        for name, path in paths.items():
            start(user, name, path)
        server.end(signal.SIGKILL)
    with Process(data) as server:
        user = server.user()
        assert {n: user.states()[n] for n in paths} == dict.fromkeys(paths, "running")
        user.write(
            "timed", {"id": 4, "ts": "2026-01-01 00:01:04"}, {"id": 5, "ts": "2026-01-01 00:02:00"}
        )
        assert eventually(lambda: counted(user) == [2, 3])
        assert eventually(lambda: user.read("counts") == [{"n": 4, "least": 1}])
        operators: Any = user.client.get("/api/v1/jobs/count/state")["operations"]
        assert [(o["name"].split()[0], o["rows"], o["keys"]) for o in operators] == [
            ("GroupAggregate", 1, 1)
        ]
        listed: Any = user.client.get("/api/v1/savepoints")["savepoints"]
        assert {s["job"]: s["path"] for s in listed} == paths
        for path in paths.values():
            user.client.delete(f"/api/v1/savepoints/{Path(path).name}")
        assert user.client.get("/api/v1/savepoints") == {"savepoints": [], "next": None}
        assert server.end(signal.SIGTERM) == 0, server.said()
