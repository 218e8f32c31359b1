"""Jobs, topics and rules as objects: on a server and on an engine in this process."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator

import pytest

from sqlengine import Connection, SqlError, connect
from sqlengine.broker.errors import TopicExists, TopicNotFound
from tests.service.harness import TABLES, rule, running

HEAD = """-- @rule
-- title: Errors
-- severity: high
-- tags: [attack.execution]
-- attributes: {team: blue}
"""


@pytest.fixture(scope="module", params=["server", "process"])
def connection(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connection]:
    data = tmp_path_factory.mktemp("objects") / "data"
    if request.param == "server":
        with (
            running(data, token="secret") as (service, _),
            connect(f"http://127.0.0.1:{service.port}", token="secret") as connection,
        ):
            yield prepared(connection)
    else:
        with connect(data=data) as connection:
            yield prepared(connection)


def prepared(connection: Connection) -> Connection:
    for name in ("events", "alerts"):
        connection.topics.create(name)
    connection.jobs.submit("tables", TABLES)
    return connection


def test_a_job_has_versions_to_compare_and_to_go_back_to(connection: Connection) -> None:
    job = connection.jobs["a"]
    assert "a" not in connection.jobs
    with pytest.raises(SqlError, match="job 'a' does not exist"):
        print(job.info)
    assert job.validate(rule("a")).status == "valid"
    assert job.submit(rule("a")).status == "added"
    assert job.diff(rule("a")) == ""
    assert job.diff(rule("b")).splitlines()[:2] == ["--- version 1", "+++ new text"]
    assert job.submit(rule("a", "amount > 1")).version == 2
    assert f"-{rule('a')}" in job.diff(1).splitlines()
    assert [v.version for v in job.history()] == [1, 2]
    assert job.history()[0].created > dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    assert job.rollback(1).version == 3
    assert (job.sql, job.state) == (rule("a"), "running")
    with pytest.raises(SqlError, match="has no version 9"):
        job.diff(9)
    assert "events" in job.explain()
    assert job.stop().status == "stopped"
    with pytest.raises(SqlError, match="job 'a' is stopped"):
        job.wait(5)
    job.start()
    assert {j.name for j in connection.jobs} == {"a", "tables"}
    assert len(connection.jobs) == 2
    assert job.remove().status == "removed"


def test_a_job_is_waited_for(connection: Connection) -> None:
    job = connection.jobs["waits"]
    job.submit(rule("waits"))
    topic = connection.topics["alerts"]
    for size in (1, 5_000):
        before = len(topic.read(limit=100_000))
        connection.write("events", [{"id": n} for n in range(size)])
        assert job.wait(30)
        assert len(topic.read(limit=100_000)) == before + size
    job.remove()


def test_a_source_without_an_end_cannot_be_waited_for(connection: Connection) -> None:
    connection.submit(
        "endless",
        """CREATE TEMPORARY TABLE numbers (n BIGINT) WITH ('connector' = 'datagen');
        CREATE TEMPORARY TABLE nothing (n BIGINT) WITH ('connector' = 'blackhole');
        INSERT INTO nothing SELECT n FROM numbers""",
    )
    with pytest.raises(SqlError, match="numbers' of job 'endless' cannot say how much is left"):
        connection.jobs["endless"].wait(5)
    connection.remove("endless")


def test_rules_have_the_fields_of_their_heads(connection: Connection) -> None:
    connection.submit("errors", HEAD + rule("errors"))
    assert list(connection.rules) == ["errors"]
    found = connection.rules["errors"]
    assert (found.title, found.severity, found.status) == ("Errors", "high", "live")
    assert (found.tags, found.attributes) == (("attack.execution",), {"team": "blue"})
    assert found.state == "running"
    connection.remove("errors")


def test_topics_are_written_read_and_followed(connection: Connection) -> None:
    topic = connection.topics.create("orders", 2)
    with pytest.raises(TopicExists):
        connection.topics.create("orders")
    assert "orders" in connection.topics
    assert topic.write([{"n": 1}, "text"], key=b"k") == 0
    assert [(r.offset, r.key) for r in topic.read()] == [(0, b"k"), (1, b"k")]
    assert topic.read(limit=1)[0].json() == {"n": 1}
    tail = topic.tail(offset="earliest")
    assert [next(tail).value, next(tail).value] == [b'{"n":1}'.replace(b":", b": "), b"text"]
    threading.Timer(0.3, topic.write, ([{"n": 2}],), {"shard": 1}).start()
    assert next(tail).json() == {"n": 2}
    topic.delete()
    assert "orders" not in connection.topics
    with pytest.raises(TopicNotFound):
        topic.read()
