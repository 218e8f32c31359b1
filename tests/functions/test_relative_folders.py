"""Folders by relative paths, as in the README: functions, sinks and instances run in processes with
working folders of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sqlengine import connect
from sqlengine.config import Config
from sqlengine.functions.pool import POOL
from tests.cli.conftest import Sql, sql
from tests.service.harness import TABLES, User, rule, running
from tests.support import eventually

__all__ = ["sql"]

FUNCTIONS = """
from pathlib import Path

from sqlengine import sink, udf

@udf
def louder(word: str) -> str:
    return word.upper()

@sink
def keep(id: int, word: str) -> None:
    with Path({kept!r}).open("a") as file:
        file.write(f"{{id}} {{word}}\\n")
"""
LOUDER = "CREATE TEMPORARY FUNCTION louder AS 'tools.louder' LANGUAGE PYTHON;\n"
KEEP = """CREATE TEMPORARY FUNCTION keep AS 'tools.keep' LANGUAGE PYTHON;
CREATE TEMPORARY TABLE kept (id BIGINT, word STRING)
WITH ('connector' = 'python', 'function' = 'keep');
INSERT INTO kept SELECT id, word FROM events WHERE word = 'kept'
"""
LAYOUTS: dict[str, Mapping[str, Any]] = {
    "defaults": {},
    "instances": {"instances": 1},
    "folders": {"jobs": Path("rules"), "functions": Path("modules")},
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh working folder. Modules of this test have a content of their own, so that no worker of
    another test has them."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def put_module(folder: Path, kept: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tools.py").write_text(FUNCTIONS.format(kept=str(kept)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_functions_and_sinks_of_a_server(layout: str, here: Path, tmp_path: Path) -> None:
    config = Config(Path("data"), **LAYOUTS[layout])
    put_module(config.functions_folder, tmp_path / "kept.txt")
    with running(Path("data"), **LAYOUTS[layout]) as (_, user):
        user.prepare()
        config.jobs_folder.mkdir(parents=True, exist_ok=True)
        (config.jobs_folder / "loud.sql").write_text(
            LOUDER + rule("loud", "louder(word) = 'LOUD'").replace(";", "")
        )
        eventually(lambda: "loud" in user.states(), lambda: user.client.get("/api/v1/jobs"))
        user.submit("kept", KEEP)
        assert user.fired("loud") == {"loud"}
        event = user.event("kept")
        user.write("events", event)
        kept = tmp_path / "kept.txt"  # it is there, and empty, before its line is
        eventually(lambda: kept.exists() and kept.read_text(), lambda: user.jobs())
        assert kept.read_text() == f"{event['id']} kept\n"
        _savepoint(user)
    POOL.stop()


def _savepoint(user: User) -> None:
    """A job starts from its savepoint, whose path is told in full."""
    done: Any = user.client.post("/api/v1/jobs/loud/stop", b"", savepoint="true")
    assert Path(done["savepoint"]).is_absolute()
    user.client.post("/api/v1/jobs/loud/start", b"", savepoint=done["savepoint"])


def test_an_engine_of_a_program_that_changes_its_folder(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_module(here / "data" / "functions", tmp_path / "kept.txt")
    with connect(data="data") as connection:
        monkeypatch.chdir(tmp_path)
        for topic in ("events", "alerts"):
            connection.create_topic(topic)
        connection.submit("tables", TABLES)
        connection.submit("loud", LOUDER + rule("loud", "louder(word) = 'LOUD'"))
        connection.write("events", [{"id": 1, "word": "loud"}])
        (record,) = eventually(lambda: connection.read("alerts"))
        assert record.value == b'{"rule":"loud","id":1}'
    POOL.stop()


def test_modules_of_a_script(sql: Sql, tmp_path: Path) -> None:
    put_module(tmp_path / "scripts", tmp_path / "kept.txt")
    script = LOUDER + "SELECT louder('quiet') AS word;"
    (tmp_path / "scripts" / "script.sql").write_text(script)
    done = sql("run", "scripts/script.sql", "--data", "topics", "--output", "json")
    assert done.stdout == '{"word": "QUIET"}\n', done.output


def test_a_folder_of_topics_on_another_disk(sql: Sql, tmp_path: Path) -> None:
    assert sql("topic", "create", "t", "--data", "d").exit_code == 0
    moved = sql("topic", "move", "t", "--to", "disk", "--data", "d", "--output", "json")
    assert moved.exit_code == 0, moved.output
    assert str(tmp_path / "disk") in moved.stdout


def test_a_path_in_a_table_is_below_the_working_folder(sql: Sql, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1}\n')
    (tmp_path / "scripts").mkdir()
    table = "CREATE TABLE t (id INT) WITH ('connector' = 'filesystem', 'path' = './{}', 'format' = 'json');"
    for name in ("in", "on"):
        (tmp_path / "scripts" / f"{name}.sql").write_text(table.format(name) + "SELECT id FROM t;")
    assert sql("run", "scripts/in.sql", "--output", "json").stdout == '{"id": 1}\n'
    missing = sql("run", "scripts/on.sql")
    assert "there is no file or folder 'on'" in missing.stderr
    assert f"it was looked for in '{tmp_path}'" in missing.stderr
