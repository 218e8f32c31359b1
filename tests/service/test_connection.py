"""`sqlengine.connect`: the same calls on a server and on an engine in this process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from sqlengine import (
    Connection,
    JobInfo,
    JobResult,
    PlanError,
    Refused,
    ServiceError,
    SqlError,
    Unreachable,
    connect,
)
from sqlengine.broker.errors import DataFolderLocked, TopicNotFound
from tests.service.harness import TABLES, rule, running
from tests.support import eventually

Opened = Callable[[Path], AbstractContextManager[Connection]]


@contextmanager
def to_server(data: Path) -> Iterator[Connection]:
    with (
        running(data, token="secret") as (service, _),
        connect(f"http://127.0.0.1:{service.port}", token="secret") as connection,
    ):
        yield connection


@contextmanager
def in_this_process(data: Path) -> Iterator[Connection]:
    with connect(data=data) as connection:
        yield connection


both = pytest.mark.parametrize("opened", [to_server, in_this_process])


def prepare(connection: Connection) -> None:
    for name in ("events", "alerts"):
        connection.create_topic(name)
    connection.submit("tables", TABLES)


@both
def test_jobs_come_change_and_go(opened: Opened, tmp_path: Path) -> None:
    with opened(tmp_path / "data") as connection:
        prepare(connection)
        origin = "rest" if opened is to_server else "sdk"
        assert connection.validate("a", rule("a")) == JobResult("a", "valid", 1)
        assert connection.submit("a", rule("a")) == JobResult("a", "added", 1)
        assert connection.submit("a", rule("a", "amount > 1")) == JobResult("a", "replaced", 2)
        assert list(connection.jobs) == [
            JobInfo("a", 2, "running", origin, "main", None, 0),
            JobInfo("tables", 1, "defined", origin, "main", None, 0),
        ]
        assert connection.remove("a") == JobResult("a", "removed", 0)
        assert [j.name for j in connection.jobs] == ["tables"]


@both
def test_a_job_that_is_refused_leaves_the_old_one(opened: Opened, tmp_path: Path) -> None:
    with opened(tmp_path / "data") as connection:
        prepare(connection)
        connection.submit("a", rule("a"))
        with pytest.raises(SqlError, match="wrong") as caught:
            connection.submit("a", rule("a", "wrong = 1"))
        assert isinstance(caught.value, Refused if opened is to_server else PlanError)
        assert caught.value.position is not None
        assert {j.name: j.version for j in connection.jobs} == {"a": 1, "tables": 1}


@both
def test_records_are_written_and_read(opened: Opened, tmp_path: Path) -> None:
    with opened(tmp_path / "data") as connection:
        prepare(connection)
        connection.submit("a", rule("a"))
        assert connection.write("events", [{"id": 1, "word": "ü"}, '{"id": 2}', b'{"id": 3}']) == 0
        assert connection.write("events", [b"two\nlines"], key=b"k") == 3
        first, _, third, last = connection.read("events")
        assert (first.value, first.key) == ('{"id": 1, "word": "ü"}'.encode(), None)
        assert (third.offset, third.value) == (2, b'{"id": 3}')
        assert (last.key, last.value) == (b"k", b"two\nlines")
        assert connection.read("events", offset=2, limit=1) == [third]
        assert connection.read("events", offset="latest") == []
        alerts = eventually(lambda: connection.read("alerts"), "the alerts")
        assert b'"rule":"a"' in (alerts[0].value or b"").replace(b" ", b"")
        assert {"alerts", "events", "_jobs"} <= set(connection.topics)
        assert len(connection.broker.topic("events").end) == 1


@both
def test_topics_that_are_missing_or_of_the_system(opened: Opened, tmp_path: Path) -> None:
    with opened(tmp_path / "data") as connection:
        with pytest.raises(TopicNotFound, match="missing"):
            connection.read("missing")
        with pytest.raises(ServiceError, match="belongs to the system"):
            connection.write("_jobs", [b"x"])
        with pytest.raises(ServiceError, match="belongs to the system"):
            connection.create_topic("_mine")


def test_an_engine_in_this_process_keeps_what_is_in_its_folder(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with connect(data=data) as connection:
        prepare(connection)
        with pytest.raises(DataFolderLocked):
            connect(data=data)
    connection.close()
    with connect(data=data) as connection:
        assert [j.name for j in connection.jobs] == ["tables"]


def test_without_a_folder_it_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with connect() as connection:
        prepare(connection)
        assert list(tmp_path.glob("sqlengine-*/topics"))
    assert not list(tmp_path.iterdir())


def test_a_server_that_is_not_there_or_wants_a_token(tmp_path: Path) -> None:
    with connect("http://127.0.0.1:9") as connection:
        for ask in (
            lambda: list(connection.jobs),
            lambda: list(connection.topics),
            lambda: connection.read("events"),
        ):
            with pytest.raises(Unreachable):
                ask()
    with running(tmp_path / "data", token="secret") as (service, _):
        url = f"http://127.0.0.1:{service.port}"
        with connect(url, token="wrong") as connection, pytest.raises(Refused) as caught:
            list(connection.jobs)
        assert caught.value.status == 401
    with pytest.raises(ServiceError, match="URL"):
        connect(url, data=tmp_path)
