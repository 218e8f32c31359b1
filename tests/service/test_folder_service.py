"""The watched folder of a real server: what comes of edits, renames, half-written files and big
check-outs."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sqlengine.cli import cli
from tests.service.harness import WINDOW, User, rule
from tests.support import HELD_UP, eventually, write_in_parts


@pytest.fixture
def folder(data: Path) -> Path:
    return data / "jobs"


def refused_files(user: User) -> dict[str, Any]:
    listed: Any = user.client.get("/api/v1/jobs")["refused_files"]
    return {Path(r["file"]).name: r["error"] for r in listed}


def overridden_files(user: User) -> dict[str, str]:
    listed: Any = user.client.get("/api/v1/jobs")["overridden_files"]
    return {Path(f["file"]).name: f["message"] for f in listed}


def _has_text(user: User, job: str, text: str) -> bool:
    return bool(user.states().get(job)) and user.job(job)["sql"] == text


def wait_for(user: User, **states: str | None) -> None:
    """Until the jobs are in these states; None: there is no such job. `__` in a name stands for a
    dot."""
    wanted = {name.replace("__", "."): state for name, state in states.items()}
    eventually(lambda: all(user.states().get(n) == s for n, s in wanted.items()), f"{wanted}")


def test_modules_of_functions_have_a_folder(user: User, data: Path) -> None:
    assert user.states() is not None
    assert (data / "functions").is_dir()


def test_files_in_folders(user: User, folder: Path) -> None:
    (folder / "team" / "night").mkdir(parents=True)
    (folder / "team" / "night" / "a.sql").write_text(rule("team.night.a"))
    wait_for(user, team__night__a="running")
    (folder / "team" / "night").rename(folder / "team" / "day")
    wait_for(user, team__night__a=None, team__day__a="running")
    assert user.fired() == {"team.night.a"}  # its text, which names the rule, is the same
    (folder / "team" / "day" / "a.sql").unlink()
    wait_for(user, team__day__a=None)
    assert user.fired() == set()


def test_a_renamed_file_keeps_a_half_full_window(user: User, folder: Path) -> None:
    user.write("timed", {"id": 0, "ts": "2026-01-01 00:00:00"})
    (folder / "window.sql").write_text(WINDOW)
    wait_for(user, window="running")
    user.write("timed", *({"id": n, "ts": f"2026-01-01 00:01:0{n}"} for n in range(1, 4)))
    eventually(
        lambda: (
            user.metric("sqlengine_records_in_total") and user.job("window")["state"] == "running"
        )
    )
    (folder / "window.sql").rename(folder / "renamed.sql")
    wait_for(user, window=None, renamed="running")
    user.write(
        "timed", {"id": 4, "ts": "2026-01-01 00:01:04"}, {"id": 9, "ts": "2026-01-01 00:05:00"}
    )
    assert eventually(lambda: user.read("counts")) == [{"n": 4, "least": 1}]
    assert [v["version"] for v in history(user, "renamed")] == [1]
    (folder / "renamed.sql").unlink()
    wait_for(user, renamed=None)


def history(user: User, name: str) -> list[dict[str, Any]]:
    versions: Any = user.client.get(f"/api/v1/jobs/{name}/history")["versions"]
    return list(versions)


def test_a_half_written_file_is_not_taken(user: User, folder: Path) -> None:
    for name in (f"half-{n}" for n in range(20)):
        text = rule(name)
        in_time = write_in_parts(folder / f"{name}.sql", (text[:20], text[20:45], text[45:]), 0.2)
        wait_for(user, **{name: "running"})
        if in_time:
            assert [v["sql"] for v in history(user, name)] == [text]
            (folder / f"{name}.sql").unlink()
            wait_for(user, **{name: None})
            return
    pytest.skip(HELD_UP)


def test_bad_files_are_shown_and_go_when_they_are_good(user: User, folder: Path) -> None:
    (folder / "binary.sql").write_bytes(bytes(range(256)))
    (folder / "my rule.sql").write_text(rule("x"))
    (folder / "empty.sql").write_text("  \n")
    (folder / "typo.sql").write_text("INSERT INTO alerts SELECT 'typo', idd FROM events")
    found = eventually(lambda: refused_files(user) if len(refused_files(user)) == 4 else None)
    assert "is not UTF-8" in found["binary.sql"]["message"]
    assert "is not a job name" in found["my rule.sql"]["message"]
    assert "is empty" in found["empty.sql"]["message"]
    assert (found["typo.sql"]["line"], found["typo.sql"]["column"]) == (1, 35)
    assert all(e["hint"] for e in found.values())
    assert user.fired() == set()
    (folder / "typo.sql").write_text(rule("typo"))
    wait_for(user, typo="running")
    for path in folder.glob("*.sql"):
        path.unlink()
    wait_for(user, typo=None)
    eventually(lambda: not refused_files(user), "an empty list of refused files")


def test_jobs_wait_for_their_table(user: User, folder: Path) -> None:
    (folder / "late.sql").write_text(
        "INSERT INTO late_table SELECT id FROM events WHERE amount = 77"
    )
    wait_for(user, late="waiting")
    assert "late_table" in user.job("late")["reason"]
    user.fired(amount=77)
    (folder / "table.sql").write_text(
        "CREATE TABLE late_table (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'late',"
        " 'format' = 'json')"
    )
    wait_for(user, late="running", table="defined")
    event = user.event(amount=77)
    user.write("events", event)
    assert eventually(lambda: user.read("late")) == [{"id": event["id"]}]
    (folder / "late.sql").unlink()
    wait_for(user, late=None)
    (folder / "table.sql").unlink()
    wait_for(user, table=None)


def test_a_waiting_job_says_what_it_waits_for_now(user: User, folder: Path) -> None:
    (folder / "waits.sql").write_text("INSERT INTO table_one SELECT idd FROM events")
    wait_for(user, waits="waiting")
    assert "unknown table 'table_one'" in user.job("waits")["reason"]
    (folder / "one.sql").write_text(
        "CREATE TABLE table_one (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'late', 'format'"
        " = 'json')"
    )
    eventually(lambda: "unknown column 'idd'" in user.job("waits")["reason"])
    (folder / "waits.sql").write_text("INSERT INTO table_one SELECT id FROM events")
    wait_for(user, waits="running")


def test_hundreds_of_files_are_one_change(user: User, folder: Path) -> None:
    before = user.graph_version()
    several = folder / "many"
    staging = folder.parent / "staging"
    staging.mkdir()
    for n in range(300):
        (staging / f"r{n}.sql").write_text(
            rule(f"m{n}", f"amount = {n + 1000} OR LOWER(word) LIKE '%needle{n}x%'")
        )
    (staging / "bad.sql").write_text(rule("bad", "amont = 1"))
    os.rename(staging, several)
    eventually(lambda: user.states().get("many.r299") == "running", "300 jobs")
    assert sum(s == "running" for n, s in user.states().items() if n.startswith("many.")) == 300
    assert user.graph_version() == before + 1
    assert user.fired("a NEEDLE7x b", 1299) == {"m7", "m299"}
    eventually(lambda: list(refused_files(user)) == ["bad.sql"], "the refused file")
    for path in several.iterdir():
        path.unlink()
    eventually(lambda: not any(n.startswith("many.") for n in user.states()), "the end of 300 jobs")
    assert user.graph_version() == before + 2
    assert user.fired("a NEEDLE7x b", 1299) == set()


def test_a_file_replaces_the_job_of_another_origin(user: User, folder: Path) -> None:
    user.submit("mine", rule("mine"))
    (folder / "mine.sql").write_text(rule("theirs"))
    eventually(lambda: user.job("mine")["origin"] == "folder")
    assert user.fired() == {"theirs"}
    assert [v["origin"] for v in history(user, "mine")] == ["rest", "folder"]
    (folder / "mine.sql").unlink()
    wait_for(user, mine=None)


def test_a_file_is_overridden_until_it_changes(user: User, folder: Path) -> None:
    path = folder / "hot.sql"
    path.write_text(rule("first"))
    wait_for(user, hot="running")
    assert overridden_files(user) == {}
    user.submit("hot", rule("fixed"))
    assert overridden_files(user) == {"hot.sql": "overridden by rest, version 2"}
    path.touch()
    (folder / "other.sql").write_text(rule("other"))  # when it runs, the folder was looked at
    wait_for(user, other="running")
    assert user.fired() == {"fixed", "other"}
    path.write_text(rule("second"))
    eventually(lambda: user.job("hot")["version"] == 3)
    assert user.fired() == {"second", "other"}
    assert overridden_files(user) == {}


def test_a_file_with_the_text_of_the_other_way_is_not_overridden(user: User, folder: Path) -> None:
    path = folder / "same.sql"
    path.write_text(rule("first"))
    wait_for(user, same="running")
    user.submit("same", rule("fixed"))
    path.write_text(rule("fixed"))
    eventually(lambda: not overridden_files(user))
    assert (user.job("same")["version"], user.job("same")["origin"]) == (2, "rest")
    path.unlink()
    wait_for(user, same=None)


def test_a_removed_job_comes_back_when_its_file_changes(user: User, folder: Path) -> None:
    path = folder / "ended.sql"
    path.write_text(rule("first"))
    wait_for(user, ended="running")
    user.client.delete("/api/v1/jobs/ended")
    assert overridden_files(user) == {"ended.sql": "removed by rest"}
    (folder / "other.sql").write_text(rule("other"))
    wait_for(user, other="running", ended=None)
    path.write_text(rule("second"))
    wait_for(user, ended="running")
    user.client.delete("/api/v1/jobs/ended")
    path.unlink()
    eventually(lambda: not overridden_files(user))
    path.write_text(rule("second"))  # a file that is there again has changed
    wait_for(user, ended="running")


def test_the_deleted_file_of_an_overridden_job(user: User, folder: Path) -> None:
    path = folder / "stays.sql"
    path.write_text(rule("first"))
    wait_for(user, stays="running")
    user.submit("stays", rule("fixed"))
    path.unlink()
    eventually(lambda: not overridden_files(user))
    assert user.fired() == {"fixed"}
    user.client.delete("/api/v1/jobs/stays")


def test_the_file_of_a_definition_in_use_is_deleted(user: User, folder: Path) -> None:
    (folder / "base.sql").write_text(
        "CREATE TABLE based (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'based', 'format' ="
        " 'json')"
    )
    wait_for(user, base="defined")
    user.submit("above", "INSERT INTO based SELECT id FROM events")
    (folder / "base.sql").unlink()
    told = eventually(lambda: refused_files(user).get("base.sql"))
    assert told["message"] == "'based' is used by above"
    assert user.states()["base"] == "defined"
    user.client.delete("/api/v1/jobs/above")
    (folder / "base.sql").write_text("CREATE TABLE based (id INT) WITH ('connector' = 'blackhole')")
    eventually(lambda: "blackhole" in user.job("base")["sql"])
    assert refused_files(user) == {}


def test_a_table_and_its_rules_are_saved_together(user: User, folder: Path) -> None:
    table = (
        "CREATE TABLE shared (id BIGINT, {}) WITH ('connector' = 'topic', 'topic' = 'events',"
        " 'format' = 'json')"
    )
    uses = "INSERT INTO alerts SELECT '{}', id FROM shared WHERE {}"
    (folder / "shared.sql").write_text(table.format("word STRING"))
    (folder / "together.sql").write_text(uses.format("together", "id > 0"))
    (folder / "words.sql").write_text(uses.format("words", "word = 'x'"))
    wait_for(user, shared="defined", together="running", words="running")
    (folder / "words.sql").write_text(uses.format("words", "amount = 3"))
    (folder / "shared.sql").write_text(table.format("amount INT"))
    eventually(lambda: user.job("words")["version"] == 2)
    assert refused_files(user) == {}
    assert user.fired("y", 3) == {"together", "words"}
    version = history(user, "together")[-1]
    assert (version["version"], version["origin"]) == (2, "folder")
    assert version["follows"] == ["shared"]


def test_a_stopped_job_stays_stopped_when_its_file_is_renamed(user: User, folder: Path) -> None:
    first, second = rule("still", "amount = 1"), rule("still")
    for text in (first, second):
        (folder / "still.sql").write_text(text)
        eventually(partial(_has_text, user, "still", text))
    user.client.post("/api/v1/jobs/still/stop")
    (folder / "still.sql").rename(folder / "yet.sql")
    wait_for(user, still=None, yet="stopped")
    assert [(v["version"], v["sql"]) for v in history(user, "yet")] == [(1, first), (2, second)]
    assert (user.job("yet")["version"], user.job("yet")["file"]) == (2, str(folder / "yet.sql"))
    assert user.fired(amount=1) == set()
    user.client.post("/api/v1/jobs/yet/start")
    event = user.event(amount=2)  # the job reads what came meanwhile, and joins the others then
    user.write("events", event)
    eventually(lambda: user.alerts(event["id"]) == {"still"}, "an alert of the job")


def test_a_running_job_keeps_its_history_when_its_file_is_renamed(user: User, folder: Path) -> None:
    first, second = rule("here", "amount = 1"), rule("here")
    for text in (first, second):
        (folder / "here.sql").write_text(text)
        eventually(partial(_has_text, user, "here", text))
    (folder / "here.sql").rename(folder / "there.sql")
    wait_for(user, here=None, there="running")
    assert [(v["version"], v["sql"]) for v in history(user, "there")] == [(1, first), (2, second)]
    assert user.job("there")["file"] == str(folder / "there.sql")
    (folder / "there.sql").rename(folder / "here.sql")  # a name that had a history of its own
    wait_for(user, there=None, here="running")
    assert [v["sql"] for v in history(user, "here")] == [first, second, second]
    assert user.job("here")["version"] == 3
    assert user.fired() == {"here"}


def test_definitions_and_waiting_jobs_are_renamed(user: User, folder: Path) -> None:
    (folder / "def.sql").write_text(
        "CREATE TABLE defined (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'defined',"
        " 'format' = 'json')"
    )
    (folder / "wait.sql").write_text("INSERT INTO never SELECT id FROM events")
    wait_for(user, **{"def": "defined", "wait": "waiting"})
    user.submit("uses", "INSERT INTO defined SELECT id FROM events")
    (folder / "def.sql").rename(folder / "fed.sql")
    (folder / "wait.sql").rename(folder / "tiaw.sql")
    wait_for(
        user, **{"def": None, "fed": "defined", "wait": None, "tiaw": "waiting", "uses": "running"}
    )
    error = user.refused(lambda: user.client.delete("/api/v1/jobs/fed"))
    assert error.message == "'defined' is used by uses"
    assert refused_files(user) == {}
    user.client.delete("/api/v1/jobs/uses")


def test_a_file_is_renamed_to_the_name_of_anothers_job(user: User, folder: Path) -> None:
    user.submit("taken", rule("taken"))
    (folder / "free.sql").write_text(rule("free"))
    wait_for(user, free="running")
    (folder / "free.sql").rename(folder / "taken.sql")
    wait_for(user, free=None, taken="running")
    eventually(lambda: user.job("taken")["origin"] == "folder")
    assert user.fired() == {"free"}


def test_an_edit_that_is_broken_and_then_renamed(user: User, folder: Path) -> None:
    (folder / "edit.sql").write_text(rule("edit"))
    wait_for(user, edit="running")
    (folder / "edit.sql").write_text("nonsense")
    eventually(lambda: "edit.sql" in refused_files(user))
    assert user.fired() == {"edit"}
    (folder / "edit.sql").rename(folder / "moved.sql")
    eventually(lambda: list(refused_files(user)) == ["moved.sql"])
    assert user.fired() == {"edit"}
    (folder / "moved.sql").write_text(rule("moved"))
    wait_for(user, edit=None)
    eventually(lambda: user.fired() == {"moved"})
    (folder / "moved.sql").unlink()
    wait_for(user, moved=None)


def test_files_that_lack_the_same_are_told_as_one_and_tried_again(user: User, folder: Path) -> None:
    log = folder.parent.parent / "app.log"
    (folder / "lines.sql").write_text(
        f"CREATE TABLE lines (line STRING) WITH ('connector' = 'filesystem', 'path' = '{log}',"
        " 'format' = 'raw', 'source.follow' = 'true')"
    )
    for number in range(5):
        text = f"INSERT INTO alerts SELECT line, {number} FROM lines"
        (folder / f"rule{number}.sql").write_text(text)
    eventually(lambda: len(refused_files(user)) == 5)
    refused: Any = user.client.get("/api/v1/jobs")["refused_files"]
    assert {f["tried_again"] for f in refused} == {True}
    shown = CliRunner().invoke(cli, ["jobs", "--server", user.client.server]).output
    assert shown.count("there is no file or folder") == 1
    assert "5 files (" in shown
    assert "rule4.sql) were not taken:\nchange refused: there is no file" in shown
    assert "tried again by itself" in shown
    alone = user.refused(
        lambda: user.submit("alone", "INSERT INTO alerts SELECT line, 9 FROM lines")
    )
    assert (alone.status, alone.title) == (409, "change refused")
    log.write_text("one\n")
    wait_for(user, **{f"rule{n}": "running" for n in range(5)})
    eventually(lambda: refused_files(user) == {})  # told once the last of them runs
