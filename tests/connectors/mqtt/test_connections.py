"""Connections that end, are refused, or carry more than jobs can read; and secrets."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from parser.errors import OptionError, SqlError
from sqlengine.connectors.mqtt.account import Account, Address, address_of
from sqlengine.connectors.mqtt.connection import Connection, ConnectionLost
from sqlengine.metrics import render
from tests.connectors.mqtt.world import World, out
from tests.hostile.certificates import MISSING, Authority
from tests.servers.mosquitto import Mosquitto
from tests.servers.mqtt_client import MqttClient
from tests.servers.process import started
from tests.servers.slow_relay import slow_answers
from tests.support import eventually

COPY = "INSERT INTO o SELECT v FROM i"


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Mosquitto]:
    """A server of this test alone, which may be killed."""
    with started(Mosquitto(tmp_path / "mosquitto")) as server:
        yield server


def batch(first: int, count: int = 50) -> list[bytes]:
    return [b'{"v": %d}' % v for v in range(first, first + count)]


def test_a_server_that_is_killed_is_found_again(own: Mosquitto, tmp_path: Path) -> None:
    world = World(own, tmp_path)
    text = (
        world.table("i", "v INT", "in", deduplicate__key="field:v")
        + world.table("p", "v INT", "out")
        + out("o", "v INT")
    )
    own.kill()
    with world.open() as engine:
        engine.submit("copy", text + COPY)
        engine.submit("publish", text + COPY.replace("INTO o", "INTO p"))
        hint = eventually(lambda: engine.hints().get("copy"))
        assert f"no connection to {own.address}: Connection refused" in hint
        for life in range(2):
            own.start()
            world.connected()
            with MqttClient(own.address) as client:
                client.subscribe(f"{world.root}/out")
                client.publish(f"{world.root}/in", *batch(50 * life))
                came = {json.loads(m.payload)["v"] for m in client.next(50)}
            assert came >= {*range(50 * life, 50 * life + 50)}
            world.rows("o", 50 * life + 50)
            eventually(lambda: not engine.hints())
            own.kill()
        assert sorted(r["v"] for r in world.read("o")) == [*range(100)]
        text = render(engine).decode()
    (found,) = [
        line for line in text.splitlines() if line.startswith("sqlengine_receiver_messages")
    ]
    assert float(found.split()[1]) == 100
    assert 'sqlengine_connector_reconnects_total{direction="in"' in text


def test_a_job_goes_on_where_it_was(world: World) -> None:
    """Messages of the time in which it is stopped, or the whole engine, are kept by the server."""
    text = world.table("i", "v INT", "in") + out("o", "v INT") + COPY
    topic = f"{world.root}/in"
    with MqttClient(world.server.address) as client:
        with world.open() as engine:
            engine.submit("j", text)
            world.connected()
            client.publish(topic, *batch(0))
            world.rows("o", 50)
            saved = engine.save_job("j", stop=True).savepoint
            client.publish(topic, *batch(50))
            eventually(lambda: not engine.receivers.views())
            client.publish(topic, *batch(100))
            engine.start_job("j", saved)
            world.rows("o", 150)
        client.publish(topic, *batch(150))
        with world.open():
            found = world.rows("o", 200)
    assert [r["v"] for r in found] == [*range(200)]


def test_a_server_that_confirms_slowly_is_not_given_up(world: World) -> None:
    """The rows of an epoch may take longer than one answer may."""
    with (
        slow_answers(world.server.port, 400) as port,
        world.open(connector_timeout_s=0.5) as engine,
        MqttClient(world.server.address) as client,
    ):
        client.subscribe(f"{world.root}/out")
        target = world.table("p", "v INT", "out", address=f"tcp://127.0.0.1:{port}")
        engine.broker.create_topic("i")
        engine.submit("j", out("i", "v INT") + target + "INSERT INTO p SELECT v FROM i")
        engine.broker.append("i", 0, batch(0, 200), timestamp_ms=0)
        came = client.next(200)
        engine.broker.append("i", 0, batch(200, 1), timestamp_ms=0)
        came = [*came, *client.next(1)]  # it follows once the others are confirmed
    assert [json.loads(m.payload)["v"] for m in came] == [*range(201)]


def test_what_came_before_a_confirmation_is_received_once(mosquitto: Mosquitto) -> None:
    with MqttClient(mosquitto.address) as client, MqttClient(mosquitto.address) as other:
        client.subscribe("confirmed")
        other.publish("confirmed", b"1")
        for _ in range(2):
            client.connection.confirm()
        assert [m.payload for m in client.next(1)] == [b"1"]


def test_an_answer_that_has_come_is_heard_however_late(mosquitto: Mosquitto) -> None:
    """Whoever held this thread up, the server did not."""
    address = address_of(mosquitto.address)
    connection = Connection(Account(address, "late", keep_alive_s=1, timeout_s=0.3))
    time.sleep(0.6)
    connection.receive(0.0)  # asks whether the server is there
    time.sleep(0.5)
    assert connection.receive(0.0) == []
    connection.confirm()
    connection.close()


def test_a_job_that_is_refused_reads_nothing(world: World) -> None:
    """Nobody would ever read what was taken for it, and the others would wait for that."""
    target = (
        "CREATE TABLE o (v INT) WITH ('connector' = 'jdbc', 'table-name' = 'o',"
        f" 'url' = 'jdbc:sqlite:{world.folder}/missing.db');"
    )
    with world.open() as engine:
        with pytest.raises(SqlError, match="unable to open database file"):
            engine.submit("j", world.table("i", "v INT", "in") + target + COPY)
        eventually(lambda: not engine.receivers.views())


def test_a_host_without_a_name_is_no_fault() -> None:
    with pytest.raises(ConnectionLost, match="this is no name of a host"):
        Connection(Account(Address("x" * 70, 1883), "c"))


def _guarded(folder: Path) -> tuple[Mosquitto, str]:
    """A server that asks for a password, and the file of who has signed its certificate."""
    pair = Authority(folder / "ca").sign("server")
    return Mosquitto(folder / "mosquitto", pair.certificate, pair.key), f"{folder}/ca/authority.pem"


def test_a_server_that_hangs_up_may_want_tls() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=lambda: listening.accept()[0].close())
        thread.start()
        with pytest.raises(ConnectionLost, match="without an answer: ssl:// may be right"):
            Connection(Account(Address("127.0.0.1", listening.getsockname()[1]), "c"))
        thread.join()


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_secrets_and_certificates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server, authority = _guarded(tmp_path)
    world = World(server, tmp_path)
    more = {"username": "sensor", "password": "${secret:HUSH}"}
    text = world.table("i", "v INT", "in", address=server.private_address, **more)
    trusting = text.replace("'format'", f"'tls.ca' = '{authority}', 'format'")
    monkeypatch.setenv("SQLENGINE_SECRET_HUSH", "loud")
    with started(server), world.open() as engine, MqttClient(server.address) as client:
        engine.submit("j", text + out("o", "v INT") + COPY)
        assert "its certificate is not trusted" in eventually(lambda: engine.hints().get("j"))
        engine.submit("j", trusting + out("o", "v INT") + COPY)
        eventually(lambda: "not authorized" in engine.hints().get("j", ""))
        monkeypatch.setenv("SQLENGINE_SECRET_HUSH", "hush")
        engine.stop_job("j")
        engine.start_job("j")
        world.connected()
        client.publish(f"{world.root}/in", *batch(0))
        world.rows("o", 50)
        shown = f"{engine.history('j')} {caplog.text} {engine.explain('j')}"
    assert "loud" not in shown
    assert "'hush'" not in shown


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_a_wrong_password_is_none_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It neither reads through the connection of another table, nor is it that of this one from the
    next connection on; the new value of a secret is the same password."""
    server, authority = _guarded(tmp_path)
    world = World(server, tmp_path)
    monkeypatch.setenv("SQLENGINE_SECRET_HUSH", "hush")
    monkeypatch.setenv("SQLENGINE_SECRET_LOUD", "loud")

    def text(name: str, secret: str) -> str:
        more = {"username": "sensor", "password": f"${{secret:{secret}}}", "tls__ca": authority}
        table = world.table(f"i_{name}", "v INT", "in", address=server.private_address, **more)
        return f"{table}\n{out(name, 'v INT')}\nINSERT INTO {name} SELECT v FROM i_{name}"

    with started(server), world.open() as engine:
        engine.submit("good", text("good", "HUSH"))
        world.connected()
        with pytest.raises(OptionError) as refused:
            engine.submit("bad", text("bad", "LOUD"))
        assert "table 'i_bad' shares a connection to" in refused.value.message
        assert "with 'i_good', and differs in 'password'" in refused.value.message
        place = refused.value.position
        assert place is not None
        assert text("bad", "LOUD")[place.column - 1 :].startswith("'password'")
        assert "loud" not in str(refused.value)
        server.kill()
        server.start()
        world.connected()
        with MqttClient(server.address) as client:
            client.publish(f"{world.root}/in", *batch(0))
        world.rows("good", 50)
        engine.submit("another", text("another", "HUSH"))
