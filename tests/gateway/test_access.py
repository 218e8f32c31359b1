"""Who may use the gateway: tokens, principals and what they may do, in errors that Flink's clients
read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlengine.client import Client
from tests.access.conftest import TOKENS, access_text
from tests.gateway.client import Failed, Session
from tests.service.harness import TABLES, User, running

TABLE = (
    "CREATE TABLE {0} (id BIGINT) WITH ('connector' = 'topic', 'topic' = '{1}', 'format' = 'json')"
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("access")
    (folder / "access.toml").write_text(access_text())
    with running(folder / "data", access=folder / "access.toml", token=None) as (service, _):
        admin = User(Client(f"http://127.0.0.1:{service.port}", TOKENS["root"], "rest"))
        for topic in ("events", "alerts", "a.out", "secret"):
            admin.topic(topic)
        admin.submit("tables", TABLES)
        yield f"127.0.0.1:{service.port}"


def as_user(address: str, name: str) -> Session:
    return Session(address, token=TOKENS.get(name, "wrong"))


def test_without_a_token_nothing_is_told(address: str) -> None:
    for session in (Session(address), as_user(address, "nobody")):
        with pytest.raises(Failed) as failed:
            session.call("GET", "/v1/api_versions")
        assert failed.value.status == 401
        assert "token" in failed.value.texts[0]


def test_an_access_token_of_one_server(tmp_path: Path) -> None:
    with running(tmp_path / "data", token="s3cret-token") as (service, _):
        address = f"127.0.0.1:{service.port}"
        with pytest.raises(Failed):
            Session(address).__enter__()
        with Session(address, token="s3cret-token") as session:
            assert session.rows("SELECT 1") == [[1]]


def test_sessions_and_operations_are_of_one_principal(address: str) -> None:
    with as_user(address, "alice") as session:
        operation = session.begin("SELECT 1")
        other = as_user(address, "bob")
        other.handle = session.handle
        for call in (
            lambda: other.call("GET", session.place),
            lambda: other.begin("SELECT 1"),
            lambda: other.page(operation, 0),
        ):
            with pytest.raises(Failed) as failed:
                call()
            assert failed.value.status == 404


def test_roles(address: str) -> None:
    with pytest.raises(Failed) as failed:
        as_user(address, "sender").__enter__()
    assert failed.value.status == 403
    with as_user(address, "reader") as session:
        assert session.rows("SELECT 1") == [[1]]
        session.run("CREATE TABLE hole (a INT) WITH ('connector' = 'blackhole')")
        assert "change job" in session.failure("INSERT INTO hole SELECT 1").texts[1]


def test_tables_and_names_of_jobs(address: str) -> None:
    with as_user(address, "alice") as session:
        assert "secret" in session.failure(TABLE.format("s", "secret")).texts[1]
        assert ["s"] not in session.rows("SHOW TABLES")
        session.run(TABLE.format("mine", "a.out"))
        assert "change job 'insert_mine" in session.failure("INSERT INTO mine VALUES (1)").texts[1]
        session.run("SET 'pipeline.name' = 'a.mine'")
        session.run("INSERT INTO mine VALUES (1)")
        endless = "CREATE TABLE endless (a BIGINT) WITH ('connector' = 'datagen')"
        session.run(endless)
        session.run("INSERT INTO mine SELECT a FROM endless")
        assert [r[1] for r in session.rows("SHOW JOBS")] == ["a.mine"]
        assert session.rows("STOP JOB 'a.mine'") == [["OK"]]
