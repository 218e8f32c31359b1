"""`sql serve --broker`: events, results, commands and their answers are messages of RocketMQ."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

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
        keys = {m.properties.split(b"\x02")[0] for m in messages(servers.topic("one_out"))}
        assert keys == {b"KEYS\x01w%d" % n for n in range(3)}
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
