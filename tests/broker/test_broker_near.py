"""The broker of a server for its own processes, over a socket."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.errors import BrokerUnreachable, TopicNotFound
from sqlengine.broker.near import NearServer, connect_near


def test_threads_ask_at_once_and_learn_that_the_server_is_gone(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path)
    server = NearServer(broker)
    near = connect_near(server.path)
    near.create_topic("_own", 4)  # whoever may open the socket may do what the server may

    def append(shard: int) -> None:
        for n in range(50):
            near.append("_own", shard, [b"%d" % n] * n, timestamp_ms=n)

    threads = [threading.Thread(target=append, args=(shard,)) for shard in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert broker.topic("_own").end == (1225,) * 4
    with pytest.raises(TopicNotFound, match="'none' does not exist"):
        near.topic("none")
    server.close()
    with pytest.raises(BrokerUnreachable, match="is gone"):
        near.topics()
    assert not server.path.exists()
    near.close()
    broker.close()
