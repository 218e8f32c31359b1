"""The look of the commands: units, times, what is said once for many jobs, errors for programs, and
the line while they wait."""

from __future__ import annotations

import io
import json
import logging
import time
from pathlib import Path

import pytest

from sqlengine.cli import waiting
from sqlengine.cli.descriptions import moment, origin_of
from sqlengine.cli.outcomes import items_of
from sqlengine.cli.waiting import at_work, connect
from tests.cli.conftest import Sql
from tests.service.harness import User, rule
from tests.support import eventually

WRONG = "INSERT INTO alerts SELECT 'x', id FROM nothing_here;\n"


# ---- one line for many jobs ----------------------------------------------------------------------


@pytest.mark.parametrize("command", ["submit", "validate"])
def test_one_error_of_many_jobs_is_shown_once(served: Sql, tmp_path: Path, command: str) -> None:
    folder = tmp_path / "rules" / "team"
    folder.mkdir(parents=True)
    for n in range(7):
        (folder / f"r{n}.sql").write_text(WRONG)
    (folder / "s.sql").write_text("INSERT INTO alerts SELECT idd FROM events")
    done = served(command, "rules")
    assert done.exit_code == 1
    assert done.stdout.splitlines() == ["team.r0: refused", "team.s: refused"]
    lines = done.stderr.splitlines()
    assert lines[0] == "rules/team/r0.sql:1:40: invalid statement: unknown table 'nothing_here'"
    told = "6 more jobs refused for the same reason: team.r1, team.r2, team.r3, team.r4, team.r5"
    assert f"{told} and 1 more" in lines
    assert done.stderr.count("nothing_here") == 2  # the message, and the line of the text
    assert "rules/team/s.sql:1:27: invalid statement: unknown column 'idd'" in lines
    body = json.loads(served(command, "rules", "--output", "json").stdout)
    assert len([j for j in body["jobs"] if j["error"]]) == 8


def test_the_log_and_the_list_tell_one_error_of_many_files_once(
    served: Sql, user: User, data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = data / "jobs"
    with caplog.at_level(logging.INFO, "sqlengine"):
        for n in range(30):
            (folder / f"w{n:02}.sql").write_text(WRONG)
            (folder / f"b{n:02}.sql").write_text("SELEC 1")
        eventually(lambda: len(user.jobs()) == 33, "the jobs that wait")
        eventually(lambda: "refused: " in caplog.text, "the log")
    said = [r.getMessage() for r in caplog.records if "w05" in r.getMessage()]
    assert said == []
    waiting_jobs = [m for m in caplog.messages if "waiting: unknown table 'nothing_here'" in m]
    refused = [m for m in caplog.messages if "refused: unexpected 'SELEC'" in m]
    assert [m.split(" (")[0] for m in waiting_jobs + refused] == ["30 jobs", "30 jobs"]
    assert waiting_jobs[0].endswith(f"the first is at {folder}/w00.sql:1:40")
    told = served("jobs").stderr
    assert told.count("syntax error: unexpected 'SELEC'") == 1
    assert f"30 files ({folder}/b00.sql, " in told


def test_many_files_that_are_overridden_are_one_line(served: Sql, user: User, data: Path) -> None:
    for n in range(6):
        (data / "jobs" / f"o{n}.sql").write_text(rule("a"))
    eventually(lambda: len(user.jobs()) == 9, "the jobs of the folder")
    for n in range(6):
        user.submit(f"o{n}", rule("b"))
    lines = [line for line in served("jobs").stderr.splitlines() if "overridden" in line]
    (line,) = lines
    assert line.startswith(f"6 files ({data}/jobs/o0.sql, ")
    assert line.endswith("): overridden by rest, version 2")


def test_an_error_that_comes_again_in_a_script_is_counted(sql: Sql, tmp_path: Path) -> None:
    (tmp_path / "s.sql").write_text("SELECT * FROM nn;\n" * 8 + "SELECT * FROM mm;\n")
    done = sql("run", "s.sql")
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        "s.sql:1:15: invalid statement: unknown table 'nn'",
        "  | SELECT * FROM nn;",
        "  |               ^^",
        "  hint: create it first: CREATE TABLE",
        "s.sql:9:15: invalid statement: unknown table 'mm'",
        "  | SELECT * FROM mm;",
        "  |               ^^",
        "  hint: create it first: CREATE TABLE",
        (
            "7 more statements with 'invalid statement: unknown table 'nn'', at s.sql:2:15,"
            " s.sql:3:15, s.sql:4:15, s.sql:5:15, s.sql:6:15 and 2 more"
        ),
    ]


def test_many_jobs_are_removed_by_one_command(served: Sql, user: User) -> None:
    for name in ("gone1", "gone2"):
        user.submit(name, rule(name))
    done = served("remove", "gone1", "never1", "gone2", "never2", "never1")
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "gone1: removed",
        "never1: refused",
        "gone2: removed",
        "never2: refused",
    ]
    assert "not found: job 'never1' does not exist" in done.stderr
    user.submit("gone1", rule("gone1"))
    body = json.loads(served("remove", "gone1", "never1", "--output", "json").stdout)
    assert [(j["name"], j["status"]) for j in body["jobs"]] == [
        ("gone1", "removed"),
        ("never1", "refused"),
    ]
    assert body["jobs"][1]["error"]["status"] == 404


# ---- units ---------------------------------------------------------------------------------------


def test_times_are_in_utc_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert moment(1_769_860_800_000) == "2026-01-31 12:00:00Z"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_an_origin_names_the_file_below_the_folder() -> None:
    def origin(file: str, job: str) -> str:
        return origin_of({"origin": "folder", "file": file}, job)

    assert origin("/srv/jobs/r1.sql", "r1") == "folder r1.sql"
    assert origin("/srv/jobs/team/r1.sql", "team.r1") == "folder team/r1.sql"
    assert origin("/srv/jobs/team.r1.sql", "team.r1") == "folder team.r1.sql"
    assert origin("/srv/jobs/a.b/c/r.1.sql", "a.b.c.r.1") == "folder a.b/c/r.1.sql"
    assert origin("rule.sql", "other") == "folder rule.sql"  # sql submit --name other


def test_lists_of_a_folder_with_rules_in_subfolders(served: Sql, user: User, data: Path) -> None:
    (data / "jobs" / "team").mkdir()
    (data / "jobs" / "team" / "r1.sql").write_text(rule("r1"))
    eventually(lambda: user.states().get("team.r1") == "running", "the rule")
    assert "  folder team/r1.sql  " in served("jobs").stdout
    assert "  folder team/r1.sql  " in served("history", "team.r1").stdout


# ---- errors for programs -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["jobs", "never"], "job 'never' does not exist", 1),
        (["topic", "describe", "never"], "topic 'never' does not exist", 1),
        (["execute", "STOP JOB"], "unexpected end of statement", 1),
        (["savepoint", "show", "never"], "does not exist", 1),
        (["jobs", "a/b"], "'a/b' is not a job name", 1),
        (["jobs", "--server", "127.0.0.1:9"], "no server answers at http://127.0.0.1:9", 3),
        (["submit", "bad.sql"], "unexpected 'SELEC'", 1),
    ],
)
def test_errors_have_the_form_of_the_output(
    served: Sql, tmp_path: Path, arguments: list[str], message: str, code: int
) -> None:
    (tmp_path / "bad.sql").write_text("SELEC 1")
    people = served(*arguments)
    assert people.exit_code == code
    assert message in people.stderr.splitlines()[0]
    done = served(*arguments, "--output", "json")
    assert done.exit_code == code
    error = json.loads(done.stderr)
    assert message in error["message"]
    assert error["type"].startswith("urn:sqlengine:")
    assert all(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("job", "jobs"), ("delete", "remove"), ("sumbit", "submit"), ("ls", "jobs")],
)
def test_a_command_that_is_none_names_one_that_is(sql: Sql, typed: str, meant: str) -> None:
    done = sql(typed, "a")
    assert done.exit_code == 2
    assert f"No such command '{typed}'. Did you mean '{meant}'?" in done.stderr
    assert "mean" not in sql("zzz").stderr


def test_a_server_that_cannot_be_reached_is_told_without_numbers(sql: Sql) -> None:
    done = sql("jobs")
    assert done.exit_code == 3
    assert done.stderr.splitlines()[1] == "  detail: Connection refused"
    done = sql("jobs", "--server", "no-such-host.invalid:1")
    assert done.exit_code == 3
    assert "Errno" not in done.stderr
    assert "hint: is the name right?" in done.stderr


def test_lists_without_anything_say_so(served: Sql) -> None:
    for command, said in (("savepoint list", "no savepoints"), ("dead-letters", "no dead letters")):
        done = served(*command.split())
        assert (done.exit_code, done.stdout, done.stderr) == (0, "", said + "\n")
    assert items_of({}, "overridden_files") == []  # a server that starts knows of none


# ---- waiting -------------------------------------------------------------------------------------


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_what_a_command_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr(waiting, "PATIENCE_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    with at_work("the server plans 1,000 jobs") as shown:
        eventually(lambda: "/ the server plans 1,000 jobs: 0 s" in screen.getvalue(), "the line")
        with at_work("waiting for the server"):
            shown.what = "removing job 2 of 3"
            eventually(lambda: "removing job 2 of 3: 0 s" in screen.getvalue(), "the next line")
    assert "waiting for the server" not in screen.getvalue()
    assert screen.getvalue().endswith("\r\x1b[K")


def test_each_request_says_that_it_waits_but_for_those_that_the_server_holds(
    monkeypatch: pytest.MonkeyPatch, user: User
) -> None:
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr(waiting, "PATIENCE_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    client = connect(user.client.server, None)
    client.get("/api/v1/topics/events/records", offset="latest", wait=0)
    assert screen.getvalue() == ""
    client.get("/api/v1/jobs")
    assert f"waiting for {client.server}: 0 s" in screen.getvalue()


def test_a_pipe_sees_nothing_and_neither_does_who_need_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for stream in (Screen(), io.StringIO()):
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setattr(waiting, "PATIENCE_S", 60.0 if stream.isatty() else 0.0)
        with at_work("nothing"):
            pass
        assert "nothing" not in stream.getvalue()


def test_a_server_without_spark_says_how_a_job_gets_there(served: Sql) -> None:
    assert served("spark").stdout == (
        "Spark has not started: no job runs there ('sql submit --on spark')\n"
    )
    assert json.loads(served("spark", "--output", "json").stdout) == {"graphs": [], "session": None}
