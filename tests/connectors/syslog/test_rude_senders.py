"""Senders that are many, that send without end, or that never come to an end: others are heard."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from parser.limits import present
from sqlengine.connectors.receivers.base import Stream, Taken
from sqlengine.connectors.syslog import connections, receiver
from sqlengine.connectors.syslog.addresses import Address
from sqlengine.connectors.syslog.framing import Deframer
from sqlengine.connectors.syslog.receiver import SyslogReceiver
from sqlengine.connectors.tls.files import PemFiles
from tests.hostile.certificates import MISSING, Authority
from tests.servers.process import free_ports

PORT = free_ports(1)[0]


@pytest.fixture
def listening() -> Iterator[SyslogReceiver]:
    made = SyslogReceiver([Address("tcp", "127.0.0.1", PORT)], 1 << 20)
    made.connect([Stream("p", {}, 1, 1, 1, 0)], [], lambda topic, count: Taken())
    yield made
    made.close()


@pytest.fixture
def open_() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connected(open_: ExitStack) -> socket.socket:
    return open_.enter_context(socket.create_connection(("127.0.0.1", PORT)))


def take(listening: SyslogReceiver, takes: int = 5) -> list[bytes]:
    return [v for _ in range(takes) for b in listening.take(0.02).values() for v in b.values]


def test_a_long_line_in_small_pieces_costs_each_byte_once() -> None:
    frames, began = Deframer(10 << 20), time.process_time()
    found = [m for _ in range(100_000) for m in frames.feed(b"twenty bytes of text")]
    assert time.process_time() - began < 2
    assert found + frames.feed(b"\n") == [b"twenty bytes of text" * 100_000]


def test_those_that_send_without_end_keep_no_other_out(
    listening: SyslogReceiver, open_: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them has more to be read than is taken at once."""
    monkeypatch.setattr(receiver, "_MOST_TAKEN", 1000)
    loud = [connected(open_) for _ in range(5)]
    quiet = connected(open_)
    take(listening)
    for one in loud:
        one.setblocking(False)
    quiet.sendall(b"<1>quiet\n")
    found: list[bytes] = []
    for _ in range(10):
        for one in loud:
            with suppress(BlockingIOError):
                one.sendall(b"<1>loud\n" * 100_000)
        found += take(listening, 1)
    assert b"<1>quiet" in found


def test_silent_ones_leave_their_places_to_others(
    listening: SyslogReceiver, open_: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 10)
    first = connected(open_)
    first.sendall(b"<1>first\n")
    assert take(listening) == [b"<1>first"]
    for _ in range(30):
        connected(open_)
        take(listening, 1)
    last = connected(open_)
    last.sendall(b"<1>last\n")
    first.sendall(b"<1>first again\n")
    assert sorted(take(listening)) == [b"<1>first again", b"<1>last"]
    assert len(listening._connections) == 10


def test_messages_without_an_end_hold_so_many_bytes_at_most(
    listening: SyslogReceiver, open_: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_MOST_HELD", 1 << 20)
    small = replace(present(), record_size=400_000)
    monkeypatch.setattr(connections, "present", lambda: small)
    others = connected(open_)
    for size in (390_000, 380_000, 370_000):
        connected(open_).sendall(b"x" * size)
        take(listening)
    others.sendall(b"<1>other\n")
    assert b"<1>other" in take(listening)
    assert sorted(c.held for c in listening._connections.values()) == [0, 370_000, 380_000]


def test_who_opens_thousands_keeps_no_other_waiting(
    listening: SyslogReceiver,
    open_: ExitStack,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """All that wait are accepted at once, and the log does not have a line of each."""
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 10)
    for _ in range(50):
        connected(open_)
    last = connected(open_)
    last.sendall(b"<1>last\n")
    assert take(listening, 3) == [b"<1>last"]
    assert caplog.text.count("there are too many") <= 10


def test_jobs_keep_most_descriptors(
    listening: SyslogReceiver, open_: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (40, 40))
    for _ in range(30):
        connected(open_)
    take(listening)
    assert len(listening._connections) == 10


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_tls_of_who_sends_and_closes_at_once(tmp_path: Path, open_: ExitStack) -> None:
    """It reads nothing, neither tickets nor the end; all that it has sent comes."""
    authority = Authority(tmp_path / "ca")
    own = authority.sign("server")
    files = PemFiles(None, own.certificate, own.key)
    (port,) = free_ports(1)
    made = SyslogReceiver([Address("tls", "127.0.0.1", port)], 1 << 20, files.server_context)
    made.connect([Stream("p", {}, 1, 1, 1, 0)], [], lambda topic, count: Taken())
    open_.callback(made.close)
    trusting = ssl.create_default_context(cafile=str(authority.own.certificate))

    def connect() -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", port))
        return trusting.wrap_socket(plain, server_hostname="localhost")

    found: list[bytes] = []
    with ThreadPoolExecutor(1) as other:
        for n in range(5):
            connecting = other.submit(connect)
            while not connecting.done():
                take(made, 1)
            take(made, 3)
            with connecting.result() as sender:
                for part in range(50):
                    sender.sendall(b"<1>%d\n" % (50 * n + part))
            found += take(made, 60)
    assert found == [b"<1>%d" % n for n in range(250)]
