"""The broker of a server for its own processes, over a Unix socket."""

from __future__ import annotations

import socket
import tempfile
import threading
from pathlib import Path

import pytest

from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.errors import BrokerUnreachable, TopicNotFound
from sqlengine.broker.remote.client import RemoteBroker
from sqlengine.broker.remote.read_ahead import ReadAheadBroker
from sqlengine.broker.remote.request_handler import handle_request
from sqlengine.broker.remote.unix_socket import UnixSocketServer, UnixSocketTransport
from tests.support import PATIENCE_S


def test_threads_ask_at_once_and_learn_that_the_server_is_gone(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path)
    server = UnixSocketServer(broker)
    transport = UnixSocketTransport(server.path)
    near = RemoteBroker(transport, transport.close)
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


def test_the_folder_of_a_server_that_was_killed_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / "sqlengine-broker-left"
    left.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(left / "broker"))
    broker = EmbeddedBroker(tmp_path / "data")
    first, second = UnixSocketServer(broker), UnixSocketServer(broker)
    assert not left.exists()
    assert first.path.exists()
    first.close()
    second.close()
    broker.close()


def test_repeated_reads_take_one_request(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path)
    questions: list[bytes] = []

    def ask(question: bytes, again: bool) -> bytes:
        questions.append(question)
        return handle_request(broker, question)

    ahead = ReadAheadBroker(ask)
    broker.create_topic("t", 3)
    at = [0, 0, 0]

    def read() -> list[bytes]:
        """What all shards have, and how many questions that took."""
        found: list[bytes] = []
        for shard in range(3):
            records = ahead.read("t", shard, at[shard])
            if records is not None:
                found += records.values.to_pylist()
                at[shard] = records.next_offset
        return found

    assert read() == []
    for n in range(4):
        broker.append("t", n % 3, [b"%d" % n], timestamp_ms=n)
        questions.clear()
        ahead.prefetch()
        broker.append("t", 2, [b"later"], timestamp_ms=n)
        assert b"%d" % n in read()
        assert len(questions) == 1
    ahead.prefetch()
    broker.append("t", 0, [b"new"], timestamp_ms=9)
    ahead.discard()
    assert b"new" in read()
    broker.close()


def test_prefetch_is_woken_by_its_own_shards_only(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path)
    waiting = threading.BoundedSemaphore(1)
    ahead = ReadAheadBroker(lambda question, _: handle_request(broker, question, waiting=waiting))
    for topic in ("mine", "others"):
        broker.create_topic(topic)
    assert ahead.read("mine", 0, 0) is None

    def look(timeout_s: float, *appends: str) -> bool:
        """Whether there is anything, with these appends on the way."""
        later = threading.Timer(
            0.02, lambda: [broker.append(t, 0, [b"v"], timestamp_ms=0) for t in appends]
        )
        later.start()
        found = ahead.prefetch(timeout_s)
        ahead.read("mine", 0, 0)
        later.join()
        return found

    assert not look(0.1, "others")
    with waiting:  # all that may wait do
        assert not look(PATIENCE_S)
    assert look(PATIENCE_S, "others", "mine")
    broker.close()
