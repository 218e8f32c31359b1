"""Flink's own clients against a server: the real ones where Java is, and everywhere what they asked
once.

`pytest --update -m slow` records both what they ask and what they print anew."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sqlengine.config import QueryLimits
from tests.gateway import transcripts
from tests.gateway.flink_clients import HERE, Terminal, jdbc, sql_client
from tests.gateway.transcripts import Recorder, masked, replay
from tests.service.harness import running
from tests.service.test_queries import running_queries
from tests.support import eventually

Client = Callable[[str, Path, Path, str | None], str]
CLIENTS: dict[str, tuple[Client, Path]] = {
    "sql-client": (sql_client, HERE / "session.sql"),
    "jdbc": (jdbc, HERE / "Session.java"),
}
ENDLESS = "CREATE TABLE evidence (a INT) WITH ('connector' = 'datagen', 'rows-per-second' = '5')"
FOLDER = HERE / "transcripts"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A server of its own: the clients list all jobs."""
    with running(tmp_path / "data", queries=QueryLimits(at_once=24)) as (service, _):
        yield f"127.0.0.1:{service.port}"


@pytest.mark.parametrize("name", CLIENTS)
def test_what_a_client_asked_once_is_answered_as_then(name: str, address: str) -> None:
    for found, recorded in replay(transcripts.read(FOLDER / f"{name}.jsonl"), address):
        assert found == recorded


@pytest.mark.slow
@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_prints_what_it_did(name: str, address: str, tmp_path: Path, update: bool) -> None:
    client, script = CLIENTS[name]
    recorder, printed = Recorder(), FOLDER / f"{name}.txt"
    with recorder.before(address) as between:
        found = masked(_COLOURS.sub("", client(between, script, tmp_path, None)))
    found = found.replace(str(tmp_path), "/tmp")
    if update:
        printed.write_text(found)
        transcripts.write(FOLDER / f"{name}.jsonl", recorder.transcript())
    assert found == printed.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", CLIENTS)
def test_a_token_goes_with_each_request(name: str, tmp_path: Path) -> None:
    client, _ = CLIENTS[name]
    script = HERE / "token.sql" if client is sql_client else HERE / "Token.java"
    with running(tmp_path / "data", token="s3cret-token") as (service, _):
        found = client(f"127.0.0.1:{service.port}", script, tmp_path, "s3cret-token")
    assert "default_database" in found


@pytest.mark.slow
def test_somebody_types(tmp_path: Path) -> None:
    """Tab completes, Ctrl-C ends a query, and a statement may have several lines."""
    with running(tmp_path / "data") as (service, user):
        user.submit("tables", ENDLESS)
        terminal = Terminal(f"127.0.0.1:{service.port}", tmp_path)
        try:
            terminal.wait_for("Command history file path")
            terminal.type("SET 'sql-client.execution.result-mode' = 'tableau';\r")
            terminal.wait_for("succeeded")
            terminal.type("SELECT a FROM evid\t")
            terminal.type(";\r")
            terminal.wait_for("| +I |")
            (query,) = running_queries(user)
            assert "evidence" in query["sql"]
            terminal.type("\x03")
            eventually(lambda: not running_queries(user), "the query's end")
            terminal.type("SELECT 1 +\r")
            terminal.type("2;\r")
            terminal.wait_for("Received a total of 1 row")
        finally:
            terminal.end()
