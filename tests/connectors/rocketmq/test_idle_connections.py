"""Servers end connections that nobody uses: who asks next does not notice."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import msgspec
import pytest

from sqlengine.broker.rocketmq import wire
from sqlengine.broker.rocketmq.client import RocketClient
from sqlengine.broker.rocketmq.errors import RocketAway
from tests.support import eventually


@dataclass
class _NameServer:
    """Says which topics there are. `ended`: connections that it has closed."""

    address: str
    answers: bool
    ended: int = 0

    def serve(self, connection: socket.socket) -> None:
        """Takes one request, and closes the connection."""
        with connection, connection.makefile("rb") as sent:
            head, body = wire.lengths(sent.read(wire.SIZES.size))
            asked = wire.parsed(sent.read(head))
            sent.read(body)
            if self.answers:
                answer = msgspec.json.encode(wire.Head(0, asked.opaque, 1))
                names = b'{"topicList": ["t"]}'
                sizes = wire.SIZES.pack(4 + len(answer) + len(names), len(answer))
                connection.sendall(sizes + answer + names)
        self.ended += 1


@contextmanager
def _name_server(*, answers: bool) -> Iterator[_NameServer]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = _NameServer(f"127.0.0.1:{listening.getsockname()[1]}", answers)

        def accept() -> None:
            with suppress(OSError):  # the end
                while True:
                    server.serve(listening.accept()[0])

        threading.Thread(target=accept, daemon=True).start()
        yield server
        listening.shutdown(socket.SHUT_RDWR)


def test_a_connection_that_ended_while_nobody_asked_is_made_anew_at_once() -> None:
    with _name_server(answers=True) as server, RocketClient(server.address) as client:
        for number in range(1, 4):
            assert client.topics() == ["t"]
            eventually(lambda: server.ended == number)  # noqa: B023
            time.sleep(0.05)  # the client sees the end


def test_a_server_that_only_ends_connections_is_left_in_peace() -> None:
    with _name_server(answers=False) as server, RocketClient(server.address) as client:
        for _ in range(10):
            with pytest.raises(RocketAway):
                client.topics()
    assert server.ended <= 1
