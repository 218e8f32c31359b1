"""`sql serve --broker`: events, results, commands and their answers are messages of RocketMQ."""

from __future__ import annotations

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
