"""Folders that the commands allow: a stranger's first table of files, and what the error tells
him."""

from __future__ import annotations

import json
import signal
import sqlite3
from pathlib import Path

import pytest

from sqlengine.cli import main
from tests.service.harness import Process, User, running
from tests.support import eventually

COPY = """CREATE TABLE numbers_{n} (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '{rate}',
  'number-of-rows' = '5', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '5');
CREATE TABLE files_{n} (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json');
INSERT INTO files_{n} SELECT id FROM numbers_{n}"""
COPY_EVENTS = """CREATE TABLE files (id BIGINT)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json');
INSERT INTO files SELECT id FROM events"""
DATABASE = """CREATE TABLE events (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
CREATE TABLE files (id BIGINT) WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{path}', 'table-name' = 't');
INSERT INTO files SELECT id FROM events"""


def rows(folder: Path) -> list[int]:
    return sorted(
        json.loads(line)["id"] for p in folder.glob("part-*") for line in p.read_text().splitlines()
    )


def copy(path: Path | str, n: int = 1, rate: int = 1000) -> str:
    return COPY.format(path=path, n=n, rate=rate)


def refusal(user: User, text: str) -> str:
    return str(user.refused(lambda: user.submit("refused", text)))


def test_what_a_server_allows(tmp_path: Path) -> None:
    """By default DATA/files alone; the error says what to add, and with that it works."""
    data, out = tmp_path / "data", tmp_path / "out"
    with sqlite3.connect(tmp_path / "db") as database:
        database.execute("CREATE TABLE t (id BIGINT)")
    with Process(data, files=False) as server:
        user = server.user()
        assert f"sql serve --files {out}" in refusal(user, copy(out))
        assert "in the server's data folder" in refusal(user, copy(data / "jobs"))
        in_database = DATABASE.format(path=tmp_path / "db")
        assert f"sql serve --files {tmp_path}" in refusal(user, in_database)
        user.submit("copy", copy(data / "files" / "t"))
        eventually(lambda: rows(data / "files" / "t") == [1, 2, 3, 4, 5])
        server.end(signal.SIGTERM)
    with running(data, files=(tmp_path,)) as (_, user):
        user.submit("copy2", copy(out, 2))
        user.submit("waits", copy(out / "below", 3, rate=1))
        eventually(lambda: rows(out) == [1, 2, 3, 4, 5] and rows(out / "below"))


@pytest.mark.slow
def test_jobs_of_an_older_version(tmp_path: Path) -> None:
    """They fail at the start, and name the option; with it they go on, and others are as ever."""
    data, out = tmp_path / "data", tmp_path / "out"
    with running(data) as (_, user):
        user.prepare()
        user.submit("copy", COPY_EVENTS.format(path=out))
        user.write("events", user.event("one"))
        eventually(lambda: rows(out) == [1])
    with running(data, files=(), settings={"restart-strategy.type": "none"}) as (_, user):

        def reason() -> str:
            job = user.job("copy")
            return str(job["reason"]) if job["state"] == "failed" else ""

        user.write("events", {"id": 2})
        assert f"sql serve --files {out}" in eventually(reason, lambda: str(user.job("copy")))
        user.write("events", {"id": 3})
        eventually(lambda: [a["id"] for a in user.read("alerts")] == [1, 2, 3])
    with running(data, files=(out,)) as (_, user):
        user.client.post("/api/v1/jobs/copy/start")
        eventually(lambda: rows(out) == [1, 2, 3], lambda: str(rows(out)))


def test_what_a_script_may_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own folder and the working folder, and those that are named, by -D too."""
    own, here, there = (tmp_path / name for name in ("own", "here", "there"))
    for folder in (own, here, there):
        folder.mkdir()
    script = own / "script.sql"
    monkeypatch.chdir(here)

    def ran(path: str, *more: str) -> int | str | None:
        script.write_text(copy(path))
        with pytest.raises(SystemExit) as end:
            main(["run", str(script), *more])
        return end.value.code

    assert (
        ran("out") == ran(str(own / "out")) == ran(str(there / "out"), "--files", str(there)) == 0
    )
    assert [rows(f / "out") for f in (own, here, there)] == [[1, 2, 3, 4, 5]] * 3
    assert ran("${OUT}/by_name", "-D", f"OUT={there}") == 0
    assert rows(there / "by_name") == [1, 2, 3, 4, 5]
    assert ran(str(tmp_path / "elsewhere")) == 1
    assert not (tmp_path / "elsewhere").exists()
