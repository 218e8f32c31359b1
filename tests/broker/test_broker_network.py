"""The broker of a server for instances on other machines: who was admitted asks it, and nobody
else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.errors import BrokerUnreachable, TopicNotFound
from sqlengine.broker.remote import network
from sqlengine.broker.remote.client import RemoteBroker
from sqlengine.broker.remote.door_tls import DoorTls
from sqlengine.broker.remote.frames import receive, send
from sqlengine.broker.remote.network import (
    MAGIC,
    MOST_UNPROVEN,
    Line,
    NetworkServer,
    NetworkTransport,
    Refused,
    open_line,
)
from sqlengine.system.spawning import NetworkAddress
from tests.hostile.certificates import MISSING, Authority
from tests.support import PATIENCE_S, eventually

GREETING = len(MAGIC) + 32
HELLO = 16 + 1 + 32 + 32


@dataclass
class Door:
    """A broker behind a door, and one who was admitted."""

    broker: EmbeddedBroker
    server: NetworkServer
    address: NetworkAddress
    lines: list[socket.socket]

    def guest(self) -> RemoteBroker:
        transport = NetworkTransport(self.address)
        return RemoteBroker(transport, transport.close)

    def knock(self) -> socket.socket:
        """A connection of somebody who has said nothing yet, and waits as long as a test may."""
        connection = socket.create_connection((self.server.host, self.server.port), PATIENCE_S)
        connection.settimeout(PATIENCE_S)
        return connection


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    broker = EmbeddedBroker(tmp_path)
    server = NetworkServer(broker, "127.0.0.1")
    lines: list[socket.socket] = []

    def watch(line: socket.socket) -> None:
        lines.append(line)
        while line.recv(1):
            pass

    yield Door(broker, server, server.admit(watch), lines)
    server.close()
    broker.close()


def test_threads_ask_at_once_and_learn_that_the_server_is_gone(door: Door) -> None:
    guest = door.guest()
    guest.create_topic("_own", 4)  # who was admitted may do what the server may

    def append(shard: int) -> None:
        for n in range(20):
            guest.append("_own", shard, [b"%d" % n] * n, timestamp_ms=n)

    threads = [threading.Thread(target=append, args=(shard,)) for shard in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert door.broker.topic("_own").end == (190,) * 4
    with pytest.raises(TopicNotFound, match="'none' does not exist"):
        guest.topic("none")
    door.server.close()
    with pytest.raises(BrokerUnreachable, match="is gone"):
        guest.topics()
    guest.close()


STRANGERS: dict[str, Callable[[NetworkAddress], bytes]] = {
    "no token": lambda address: b"",
    "a part of a greeting": lambda address: address.identity + b"r",
    "garbage": lambda address: bytes(range(256)) * 8,
    "a frame of four gigabytes": lambda address: b"\xff\xff\xff\xff" + bytes(HELLO),
    "a request over HTTP": lambda address: b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" + bytes(HELLO),
    "nobody's identity": lambda address: bytes(16) + b"r" + bytes(64),
    "the identity alone": lambda address: address.identity + b"r" + bytes(64),
    "a role that is none": lambda address: address.identity + b"?" + bytes(64),
}


@pytest.mark.parametrize("what", STRANGERS.values(), ids=STRANGERS)
def test_strangers_hear_nothing(door: Door, what: Callable[[NetworkAddress], bytes]) -> None:
    guest = door.guest()
    guest.create_topic("t")
    with door.knock() as connection:
        assert len(connection.recv(GREETING, socket.MSG_WAITALL)) == GREETING
        heard = b""
        with suppress(OSError):  # there may be more than it reads
            connection.sendall(what(door.address))
            connection.shutdown(socket.SHUT_WR)
            heard = connection.recv(1)
        assert heard == b""
    assert guest.topic("t").shards == 1
    guest.close()


def test_another_secret_is_refused_on_both_sides(door: Door) -> None:
    forged = replace(door.address, secret=bytes(32))
    with pytest.raises(Refused, match="refuses this instance"):
        RemoteBroker(NetworkTransport(forged)).topics()
    with socket.create_server(("127.0.0.1", 0)) as other:  # whoever has the port once we are gone

        def pretend() -> None:
            connection, _ = other.accept()
            with connection:
                connection.sendall(MAGIC + bytes(32))
                connection.recv(HELLO, socket.MSG_WAITALL)
                connection.sendall(bytes(32))

        threading.Thread(target=pretend).start()
        moved = replace(door.address, port=other.getsockname()[1])
        with pytest.raises(BrokerUnreachable) as refused:
            RemoteBroker(NetworkTransport(moved)).topics()
        assert refused.value.detail == "somebody else answers there"
    assert "secret" not in repr(door.address)


def test_what_was_overheard_opens_nothing(door: Door) -> None:
    """A greeting answers one challenge."""
    with socket.create_server(("127.0.0.1", 0)) as between:
        heard: list[bytes] = []

        def overhear() -> None:
            client, _ = between.accept()
            with client, door.knock() as server:
                client.sendall(server.recv(GREETING, socket.MSG_WAITALL))
                heard.append(client.recv(HELLO, socket.MSG_WAITALL))
                server.sendall(heard[0])
                client.sendall(server.recv(32, socket.MSG_WAITALL))

        thread = threading.Thread(target=overhear)
        thread.start()
        open_line(replace(door.address, port=between.getsockname()[1])).close()
        thread.join()
    with door.knock() as connection:
        connection.recv(GREETING, socket.MSG_WAITALL)
        connection.sendall(heard[0])
        assert connection.recv(1) == b""


def test_slow_strangers_keep_nobody_out(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many the oldest have to go at once; the others may take no longer than a greeting does,
    however often they say a little."""
    strangers = [door.knock() for _ in range(MOST_UNPROVEN + 5)]
    guest = door.guest()
    guest.create_topic("t")
    for connection in strangers[:5]:
        connection.recv(GREETING, socket.MSG_WAITALL)
        assert connection.recv(1) == b""
    monkeypatch.setattr(network, "HANDSHAKE_S", 0.2)
    with door.knock() as slow:
        slow.recv(GREETING, socket.MSG_WAITALL)
        slow.settimeout(0.05)

        def closed() -> bool:
            try:
                slow.sendall(b".")
                return slow.recv(1) == b""
            except TimeoutError:
                return False
            except ConnectionError:
                return True

        eventually(closed)
    assert guest.topic("t").shards == 1
    guest.close()
    for connection in strangers:
        connection.close()


def test_who_is_expelled_asks_no_more(door: Door) -> None:
    """And has one line while it is there."""
    transport = NetworkTransport(door.server.admit(lambda line: None))
    guest, stays = door.guest(), RemoteBroker(transport, transport.close)
    guest.create_topic("t")
    line = open_line(door.address)
    with pytest.raises(Refused):
        open_line(door.address)
    eventually(lambda: door.lines)
    door.server.expel(door.address)
    assert line.recv(1) == b""
    line.close()
    with pytest.raises(BrokerUnreachable):
        guest.topic("t")
    with pytest.raises(Refused):
        guest.topic("t")
    door.server.expel(door.address)
    assert stays.topic("t").shards == 1
    stays.close()


def test_an_address_that_nobody_has_is_said(door: Door) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(BrokerUnreachable, match=f"cannot be reached at 127.0.0.1:{port}"):
        open_line(replace(door.address, port=port))


# ---- with TLS ------------------------------------------------------------------------------------


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Door]:
    """A door with a certificate, on whose lines all that is heard is said twice, by two threads."""
    if MISSING is not None:
        pytest.skip(MISSING)
    pair = Authority(tmp_path / "authority").own
    broker = EmbeddedBroker(tmp_path / "data")
    server = NetworkServer(broker, "127.0.0.1", tls=DoorTls.of(pair.certificate, pair.key))
    lines: list[socket.socket] = []

    def watch(connection: socket.socket) -> None:
        lines.append(connection)
        line = Line(connection)
        while (said := line.hear()) is not None:
            threads = [threading.Thread(target=line.say, args=(said,)) for _ in range(2)]
            for thread in threads:
                thread.start()

    yield Door(broker, server, server.admit(watch), lines)
    server.close()
    broker.close()


def test_all_of_it_is_within_tls(secured: Door) -> None:
    guest = secured.guest()
    guest.create_topic("t")
    heard = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as between:

        def pass_on(source: socket.socket, target: socket.socket) -> None:
            with suppress(OSError):
                while data := source.recv(1 << 16):
                    heard.extend(data)
                    target.sendall(data)
                target.shutdown(socket.SHUT_WR)

        def connect() -> None:
            client, _ = between.accept()
            with client, secured.knock() as server:
                back = threading.Thread(target=pass_on, args=(server, client))
                back.start()
                pass_on(client, server)
                back.join()

        thread = threading.Thread(target=connect)
        thread.start()
        transport = NetworkTransport(replace(secured.address, port=between.getsockname()[1]))
        beyond = RemoteBroker(transport, transport.close)
        beyond.append("t", 0, [b"not for others"] * 100, timestamp_ms=0)
        beyond.close()
        thread.join()
    records = guest.read("t", 0, 0)
    assert records is not None
    assert records.values.to_pylist() == [b"not for others"] * 100
    assert len(heard) > 1000
    assert not any(word in heard for word in (b"not for", MAGIC, secured.address.identity))
    guest.close()


def test_a_line_hears_and_says_within_tls(secured: Door) -> None:
    line = open_line(secured.address)
    for number in range(50):
        send(line, b"%d" % number)
    said = sorted(int(receive(line) or b"-1") for _ in range(100))
    assert said == sorted([*range(50), *range(50)])
    secured.server.expel(secured.address)
    assert receive(line) is None
    line.close()


def test_another_certificate_is_refused(secured: Door, tmp_path: Path) -> None:
    guest = secured.guest()
    guest.create_topic("t")
    with secured.knock() as plain:
        plain.sendall(bytes(HELLO))
        heard = b""
        with suppress(ConnectionResetError):
            heard = plain.recv(len(MAGIC))
        assert heard != MAGIC
    other = Authority(tmp_path / "other").own
    tls = DoorTls.of(other.certificate, other.key)
    server = NetworkServer(secured.broker, "127.0.0.1", tls=tls)
    for address in (
        replace(secured.address, port=server.port),
        replace(secured.address, certificate=bytes(32)),
    ):
        with pytest.raises(BrokerUnreachable) as refused:
            RemoteBroker(NetworkTransport(address)).topics()
        assert refused.value.detail == "somebody else answers there"
    server.close()
    secured.server.close()
    with pytest.raises(BrokerUnreachable):
        guest.topics()
    guest.close()
