"""`sql topic` and `sql tail`, through a server and on a folder that no server uses: the same commands, the same answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.conftest import Sql
from tests.service.harness import User

Topic = Callable[..., Result]


@pytest.fixture(params=["server", "folder"])
def topic(request: pytest.FixtureRequest, sql: Sql) -> Topic:
    if request.param == "server":
        return request.getfixturevalue("served")  # type: ignore[no-any-return]
    sql("topic", "create", "first", "--data", "d")

    def run(*arguments: object, stdin: bytes = b"") -> Result:
        return sql(*arguments, "--data", "d", stdin=stdin)

    return run


def test_the_life_of_a_topic(topic: Topic, request: pytest.FixtureRequest) -> None:
    name = f"life-{request.node.callspec.id}"
    assert topic("topic", "create", name, "--shards", 2).stdout == f"{name}: 2 shards\n"
    assert topic("topic", "create", name).exit_code == 1
    assert topic("topic", "create", name, "--if-not-exists").exit_code == 0
    assert topic("topic", "write", name, stdin=b"one\ntwo\n\nthree").stdout == f"{name}: 3 records\n"
    assert topic("topic", "write", name, "--shard", 1, "--key", "k", stdin=b"\xff\n").stdout == f"{name}: 1 record\n"
    assert topic("topic", "read", name).stdout == "one\ntwo\nthree\n/w==\n"
    assert topic("topic", "read", name, "--limit", 2).stdout == "one\ntwo\n"
    assert topic("topic", "read", name, "--limit", 0).stdout == ""
    assert topic("topic", "read", name, "--shard", 0, "--offset", 2).stdout == "three\n"
    assert topic("topic", "read", name, "--shard", 0, "--offset", "latest").stdout == ""
    (record,) = map(json.loads, topic("topic", "read", name, "--shard", 1, "--output", "json").stdout.splitlines())
    assert {**record, "timestamp": 0} == {"shard": 1, "offset": 0, "timestamp": 0, "key": "k", "value_base64": "/w=="}
    assert record["timestamp"] > 1_700_000_000_000
    assert topic("tail", name, "--from", "earliest", "--limit", 2).stdout == "one\ntwo\n"
    (listed,) = [
        t for t in json.loads(topic("topic", "list", "--output", "json").stdout)["topics"] if t["name"] == name
    ]
    assert (listed["shards"], listed["records"]) == (2, 4)
    assert name in topic("topic", "list").stdout
    assert topic("topic", "delete", name).stdout == f"{name}: deleted\n"
    assert topic("topic", "read", name).exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["topic", "read", "frist"], "topic 'frist' does not exist"),
        (["topic", "delete", "nothing"], "topic 'nothing' does not exist"),
        (["topic", "write", "nothing"], "topic 'nothing' does not exist"),
        (["topic", "create", "a b"], "'a b' is not a topic name"),
        (["topic", "create", "../x"], "'../x' is not a topic name"),
        (["topic", "create", "_mine"], "topic '_mine' belongs to the system"),
        (["topic", "create", "x", "--shards", "100000"], "at most 1024"),
        (["topic", "read", "first", "--offset", "x"], "'x' is not an offset"),
        (
            ["topic", "read", "first", "--shard", "0", "--offset", "9"],
            "offset 9 of topic 'first' shard 0 is out of range",
        ),
        (["topic", "read", "first", "--shard", "5"], "topic 'first' has no shard 5"),
    ],
    ids=lambda v: " ".join(v[1:]) if isinstance(v, list) else "",
)
def test_what_goes_wrong(topic: Topic, arguments: list[str], told: str) -> None:
    topic("topic", "create", "first", "--if-not-exists")
    done = topic(*arguments, stdin=b"x\n")
    assert done.exit_code == 1
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_large_inputs_are_sent_in_parts(served: Sql, tmp_path: Path) -> None:
    served("topic", "create", "large")
    path = tmp_path / "lines"
    path.write_bytes(b"".join(b"%d " % n + b"x" * 4_000_000 + b"\n" for n in range(9)) + b"short\n" * 12_000)
    assert served("topic", "write", "large", path).stdout == "large: 12,009 records\n"
    assert served("topic", "read", "large", "--offset", 12_008).stdout == "short\n"
    assert served("topic", "read", "large", "--limit", 10).stdout.count("\n") == 10
    served("topic", "delete", "large")


def test_a_folder_that_a_server_uses(served: Sql, user: User, data: Path) -> None:
    done = served("topic", "list", "--data", data)
    assert done.exit_code == 1
    assert f"data folder '{data}' is in use by the process" in done.stderr
    assert "leave out --data" in done.stderr
    assert user.fired() == set()


def test_a_folder_that_is_none(sql: Sql, tmp_path: Path) -> None:
    for command in (["list"], ["read", "x"], ["write", "x"], ["delete", "x"]):
        done = sql("topic", *command, "--data", "typo")
        assert done.exit_code == 1
        assert "'typo' is not a data folder" in done.stderr
    assert not (tmp_path / "typo").exists()
    assert sql("topic", "create", "x", "--data", "new").exit_code == 0
    assert (tmp_path / "new").is_dir()


def test_system_topics_can_be_read(served: Sql) -> None:
    assert '"tables"' in served("topic", "read", "_jobs").stdout
    assert "system" in served("topic", "list").stdout
