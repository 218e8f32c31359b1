"""The plant runs while its servers are killed; then each alert is judged by the model."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.iot.plant import TOGETHER, Devices, Plant, connected, plant
from benchmarks.iot.rules import RATE, SINKS, START, Rule, due
from benchmarks.page import Section, Table
from benchmarks.scenarios import topics
from benchmarks.scenarios.kills import kill_in_turn
from benchmarks.scenarios.measured import Measured
from benchmarks.scenarios.sql_server import Share
from benchmarks.scenarios.usage import Usage

# What is due so shortly before the last reading may not have come: the watermark is behind.
_EDGE_MS = 20_000
_PATIENCE_S = 300
Found = Counter[tuple[str, int]]


@dataclass(frozen=True)
class Wanted:
    """What is run."""

    minutes: float = 30.0
    kills: int = 20
    share: Share = field(default_factory=Share)


@dataclass(frozen=True)
class Result:
    """What came of it. By sink: the alerts that it has, and how many are missing, there twice, or
    never were due; `readings`: those that the devices published."""

    wanted: Wanted
    readings: int
    found: dict[str, int]
    lost: dict[str, int]
    doubled: dict[str, int]
    wrong: dict[str, int]
    measured: Measured

    @property
    def per_second(self) -> float:
        return self.readings / self.wanted.minutes / 60

    @property
    def per_cpu_second(self) -> float:
        return self.readings / self.measured.cpu_s["sql"]

    @property
    def good(self) -> bool:
        faults = any(sum(c.values()) for c in (self.lost, self.doubled, self.wrong))
        return not faults and not self.wanted.share.exceeded(self.measured.peak_mb["sql"])


def run(wanted: Wanted, folder: Path | None = None) -> Result:
    with (
        tempfile.TemporaryDirectory(prefix="plant-") as name,
        plant(folder or Path(name), wanted.share) as servers,
    ):
        return _run(wanted, servers)


def _run(wanted: Wanted, servers: Plant) -> Result:
    usage = Usage(servers.all)
    # A server of MQTT that is killed loses what it has not written yet, whoever reads it.
    gently = {servers.mqtt}
    with Devices(servers.mqtt) as devices:
        outages = kill_in_turn(servers.turns, wanted.minutes * 60, wanted.kills, usage, gently)
    needed, allowed = _due(devices.sent)
    reads = {"web": _web, "told": _told, "stored": _stored}
    found = {sink: _await(reads[sink], servers, needed[sink]) for sink in SINKS}
    usage.end()
    return Result(
        wanted,
        devices.sent,
        {s: len(alerts) for s, alerts in found.items()},
        {s: len(needed[s] - alerts.keys()) for s, alerts in found.items()},
        {s: sum(n - 1 for n in alerts.values()) for s, alerts in found.items()},
        {s: len(alerts.keys() - allowed[s]) for s, alerts in found.items()},
        Measured.of(usage, _latencies(servers, devices), outages),
    )


def _due(sent: int) -> tuple[dict[str, set[tuple[str, int]]], dict[str, set[tuple[str, int]]]]:
    """Returns by sink which alerts have to be there, and which may be."""
    last = START + sent * 1000 // RATE
    needed = {sink: set[tuple[str, int]]() for sink in SINKS}
    allowed = {sink: set[tuple[str, int]]() for sink in SINKS}
    for alert in due(sent):
        sink = Rule(int(alert.rule[1:])).sink
        allowed[sink].add((alert.rule, alert.id))
        if alert.due < last - _EDGE_MS:
            needed[sink].add((alert.rule, alert.id))
    return needed, allowed


def _await(read: Callable[[Plant], Found], servers: Plant, needed: set[tuple[str, int]]) -> Found:
    """Waits until a sink has the alerts that it has to have, but not for ever, and returns all of
    its."""
    deadline = time.monotonic() + _PATIENCE_S
    while not needed <= (found := read(servers)).keys() and time.monotonic() < deadline:
        time.sleep(0.5)
    return found


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
    found = topics.committed(servers.kafka.address, "alerts")
    return [(alert["rule"], alert["id"], message.timestamp()[1]) for alert, message in found]


def _latencies(servers: Plant, devices: Devices) -> Sequence[float]:
    """Milliseconds from the publishing of a reading to its alert in Kafka, of thresholds."""
    return [
        at - devices.times[number // TOGETHER] * 1000
        for rule, number, at in _records(servers)
        if Rule(int(rule[1:])).kind == "threshold"
    ]


def section(result: Result) -> Section:
    """Returns the page's part of it, which is another one for each share of the machine."""
    share, wanted = result.wanted.share, result.wanted
    memory = "" if share.memory is None else f" --memory {share.memory}"
    return Section(
        f"iot_{share.cores}",
        f"A plant: MQTT → 300 rules → webhook, Kafka, PostgreSQL ({share})",
        f"{RATE:,} readings a second of 200 devices, as far as MQTT takes them; thresholds, windows, devices that are"
        " silent, and limits from a table of PostgreSQL. Servers are killed meanwhile; of MQTT it is stopped. A model"
        " says which alerts are due (webhook: requests by their idempotency keys). Latency: from the publishing of a"
        " reading to its alert in Kafka, over all kills. The engine alone has the share; all other servers have the"
        " whole machine.",
        [Table("The plant", ["", "found"], _rows(result))],
        command=f"python -m benchmarks.iot --minutes {wanted.minutes:g} --kills {wanted.kills}"
        f" --cores {share.cores}{memory}",
    )


def _rows(result: Result) -> list[list[str]]:
    wanted = result.wanted
    return [
        ["time; the engine's share", f"{wanted.minutes:g} min; {wanted.share}"],
        *result.measured.kills,
        ["readings", f"{result.readings:,}"],
        ["readings a second", f"{result.per_second:,.0f}"],
        ["readings a CPU second of the engine, with its starts", f"{result.per_cpu_second:,.0f}"],
        result.measured.latency,
        ["alerts: webhook / Kafka / PostgreSQL", _three(result.found)],
        ["lost", _three(result.lost)],
        ["twice", _three(result.doubled)],
        ["never due", _three(result.wrong)],
        *result.measured.usage,
    ]


def _three(counts: dict[str, int]) -> str:
    return " / ".join(f"{counts[sink]:,}" for sink in SINKS)
