"""Files and names that are meant to stop a server: the job beside them is exact, and those that
they concern go on once they are put right."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from parser.errors import ExecutionError, OptionError
from sqlengine.batch import from_pydict
from sqlengine.connectors.registry import open_sink, validate
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
