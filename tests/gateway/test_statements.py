"""Statements through the gateway: INSERTs as jobs, statement sets, and what others answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from parser.limits import using
from tests.gateway.client import Failed, Session
from tests.service.harness import User
from tests.support import eventually

OUT = "CREATE TABLE {0} (w STRING, n BIGINT) WITH ('connector' = 'topic', 'topic' = '{0}', 'format' = 'json')"
ENDLESS = "CREATE TABLE endless (a INT) WITH ('connector' = 'datagen', 'rows-per-second' = '100')"
HOLE = "CREATE TABLE hole (a INT) WITH ('connector' = 'blackhole')"


@pytest.fixture(autouse=True)
def no_jobs_left(user: User) -> Iterator[None]:
    yield
    for job in user.jobs():
        if job["name"] not in ("tables", "timed", "all"):
            user.client.delete(f"/api/v1/jobs/{job['name']}")


def inserted(user: User) -> list[str]:
    return [j["name"] for j in user.jobs() if j["name"] not in ("tables", "timed", "all")]


def test_definitions_answer_ok(session: Session) -> None:
    result = session.run(HOLE)
    assert (result.rows, result.names, result.pages) == ([["OK"]], ["result"], 2)
    assert result.last["resultKind"] == "SUCCESS"
    assert result.last["isQueryResult"] is False


def test_an_insert_whose_input_ends_has_run_when_it_answers(user: User, session: Session) -> None:
    user.topic("bounded")
    session.run(OUT.format("bounded"))
    result = session.run("INSERT INTO bounded VALUES ('a', 1), ('b', 2)")
    assert result.names == ["job id"]
    assert result.rows == [[result.last["jobID"]]]
    assert [r["w"] for r in user.read("bounded")] == ["a", "b"]
    assert inserted(user) == []


def test_inserts_leave_no_writers_in_a_topic(data: Path, user: User, session: Session) -> None:
    user.topic("often")
    session.run(OUT.format("often"))
    for n in range(3):
        session.run(f"INSERT INTO often VALUES ('a', {n})")
    assert [r["n"] for r in user.read("often")] == [0, 1, 2]
    files = [f for f in (data / "topics" / "often.topic").rglob("*") if f.is_file()]
    assert files
    assert not any(b"query-" in f.read_bytes() for f in files)


def test_an_insert_that_is_not_waited_for_is_a_job(user: User, session: Session) -> None:
    user.topic("later")
    session.run(OUT.format("later"))
    session.run("SET 'table.dml-sync' = 'false'")
    session.run("INSERT INTO later VALUES ('a', 1)")
    assert len(inserted(user)) == 1
    eventually(lambda: user.read("later"), "the row")


def state_of(session: Session, operation: str) -> str:
    answer = session.call("GET", f"{session.place}/operations/{operation}/status")
    return str(answer["status"])


def begin_waiting(user: User, session: Session) -> str:
    """Begins an INSERT without an end, which the client waits for; returns its operation."""
    session.run(ENDLESS)
    session.run(HOLE)
    operation = session.begin(
        "INSERT INTO hole SELECT a FROM endless", executionConfig={"table.dml-sync": "true"}
    )
    eventually(lambda: inserted(user), "its job")
    assert state_of(session, operation) == "RUNNING"
    assert session.page(operation, 0)["resultType"] == "NOT_READY"
    return operation


def test_a_job_that_is_waited_for_fails_with_its_end(user: User, session: Session) -> None:
    """As in Flink, where a job that was cancelled is no success of who waits for it."""
    operation = begin_waiting(user, session)
    (name,) = inserted(user)
    user.client.post(f"/api/v1/jobs/{name}/stop")
    eventually(lambda: state_of(session, operation) == "ERROR")
    with pytest.raises(Failed, match=f"job '{name}' is stopped"):
        session.page(operation, 0)


def test_who_cancels_waiting_stops_the_job(user: User, session: Session) -> None:
    operation = begin_waiting(user, session)
    session.call("POST", f"{session.place}/operations/{operation}/cancel")
    (name,) = inserted(user)
    eventually(lambda: user.job(name)["state"] == "stopped")
    assert state_of(session, operation) == "CANCELED"


def test_a_session_ends_with_what_it_waits_for(user: User, address: str) -> None:
    with Session(address) as session:
        begin_waiting(user, session)
    (name,) = inserted(user)
    eventually(lambda: user.job(name)["state"] == "stopped")


def test_a_bounded_insert_that_is_waited_for_is_no_job(user: User, session: Session) -> None:
    session.run(HOLE)
    session.run("SET 'table.dml-sync' = 'true'")
    assert session.run("INSERT INTO hole VALUES (1)").last["jobID"]
    assert inserted(user) == []
    assert "use 'true' or 'false'" in session.failure("SET 'table.dml-sync' = 'maybe'").texts[1]


def test_an_insert_without_an_end_is_a_job_that_outlives_its_session(
    user: User, address: str
) -> None:
    user.topic("counted")
    with Session(address) as session:
        session.run(OUT.format("counted"))
        session.run("CREATE VIEW long_words AS SELECT word, amount FROM events WHERE amount > 9")
        session.run("CREATE VIEW unused AS SELECT 1 AS a")
        job = session.run("INSERT INTO counted SELECT word, amount FROM long_words").last["jobID"]
        (row,) = session.rows("SHOW JOBS") and [r for r in session.rows("SHOW JOBS") if r[0] == job]
        assert row[2] == "RUNNING"
    user.write("events", user.event("short", 1), user.event("long", 10))
    found = eventually(lambda: user.read("counted"), "a row of the job")
    assert found == [{"w": "long", "n": 10}]
    (name,) = inserted(user)
    text = user.job(name)["sql"]
    assert "long_words" in text
    assert "unused" not in text


def test_a_job_is_stopped_by_its_id(user: User, session: Session) -> None:
    session.run(ENDLESS)
    session.run(HOLE)
    job = session.run("INSERT INTO hole SELECT a FROM endless").last["jobID"]
    assert session.rows(f"STOP JOB '{job}'") == [["OK"]]
    assert [user.job(name)["state"] for name in inserted(user)] == ["stopped"]


def test_names_of_jobs(user: User, session: Session) -> None:
    session.run(ENDLESS)
    session.run(HOLE)
    session.run("SET 'pipeline.name' = 'copy'")
    session.run("INSERT INTO hole SELECT a FROM endless")
    assert inserted(user) == ["copy"]
    again = session.failure("INSERT INTO hole SELECT a FROM endless")
    assert "job 'copy' exists already" in again.texts[1]


def test_settings_of_the_session_are_those_of_the_job(user: User, session: Session) -> None:
    session.run(ENDLESS)
    session.run(HOLE)
    session.run("SET 'job.on-error' = 'dead-letter'")
    session.run("SET 'sql-client.verbose' = 'true'")
    session.run("INSERT INTO hole SELECT a FROM endless")
    (name,) = inserted(user)
    assert user.job(name)["sql"].startswith(
        "SET 'job.unknown-options' = 'ignore';\nSET 'job.on-error' = 'dead-letter';\n"
    )
    assert "sql-client" not in user.job(name)["sql"]


def test_jobs_of_other_databases(user: User, session: Session) -> None:
    for sql in (
        "CREATE CATALOG c WITH ('type' = 'generic_in_memory')",
        "USE CATALOG c",
        "CREATE DATABASE d",
        "USE d",
    ):
        session.run(sql)
    session.run(ENDLESS)
    session.run("CREATE VIEW v AS SELECT a FROM endless")
    session.run(
        "CREATE TABLE `default_catalog`.`default_database`.hole (a INT) WITH ('connector' = 'blackhole')"
    )
    session.run("INSERT INTO `default_catalog`.`default_database`.hole SELECT a FROM v")
    (name,) = inserted(user)
    eventually(lambda: user.job(name)["rows"] > 0, "rows of the job")


def test_statement_sets_piece_by_piece_and_at_once(user: User, session: Session) -> None:
    session.run(ENDLESS)
    session.run(HOLE)
    for sql in (
        "BEGIN STATEMENT SET;",
        "INSERT INTO hole SELECT a FROM endless;",
        "INSERT INTO hole SELECT 1;",
    ):
        assert session.rows(sql) == [["OK"]]
    assert "only INSERT" in session.failure("SELECT 1").texts[1]
    ended = session.run("END;")
    assert ended.last["jobID"] == ended.rows[0][0]
    assert len(inserted(user)) == 1
    at_once = "EXECUTE STATEMENT SET BEGIN INSERT INTO hole SELECT a FROM endless; INSERT INTO hole SELECT 2; END;"
    session.run(at_once)
    assert len(inserted(user)) == 2
    session.run("BEGIN STATEMENT SET")
    assert "no INSERT" in session.failure("END").texts[1]
    session.run("BEGIN STATEMENT SET")
    with using(text_size=60):
        session.run("INSERT INTO hole SELECT 1")
        session.run("INSERT INTO hole SELECT 2")
        assert "'text-size'" in session.failure("INSERT INTO hole SELECT 3").texts[1]
    session.run("END")


def test_create_table_as(user: User, session: Session) -> None:
    user.topic("made")
    session.run(
        "CREATE TABLE made WITH ('connector' = 'topic', 'topic' = 'made', 'format' = 'json')"
        " AS SELECT 'x' AS w, CAST(1 AS BIGINT) AS n"
    )
    assert user.read("made") == [{"w": "x", "n": 1}]
    assert ["made"] in session.rows("SHOW TABLES")


def test_errors_name_a_class_of_flink_and_the_place(session: Session) -> None:
    for sql, name, told in (
        ("SELEKT 1", "SqlParserException", "1:1"),
        ("SELECT * FROM", "SqlParserException", 'Encountered "<EOF>"'),
        ("SELECT nothing FROM events", "ValidationException", "1:8"),
        ("SELECT 1 / 0", "TableException", "division by zero"),
        ("SELECT 1; SELECT 2", "UnsupportedOperationException", "one statement"),
        ("", "SqlParserException", "no statement"),
    ):
        failed = session.failure(sql)
        assert failed.status == 500
        assert failed.texts[1].startswith("<Exception on server side:\n"), sql
        assert name in failed.texts[1], sql
        assert told in failed.texts[1], sql


def test_a_password_is_never_told(session: Session) -> None:
    told = session.failure(
        "CREATE TABLE s (a INT) WITH ('connector' = 'jdbc', 'password' = 'hush-hush', 'b"
    ).texts
    assert "hush-hush" not in str(told)


def test_explain_and_show(session: Session) -> None:
    assert "Scan events" in session.rows("EXPLAIN SELECT id FROM events")[0][0]
    assert session.run("SHOW CURRENT CATALOG").names == ["current catalog name"]
    assert session.rows("USE CATALOG default_catalog;") == [["OK"]]
    assert session.rows("USE default_database;") == [["OK"]]
