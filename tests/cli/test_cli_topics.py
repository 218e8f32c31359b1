"""`sql topic` and `sql tail`, through a server and on a folder that no server uses: the same
commands, the same answers."""

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
        return request.getfixturevalue("served")
    sql("topic", "create", "first", "--data", "d")

    def run(*arguments: object, stdin: bytes = b"") -> Result:
        return sql(*arguments, "--data", "d", stdin=stdin)

    return run


def test_the_life_of_a_topic(topic: Topic, request: pytest.FixtureRequest) -> None:
    name = f"life-{request.node.callspec.id}"
    assert topic("topic", "create", name, "--shards", 2).stdout == f"{name}: 2 shards\n"
    assert topic("topic", "create", name).exit_code == 1
    assert topic("topic", "create", name, "--if-not-exists").exit_code == 0
    assert (
        topic("topic", "write", name, stdin=b"one\ntwo\n\nthree").stdout == f"{name}: 3 records\n"
    )
    assert (
        topic("topic", "write", name, "--shard", 1, "--key", "k", stdin=b"\xff\n").stdout
        == f"{name}: 1 record\n"
    )
    assert topic("topic", "read", name).stdout == "one\ntwo\nthree\n/w==\n"
    assert topic("topic", "read", name, "--limit", 2).stdout == "one\ntwo\n"
    assert topic("topic", "read", name, "--limit", 0).stdout == ""
    assert topic("topic", "read", name, "--shard", 0, "--offset", 2).stdout == "three\n"
    assert topic("topic", "read", name, "--shard", 0, "--offset", "latest").stdout == ""
    (record,) = map(
        json.loads,
        topic("topic", "read", name, "--shard", 1, "--output", "json").stdout.splitlines(),
    )
    assert {**record, "timestamp": 0} == {
        "shard": 1,
        "offset": 0,
        "timestamp": 0,
        "key": "k",
        "value_base64": "/w==",
    }
    assert record["timestamp"] > 1_700_000_000_000
    assert topic("tail", name, "--from", "earliest", "--limit", 2).stdout == "one\ntwo\n"
    (listed,) = [
        t
        for t in json.loads(topic("topic", "list", "--output", "json").stdout)["topics"]
        if t["name"] == name
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
    path.write_bytes(
        b"".join(b"%d " % n + b"x" * 4_000_000 + b"\n" for n in range(9)) + b"short\n" * 12_000
    )
    assert served("topic", "write", "large", path).stdout == "large: 12,009 records\n"
    assert served("topic", "read", "large", "--offset", 12_008).stdout == "short\n"
    assert served("topic", "read", "large", "--limit", 10).stdout.count("\n") == 10
    served("topic", "delete", "large")


def test_a_folder_that_a_server_uses(served: Sql, user: User, data: Path) -> None:
    """The server is asked over its local socket; one that is not there does not answer."""
    done = served("topic", "list", "--data", data)
    assert (done.exit_code, "events" in done.output) == (0, True)
    (data / "server.sock").rename(data / "moved")
    try:
        done = served("topic", "list", "--data", data)
    finally:
        (data / "moved").rename(data / "server.sock")
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


def test_options_are_set_shown_and_changed(topic: Topic, request: pytest.FixtureRequest) -> None:
    name = f"options-{request.node.callspec.id}"
    made = topic(
        "topic", "create", name, "--retention", "7d", "--max-bytes", "1GB", "--compression", "zstd"
    )
    assert made.stdout == f"{name}: 1 shard\n"
    described = json.loads(topic("topic", "describe", name, "--output", "json").stdout)
    assert (described["retention_ms"], described["max_bytes"], described["compression"]) == (
        7 * 86_400_000,
        1 << 30,
        "zstd",
    )
    altered = topic("topic", "alter", name, "--retention", "none", "--max-bytes", "1.5kb")
    assert altered.stdout == f"{name}: max bytes 1,536, zstd\n"
    assert "max bytes 64KB, zstd" in topic("topic", "alter", name, "--max-bytes", "64kb").stdout
    topic("topic", "alter", name, "--max-bytes", "1.5kb")
    refused = topic("topic", "write", name, stdin=b"\n".join(b"%d" % (n * n) for n in range(3000)))
    assert refused.exit_code == 1
    assert f"topic '{name}' is full" in refused.stderr
    assert "sql topic alter" in refused.stderr
    assert topic("topic", "alter", name).exit_code == 2
    wrong = topic("topic", "alter", name, "--retention", "soon")
    assert wrong.exit_code == 2
    assert "'soon' is no duration: write it like 7d" in wrong.stderr
    assert topic("topic", "delete", name).exit_code == 0


def test_seeking_by_time_and_key(topic: Topic, request: pytest.FixtureRequest) -> None:
    name = f"seek-{request.node.callspec.id}"
    topic("topic", "create", name)
    for key, lines in (("a", b"1\n2"), ("b", b"3"), ("a", b"4")):
        topic("topic", "write", name, "--key", key, stdin=lines)
    assert topic("topic", "read", name, "--key", "a").stdout == "1\n2\n4\n"
    assert topic("topic", "read", name, "--key", "a", "--limit", 1).stdout == "1\n"
    assert topic("topic", "read", name, "--key", "c").stdout == ""
    assert topic("topic", "read", name, "--offset", "2020-01-01T00:00").stdout == "1\n2\n3\n4\n"
    assert topic("topic", "read", name, "--offset", "2999-01-01").stdout == ""
    assert (
        topic("tail", name, "--from", "2020-01-01T00:00+02:00", "--key", "b", "--limit", 1).stdout
        == "3\n"
    )


def test_compacting(topic: Topic, request: pytest.FixtureRequest) -> None:
    name = f"compacted-{request.node.callspec.id}"
    topic("topic", "create", name, "--compacted", "--delete-retention", "1h")
    for _ in range(3):
        topic("topic", "write", name, "--key", "k", stdin=b"x" * 5000)
    done = json.loads(topic("topic", "compact", name, "--output", "json").stdout)
    assert done["bytes_before"] > 15_000
    assert done["bytes"] < 6000
    assert "compacted, delete retention 1h" in topic("topic", "list").stdout
    topic("topic", "create", "plain", "--if-not-exists")
    assert "topic 'plain' is not compacted" in topic("topic", "compact", "plain").stderr


def test_groups_are_shown_reset_and_deleted(topic: Topic, request: pytest.FixtureRequest) -> None:
    name, group = f"read-{request.node.callspec.id}", f"readers-{request.node.callspec.id}"
    topic("topic", "create", name, "--shards", 2)
    topic("topic", "write", name, "--shard", 1, stdin=b"1\n2\n3")
    told = topic("topic", "groups", "reset", group, name, "--to", "earliest")
    assert told.stdout == f"{group} goes on reading {name}: shard 0 at 0, shard 1 at 0\n"
    topic("topic", "groups", "reset", group, name, "--to", 2, "--shard", 1)
    described = topic("topic", "describe", name).stdout.splitlines()
    assert described[0] == f"{name}: 2 shards"
    assert described[-1].split() == [group, name, "1", "2", "3", "1"]
    assert [
        line.split()[:3]
        for line in topic("topic", "groups", "list").stdout.splitlines()
        if group in line
    ] == [
        [group, name, "0"],
        [group, name, "1"],
    ]
    wrong = topic("topic", "groups", "reset", group, name, "--to", 9)
    assert f"offset 9 of topic '{name}' shard 0 does not exist" in wrong.stderr
    assert topic("topic", "groups", "delete", group).stdout == f"{group}: deleted\n"
    assert f"group '{group}' does not exist" in topic("topic", "groups", "delete", group).stderr


def test_a_shard_goes_to_another_folder(sql: Sql, tmp_path: Path) -> None:
    sql("topic", "create", "t", "--data", "d")
    sql("topic", "write", "t", "--data", "d", stdin=b"before")
    moved = sql("topic", "move", "t", "--to", tmp_path / "disk", "--with-data", "--data", "d")
    assert moved.exit_code == 0
    assert str(tmp_path / "disk") in moved.stdout
    sql("topic", "write", "t", "--data", "d", stdin=b"after")
    assert sql("topic", "read", "t", "--data", "d").stdout == "before\nafter\n"
    assert not list((tmp_path / "d" / "topics" / "t.topic" / "0").glob("*.seg"))


def test_a_server_moves_shards_only_where_it_may(served: Sql, tmp_path: Path) -> None:
    served("topic", "create", "stays")
    done = served("topic", "move", "stays", "--to", tmp_path / "disk")
    assert done.exit_code == 1
    assert "is not a folder for topics" in done.stderr
    assert "--volume" in done.stderr
    assert not (tmp_path / "disk").exists()
