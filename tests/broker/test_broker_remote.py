"""Properties of a remote broker only: rejections, lost responses, damage on the wire."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from sqlengine.broker.base import Addition, Broker
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.errors import BrokerAway, BrokerError, BrokerUnreachable
from sqlengine.broker.remote.client import RemoteBroker, connect
from sqlengine.broker.remote.request_handler import handle_request
from sqlengine.broker.remote.wire import Append, Failure
from sqlengine.broker.rocketmq.errors import Refused, RocketAway
from sqlengine.broker.storage.codec import Payload, encode
from tests.clients.one_answer import one_answer_each
from tests.support import PATIENCE_S


def records(broker: Broker) -> list[bytes | None]:
    found = broker.read("t", 0, 0)
    return [] if found is None else found.values.to_pylist()


class Losing:
    """A transport that sends every request, and loses every second response."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.broker = broker
        self.turn = 0

    def __call__(self, question: bytes, again: bool) -> bytes:
        while True:
            self.turn += 1
            answered = handle_request(self.broker, question)
            if self.turn % 2 == 0:
                return answered
            if not again:
                raise BrokerUnreachable("no answer")


def test_a_lost_answer_doubles_nothing_that_has_a_writer(broker: EmbeddedBroker) -> None:
    losing = Losing(broker)
    remote = RemoteBroker(losing)
    broker.create_topic("t")
    for epoch in range(5):
        remote.append("t", 0, [b"%d" % epoch], timestamp_ms=0, writer="w", epoch=epoch)
    assert records(broker) == [b"0", b"1", b"2", b"3", b"4"]
    remote.append_all([Addition("t", 0, [b"%d" % e], 0, writer="w", epoch=e) for e in (4, 5, 6)])
    assert records(broker)[5:] == [b"5", b"6"]
    for act in (
        lambda: remote.append("t", 0, [b"once or never"], timestamp_ms=0),
        lambda: remote.append_all(
            [Addition("t", 0, [b"so here"], 0), Addition("t", 0, [b"7"], 0, None, "w", 7)]
        ),
    ):
        losing.turn = 0
        with pytest.raises(BrokerUnreachable):
            act()
    assert records(broker)[7:] == [b"once or never", b"so here", b"7"]


def test_appends_before_a_rejected_one_stay(any_broker: Broker) -> None:
    any_broker.create_topic("t")
    with pytest.raises(BrokerError):
        any_broker.append_all(
            [Addition("t", 0, [b"a"], 0), Addition("t", 9, [b"b"], 0), Addition("t", 0, [b"c"], 0)]
        )
    assert any_broker.append_all([]) == []
    assert records(any_broker) == [b"a"]


@pytest.mark.parametrize(
    "payload",
    [
        Payload(2, 0, 2, 0, encode([b"a"], None).body),
        Payload(1, 0, 9, 0, encode([b"a"], None).body),
        Payload(1, 1, 1, 0, bytes(16) + encode([b"a"], None).body),  # says that it is compacted
        Payload(1, 0, 1, 0, b"\0\0\0\0\xff\xff\xff\xff" + b"a" * 8),
        Payload(1, 0, 1, 0, b"\1\0\0\0\1\0\0\0" + b"a" * 8),
        Payload(1, 16, 1, 0, b"\7\0\0\0\0\0\0\0nonsense", 16),
        Payload(1, 48, 1, 0, b"\7\0\0\0\0\0\0\0nonsense", 16),
        Payload(1 << 31, 0, 0, 0, b""),
        Payload(1, 0, 1, 0, encode([b"a"], None).body, 1 << 40),  # of a batch that is not packed
        Payload(1, 0, 1, 1 << 40, encode([b"a"], None).body),  # keys that it has not
        Payload(2, 0, -1, 0, bytes(16)),
    ],
)
def test_a_batch_that_readers_would_trip_over_is_refused(
    broker: EmbeddedBroker, payload: Payload
) -> None:
    broker.create_topic("t")
    question = msgspec.msgpack.encode(Append("t", 0, payload, 0))
    remote = RemoteBroker(lambda _, again: handle_request(broker, question))
    with pytest.raises(BrokerError, match=r"malformed|cannot be unpacked"):
        remote.append("t", 0, [b"replaced on the way"], timestamp_ms=0)
    assert records(broker) == []


@pytest.mark.parametrize(
    "question", [b"", b"\xc1", b"{}", msgspec.msgpack.encode({"type": "Steal"})]
)
def test_a_malformed_request_gets_an_error(broker: EmbeddedBroker, question: bytes) -> None:
    remote = RemoteBroker(lambda _, again: handle_request(broker, question))
    with pytest.raises(BrokerError, match="the request cannot be read"):
        remote.topics()


def test_the_system_keeps_its_topics(http_broker: RemoteBroker) -> None:
    for act in (
        lambda: http_broker.create_topic("_mine"),
        lambda: http_broker.append("_offsets", 0, [b"{}"], keys=[b"k"], timestamp_ms=0),
        lambda: http_broker.delete_topic("_offsets"),
    ):
        with pytest.raises(BrokerError, match="belongs to the system"):
            act()
    assert [topic.name for topic in http_broker.topics()] == ["_offsets"]


def test_waiting_requests_leave_threads_for_others(broker: EmbeddedBroker) -> None:
    broker.create_topic("t")
    waiting = threading.BoundedSemaphore(1)
    remote = RemoteBroker(lambda question, _: handle_request(broker, question, waiting=waiting))
    remote.wait_for_data(0)
    with waiting:  # all that may wait do
        assert not remote.wait_for_data(0.01)
        later = threading.Timer(0.02, lambda: broker.append("t", 0, [b"v"], timestamp_ms=0))
        later.start()
        assert remote.wait_for_data(PATIENCE_S)
    later.join()
    assert not remote.wait_for_data(0.01)
    assert waiting.acquire(blocking=False)


def test_many_threads_use_one_broker(http_broker: RemoteBroker) -> None:
    http_broker.create_topic("t", 4)

    def work(shard: int) -> None:
        for number in range(30):
            http_broker.append(
                "t", shard, [b"%d" % number], timestamp_ms=0, writer=str(shard), epoch=number
            )

    threads = [threading.Thread(target=work, args=(shard,)) for shard in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert http_broker.topic("t").end == (30, 30, 30, 30)


def test_requests_that_are_not_idempotent_are_not_repeated() -> None:
    nothing = msgspec.msgpack.encode([None, None])
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(nothing)
    with one_answer_each(head + nothing) as server, closing(connect(server.url)) as broker:
        broker.delete_group("g")
        with pytest.raises(BrokerUnreachable, match="no answer from") as error:
            broker.create_topic("t")
    assert "is not known" in str(error.value.detail)
    assert server.connections == 1


def test_that_a_cluster_behind_it_is_away_travels() -> None:
    failure = Failure.of(RocketAway("broker-a does not answer", hint="wait"))
    error = failure.error()
    assert isinstance(error, BrokerAway)
    assert (error.message, error.hint) == ("broker-a does not answer", "wait")
    assert type(Failure.of(Refused(17, "to read", "gone")).error()) is BrokerError


def test_where_no_broker_is(tmp_path: Path) -> None:
    with pytest.raises(BrokerUnreachable, match="no answer from http://127"):
        connect("http://127.0.0.1:9").topics()
    with pytest.raises(BrokerError, match="is not the URL of a server"):
        connect("127.0.0.1")
