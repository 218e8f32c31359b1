"""Messages of syslog: frames in streams, rows as messages, addresses, and a receiver's sockets."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parser.errors import PlanError
from parser.types import INT, STRING, Schema
from sqlengine.batch import Batch, from_pydict
from sqlengine.connectors.base import Busy
from sqlengine.connectors.receivers.base import Stream, Taken, Unreachable
from sqlengine.connectors.registry import capabilities_of, open_sink, rejects
from sqlengine.connectors.syslog.addresses import Address, listen_addresses
from sqlengine.connectors.syslog.framing import BadFrame, Deframer, counted, in_line
from sqlengine.connectors.syslog.receiver import SyslogReceiver
from tests.connectors.tables import Clock, environment, table
from tests.servers.process import free_ports

SCHEMA = Schema.of(sev=STRING, host=STRING, text=STRING, n=INT)


def cut(stream: bytes, seed: int) -> Iterator[bytes]:
    """The stream in pieces of any length."""
    chance = random.Random(seed)
    while stream:
        size = chance.randint(1, 12)
        yield stream[:size]
        stream = stream[size:]


texts = st.binary(min_size=1, max_size=30).map(lambda b: b"<13>" + b.replace(b"\n", b"."))
texts = texts.map(lambda b: b.rstrip(b"\r\n\0"))


@given(st.lists(texts, min_size=1, max_size=8), st.integers(), st.booleans())
def test_streams_are_cut_into_their_messages(
    messages: list[bytes], seed: int, in_lines: bool
) -> None:
    stream = b"".join((in_line if in_lines else counted)(m) for m in messages)
    frames = Deframer(100)
    assert [m for part in cut(stream, seed) for m in frames.feed(part)] == messages
    assert (frames.end(), frames.cut) == ([], 0)


@given(st.integers())
def test_what_is_too_long_is_cut_and_costs_no_other(seed: int) -> None:
    long, short = b"<1>" + b"x" * 50, b"<1>s"
    for frame in (counted, in_line):
        frames = Deframer(10)
        stream = b"".join(frame(m) for m in (short, long, short, long, long, short))
        found = [m for part in cut(stream, seed) for m in frames.feed(part)]
        assert found == [short, long[:10], short, long[:10], long[:10], short]
        assert frames.cut == 3


def test_the_end_of_a_stream() -> None:
    lines, lengths = Deframer(100), Deframer(100)
    assert lines.feed(b"<1>a\n<1>b") == [b"<1>a"]
    assert lines.end() == [b"<1>b"]
    assert lengths.feed(b"4 <1>a9 <1>b") == [b"<1>a"]
    assert lengths.end() == []


@pytest.mark.parametrize("stream", [b"4 <1>axx", b"99999999999 x", b"4x <1>"])
def test_lengths_that_are_none_end_the_stream(stream: bytes) -> None:
    frames = Deframer(100)
    with pytest.raises(BadFrame):
        frames.feed(stream + b" and more of it")


# ---- rows as messages


def options(**given: str) -> dict[str, str]:
    named = {name.replace("__", "-").replace("_", "."): text for name, text in given.items()}
    return {"connector": "syslog", "server": "udp://127.0.0.1:9", "format": "json", **named}


def rows(*found: tuple[str | None, str | None, str | None, int | None]) -> Batch:
    columns = [[r[i] for r in found] for i in range(4)]
    return from_pydict(SCHEMA, dict(zip(SCHEMA.names, columns, strict=True)))


@pytest.fixture
def place() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.settimeout(60)
        yield listening


def sent(place: socket.socket, given: dict[str, str], batch: Batch) -> list[str]:
    given = given | {"server": f"udp://127.0.0.1:{place.getsockname()[1]}"}
    target = open_sink(table(given, SCHEMA), environment(clock=Clock()))
    target.write(batch)
    assert target.commit(1) == batch.num_rows
    target.close()
    return [place.recv(70_000).decode() for _ in range(batch.num_rows)]


def test_rows_are_messages_of_rfc_5424(place: socket.socket) -> None:
    found = sent(
        place,
        options(severity="{{sev}}", facility="local0", hostname="{{host}}", app__name="rule é",
                msg__id="{{n}}", message="{{text}} on {{host}}", structured__data="alert@32473"),
        rows(("critical", "db 1", 'a "b" ]\\', 7), ("6", None, None, None)),
    )  # fmt: skip
    first = (
        '<130>1 1970-01-01T00:00:00.000Z db_1 rule__ - 7 [alert@32473 sev="critical" host="db 1"'
        ' text="a \\"b\\" \\]\\\\" n="7"] a "b" ]\\ on db 1'
    )
    assert found == [
        first,
        '<134>1 1970-01-01T00:00:00.000Z - rule__ - - [alert@32473 sev="6"]  on ',
    ]


def test_a_row_goes_in_its_format_unless_a_message_is_named(place: socket.socket) -> None:
    (found,) = sent(place, options(hostname="h"), rows(("x", "y", "é", 1)))
    assert found.startswith("<13>1 1970-01-01T00:00:00.000Z h sqlengine - - - ")
    assert found.endswith('{"sev":"x","host":"y","text":"é","n":1}')


def test_a_large_row_is_sent_over_tcp() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as other:
        came = other.submit(read_all, listening)
        given = options(server=f"tcp://127.0.0.1:{listening.getsockname()[1]}")
        with closing(open_sink(table(given, SCHEMA), environment(clock=Clock()))) as target:
            target.write(rows(("x", "y", "z" * 10_000_000, 1)))
            assert target.commit(1) == 1
    assert came.result(60).endswith(b'"text":"%s","n":1}' % (b"z" * 10_000_000))


def read_all(listening: socket.socket) -> bytes:
    """What the first connection brings."""
    with listening.accept()[0] as connection, connection.makefile("rb") as stream:
        return stream.read()


def test_rows_that_are_no_message_are_told() -> None:
    found = rejects(
        table(options(severity="{{sev}}"), SCHEMA),
        rows(
            ("fatal", "", "", 1), ("loud", "", "", 1), (None, "", "", 1), ("0", "", "x" * 70_000, 1)
        ),
    )
    assert [(row, reason.split(",")[0]) for row, reason in sorted(found.items())] == [
        (1, "'loud' is no severity"),
        (2, "'' is no severity"),
        (3, found[3].split(",")[0]),
    ]
    assert "UDP takes 65507" in found[3]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"severity": "loud"}, "no severity"),
        ({"message": "{{nothing}}"}, "no column 'nothing'"),
        ({"structured__data": "a b"}, "no id"),
        ({"listen": "udp://:1"}, "needs the option"),
        ({"server": "http://h"}, "expected udp://"),
        ({"server": "udp://"}, "expected a host"),
        ({"framing": "null"}, "expected"),
    ],
)
def test_mistakes_are_told(given: dict[str, str], words: str) -> None:
    with pytest.raises(PlanError) as error:
        capabilities_of(table(options(**given), SCHEMA))
    assert words in f"{error.value}"


def test_a_server_that_is_away_is_waited_for() -> None:
    given = options(server=f"tcp://127.0.0.1:{free_ports(1)[0]}")
    target = open_sink(table(given, SCHEMA), environment())
    target.write(rows(("x", "y", "z", 1)))
    for _ in range(2):
        with pytest.raises(Busy, match="does not take rows now") as error:
            target.commit(1)
    assert "refused" in str(error.value.detail)


# ---- a receiver's sockets


def test_addresses_are_loopback_unless_they_are_said() -> None:
    assert listen_addresses("udp://:5514; tls://[::]:7000") == (
        Address("udp", "127.0.0.1", 5514),
        Address("tls", "::", 7000),
    )


def listening(*addresses: Address) -> SyslogReceiver:
    receiver, stream = SyslogReceiver(addresses, 1 << 20), Stream("p", {}, 1, 1, 1, 0)
    receiver.connect([stream], [], lambda topic, count: Taken())
    return receiver


def taken(receiver: SyslogReceiver, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        for batch in receiver.take(0.05).values():
            assert len(batch.metadata) == len(batch.values)
            found += batch.values
    return found


def test_a_receiver_takes_what_comes_on_all_its_sockets() -> None:
    port = free_ports(1)[0]
    receiver = listening(Address("udp", "127.0.0.1", port), Address("tcp", "127.0.0.1", port))
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.sendto(b"<1>u\n", ("127.0.0.1", port))
        assert taken(receiver, 1) == [b"<1>u"]
        with (
            socket.create_connection(("127.0.0.1", port)) as lines,
            socket.create_connection(("127.0.0.1", port)) as lengths,
            socket.create_connection(("127.0.0.1", port)) as broken,
        ):
            lines.sendall(b"<1>a\n<1>b\n<1>c")
            lengths.sendall(b"4 <1>d4 <1>e")
            broken.sendall(b"4x nonsense that is no length at all")
            assert sorted(taken(receiver, 4)) == [b"<1>a", b"<1>b", b"<1>d", b"<1>e"]
            assert all(
                one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                for one in receiver._connections
            )
            lines.shutdown(socket.SHUT_WR)
            assert taken(receiver, 1) == [b"<1>c"]
            broken.settimeout(60)
            receiver.take(0.05)
            assert broken.recv(10) == b""
        with pytest.raises(Unreachable, match="cannot listen at tcp://"):
            listening(Address("tcp", "127.0.0.1", port))
    finally:
        receiver.close()


def test_datagrams_that_the_kernel_drops_are_counted() -> None:
    port = free_ports(1)[0]
    receiver = SyslogReceiver([Address("udp", "127.0.0.1", port)], 4096)
    receiver.connect([Stream("p", {}, 1, 1, 1, 0)], [], lambda topic, count: Taken())
    sent = 2000
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        for _ in range(sent):
            udp.sendto(b"<1>" + b"x" * 500, ("127.0.0.1", port))
        found = 0
        while batch := receiver.take(0):
            found += sum(len(t.values) for t in batch.values())
        udp.sendto(b"<1>last", ("127.0.0.1", port))
        assert taken(receiver, 1) == [b"<1>last"]
    assert receiver.unwanted == sent - found > 0
    receiver.close()
