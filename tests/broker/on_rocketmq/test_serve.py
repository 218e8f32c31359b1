"""`sql serve --broker`: events, results, commands and their answers are messages of RocketMQ."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from sqlengine.broker.rocketmq.errors import RocketAway
from sqlengine.broker.rocketmq.locks import lock_queue, unlock_queue
from sqlengine.broker.rocketmq.messages import properties_of
from tests.broker.on_rocketmq.servers import Servers, end
from tests.connectors.rocketmq.cluster import Cluster, messages
from tests.support import eventually

pytestmark = pytest.mark.slow


@pytest.fixture
def servers(cluster: Cluster, tmp_path: Path) -> Servers:
    return Servers(cluster, tmp_path)


def test_another_client_writes_events_and_commands_and_reads_results(servers: Servers) -> None:
    with servers.serve("one") as server:
        servers.copying("one", "one_in", "one_out")
        servers.send("one_in", range(100))
        eventually(lambda: len(servers.rows("one_out")) >= 100)
        assert sorted(servers.rows("one_out")) == list(range(100))
        found = messages(servers.topic("one_out"))
        assert {properties_of(m.properties)["KEYS"] for m in found} == {"w0", "w1", "w2"}
        answer = servers.command("one", "list", op="list")
        assert [j["name"] for j in answer.jobs] == ["copy", "tables"]
        assert end(server) == 0
    with servers.serve("one") as server:
        servers.send("one_in", range(100, 120))
        eventually(lambda: len(servers.rows("one_out")) >= 120)
        assert sorted(servers.rows("one_out")) == list(range(120))
        assert end(server) == 0


def test_two_servers_on_one_cluster(servers: Servers) -> None:
    with servers.serve("first") as first, servers.serve("second") as second:
        servers.copying("first", "chain_a", "chain_b")
        servers.copying("second", "chain_b", "chain_c")
        servers.send("chain_a", range(500))
        eventually(lambda: len(servers.rows("chain_c")) >= 500)
        assert sorted(servers.rows("chain_c")) == list(range(500))
        assert end(first) == end(second) == 0


def test_a_topic_of_commands_has_one_server(servers: Servers) -> None:
    """A second one is refused; it takes over when the first one is gone, at once where that has
    stopped, and after a minute where it was killed."""
    with servers.serve("alone") as first:
        servers.copying("alone", "alone_a", "alone_b")
        assert "another server executes the commands" in servers.refused("other", "alone")
        assert "--broker 'rocketmq://…?commands=NAME'" in servers.refused("other", "alone")
        assert end(first, signal.SIGKILL) == -signal.SIGKILL
        assert "another server executes" in servers.refused("other", "alone")
    with servers.serve("alone") as again:  # its own
        assert servers.command("alone", "still", op="list").status == "listed"
        assert end(again) == 0
    with servers.serve("other", commands="alone") as other:
        assert servers.command("alone", "now", op="list").status == "listed"
        assert end(other, signal.SIGKILL) == -signal.SIGKILL
        killed = time.monotonic()
    eventually(lambda: not servers.refused("third", "alone"), "its minute", 150)
    assert time.monotonic() - killed < 120


def test_a_server_that_has_lost_its_commands_executes_none(dying: Cluster, tmp_path: Path) -> None:
    """A broker that starts anew has forgotten who holds what: whoever comes first holds it."""
    servers = Servers(dying, tmp_path)
    with servers.serve("lost") as server:
        servers.copying("lost", "lost_a", "lost_b")
        queue = servers.topic("lost_commands").route().readable[0]
        another = "lost_commands", queue, "sqlengine", "another"
        server.send_signal(signal.SIGSTOP)
        dying.server.brokers[0].kill()
        dying.server.brokers[0].start()

        def taken() -> bool:
            with suppress(RocketAway):
                return lock_queue(dying.client, *another)
            return False

        eventually(taken, "its lock")
        server.send_signal(signal.SIGCONT)
        servers.send_command("lost", "later", op="list")
        eventually(lambda: "commands wait: another server" in servers.log("lost"))
        assert "later" not in servers.results("lost")
        unlock_queue(dying.client, *another)
        eventually(lambda: servers.results("lost").get("later"))


def test_a_cluster_that_is_away_is_logged_once(dying: Cluster, tmp_path: Path) -> None:
    servers = Servers(dying, tmp_path)
    with servers.serve("quiet"):
        servers.copying("quiet", "quiet_a", "quiet_b")
        dying.server.brokers[0].kill()
        eventually(lambda: "commands wait: RocketMQ" in servers.log("quiet"))
        time.sleep(9)  # it is tried again every two seconds
        lines = [t for t in servers.log("quiet").splitlines() if "commands wait: RocketMQ" in t]
        dying.server.brokers[0].start()
        eventually(lambda: "commands are executed again" in servers.log("quiet"))
    assert len({t.partition("commands wait")[2] for t in lines}) == len(lines), lines


def test_instances_reach_topics_there_through_their_server(servers: Servers) -> None:
    """Each row is there once, though one of them is killed, and the server with the others."""
    with servers.serve("parts", "--instances", "2"):
        servers.cluster.topic(2, name="parts_in")
        servers.copying("parts", "parts_in", "parts_out")
        eventually(lambda: servers.log("parts").count("NewSplit") >= 2, "parts")
        for number in range(4):
            ids, instance = range(100 * number, 100 * number + 100), 1 + number // 2
            servers.send("parts_in", ids, queue=number % 2)
            servers.wait_for("parts_out", 100 * number + 20)
            killed = servers.instance("parts", instance)
            os.kill(killed, signal.SIGKILL)
            eventually(lambda: servers.instance("parts", instance) != killed, "another")  # noqa: B023
        servers.wait_for("parts_out", 400)
    with servers.serve("parts", "--instances", "2") as server:
        servers.send("parts_in", range(400, 500))
        servers.wait_for("parts_out", 500)
        assert sorted(servers.rows("parts_out")) == list(range(500))
        assert end(server) == 0
