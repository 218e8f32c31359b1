"""Rights of files: the server's own are its user's alone, and those of tables are not."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.harness import Process, running
from tests.support import eventually

SINK = """CREATE TABLE files (id BIGINT, weekday STRING) PARTITIONED BY (weekday)
WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv');
INSERT INTO files SELECT id, 'monday' FROM events"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("usual_umask")
def test_files_of_the_server_and_of_tables(tmp_path: Path) -> None:
    data, files = tmp_path / "data", tmp_path / "out"
    with Process(data) as server:
        user = server.user()
        user.prepare()
        user.submit("writes", SINK.format(files))
        user.write("events", user.event())
        user.client.post("/api/v1/jobs/all/stop", b"", savepoint="true")

        def written() -> list[Path]:
            return [p for p in files.rglob("*") if p.is_file() and not p.name.startswith(".")]

        (file,) = eventually(written, "the file of the table")
        own = [data, *(Path(f, n) for f, fs, ns in os.walk(data) for n in (*fs, *ns))]
        assert len(own) > 10
        assert [(p, oct(mode(p))) for p in own if mode(p) & 0o077] == []
    assert [mode(p) for p in (file, file.parent, files)] == [0o644, 0o755, 0o755]


def test_what_is_told_at_the_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = tmp_path / "data"
    (data / "jobs").mkdir(parents=True)
    (data / "jobs").chmod(0o777)
    (data / "old").touch()
    (data / "old").chmod(0o644)
    data.chmod(0o755)
    with running(data):
        pass
    assert "others than this user may use the data folder" in caplog.text
    assert f"may use 1 files in '{data}', such as '{data / 'old'}'" in caplog.text
    assert "may write to the watched folder" in caplog.text
