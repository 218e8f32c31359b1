"""The trail of jobs: each change with who asked for it and what differed; which jobs ran when."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sqlengine.access.access_file import AuditSettings
from sqlengine.access.audit.live import jobs_at
from sqlengine.access.audit.log import AuditLog, Event, files_in
from sqlengine.cli import cli
from sqlengine.client import Refused
from tests.service.harness import Process, User, rule, running
from tests.support import eventually


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def life(place: Path) -> Iterator[User]:
    with running(place) as (_, user):
        user.prepare()
        yield user


def told(data: Path, job: str | None = None) -> list[dict[str, Any]]:
    lines = [
        json.loads(x) for path in files_in(data / "audit") for x in path.read_text().splitlines()
    ]
    return [line for line in lines if job in (None, line.get("object"))]


def words(data: Path, job: str) -> list[tuple[Any, ...]]:
    return [(t["what"], t["by"], t["version"], t.get("state")) for t in told(data, job)]


def sql(*arguments: object) -> str:
    done = CliRunner().invoke(cli, [str(a) for a in arguments])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def now() -> int:
    """A moment (ms) between two changes."""
    time.sleep(0.005)
    at = time.time_ns() // 1_000_000
    time.sleep(0.005)
    return at


def live(user: User, at: int) -> dict[str, Any]:
    found: Any = user.client.get("/api/v1/live", at=at)
    assert found["known"]
    return {j["name"]: j for j in found["jobs"]}


def test_each_change_is_told_with_its_difference(life: User, place: Path) -> None:
    """Over HTTP, by the folder and by commands; a server without principals names the way."""
    life.submit("r", rule("r", "amount > 1"))
    life.submit("r", rule("r", "amount > 2"))
    life.submit("r", rule("r", "amount > 2"))  # nothing changes
    life.client.post("/api/v1/jobs/r/stop")
    life.command(op="start", name="r")
    life.client.post("/api/v1/jobs/r/rollback", version=1)
    life.client.delete("/api/v1/jobs/r")
    assert words(place, "r") == [
        ("job added", "rest", 1, "running"),
        ("job replaced", "rest", 2, "running"),
        ("job stopped", "rest", 2, "stopped"),
        ("job started", "topic", 2, "running"),
        ("job replaced", "rest", 3, "running"),
        ("job removed", "rest", 3, None),
    ]
    second = told(place, "r")[1]
    assert second["diff"].splitlines()[1:] == [
        "-" + rule("r", "amount > 1"),
        "+" + rule("r", "amount > 2"),
    ]
    assert (second["before"], second["via"]) == (1, "PUT /api/v1/jobs/r")
    assert second["peer"] == "127.0.0.1"
    assert told(place, "r")[3]["peer"] == "command topic"
    file = place / "jobs" / "f.sql"
    file.write_text(rule("f"))
    eventually(lambda: life.states().get("f") == "running")
    (added,) = told(place, "f")
    assert (added["by"], added["peer"], added["file"]) == ("folder", "watched folder", str(file))
    assert sql("audit", "verify", "--data", place).startswith("whole up to line ")


def test_drafts_retired_and_stopped_rules_were_not_live(life: User, place: Path) -> None:
    life.submit("r", rule("r"))
    first = now()
    life.submit("d", "-- @rule\n-- status: draft\n" + rule("d"))
    life.submit("r", rule("r", "amount > 1"))
    second = now()
    life.client.post("/api/v1/jobs/r/stop")
    third = now()
    life.submit("r", "-- @rule\n-- status: retired\n" + rule("r"))
    assert live(life, first)["r"]["version"] == 1
    assert live(life, first)["r"]["sql"] == rule("r")
    found = live(life, second)
    assert (found["r"]["version"], found["r"]["text_proven"]) == (2, True)
    assert "d" not in found
    assert "tables" not in found, "it runs nothing"
    assert "r" not in live(life, third)
    assert "r" not in live(life, now())
    assert set(live(life, third)) == {"all"}


def test_the_commands(life: User, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLENGINE_SERVER", life.client.server)
    life.submit("r", rule("r"))
    at = datetime.fromtimestamp(now() / 1000, UTC).isoformat(sep=" ")
    life.client.delete("/api/v1/jobs/r")
    assert "r     1        20" in sql("jobs", "--at", at)
    assert rule("r") in sql("jobs", "r", "--at", at)
    (job,) = json.loads(sql("jobs", "r", "--at", at, "--output", "json"))["jobs"]
    assert (job["by"], job["version"]) == ("rest", 1)
    assert "r     1" in sql("audit", "live", "--at", at, "--data", place)
    exported = [
        json.loads(x) for x in sql("audit", "export", "--job", "r", "--data", place).splitlines()
    ]
    assert [e["what"] for e in exported] == ["job added", "job removed"]
    assert exported == life.client.get("/api/v1/audit", job="r")["events"]
    assert not sql("audit", "export", "--since", "2200-01-01", "--data", place)
    for far in ("9" * 20, "253402300800000"):
        with pytest.raises(Refused, match="is no time"):
            life.client.get("/api/v1/live", at=far)
        with pytest.raises(Refused, match="is no time"):
            life.client.get("/api/v1/audit", since=far)
    for command in (["jobs"], ["audit", "live", "--data", str(place)]):
        late = CliRunner().invoke(cli, [*command, "--at", "2200-01-01"])
        assert (late.exit_code in (1, 2), late.stdout) == (True, "")
        assert "it is 20" in late.stderr
    early = CliRunner().invoke(cli, ["jobs", "--at", "2020-01-01"])
    assert early.exit_code == 1
    assert "is not known" in early.stderr


@pytest.mark.slow
def test_restarts_and_kills(place: Path) -> None:
    """What a kill keeps from the log is told at the next start; between two lives nothing ran."""
    with Process(place) as server:
        user = server.user()
        user.prepare()
        user.submit("r", rule("r"))
        first = now()
        server.process.kill()
        server.process.wait()
    second = now()
    done = CliRunner().invoke(cli, ["audit", "live", "--at", str(second), "--data", str(place)])
    assert "as far as the audit log knows" in done.stderr, done.output
    with running(place) as (_, user):
        assert not user.client.get("/api/v1/live", at=second)["proven"]
        assert user.client.get("/api/v1/live")["proven"]
        second = now()
        assert live(user, first)["r"]["version"] == 1
        assert live(user, second)["r"]["version"] == 1
    between = now()
    with running(place) as (_, user):
        assert not live(user, between)
        assert user.client.get("/api/v1/live", at=between)["proven"]
        assert set(live(user, now())) == {"all", "r"}
        assert [t["what"] for t in told(place, "r")] == ["job added"]
    files_in(place / "audit")[-1].unlink()  # as a folder of before had none
    with running(place) as (_, user):
        assert set(live(user, now())) == {"all", "r"}


def test_older_files_are_not_needed(tmp_path: Path) -> None:
    """Each file begins with all jobs, so that those before it can go."""
    from sqlengine.jobs.trail import Trail

    log = AuditLog(tmp_path, AuditSettings(2000, 2), lambda: 1000, sync=False).open()
    trail = Trail(log, tmp_path)
    assert trail.all_jobs()[0].what == "all jobs"
    for n in range(60):
        log.write([Event("x", "", "PUT", f"a.{n}")])
    log.close()
    assert len(files_in(tmp_path)) == 2
    for path in files_in(tmp_path):
        assert json.loads(path.read_text().splitlines()[0])["what"] == "all jobs"
    assert jobs_at(tmp_path).known


def test_a_shadow_was_not_live(life: User) -> None:
    life.submit("tried", rule("tried", "amount > 1"))
    life.submit("tried", "-- @rule\n-- status: shadow\n" + rule("tried", "amount > 2"))
    found = live(life, now())
    assert (found["tried"]["version"], "tried@shadow" in found) == (1, False)
    life.client.post("/api/v1/jobs/tried/promote")
    assert live(life, now())["tried"]["version"] == 2
