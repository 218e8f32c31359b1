"""Savepoints and state of jobs from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Sql
from tests.service.harness import User, running
from tests.support import eventually

JOB = """CREATE TEMPORARY TABLE totals (word STRING, n BIGINT, PRIMARY KEY (word) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'totals', 'format' = 'json', 'upsert' = 'true');
INSERT INTO totals SELECT word, COUNT(*) FROM events GROUP BY word"""


def totals(user: User) -> list[int]:
    return [t["n"] for t in user.read("totals")]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that may have savepoints besides the server's own."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def server(data: Path, kept: Path) -> Iterator[User]:
    with running(data, savepoints=(kept,)) as (_, user):
        user.prepare()
        yield user


def test_stop_with_savepoint_and_go_on(served: Sql, user: User, tmp_path: Path, kept: Path) -> None:
    user.topic("totals")
    (tmp_path / "total.sql").write_text(JOB)
    served("submit", "total.sql")
    user.write("events", user.event("a"), user.event("a"))
    assert eventually(lambda: totals(user) == [2])
    done = served("stop", "total", "--savepoint", kept, "--output", "json")
    path = json.loads(done.stdout)["savepoint"]
    assert Path(path).parent == kept
    assert user.job("total")["state"] == "stopped"
    user.write("events", user.event("a"))
    said = served("start", "total", "--savepoint", path)
    assert said.stdout == f"total: started, version 1\n  savepoint {path}\n"
    assert eventually(lambda: totals(user) == [2, 3])

    assert (
        served("savepoint", "list", "--folder", kept)
        .stdout.splitlines()[1]
        .startswith("total  1  ")
    )
    shown = served("savepoint", "show", path).stdout
    assert "GroupAggregate by word" in shown
    assert "next offset" in shown
    assert served("savepoint", "delete", path).stdout == f"{path} deleted\n"
    gone = served("savepoint", "show", path)
    assert (gone.exit_code, "does not exist" in gone.stderr) == (1, True)
    for outside in (
        ("list", "--folder", "/etc"),
        ("show", "/etc/x"),
        ("delete", kept / ".." / "x"),
    ):
        refused = served("savepoint", *outside)
        assert (refused.exit_code, "is not in a folder for savepoints" in refused.stderr) == (
            1,
            True,
        )


def test_statements_of_flink_stop_jobs(served: Sql, user: User, tmp_path: Path, kept: Path) -> None:
    user.topic("totals")
    (tmp_path / "total.sql").write_text(JOB)
    served("submit", "total.sql")
    shown = served("execute", "SHOW JOBS").stdout
    assert [line.split()[:3] for line in shown.splitlines() if line.startswith("total")] == [
        ["total", "total", "RUNNING"]
    ]
    created = served("savepoint", "create", "total").stdout
    assert created.startswith("total: saved, version "), created
    text = f"SET 'state.savepoints.dir' = '{kept}'; STOP JOB 'total' WITH SAVEPOINT"
    column, path = served("execute", text).stdout.splitlines()[2:]
    assert (column, Path(path).parent) == ("savepoint path", kept)
    again = served("submit", "total.sql", "--savepoint", path, "--output", "json")
    assert [s["outcome"] for s in json.loads(again.stdout)["state"]] == ["kept"]
    served("execute", "STOP JOB 'total'")
    assert user.job("total")["state"] == "stopped"
    served("start", "total")
    drained = served("stop", "total", "--drain").stdout.splitlines()
    assert drained[0].startswith("total: stopped")
    assert "drained" in served("savepoint", "show", drained[1].split()[1]).stdout
    assert user.job("total")["state"] == "stopped"
    refused = served("execute", "STOP JOB 'total' WITH SAVEPOINT")
    assert (refused.exit_code, "job 'total' does not run" in refused.stderr) == (1, True)
    assert "no statement about jobs" in served("execute", "SELECT 1").stderr


def test_state_is_shown_as_tables(served: Sql, user: User, tmp_path: Path) -> None:
    user.topic("totals")
    (tmp_path / "total.sql").write_text(JOB)
    served("submit", "total.sql")
    user.write("events", user.event("a"), user.event("b"), user.event("a"))
    assert eventually(lambda: sum(totals(user)[-2:]) == 3)
    (operator,) = json.loads(served("state", "total", "--output", "json").stdout)["operations"]
    assert (operator["operation"], operator["rows"], operator["keys"]) == (1, 2, 2)
    assert "GroupAggregate by word" in served("state", "total").stdout
    lines = served("state", "total", "--operator", 1).stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["word", "#rows", "0#count"],
        ["a", "2", "2"],
        ["b", "1", "1"],
    ]
