"""Kills of the engine and of the server: nothing that was confirmed to a device is lost, and with a key
each message counts once."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlengine.connectors.mqtt.connection import ConnectionLost
from tests.connectors.lives import JOB, life
from tests.connectors.mqtt.world import World, out
from tests.servers.mosquitto import Mosquitto
from tests.servers.mqtt_client import MqttClient
from tests.servers.process import started
from tests.support import eventually

_TOGETHER = 40


class Devices(threading.Thread):
    """Publishes messages with rising numbers until it is told to stop. Those that the server has not
    confirmed are published again, with their numbers."""

    def __init__(self, address: str, topic: str, qos: int) -> None:
        super().__init__(daemon=True)
        self._address, self._topic, self._qos = address, topic, qos
        self.confirmed = 0
        self.again: list[int] = []
        self.done = threading.Event()
        self.start()

    def run(self) -> None:
        while not self.done.is_set():
            try:
                with MqttClient(self._address, timeout_s=2.0) as client:
                    while not self.done.is_set():
                        self._publish(client)
            except ConnectionLost:
                time.sleep(0.05)

    def _publish(self, client: MqttClient) -> None:
        numbers = [
            *self.again,
            *range(self.confirmed, self.confirmed + _TOGETHER - len(self.again)),
        ]
        client.publish(self._topic, *(b'{"v": %d}' % n for n in numbers), qos=self._qos)
        self.again = []
        self.confirmed = max(*numbers, self.confirmed - 1) + 1
        time.sleep(0.02)

    def stop(self) -> int:
        """Ends it; returns how many messages were confirmed."""
        self.done.set()
        self.join(60)
        assert not self.is_alive()
        return self.confirmed


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("qos", "kills"),
    [("1", 2), pytest.param("1", 20, marks=SLOW), pytest.param("2", 20, marks=SLOW)],
)
def test_kills_of_the_engine(mosquitto: Mosquitto, tmp_path: Path, qos: str, kills: int) -> None:
    world, chance = World(mosquitto, tmp_path), random.Random(kills)
    key = {"deduplicate__key": "field:v"} if qos == "1" else {}
    text = (
        world.table("i", "v INT", "in", qos=qos, **key)
        + out("o", "v INT")
        + "INSERT INTO o SELECT v FROM i"
    )
    with life(world.folder / "data", text, reads=True):
        pass  # from here on the server of MQTT keeps what comes
    devices = Devices(mosquitto.address, f"{world.root}/in", int(qos))
    for _ in range(kills):
        with life(world.folder / "data", text, reads=True):
            time.sleep(chance.uniform(0.1, 0.7))
    count = devices.stop()
    assert count > 100
    with world.open():
        found = Counter(r["v"] for r in world.rows("o", count))
    assert found == Counter(range(count))


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=SLOW)])
def test_kills_of_the_server(tmp_path: Path, kills: int) -> None:
    """A server that is killed may forget what it has confirmed since it last wrote to its disk; the
    devices of this test publish that again."""
    chance = random.Random(kills)
    with started(Mosquitto(tmp_path / "mosquitto", lasting=True)) as server:
        world = World(server, tmp_path)
        text = (
            world.table("i", "v INT", "in", deduplicate__key="field:v")
            + out("o", "v INT")
            + "INSERT INTO o SELECT v FROM i"
        )
        with world.open() as running:
            running.submit("j", text)
            world.connected()
            sent = 0
            for _ in range(kills):
                with MqttClient(server.address) as client:
                    client.publish(f"{world.root}/in", *numbered(sent, sent + 300))
                time.sleep(chance.uniform(0.0, 0.05))
                server.kill()
                server.start()
                sent += 300
                world.connected()
                missing = {*range(sent)} - {r["v"] for r in world.read("o")}
                with MqttClient(server.address) as client:
                    client.publish(f"{world.root}/in", *map(numbered_one, sorted(missing)))
                world.rows("o", sent)
            found = Counter(r["v"] for r in world.rows("o", sent))
    assert found == Counter(range(sent))


@pytest.mark.slow
def test_kills_of_an_engine_that_publishes(mosquitto: Mosquitto, tmp_path: Path) -> None:
    """Each row is published once at least."""
    world, chance, kills = World(mosquitto, tmp_path), random.Random(7), 20
    text = (
        world.table("p", "v INT", "out")
        + out("numbers", "v INT")
        + "INSERT INTO p SELECT v FROM numbers"
    )
    with world.open() as running:
        running.broker.create_topic("numbers")
        running.submit(JOB, text)
        running.broker.append("numbers", 0, [*numbered(0, 2000)], timestamp_ms=0)
    seen: Counter[bytes] = Counter()
    with MqttClient(mosquitto.address) as client:
        client.subscribe(f"{world.root}/out")
        for _ in range(kills):
            with world.open() as running:
                running.broker.append("numbers", 0, [*numbered(0, 2000)], timestamp_ms=0)
            with life(world.folder / "data", text):
                time.sleep(chance.uniform(0.0, 0.2))
            seen.update(m.payload for m in client.came())
        with world.open():

            def complete() -> bool:
                seen.update(m.payload for m in client.came())
                return len(seen) == 2000 and min(seen.values()) >= kills

            eventually(complete)


def numbered_one(value: int) -> bytes:
    return b'{"v":%d}' % value


def numbered(begin: int, end: int) -> Iterator[bytes]:
    return map(numbered_one, range(begin, end))


def test_a_message_is_lost_for_good_without_a_session(world: World) -> None:
    """What `clean-start` costs: the server keeps nothing while nobody is connected."""
    text = world.table("i", "v INT", "in", clean_start="true") + out("o", "v INT")
    text += "INSERT INTO o SELECT v FROM i"
    with MqttClient(world.server.address) as client:
        for life in range(2):
            with world.open() as running:
                if not life:
                    running.submit("j", text)
                world.connected()
                client.publish(f"{world.root}/in", *numbered(100 * life, 100 * life + 50))
                found = world.rows("o", 50 * life + 50)
            client.publish(f"{world.root}/in", *numbered(100 * life + 50, 100 * life + 100))
    assert [r["v"] for r in found] == [*range(50), *range(100, 150)]
