"""`sql serve` as a process: SIGTERM ends it in good order, SIGKILL in none; jobs, versions and
history outlive both."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.service.harness import WINDOW, Process, User, rule, running
from tests.support import PATIENCE_S, eventually

# tgkill(2), for which the C library has no function everywhere.
_TGKILL = 234 if platform.machine() == "x86_64" else 131


def history(user: User, name: str) -> list[tuple[int, str]]:
    versions: Any = user.client.get(f"/api/v1/jobs/{name}/history")["versions"]
    return [(v["version"], v["sql"]) for v in versions]


def test_three_lives(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Process(data) as server:
        user = server.user()
        second_is_refused(data, server.process.pid)
        user.prepare()
        user.submit("kept", rule("kept", "amount > 5"))
        user.submit("kept", rule("kept", "amount > 7"))
        user.submit("stopped", rule("stopped"))
        user.client.post("/api/v1/jobs/stopped/stop")
        user.submit("gone", rule("gone"))
        user.client.delete("/api/v1/jobs/gone")
        (data / "jobs" / "window.sql").write_text(WINDOW)
        (data / "jobs" / "file.sql").write_text(rule("file"))
        eventually(lambda: [user.states().get(n) for n in ("file", "window")] == ["running"] * 2)
        user.write("timed", *({"id": n, "ts": f"2026-01-01 00:01:0{n}"} for n in range(1, 4)))
        assert user.fired(amount=8) == {"kept", "file"}
        before = (user.states(), history(user, "kept"), history(user, "gone"))
        assert server.end(signal.SIGTERM) == 0, server.said()
        assert "Traceback" not in server.said()
        assert server.said().splitlines()[-1].endswith("stopped")

    (data / "jobs" / "file.sql").rename(data / "jobs" / "renamed.sql")
    # Its half-full window goes along.
    (data / "jobs" / "window.sql").rename(data / "jobs" / "windows.sql")
    for end in (signal.SIGKILL, signal.SIGINT):
        with Process(data) as server:
            again = server.user()
            again._numbers = user._numbers
            states = again.states()
            assert {
                **states,
                "file": states["renamed"],
                "window": states["windows"],
            }.items() >= before[0].items(), states
            assert "file" not in states
            assert (history(again, "kept"), history(again, "gone")) == before[1:]
            assert again.fired(amount=8) == {"kept", "file"}
            assert again.fired(amount=6) == {"file"}
            code = server.end(end)
            assert code == (0 if end is signal.SIGINT else -signal.SIGKILL), server.said()
            assert "Traceback" not in server.said()

    with Process(data) as server:
        last = server.user()
        last._numbers = user._numbers
        last.write(
            "timed", {"id": 4, "ts": "2026-01-01 00:01:04"}, {"id": 9, "ts": "2026-01-01 00:05:00"}
        )
        assert eventually(lambda: last.read("counts")) == [{"n": 4, "least": 1}]
        assert last.client.post("/api/v1/jobs/kept/rollback", version=1)["version"] == 3
        assert last.fired(amount=6) == {"kept", "file"}
        again_gone = last.submit("gone", rule("gone"))
        assert (again_gone["status"], again_gone["version"]) == ("added", 2)


def second_is_refused(data: Path, pid: int) -> None:
    with Process(data) as second:
        assert second.process.wait(PATIENCE_S) == 1
        said = second.said()
        assert f"is in use by the process {pid}" in said
        assert "hint:" in said
        assert "Traceback" not in said


def overridden(user: User) -> dict[str, str]:
    listed: Any = user.client.get("/api/v1/jobs")["overridden_files"]
    return {Path(f["file"]).name: f["message"] for f in listed}


@pytest.mark.slow
def test_a_signal_that_another_thread_takes_ends_it(tmp_path: Path) -> None:
    """The system may give a signal to any thread, and that one does not wake the first, which alone
    ends the server."""
    with Process(tmp_path / "data") as server:
        server.user()  # it is ready
        pid = server.process.pid
        other = max(map(int, os.listdir(f"/proc/{pid}/task")))
        assert other != pid
        ctypes.CDLL(None).syscall(_TGKILL, pid, other, int(signal.SIGTERM))
        assert server.process.wait(30) == 0, server.said()


def test_overridden_files_outlive_a_restart(tmp_path: Path) -> None:
    data = tmp_path / "data"
    names = ("changed", "ended", "gone", "refused")
    with running(data) as (_, user):
        user.prepare()
        for name in names:
            (data / "jobs" / f"{name}.sql").write_text(rule(name))
        eventually(lambda: set(names) <= user.states().keys())
        refused = rule("table", "missing > 1")
        (data / "jobs" / "refused.sql").write_text(refused)
        eventually(lambda: user.client.get("/api/v1/jobs")["refused_files"])
        for name in ("changed", "gone", "refused"):
            user.submit(name, rule(f"{name} by rest"))
        user.client.delete("/api/v1/jobs/ended")
        told = overridden(user)
        assert told["changed.sql"] == "overridden by rest, version 2"
        assert told["ended.sql"] == "removed by rest"
    (data / "jobs" / "gone.sql").unlink()
    for life in range(1, 3):
        with running(data) as (_, user):
            told = overridden(user)
            user.write("events", *(user.event() for _ in range(life)))  # numbers of earlier lives
            assert told == {
                "changed.sql": "overridden by rest, version 2",
                "ended.sql": "removed by rest",
                "refused.sql": "overridden by rest, version 2",
            }
            assert user.fired() == {"changed by rest", "gone by rest", "refused by rest"}
    (data / "jobs" / "changed.sql").write_text(rule("changed again"))
    (data / "jobs" / "ended.sql").write_text(rule("ended again"))
    with running(data) as (_, user):
        user.write("events", *(user.event() for _ in range(3)))
        assert user.fired() == {"changed again", "ended again", "gone by rest", "refused by rest"}


def test_a_data_folder_without_records_of_its_files(tmp_path: Path) -> None:
    """An older version kept no records: what the folder last submitted is in the history."""
    data = tmp_path / "data"
    with running(data) as (service, user):
        user.prepare()
        (data / "jobs" / "old.sql").write_text(rule("old"))
        eventually(lambda: "old" in user.states())
        user.submit("old", rule("by rest"))
        service.engine.broker.delete_topic("_folder")
    with running(data) as (_, user):
        assert overridden(user) == {"old.sql": "overridden by rest, version 2"}
        assert user.fired() == {"by rest"}
