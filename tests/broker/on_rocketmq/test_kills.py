"""Servers and brokers that die while a job copies a topic: each row is there once, for everybody."""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.broker.on_rocketmq.servers import Servers, end
from tests.connectors.rocketmq.cluster import Cluster

pytestmark = pytest.mark.slow


def test_a_server_that_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    servers, rows = Servers(cluster, tmp_path), 0
    for life in range(6):
        with servers.serve("killed") as server:
            if life == 0:
                servers.copying("killed", "killed_in", "killed_out")
            for _ in range(20):
                servers.send("killed_in", range(rows, rows + 100))
                rows += 100
            servers.wait_for("killed_out", rows - 1900)
            end(server, signal.SIGKILL)
    with servers.serve("killed") as server:
        servers.wait_for("killed_out", rows)
        time.sleep(1)
        assert end(server) == 0
    counts = Counter(servers.rows("killed_out"))
    assert sorted(counts) == list(range(rows))
    assert max(counts.values()) == 1


@pytest.mark.parametrize("options", [(), ("--instances", "2")], ids=["one process", "instances"])
def test_a_broker_that_is_killed(dying: Cluster, tmp_path: Path, options: tuple[str, ...]) -> None:
    servers, rows = Servers(dying, tmp_path), 0
    with servers.serve("stays", *options) as server:
        servers.copying("stays", "stays_in", "stays_out")
        for _ in range(3):
            for _ in range(20):
                servers.send("stays_in", range(rows, rows + 100))
                rows += 100
            servers.wait_for("stays_out", rows - 1900)
            dying.server.brokers[0].kill()
            time.sleep(1)
            dying.server.brokers[0].start()
        servers.wait_for("stays_out", rows)
        time.sleep(1)
        answer = servers.command("stays", "list", op="list")
        assert answer.jobs[0] == {"name": "copy", "version": 1, "state": "running"}
        assert end(server) == 0
    counts = Counter(servers.rows("stays_out"))
    assert sorted(counts) == list(range(rows))
    assert max(counts.values()) == 1
