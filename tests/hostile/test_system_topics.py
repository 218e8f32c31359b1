"""What a client that holds the server's token, or needs none, may do to topics of the system: read
them, and send commands. Nothing takes one away while the server runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from parser.errors import SqlError
from sqlengine.broker.errors import BrokerError
from sqlengine.broker.remote.client import RemoteBroker, connect
from sqlengine.client import Refused
from tests.service.harness import User

SYSTEM = ("_commands", "_command_results", "_jobs", "_offsets", "_groups", "_dead_letters")


def refused(work: Callable[[], object]) -> str:
    with pytest.raises(SqlError) as error:
        work()
    assert "belongs to the system" in str(error.value), error.value
    return str(error.value)


@pytest.mark.parametrize("topic", SYSTEM)
def test_no_client_takes_a_topic_of_the_system_away(user: User, topic: str) -> None:
    user.write("events", b"no JSON")  # so that there are dead letters
    broker = connect(user.client.server)
    changes: list[Callable[[RemoteBroker], object]] = [
        lambda b: b.delete_topic(topic),
        lambda b: b.trim(topic, 0, 1),
        lambda b: b.alter_topic(topic, retention_ms=1),
        lambda b: b.compact(topic),
        lambda b: b.create_topic(topic, if_not_exists=True),
    ]
    for change in changes:
        with pytest.raises(BrokerError, match="belongs to the system"):
            change(broker)
    broker.close()
    path = f"/api/v1/topics/{topic}"
    refused(lambda: user.client.delete(path))
    refused(lambda: user.client.request("PATCH", path, {"retention_ms": 1}))
    refused(lambda: user.client.post(f"{path}/compact"))
    refused(lambda: user.client.post(f"{path}/move", {"folder": "/tmp"}))
    if topic != "_commands":
        refused(lambda: user.write(topic, b"x"))


def test_no_client_moves_what_the_system_has_read(user: User) -> None:
    """Commands are neither executed again nor passed over."""
    assert user.command(op="list")["status"] == "listed"
    broker = connect(user.client.server)
    changes: list[Callable[[], object]] = [
        lambda: broker.commit("_commands", "_commands", {0: 0}),
        lambda: broker.delete_group("_commands"),
        lambda: broker.join("_epochs", "intruder", ["_epochs"]),
        lambda: broker.leave("_epochs", "i1"),
        lambda: broker.heartbeat("_epochs", "i1", 1),
    ]
    for change in changes:
        with pytest.raises(BrokerError, match="belongs to the system"):
            change()
    broker.close()
    refused(lambda: user.client.delete("/api/v1/groups/_commands"))
    asked: dict[str, object] = {"topic": "_commands", "to": "earliest"}
    refused(lambda: user.client.post("/api/v1/groups/_commands/reset", asked))
    reads = """CREATE TABLE stolen (line STRING) WITH ('connector' = 'topic', 'topic' = '_commands',
        'properties.group.id' = '_commands', 'scan.startup.mode' = 'latest-offset', 'format' = 'raw');
        CREATE TABLE nothing (line STRING) WITH ('connector' = 'blackhole');
        INSERT INTO nothing SELECT line FROM stolen"""
    refused(lambda: user.submit("thief", reads))


def test_what_stays_possible(user: User) -> None:
    """Commands, and looking at what the system has."""
    assert user.command(op="list")["status"] == "listed"
    assert user.client.get("/api/v1/topics/_jobs/records")["records"]
    with pytest.raises(Refused):
        user.client.get("/api/v1/topics/_nothing/records")
