"""Sessions of the gateway: what they keep, how they are configured, how they end."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import pytest

from sqlengine.config import QueryLimits
from sqlengine.queries import room
from tests.gateway.client import Failed, Session
from tests.service.harness import User, running
from tests.support import eventually

ENDLESS = "CREATE TABLE endless (a INT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000')"


def test_versions_are_those_that_all_drivers_know(session: Session) -> None:
    for version in ("v1", "v2", "v3"):
        assert session.call("GET", f"/{version}/api_versions") == {"versions": ["V1", "V2"]}
        assert session.call("GET", f"/{version}/info")["productName"] == "sqlengine"


def test_handles_are_uuids(session: Session) -> None:
    uuid.UUID(session.handle)
    uuid.UUID(session.begin("SHOW TABLES"))


@pytest.mark.parametrize("version", ["v1", "v2", "v3"])
def test_all_versions_serve_sessions(address: str, version: str) -> None:
    with Session(address, version=version) as session:
        assert session.rows("SELECT 1") == [[1]]


def test_properties_of_the_clients_are_settings_where_they_mean_something(address: str) -> None:
    told = {
        "execution.target": "remote",
        "rest.port": "8081",
        "table.local-time-zone": "Asia/Tokyo",
    }
    with Session(address, properties=told) as session:
        known = session.call("GET", session.place)["properties"]
        assert known["table.local-time-zone"] == "Asia/Tokyo"
        assert "execution.target" not in known
        (row,) = session.rows("SELECT CAST(TO_TIMESTAMP_LTZ(0, 3) AS STRING)")
        assert row == ["1970-01-01 09:00:00.000"]


def test_set_and_reset(session: Session) -> None:
    session.run("SET 'sql-client.execution.result-mode' = 'tableau'")
    assert ["sql-client.execution.result-mode", "tableau"] in session.rows("SET")
    session.run("RESET 'sql-client.execution.result-mode'")
    assert not any("result-mode" in key for key, _ in session.rows("SET"))


def test_settings_of_one_statement_are_not_kept(session: Session) -> None:
    batch = {"execution.runtime-mode": "batch"}
    count = "SELECT COUNT(*) FROM (VALUES (1), (2)) AS v(a)"
    assert session.run(count).kinds == ["INSERT", "UPDATE_BEFORE", "UPDATE_AFTER"]
    assert session.run(count, executionConfig=batch).rows == [[2]]
    session.run("CREATE VIEW w AS SELECT 1 AS a", executionConfig=batch)
    assert "execution.runtime-mode" not in session.call("GET", session.place)["properties"]


def test_what_a_session_defines_is_its_own(address: str, session: Session) -> None:
    session.run(ENDLESS)
    session.run("CREATE VIEW v AS SELECT a FROM endless")
    session.run("CREATE DATABASE db")
    assert session.rows("SHOW TABLES") == [
        ["alerts"],
        ["counts"],
        ["endless"],
        ["events"],
        ["timed"],
        ["v"],
    ]
    assert session.rows("SHOW DATABASES") == [["db"], ["default_database"]]
    assert session.rows("SHOW CREATE TABLE endless")[0][0].startswith(
        "CREATE TABLE `default_catalog`"
    )
    assert "exists already" in session.failure(ENDLESS).texts[1]
    with Session(address) as other:
        assert ["endless"] not in other.rows("SHOW TABLES")
        other.run("CREATE TABLE endless (b INT) WITH ('connector' = 'blackhole')")
    session.run("ALTER TABLE endless RENAME TO renamed")
    session.run("DROP VIEW v")
    session.run("DROP TABLE renamed")
    assert ["endless"] not in session.rows("SHOW TABLES")


def test_what_jobs_define_stays_theirs(session: Session) -> None:
    for sql in ("DROP TABLE events", "ALTER TABLE events SET ('a' = 'b')"):
        assert "belongs to the server" in session.failure(sql).texts[1]
    assert "exists already" in session.failure("CREATE TABLE events (a INT)").texts[1]
    session.run("CREATE TABLE IF NOT EXISTS events (a INT) WITH ('connector' = 'blackhole')")
    assert [r[0] for r in session.rows("DESCRIBE events")] == ["id", "word", "amount"]


def test_configure_session(session: Session) -> None:
    def configure(sql: str) -> None:
        assert session.call("POST", f"{session.place}/configure-session", {"statement": sql}) == {}

    configure("CREATE DATABASE other;")
    configure("USE other;")
    configure("SET 'table.local-time-zone' = 'Europe/Berlin';")
    assert session.rows("SHOW CURRENT DATABASE") == [["other"]]
    for sql in ("SELECT 1", "SHOW TABLES", "USE nowhere", "SELEKT"):
        with pytest.raises(Failed) as failed:
            configure(sql)
        assert failed.value.status == 500


def test_complete_statement(session: Session) -> None:
    def complete(text: str) -> list[str]:
        body = {"statement": text, "position": len(text)}
        found: list[str] = session.call("GET", f"{session.place}/complete-statement", body)[
            "candidates"
        ]
        return found

    assert complete("SELECT * FROM ev") == ["events"]
    assert "SELECT" in complete("SEL")
    assert "amount" in complete("SELECT am")
    assert complete("SELECT ") == []


def test_texts_of_any_length_are_seen_through_at_once(session: Session) -> None:
    """What a text is is told in time that grows with its length, not with its square: meanwhile
    the server does nothing else."""
    blanks = " " * 300_000
    for sql in (f"BEGIN STATEMENT SET{blanks}x", f"BEGIN{blanks}x"):
        with pytest.raises(Failed):
            session.run(sql)
    word = "a" * 300_000
    body = {"statement": f"{word}(", "position": len(word) + 1}
    found = session.call("GET", f"{session.place}/complete-statement", body)
    assert found["candidates"] == []


def test_numbers_and_texts_that_cannot_be(session: Session) -> None:
    """They are refused as what they are, and no fault of the server."""
    for body, told in (
        ({"statement": "SELECT 1", "executionTimeout": 10**400}, "'executionTimeout' is no whole"),
        ({"statement": "SELECT 1", "executionTimeout": -1}, "'executionTimeout' is no whole"),
        ({"statement": 1}, "the body has no statement"),
    ):
        with pytest.raises(Failed) as failed:
            session.call("POST", f"{session.place}/statements", body)
        assert (failed.value.status, told in failed.value.texts[1]) == (400, True)
    assert "U+D800 is half of a character" in session.failure("SELECT '\ud800'").texts[1]


def test_unknown_handles_are_404(session: Session) -> None:
    nobody = str(uuid.uuid4())
    operation = session.begin("SELECT 1")
    with Session(session.address) as other:
        for method, path in (
            ("GET", f"/v2/sessions/{nobody}"),
            ("POST", f"/v2/sessions/{nobody}/heartbeat"),
            ("POST", f"/v2/sessions/{nobody}/statements"),
            ("GET", f"{session.place}/operations/{nobody}/status"),
            ("GET", f"{other.place}/operations/{operation}/result/0"),
        ):
            with pytest.raises(Failed) as failed:
                session.call(method, path, {"statement": "SELECT 1"})
            assert failed.value.status == 404, path


def test_bad_bodies_are_400(session: Session) -> None:
    for body in ([1], {"statement": 1}, {}, {"statement": "SELECT 1", "executionTimeout": "x"}):
        with pytest.raises(Failed) as failed:
            session.call("POST", f"{session.place}/statements", body)
        assert failed.value.status == 400, body
    with pytest.raises(Failed) as failed:
        session.page(session.begin("SELECT 1"), 0, "XML")
    assert failed.value.status == 400


def test_materialized_tables_are_refused_by_name(session: Session) -> None:
    with pytest.raises(Failed) as failed:
        session.call(
            "POST", f"/v3/sessions/{session.handle}/materialized-tables/cat.db.m/refresh", {}
        )
    assert "'cat.db.m'" in failed.value.texts[1]
    created = session.failure("CREATE MATERIALIZED TABLE m AS SELECT 1 AS a")
    assert "MATERIALIZED" in created.texts[1].upper()


def test_a_session_takes_its_queries_with_it(user: User, address: str) -> None:
    with Session(address) as session:
        session.run(ENDLESS)
        operation = session.begin("SELECT a FROM endless")
        assert next(session.pages(operation))["resultType"] == "PAYLOAD"
        assert len(user.client.get("/api/v1/queries")["queries"]) == 1  # type: ignore[arg-type]
    assert user.client.get("/api/v1/queries")["queries"] == []


def test_who_is_silent_for_long_loses_the_session(tmp_path: Path) -> None:
    limits = QueryLimits(session_s=1.0, silence_s=0.2)
    with running(tmp_path / "data", queries=limits) as (_, user):
        session = Session(user.client.server.removeprefix("http://")).__enter__()
        session.run(ENDLESS)
        session.begin("SELECT a FROM endless")
        for _ in range(15):  # heartbeats keep it, and its queries, although nobody reads these
            session.call("POST", f"{session.place}/heartbeat")
            time.sleep(0.1)
        assert user.client.get("/api/v1/queries")["queries"]
        eventually(lambda: not user.client.get("/api/v1/queries")["queries"], "the query's end")

        def lost() -> bool:
            Session(session.address).__enter__()  # tidies
            try:
                session.call("GET", session.place)
            except Failed as error:
                return error.status == 404
            return False

        assert lost()


def test_no_session_makes_way_for_another(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Session(address) as first:
        monkeypatch.setattr(room, "MAX_KEPT", 1)
        with pytest.raises(Failed) as failed:
            Session(address).__enter__()
        assert "sessions are open already" in failed.value.texts[1]
        monkeypatch.undo()
        assert first.rows("SELECT 1") == [[1]]
