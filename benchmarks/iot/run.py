"""The plant runs while its servers are killed; then each alert is judged by the model."""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer

from benchmarks.iot.plant import _TOGETHER, Devices, Plant, connected, plant
from benchmarks.iot.rules import RATE, START, Rule, due
from benchmarks.measure import percentile
from benchmarks.page import Section, Table
from tests.servers.process import ServerProcess
from tests.support import eventually

# What is due so shortly before the last reading may not have come: the watermark is behind.
_EDGE_MS = 20_000
_PATIENCE_S = 300
Found = Counter[tuple[str, int]]


def run(minutes: float, cores: Sequence[int], kills: int, folder: Path | None = None) -> Section:
    with tempfile.TemporaryDirectory(prefix="plant-") as name:
        where = folder or Path(name)
        with plant(where, cores) as servers:
            with Devices(servers.mqtt) as devices:
                taken = _kill(servers, minutes * 60, kills)
            peak = servers.sql.peak_mb()
            judged = _judge(servers, devices)
            latencies = _latencies(servers, devices)
    return _section(minutes, cores, taken, devices.sent, peak, judged, latencies)


def _kill(servers: Plant, seconds: float, kills: int) -> Counter[str]:
    """Waits, and kills one server after the other meanwhile; returns how often which."""
    chance, start, taken = random.Random(1), time.monotonic(), Counter[str]()
    whom: list[ServerProcess] = [servers.sql] * 6
    whom += [servers.mqtt, servers.kafka, servers.postgresql, servers.web]
    for number in range(kills):
        at = start + (number + 0.5) * seconds / kills
        time.sleep(max(0.0, at - time.monotonic()))
        one = chance.choice(whom)
        # A server of MQTT that is killed loses what it has not written yet, whoever reads it.
        one.stop() if one is servers.mqtt else one.kill()
        time.sleep(chance.uniform(0, 5))
        one.start()
        taken[one.name] += 1
    time.sleep(max(0.0, start + seconds - time.monotonic()))
    return taken


def _judge(servers: Plant, devices: Devices) -> dict[str, int]:
    """Waits for what has to be there, and returns how many alerts each sink has. AssertionError
    where one is missing, there twice where it may not be, or never due."""
    last = START + devices.sent * 1000 // RATE
    wanted: dict[str, set[tuple[str, int]]] = {"web": set(), "told": set(), "stored": set()}
    allowed = {sink: set[tuple[str, int]]() for sink in wanted}
    for alert in due(devices.sent):
        sink = Rule(int(alert.rule[1:])).sink
        allowed[sink].add((alert.rule, alert.id))
        if alert.due < last - _EDGE_MS:
            wanted[sink].add((alert.rule, alert.id))
    reads = {"web": _web, "told": _told, "stored": _stored}
    for sink, read in reads.items():
        found = _await(partial(read, servers), wanted[sink], sink)
        twice = [a for a, n in found.items() if n > 1]
        assert not twice, f"{sink}: {len(twice)} alerts came twice, such as {twice[:3]}"
        wrong = found.keys() - allowed[sink]
        assert not wrong, f"{sink}: {len(wrong)} alerts were never due, such as {sorted(wrong)[:3]}"
    return {sink: len(read(servers)) for sink, read in reads.items()}


def _await(read: Callable[[], Found], wanted: set[tuple[str, int]], sink: str) -> Found:
    """Waits until a sink has the alerts that it has to have, and returns all of its."""
    eventually(
        lambda: wanted <= read().keys(),
        lambda: f"{len(wanted - read().keys())} alerts in {sink}",
        _PATIENCE_S,
    )
    return read()


def _web(servers: Plant) -> Found:
    """What the receiver took: a request with a key that it has seen is the same request again."""
    requests = {got.headers["idempotency-key"]: got.json for got in servers.web.got()}
    return Counter((a["rule"], a["id"]) for alerts in requests.values() for a in alerts)


def _stored(servers: Plant) -> Found:
    with connected(servers.postgresql) as connection:
        rows = connection.execute("SELECT rule, id FROM alerts").fetchall()
    return Counter((str(rule), int(str(number))) for rule, number in rows)


def _told(servers: Plant) -> Found:
    return Counter((rule, number) for rule, number, _ in _records(servers))


def _records(servers: Plant) -> list[tuple[str, int, int]]:
    """Rule, id and time (ms) of the alerts in Kafka that are committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers.kafka.address,
            "group.id": f"judge-{time.time_ns()}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe(["alerts"])
    found: list[tuple[str, int, int]] = []
    try:
        while True:
            for message in consumer.consume(10_000, 5.0):
                if message.error() is not None:
                    return found
                alert = json.loads(message.value() or b"")
                found.append((alert["rule"], alert["id"], message.timestamp()[1]))
    finally:
        consumer.close()


def _latencies(servers: Plant, devices: Devices) -> list[float]:
    """Milliseconds from the publishing of a reading to its alert in Kafka, of thresholds."""
    found = _records(servers)
    return [
        at - devices.times[number // _TOGETHER] * 1000
        for rule, number, at in found
        if Rule(int(rule[1:])).kind == "threshold"
    ]


def _section(
    minutes: float,
    cores: Sequence[int],
    taken: Counter[str],
    sent: int,
    peak: float,
    judged: dict[str, int],
    latencies: Sequence[float],
) -> Section:
    kills = ", ".join(f"{name} {n}" for name, n in sorted(taken.items())) or "none"
    row = [
        f"{minutes:g}", f"{len(cores)}", f"{sent:,}", kills, *(f"{judged[s]:,}" for s in judged),
        f"{percentile(latencies, 0.5):,.0f}", f"{percentile(latencies, 0.99):,.0f}", f"{peak:,.0f}",
    ]  # fmt: skip
    columns = [
        "minutes", "cores", "readings", "kills", "webhook", "Kafka", "PostgreSQL", "p50 ms", "p99 ms",
        "peak MB",
    ]  # fmt: skip
    return Section(
        "iot",
        "A plant: MQTT → 300 rules → webhook, Kafka, PostgreSQL",
        f"{RATE:,} readings a second of 200 devices; thresholds, windows, devices that are silent, and limits"
        " from a table of PostgreSQL. Servers are killed meanwhile. A model says which alerts are due: each is"
        " there, none twice (requests to the webhook by their idempotency keys), none besides. Latency: from the"
        " publishing of a reading to its alert in Kafka, over all kills.",
        [Table("The plant", columns, [row])],
    )
