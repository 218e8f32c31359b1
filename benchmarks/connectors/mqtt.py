"""MQTT in and out: rows per CPU second of this process, beside bare clients of the same messages on
the same server."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.measure import in_a_process
from benchmarks.page import Section, Table
from sqlengine.config import Config
from sqlengine.connectors.mqtt.account import Account, address_of
from sqlengine.connectors.mqtt.connection import Connection
from sqlengine.connectors.mqtt.packets import Kind, Publish, acknowledgements, publish, subscribe
from sqlengine.engine import Engine
from tests.servers.mosquitto import Mosquitto
from tests.servers.process import Missing

NAME: Final = "connectors_mqtt"
COUNT: Final = 100_000
DEVICES: Final = 1_000
_IN: Final = """
CREATE TABLE readings (device STRING, v DOUBLE, ts STRING, topic STRING METADATA VIRTUAL)
WITH ('connector' = 'mqtt', 'server' = '{server}', 'format' = 'json', 'topic' = 'plant/+/temp');
CREATE TABLE nothing (device STRING, v DOUBLE, topic STRING) WITH ('connector' = 'blackhole');
INSERT INTO nothing SELECT device, v, topic FROM readings WHERE v >= 0;
"""
_OUT: Final = """
CREATE TABLE numbers (device STRING, v DOUBLE, ts STRING, pad STRING)
WITH ('connector' = 'topic', 'topic' = 'numbers', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE alerts (device STRING, v DOUBLE, ts STRING, pad STRING)
WITH ('connector' = 'mqtt', 'server' = '{server}', 'format' = 'json', 'topic' = 'alerts/{{device}}');
INSERT INTO alerts SELECT * FROM numbers;
"""


def message(number: int) -> bytes:
    """A reading of 150 bytes."""
    text = b'{"device":"d%03d","v":%d.5,"ts":"2026-01-01 00:00:00","pad":"%s"}'
    return text % (number % DEVICES, number % 100, b"x" * 80)


# ---- what runs in processes of its own -----------------------------------------------------------


def devices(server: str) -> float:
    """Publishes all messages; returns CPU seconds."""
    connection = Connection(Account(address_of(server), "devices", clean=True))
    most = min(1000, connection.in_flight)
    begin, sent, confirmed = time.process_time(), 0, 0
    while confirmed < COUNT:
        packets = []
        while sent < COUNT and sent - confirmed < most:
            number = connection.next_number()
            topic = b"plant/%d/temp" % (sent % DEVICES)
            packets.append(publish(5, topic, message(sent), qos=1, number=number))
            sent += 1
        connection.send(b"".join(packets))
        confirmed += len(connection.receive(10.0))
    took = time.process_time() - begin
    connection.close()
    return took


def own_client(server: str) -> float:
    """Takes all messages with our client, and acknowledges them; returns CPU seconds."""
    connection = Connection(Account(address_of(server), "bare", clean=True))
    number = connection.next_number()
    connection.send(subscribe(5, number, "plant/+/temp", 1, 1))
    connection.answer(Kind.SUBACK, number)
    print("ready", flush=True)
    count, begin = 0, 0.0
    while count < COUNT:
        found = [p for p in connection.receive(10.0) if isinstance(p, Publish)]
        begin = begin or time.process_time()
        count += len(found)
        connection.send(acknowledgements(Kind.PUBACK, [p.number for p in found]))
    return time.process_time() - begin


def paho(server: str) -> float:
    """Takes all messages with paho-mqtt, which acknowledges when it is told to; returns CPU
    seconds."""
    import paho.mqtt.client as mqtt  # type: ignore[import-not-found,import-untyped,unused-ignore]

    address, state = address_of(server), {"count": 0, "begin": 0.0}
    client = mqtt.Client(
        mqtt.CallbackAPIVersion.VERSION2, "bare", protocol=mqtt.MQTTv5, manual_ack=True
    )

    def taken(_: object, __: object, found: Any) -> None:
        state["begin"] = state["begin"] or time.process_time()
        state["count"] += 1
        client.ack(found.mid, found.qos)
        if state["count"] == COUNT:
            client.disconnect()

    client.on_message = taken
    client.on_subscribe = lambda *_: print("ready", flush=True)
    client.on_connect = lambda *_: client.subscribe("plant/+/temp", 1)
    client.connect(address.host, address.port)
    client.loop_forever()
    return time.process_time() - state["begin"]


def engine_in(server: str) -> float:
    """Runs a job that reads all messages; returns CPU seconds of all that the process does."""
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(Config(data=Path(folder)))
        engine.start()
        engine.submit("j", _IN.format(server=server))
        _until(lambda: any(view.asked for view in engine.receivers.views()))
        begin = time.process_time()
        print("ready", flush=True)
        _until(lambda: engine.rows_of("j") >= COUNT)
        took = time.process_time() - begin
        engine.close()
    return took


def engine_out(server: str) -> float:
    """Runs a job that publishes all messages of a topic; returns CPU seconds."""
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(Config(data=Path(folder)))
        engine.start()
        engine.broker.create_topic("numbers")
        for at in range(0, COUNT, 10_000):
            values = [message(n) for n in range(at, at + 10_000)]
            engine.broker.append("numbers", 0, values, timestamp_ms=0)
        begin = time.process_time()
        engine.submit("j", _OUT.format(server=server))
        _until(lambda: engine.rows_of("j") >= COUNT)
        took = time.process_time() - begin
        engine.close()
    return took


def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.02)


# ---- the section ---------------------------------------------------------------------------------


def _taking(who: str, server: str) -> float:
    """Runs one of the readers while devices publish; returns its CPU seconds."""
    command = [sys.executable, "-m", "benchmarks.connectors.mqtt", who, server]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        in_a_process("benchmarks.connectors.mqtt", "devices", server)
        return float(json.loads(reader.stdout.readline()))


def run() -> Section:
    """Measures both directions with QoS 1."""
    readers = ["engine_in", "own_client"]
    readers += ["paho"] if importlib.util.find_spec("paho") else []
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            with Mosquitto(Path(folder) / "mosquitto") as server:
                rows += [_row("in", _NAMES[who], _taking(who, server.address)) for who in readers]
                for who in ("engine_out", "devices"):
                    took = in_a_process("benchmarks.connectors.mqtt", who, server.address)
                    rows.append(_row("out", _NAMES[who], float(took)))
        except Missing as error:
            raise SystemExit(str(error)) from None
    about = (
        f"{COUNT:,} messages of 150 bytes to {DEVICES:,} topics, through mosquitto on the same machine."
        " In: JSON is decoded, one filter, the topic as a column, exactly once from the log on."
    )
    columns = ["direction", "by", "messages per CPU second"]
    load = f"Processes that were ready to run meanwhile: about {os.getloadavg()[0]:.0f}."
    return Section(NAME, "MQTT", about, [Table("MQTT, QoS 1", columns, rows)], [load])


_NAMES: Final = {
    "engine_in": "a job",
    "engine_out": "a job",
    "own_client": "the bare client",
    "devices": "the bare client",
    "paho": "paho-mqtt",
}


def _row(direction: str, who: str, took: float) -> list[str]:
    return [direction, who, f"{COUNT / took:,.0f}"]


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](sys.argv[2])))
