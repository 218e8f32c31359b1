"""Tables of MQTT on a real server: what comes in, what goes out, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from parser.errors import SqlError
from sqlengine.machine import THIS
from tests.connectors.mqtt.world import World, out
from tests.servers.mqtt_client import MqttClient
from tests.spark.staged import Staged
from tests.support import eventually


@pytest.mark.parametrize("java", [False, pytest.param(True, marks=pytest.mark.spark)])
def test_spark_reads_what_its_driver_receives(world: World, *, java: bool) -> None:
    """Tasks read the log from its files, with all metadata; sinks are in the driver."""
    text = (
        world.table("i", META, "in/+")
        + world.table("p", "v INT", "out/{v}")
        + out("o", "v INT, place STRING, o BIGINT")
        + "EXECUTE STATEMENT SET BEGIN INSERT INTO o SELECT v, levels[3], o FROM i WHERE v % 2 = 0;"
        + " INSERT INTO p SELECT v FROM i WHERE v < 3; END"
    )
    machine = THIS if java else replace(THIS, spark=lambda config: Staged(2))
    with (
        world.open(machine, target="spark", rows_per_read=20, step_timeout_s=None) as engine,
        MqttClient(world.server.address) as client,
    ):
        client.subscribe(f"{world.root}/out/#")
        engine.submit("j", text)
        world.connected()
        client.publish(f"{world.root}/in/a", *(b'{"v": %d}' % v for v in range(500)))
        found = world.rows("o", 250)
        assert {m.topic.decode()[-1] for m in client.next(3)} == {"0", "1", "2"}
    assert found == [{"v": v, "place": "a", "o": v} for v in range(0, 500, 2)]


META = (
    "v INT, topic STRING METADATA VIRTUAL, levels ARRAY<STRING> METADATA FROM 'topic.levels' VIRTUAL,"
    " qos INT METADATA VIRTUAL, kept BOOLEAN METADATA FROM 'retained' VIRTUAL,"
    " ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL, o BIGINT METADATA FROM 'offset' VIRTUAL"
)


@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_wildcards_metadata_and_what_was_retained(world: World, version: str) -> None:
    columns = "v INT, topic STRING, place STRING, qos INT, kept BOOLEAN, o BIGINT, fresh BOOLEAN"
    text = (
        world.table("i", META, "plant/+/temp;plant/+/rh", qos="2", version=version)
        + out("o", columns)
        + "INSERT INTO o SELECT v, topic, levels[3], qos, kept, o, ts > TIMESTAMP '2026-01-01 00:00:00' FROM i"
    )
    top = f"{world.root}/plant"
    with world.open() as engine, MqttClient(world.server.address) as client:
        client.publish(f"{top}/a/temp", b'{"v": 1}', retain=True)
        engine.submit("j", text)
        world.rows("o", 1)
        client.publish(f"{top}/b/rh", b'{"v": 2}', qos=0)
        world.rows("o", 2)
        client.publish(f"{top}/b/other", b'{"v": 3}')
        client.publish(f"{top}/c/temp", b'{"v": 4}', qos=2)
        found = world.rows("o", 3)
        client.publish(f"{top}/a/temp", b"", retain=True)
    assert found == [
        {
            "v": v,
            "topic": f"{top}/{at}",
            "place": at[0],
            "qos": qos,
            "kept": kept,
            "o": o,
            "fresh": True,
        }
        for o, (v, at, qos, kept) in enumerate(
            [(1, "a/temp", 1, True), (2, "b/rh", 0, False), (4, "c/temp", 2, False)]
        )
    ]


def test_properties_of_messages(world: World) -> None:
    columns = (
        "v INT, p MAP<STRING, STRING> METADATA FROM 'properties' VIRTUAL, c STRING METADATA FROM"
        " 'content-type' VIRTUAL, d BYTES METADATA FROM 'correlation-data' VIRTUAL"
    )
    text = (
        world.table("i", columns, "in")
        + out("o", "v INT, p STRING, c STRING, d BYTES")
        + "INSERT INTO o SELECT v, p['unit'], c, d FROM i"
    )
    topic, payload = f"{world.root}/in".encode(), b'{"v": 1}'
    # content type, correlation data, and one property of the user
    properties = b"\x03\x00\x01j" + b"\x09\x00\x02\x00\x01" + b"\x26\x00\x04unit\x00\x01C"
    body = len(topic).to_bytes(2, "big") + topic + bytes([len(properties)]) + properties + payload
    with world.open() as engine, MqttClient(world.server.address) as client:
        engine.submit("j", text)
        world.connected()
        client.connection.send(bytes([0x30, len(body)]) + body)
        client.publish(f"{world.root}/in", b'{"v": 2}')
        found = world.rows("o", 2)
    assert found == [
        {"v": 1, "p": "C", "c": "j", "d": "AAE="},
        {"v": 2, "p": None, "c": None, "d": None},
    ]


def test_tables_share_a_connection_and_a_message_goes_to_each_that_asks(world: World) -> None:
    texts = {
        name: world.table(f"of_{name}", "v INT", topic, client_id=f"{world.root}-c")
        + out(name, "v INT")
        + f"INSERT INTO {name} SELECT v FROM of_{name}"
        for name, topic in (("j1", "+/temp"), ("j2", "a/#"), ("j3", "a/#"), ("j4", "b"))
    }
    with world.open() as engine, MqttClient(world.server.address) as client:
        for name, text in texts.items():
            engine.submit(name, text)
        world.connected(3)
        client.publish(f"{world.root}/a/temp", b'{"v": 1}')
        client.publish(f"{world.root}/a/rh", b'{"v": 2}')
        client.publish(f"{world.root}/b/temp", b'{"v": 3}')
        client.publish(f"{world.root}/b", b'{"v": 4}')
        for name, expected in (("j1", [1, 3]), ("j2", [1, 2]), ("j3", [1, 2]), ("j4", [4])):
            assert [r["v"] for r in world.rows(name, len(expected))] == expected
        (view,) = engine.receivers.views()
        assert (view.streams, view.connections) == (3, 1)
        for name in ("j1", "j4"):
            engine.remove(name)
        client.publish(f"{world.root}/a/temp", b'{"v": 5}')
        assert [r["v"] for r in world.rows("j2", 3)] == [1, 2, 5]
        other = (
            texts["j1"].replace("j1", "j5").replace("'format'", "'keep-alive' = '9 s', 'format'", 1)
        )
        with pytest.raises(SqlError, match="differs in 'keep-alive'"):
            engine.submit("j5", other)


def test_shared_subscriptions_give_each_message_to_one(world: World) -> None:
    def text(name: str) -> str:
        table = world.table(f"of_{name}", "v INT", "x", client_id=f"{world.root}-{name}")
        table = table.replace(f"'{world.root}/x'", f"'$share/group/{world.root}/x'")
        return table + out(name, "v INT") + f"INSERT INTO {name} SELECT v FROM of_{name}"

    with world.open() as engine, MqttClient(world.server.address) as client:
        engine.submit("j1", text("j1"))
        engine.submit("j2", text("j2"))
        world.connected()
        eventually(lambda: sum(v.asked for v in engine.receivers.views()) == 2)
        client.publish(f"{world.root}/x", *(b'{"v": %d}' % v for v in range(40)))
        eventually(lambda: len(world.read("j1")) + len(world.read("j2")) >= 40)
        assert sorted(r["v"] for name in ("j1", "j2") for r in world.read(name)) == [*range(40)]
        assert all(world.read(name) for name in ("j1", "j2"))


def test_what_cannot_be_read_or_published_becomes_dead_letters(world: World) -> None:
    text = (
        world.table("i", "rule STRING, v INT", "in")
        + world.table("o", "rule STRING, v INT", "alerts/{rule}/{v}", sink_qos="2")
        + "INSERT INTO o SELECT rule, v FROM i"
    ).replace("sink-qos", "sink.qos")
    with world.open() as engine, MqttClient(world.server.address) as client:
        client.subscribe(f"{world.root}/alerts/#", qos=2)
        engine.submit("j", text)
        world.connected()
        rows = [b"no json", b'{"v": 1}', b'{"rule": "a+b", "v": 2}', b'{"rule": "hot", "v": 3}']
        client.publish(f"{world.root}/in", *rows)
        (found,) = client.next(1)
        letters = eventually(lambda: len(found := world.read("_dead_letters")) >= 3 and found)
    assert (found.topic.decode(), json.loads(found.payload)) == (
        f"{world.root}/alerts/hot/3", {"rule": "hot", "v": 3},
    )  # fmt: skip
    reasons = " ".join(str(letter) for letter in letters)
    assert "column 'rule' is NULL, and part of the topic" in reasons
    assert "has one of +, # and the character 0" in reasons


REFUSED = [
    ({"topic": "a/#/b"}, "option 'topic' of table"),
    ({"topic": "a/+;a/b"}, "messages of the same topics"),
    ({"server": "http://x"}, "expected tcp://host:1883"),
    ({"server": "tcp://u:p@x"}, "who connects is said by 'username'"),
    ({"qos": "3"}, "expected '0' or '1' or '2'"),
    ({"receive-maximum": "0"}, "from 1 to 65,535"),
    ({"deduplicate.key": "id"}, "expected parts such as field:id"),
    ({"tls.key": "/tmp/none.pem"}, "and the table speaks none"),
    ({"server": "ssl://h", "tls.key": "/tmp/none.pem"}, "has 'tls.key', and no 'tls.cert'"),
    ({"server": "ssl://h", "tls.ca": "/dev/null"}, "is the system's own"),
    ({"will.topic": "a/#"}, "'will.topic' of table"),
    ({"nonsense": "1"}, "unknown option 'nonsense'"),
]
REFUSED_TOPICS = [
    ("alerts/{rul}", "names no column 'rul'"),
    ("alerts/{v}", "column 'v' of table 'o' cannot be part of a topic"),
    ("alerts/#", "has one of +, # and the character 0"),
]


def test_what_is_refused(world: World) -> None:
    given = {"connector": "mqtt", "server": "tcp://127.0.0.1:1", "topic": "a", "format": "json"}
    with world.open() as engine:
        engine.broker.create_topic("i")
        texts = []
        for options, message in REFUSED:
            listed = ", ".join(f"'{k}' = '{v}'" for k, v in (given | options).items())
            table = f"CREATE TABLE i (v INT) WITH ({listed}); {out('o', 'v INT')}"
            texts.append((f"{table} INSERT INTO o SELECT v FROM i", message))
        for topic, message in REFUSED_TOPICS:
            table = out("i", "rule STRING, v DOUBLE")
            table += world.table("o", "rule STRING, v DOUBLE", topic)
            texts.append((f"{table} INSERT INTO o SELECT rule, v FROM i", message))
        for text, message in texts:
            with pytest.raises(SqlError) as refused:
                engine.submit("j", text)
            assert message in f"{refused.value.message} {refused.value.detail} {refused.value.hint}"
            assert refused.value.position is not None, message
