"""Tables on one connection that share filters, and not all of what they ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from sqlengine.connectors.mqtt.account import Account, address_of
from sqlengine.connectors.mqtt.receiver import MqttReceiver
from sqlengine.connectors.receivers.base import Stream, Taken
from sqlengine.connectors.receivers.source import ReceivedSource
from tests.connectors.mqtt.world import World, out
from tests.servers.mosquitto import Mosquitto
from tests.servers.mqtt_client import MqttClient
from tests.support import eventually

PAIRS: Mapping[str, tuple[str, str, dict[str, str], dict[str, str]]] = {
    "one list has more filters": ("a;b", "a", {}, {}),
    "the same in another QoS": ("a", "a", {"qos": "0"}, {"qos": "2"}),
    "one leaves out what comes twice": ("a", "a", {}, {"deduplicate__key": "payload"}),
    "filters that overlap besides": ("a;b/#", "a;b/+", {}, {}),
    "MQTT 3.1.1": (
        "a;b", "a;b", {"version": "3.1.1"}, {"version": "3.1.1", "deduplicate__key": "payload"},
    ),
}  # fmt: skip


def copies(world: World, pair: str) -> Sequence[str]:
    """Two jobs, `this` and `other`, that copy what comes to topics of the same names."""
    topic, other, options, others = PAIRS[pair]
    return [
        world.table(f"of_{name}", "v INT", topics, session_expiry="300 ms", **given)
        + out(name, "v INT")
        + f"INSERT INTO {name} SELECT v FROM of_{name}"
        for name, topics, given in (("this", topic, options), ("other", other, others))
    ]


@pytest.mark.parametrize("pair", PAIRS)
def test_each_table_gets_the_messages_of_a_shared_filter(
    world: World, monkeypatch: pytest.MonkeyPatch, pair: str
) -> None:
    monkeypatch.setattr("sqlengine.connectors.receivers.worker._TIDY_S", 0.1)
    this, other = copies(world, pair)
    topic = f"{world.root}/a"
    with world.open() as engine, MqttClient(world.server.address) as client:
        engine.submit("this", this)
        world.connected()
        engine.submit("other", other)
        world.connected(2)
        client.publish(topic, b'{"v": 1}', qos=1)
        client.publish(topic, b'{"v": 2}', qos=2)
        for name in ("this", "other"):
            assert [r["v"] for r in world.rows(name, 2)] == [1, 2]
        engine.remove("other")
        eventually(lambda: engine.receivers.views()[0].streams == 1)
        client.publish(topic, b'{"v": 3}')
        assert [r["v"] for r in world.rows("this", 3)] == [1, 2, 3]
        engine.submit("other", other)
        world.connected(2)
        engine.remove("this")
        eventually(lambda: engine.receivers.views()[0].streams == 1)
        client.publish(topic, b'{"v": 4}')
        assert [r["v"] for r in world.rows("other", 3)] == [1, 2, 4]


def test_what_the_server_kept_goes_to_each_table_once(world: World) -> None:
    this, other = copies(world, "one list has more filters")
    topic = f"{world.root}/a"
    with world.open() as engine, MqttClient(world.server.address) as client:
        client.publish(topic, b'{"v": 1}', retain=True)
        engine.submit("this", this)
        world.rows("this", 1)
        engine.submit("other", other)
        world.rows("other", 1)
        client.publish(topic, b'{"v": 2}', retain=True)
        for name in ("this", "other"):
            assert [r["v"] for r in world.rows(name, 2)] == [1, 2]
        client.publish(topic, b"", retain=True)


def test_what_the_server_kept_may_come_before_the_job_begins(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its table is open by then, and it has asked for these messages."""
    start = ReceivedSource.start

    def late(source: ReceivedSource, shard: str) -> int:
        eventually(lambda: source.end(shard))
        return start(source, shard)

    monkeypatch.setattr(ReceivedSource, "start", late)
    topic = f"{world.root}/a"
    with world.open() as engine, MqttClient(world.server.address) as client:
        client.publish(topic, b'{"v": 1}', retain=True)
        for name, text in zip(
            ("this", "other"), copies(world, "filters that overlap besides"), strict=True
        ):
            engine.submit(name, text)
            assert [r["v"] for r in world.rows(name, 1)] == [1]
        client.publish(topic, b"", retain=True)


def test_messages_wait_for_all_tables_of_a_filter(world: World) -> None:
    """A session that is resumed gives what came meanwhile to each."""
    this, other = (
        text.replace("'300 ms'", "'1 h'") for text in copies(world, "filters that overlap besides")
    )
    topic = f"{world.root}/a"
    with MqttClient(world.server.address) as client:
        with world.open() as engine:
            engine.submit("this", this)
            engine.submit("other", other)
            world.connected(2)
        client.publish(topic, *(b'{"v": %d}' % v for v in range(10)))
        client.publish(f"{world.root}/b/x", *(b'{"v": %d}' % v for v in range(10, 20)))
        with world.open() as engine:
            world.connected(2)
            client.publish(topic, b'{"v": 20}')
            for name in ("this", "other"):
                assert [r["v"] for r in world.rows(name, 21)] == [*range(21)]


def test_a_message_of_qos_2_that_one_log_has_goes_to_the_other(mosquitto: Mosquitto) -> None:
    """The process died between the appends to two logs that share a filter."""
    streams = [
        Stream("place", {"topic": "two/+", "qos": qos}, 1 << 20, 1000, 1 << 20, 1000)
        for qos in ("1", "2")
    ]
    one, two = (stream.topic for stream in streams)
    account = Account(address_of(mosquitto.address), "of-two", expiry_s=60)
    receiver = MqttReceiver(account)
    receiver.connect(streams, [], lambda topic, count: Taken())
    with MqttClient(mosquitto.address) as client:
        client.publish("two/x", b"1", qos=2)
    found = eventually(lambda: receiver.take(0.1))
    assert found[one].values == found[two].values == [b"1"]
    receiver.close()
    receiver = MqttReceiver(account)
    receiver.connect(streams, [], lambda topic, count: found[one] if topic == one else Taken())
    again = eventually(lambda: receiver.take(0.1))
    assert {topic: taken.values for topic, taken in again.items()} == {two: [b"1"]}
    receiver.acknowledge()
    receiver.close()
    last = MqttReceiver(replace(account, clean=True, expiry_s=0))
    last.connect([], [], lambda topic, count: Taken())
    last.close()
