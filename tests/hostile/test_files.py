"""Files and names that are meant to stop a server: the job beside them is exact, and those that
they concern go on once they are put right."""

from __future__ import annotations

import json
import os
import re
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parser.errors import ExecutionError, OptionError, PlanError, SqlError
from parser.types import BIGINT, Schema
from planner.catalog import Table
from sqlengine.batch import from_pydict
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.filesystem.files import unreadable
from sqlengine.connectors.registry import open_sink, open_source, validate
from sqlengine.system.file_access import FileAccess
from tests.connectors.test_file_partitions import environment, table
from tests.service.harness import User, running
from tests.support import eventually


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[User]:
    with running(folder / "data", settings={"restart-strategy.type": "none"}) as (_, user):
        user.prepare()
        yield user


@pytest.fixture
def user(server: User) -> Iterator[User]:
    """A user of the server; afterwards the job `all` has an alert for each event, once."""
    server.write("events", server.event("before"))
    yield server
    last = server.write("events", server.event("after"))
    eventually(lambda: len(alerts(server)) > last, "the rows of the witness")
    assert alerts(server) == [e["id"] for e in server.read("events")]
    for job in server.jobs():
        if job["name"] not in ("tables", "timed", "all"):
            server.client.delete(f"/api/v1/jobs/{job['name']}")


def alerts(user: User) -> list[int]:
    return [a["id"] for a in user.read("alerts") if a["rule"] == "all"]


def files_of(folder: Path) -> list[dict[str, Any]]:
    """The rows in the files of a folder, with the name of the folder that each is in."""
    found = sorted(p for p in folder.rglob("part-*") if p.is_file())
    return [
        {**json.loads(line), "in": p.parent.name}
        for p in found
        for line in p.read_text().splitlines()
    ]


def written(folder: Path, count: int) -> list[dict[str, Any]]:
    """Waits until a folder has so many rows."""
    return eventually(
        lambda: len(found := files_of(folder)) == count and found, lambda: str(files_of(folder))
    )


def readers(user: User) -> list[str]:
    return [a["rule"] for a in user.read("alerts") if a["rule"].startswith("back")]


def failed(user: User, job: str) -> str:
    """Why a job has failed, once it has."""

    def reason() -> str | None:
        status = user.job(job)
        return str(status["reason"]) if status["state"] == "failed" else None

    return eventually(reason, lambda: f"the failure of {user.job(job)}")


def sink(path: Path, more: str = "") -> str:
    return (
        f"CREATE TABLE files (id BIGINT, word STRING) PARTITIONED BY (word) WITH ('connector' ="
        f" 'filesystem', 'path' = '{path}', {more} 'format' = 'json');\n"
        "INSERT INTO files SELECT id, word FROM events"
    )


# ---- names of partitions -------------------------------------------------------------------------


def test_values_that_no_name_can_hold(user: User, folder: Path) -> None:
    out = folder / "values"
    words = [
        "nul\0here",
        "..",
        "../../../climbs",
        "/etc",
        "a\nb",
        "ä" * 120,
        "=%2F",
        " ",
        "x" * 250,
    ]
    user.submit("names", sink(out))
    first = user.write("events", *(user.event(w) for w in [*words, "y" * 300, "\0" * 100, "last"]))
    rows = written(out, len(words) + 1)
    assert {p.name for p in folder.iterdir()} <= {"data", "values"}, "a name climbed out"
    assert sorted(len(r["in"].encode()) for r in rows)[-1] <= 255
    letters: Any = user.client.get("/api/v1/jobs/names/dead-letters")["letters"]
    assert [(one["offset"], one["reason"].split(",")[0]) for one in letters] == [
        (first + 9, "partition column 'word' gives a folder a name of 305 bytes"),
        (first + 10, "partition column 'word' gives a folder a name of 305 bytes"),
    ]
    # A reader finds the values again.
    user.submit(
        "back",
        "CREATE TABLE kept (id BIGINT, word STRING) PARTITIONED BY (word) WITH ('connector' ="
        f" 'filesystem', 'path' = '{out}', 'source.monitor-interval' = '1 h', 'format' = 'json');\n"
        "INSERT INTO alerts SELECT 'back ' || word, id FROM kept",
    )
    backs = eventually(lambda: len(found := readers(user)) == len(words) + 1 and found)
    assert sorted(backs) == sorted(f"back {w}" for w in [*words, "last"])


def test_a_partition_whose_folder_cannot_be_made(user: User, folder: Path) -> None:
    out = folder / "blocked"
    out.mkdir()
    (out / "word=stuck").write_text("a file where a folder belongs")
    user.submit("writes", sink(out))
    user.write("events", user.event("free"), user.event("stuck"), user.event("free"))
    assert f"'{out}/word=stuck'" in failed(user, "writes")
    (out / "word=stuck").unlink()
    user.client.post("/api/v1/jobs/writes/start")
    rows = written(out, 3)
    assert sorted(r["in"] for r in rows) == ["word=free", "word=free", "word=stuck"]


@pytest.mark.parametrize("name", ["../out", "a/b", "a\\0b", "a" * 200, ""])
def test_the_default_name_stays_below_the_path(tmp_path: Path, name: str) -> None:
    text = name.replace("\\0", "\0")
    with pytest.raises(OptionError, match=r"partition\.default-name"):
        validate(table(tmp_path, more=f"'partition.default-name' = '{text}', "))


@contextmanager
def few_files(count: int) -> Iterator[None]:
    """Lets this process open only so many files more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("more", ["", "'sink.rolling-policy.file-size' = '1 mb', "])
def test_many_partitions_with_few_files(tmp_path: Path, more: str) -> None:
    """Also where the process has fewer files than it was told, and where an epoch is repeated."""
    of = table(tmp_path, more=more)
    rows = from_pydict(of.schema, {"id": [*range(150)] * 2, "k": [str(n) for n in range(150)] * 2})
    with few_files(30):
        for life in range(2):
            opened = open_sink(of, environment())
            for epoch in (1, 2)[: life + 1]:
                opened.write(rows)
                assert opened.commit(epoch) == (300 if epoch > life else 0)
            opened.roll(end=True)
            opened.close()
    assert len(files_of(tmp_path)) == 600


# ---- files that are read -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["no JSON", '{"staging": ".s", "comes": [], "goes": ["../keep"]}', '{"staging": "/"}']
)
def test_a_list_of_an_overwrite_that_names_what_is_elsewhere(tmp_path: Path, text: str) -> None:
    (tmp_path / "keep").write_text("")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".overwrite-x").write_text(text)
    with pytest.raises(ExecutionError, match="overwrite-x' is no list of files"):
        open_sink(table(tmp_path / "out"), environment())
    assert (tmp_path / "keep").exists()


# ---- files that are read -------------------------------------------------------------------------


def source(path: Path, more: str = "", format_name: str = "json") -> str:
    return (
        f"CREATE TABLE files (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{path}',"
        f" 'source.monitor-interval' = '20 ms', {more} 'format' = '{format_name}');\n"
        f"INSERT INTO alerts SELECT '{path.name}', id FROM files"
    )


def read(user: User, folder: Path) -> list[int]:
    return sorted(a["id"] for a in user.read("alerts") if a["rule"] == folder.name)


def garbage(path: Path) -> None:
    path.write_bytes(b"PAR1" + bytes(range(256)) * 9)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def other_type(path: Path) -> None:
    pq.write_table(pa.table({"id": ["text"]}), path)


def cut_off(path: Path) -> None:
    pq.write_table(pa.table({"id": [*range(1000)]}), path)
    path.write_bytes(path.read_bytes()[:-100])


def damaged(path: Path) -> None:
    """Its rows are garbage, and its end says that they are there."""
    pq.write_table(pa.table({"id": [*range(1000)]}), path, compression="NONE")
    data = bytearray(path.read_bytes())
    data[4:600] = bytes(596)
    path.write_bytes(data)


@pytest.mark.parametrize("spoil", [garbage, empty, other_type, cut_off, damaged])
def test_parquet_that_cannot_be_read(user: User, folder: Path, spoil: Any) -> None:
    """The job that reads it fails, and names it; mended, it goes on where it was."""
    there = folder / f"parquet-{spoil.__name__}"
    there.mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), there / "a.parquet")
    user.submit("reads", source(there, format_name="parquet"))
    eventually(lambda: read(user, there) == [1, 2])
    spoil(there / ".b.parquet")
    (there / ".b.parquet").rename(there / "b.parquet")
    reason = failed(user, "reads")
    assert f"{there}/b.parquet" in reason
    assert "\n" not in reason
    assert "'source.unreadable-files' = 'skip'" in reason or spoil is other_type
    (there / "b.parquet").unlink()
    pq.write_table(pa.table({"id": [3]}), there / "c.parquet")
    user.client.post("/api/v1/jobs/reads/start")
    eventually(lambda: read(user, there) == [1, 2, 3], lambda: f"{user.job('reads')}")


def test_files_that_cannot_be_read_are_left_out_if_one_says_so(user: User, folder: Path) -> None:
    there = folder / "skipped"
    there.mkdir()
    garbage(there / "a.parquet")
    pq.write_table(pa.table({"id": [4]}), there / "b.parquet")
    more = "'source.unreadable-files' = 'skip',"
    user.submit("reads", source(there, more, "parquet"))
    eventually(lambda: read(user, there) == [4], lambda: f"{user.job('reads')}")
    assert user.job("reads")["state"] == "running"


def test_what_is_no_regular_file_is_left_out(
    user: User, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    there = folder / "irregular"
    there.mkdir()
    os.mkfifo(there / "fifo")
    os.symlink(there / "nowhere", there / "dangling")
    os.symlink(there / "loop", there / "loop")
    os.symlink("/dev/zero", there / "device")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(there / "socket"))
        (there / "plain").write_text('{"id": 1}\n')
        user.submit("reads", source(there))
        eventually(lambda: read(user, there) == [1])
        (folder / "later").write_text('{"id": 2}\n')
        (folder / "later").rename(there / "later")  # a file that is seen empty is read
        eventually(lambda: read(user, there) == [1, 2])
    told = [m for r in caplog.records if f"'{there}/" in (m := r.getMessage())]
    assert len(told) == 5, told
    assert any("/fifo', which is a FIFO" in text for text in told)


@pytest.mark.parametrize("path", ["/dev/zero", "/proc/self/environ", "/proc/kmsg", "/sys/kernel"])
def test_the_systems_own_files(user: User, path: str) -> None:
    error = user.refused(lambda: user.submit("reads", source(Path(path))))
    assert "is the system's own" in str(error)


def test_paths_that_are_no_files(user: User, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    error = user.refused(lambda: user.submit("reads", source(folder / "pipe")))
    assert f"'{folder}/pipe' is a FIFO, and tables are made of regular files" in str(error)
    assert "is none" in str(user.refused(lambda: user.submit("reads", source(Path("a\0b")))))


def replaced(path: Path) -> None:
    path.unlink()
    path.mkdir()


def shrunk(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("spoil", [replaced, shrunk, Path.unlink])
def test_a_file_that_changes_before_it_is_read(tmp_path: Path, spoil: Any) -> None:
    """Between the look at the folder and the reading: an error that names it, and no other."""
    (tmp_path / "one").write_text('{"id": 1}\n')
    for more, of in (("", SqlError), ("'source.unreadable-files' = 'skip', ", None)):
        (tmp_path / "two").write_text('{"id": 2}\n')
        opened = open_source(plain(tmp_path, more), environment())
        assert len(opened.shards()) == 2
        spoil(tmp_path / "two")
        chunk = opened.read(str(tmp_path / "one"), 0, max_rows=10)
        assert chunk is not None
        assert chunk.num_rows == 1
        if of is None:
            assert opened.read(str(tmp_path / "two"), 0, max_rows=10) is None
            assert opened.end(str(tmp_path / "two")) == 0
        else:
            with pytest.raises(of, match=f"{tmp_path}/two"):
                opened.read(str(tmp_path / "two"), 0, max_rows=10)
        if (tmp_path / "two").is_dir():
            (tmp_path / "two").rmdir()


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    Path(os.fsdecode(bytes(tmp_path) + b"/\xff")).write_text("")
    with pytest.raises(SqlError, match="is no UTF-8"):
        open_source(plain(tmp_path), environment())


def test_a_file_of_another_user(tmp_path: Path) -> None:
    """The system's error names the file and what to do."""
    error = unreadable("/logs/x", PermissionError(13, "Permission denied"))
    assert (error.message, error.detail) == ("file '/logs/x' cannot be read", "Permission denied")


# ---- which files SQL may use ---------------------------------------------------------------------


def plain(path: Path, more: str = "") -> Table:
    columns = Schema.of(id=BIGINT)
    options = dict(re.findall(r"'([^']*)' = '([^']*)'", more))
    options |= {"connector": "filesystem", "path": str(path), "format": "json"}
    return Table(("c", "d", "t"), columns, columns, options, ())


def within(*folders: Path, data: Path | None = None) -> Environment:
    return replace(environment(), files=FileAccess(folders, data))


def test_nothing_outside_the_folders(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "f").write_text('{"id": 1}\n')
    os.symlink(outside, inside / "link")
    of = within(inside)
    assert open_source(plain(inside), of).shards() == [f"{inside}/f"]
    for path in (outside, outside / "f", inside / "link", inside / ".." / "out", Path("elsewhere")):
        for opening in (open_source, open_sink):
            with pytest.raises(PlanError) as error:
                opening(plain(path), of)
            assert "of table 't' is outside the folders" in error.value.message
            assert "sql serve --files " in str(error.value.detail)
    assert sorted(p.name for p in outside.iterdir()) == ["f"]


def test_files_of_tls_in_the_url_of_a_database(tmp_path: Path) -> None:
    columns = Schema.of(id=BIGINT)
    for name in ("sslrootcert", "sslcert", "sslkey"):
        url = f"jdbc:postgresql://127.0.0.1:1/d?sslmode=require&{name}={tmp_path / 'out'}"
        options = {"connector": "jdbc", "url": url, "table-name": "t"}
        table = Table(("c", "d", "t"), columns, columns, options, ())
        for opening in (open_source, open_sink):
            with pytest.raises(PlanError, match="of table 't' is outside the folders") as error:
                opening(table, within(tmp_path / "in"))
            assert error.value.subject == "url"


def test_a_link_that_is_made_later(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (inside / "f").write_text('{"id": 1}\n')
    (outside / "secret").write_text('{"id": 2}\n')
    of = within(inside)
    opened = open_source(plain(inside), of)
    written = open_sink(plain(inside / "table"), of)
    (inside / "f").unlink()
    os.symlink(outside / "secret", inside / "f")
    with pytest.raises(SqlError, match="outside the folders"):
        opened.read(f"{inside}/f", 0, max_rows=10)
    for path in (inside / "table").iterdir():
        path.unlink()
    (inside / "table").rmdir()
    os.symlink(outside, inside / "table")
    written.write(from_pydict(Schema.of(id=BIGINT), {"id": [1]}))
    with pytest.raises(SqlError, match="outside the folders"):
        written.commit(1)
    assert [p.name for p in outside.iterdir()] == ["secret"]


def test_the_data_folder_is_the_servers_own(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for name in ("jobs", "files"):
        (data / name).mkdir(parents=True)
    of = within(tmp_path, data=data)
    open_sink(plain(data / "files" / "t"), of)
    for path in (data, data / "jobs", data / "topics" / "x"):
        with pytest.raises(PlanError, match="is in the server's data folder"):
            open_sink(plain(path), of)
