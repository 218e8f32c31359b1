"""The 300 rules of the plant, and a model of what each has to find: a reading is a function of its
number."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

DEVICES, METRICS = 200, 20
RULES: Final = 300
# Event time: so many readings a second, whatever the clock says when they come.
RATE: Final = 1_000
START: Final = 1_704_067_200_000
WINDOW_MS, GAP_MS = 10_000, 5_000
# A device says nothing for eight seconds, in turn with nineteen others.
_SILENT_MS, _TURNS = 8_000, 20
SINKS: Final = ("web", "told", "stored")

TABLES: Final = """
CREATE TABLE readings (id BIGINT, device INT, metric INT, v DOUBLE, ms BIGINT,
  ts AS TO_TIMESTAMP_LTZ(ms, 3), now AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'mqtt', 'server' = '{mqtt}', 'topic' = 'plant/+/readings', 'format' = 'json',
  'session-expiry' = '1 h', 'deduplicate.key' = 'field:id');
CREATE TABLE devices (device INT NOT NULL, most DOUBLE) WITH ('connector' = 'jdbc',
  'url' = '{postgresql}', 'table-name' = 'devices', 'username' = 'postgres', 'lookup.cache' = 'FULL');
CREATE TABLE web (rule STRING, id BIGINT, device INT, v DOUBLE)
WITH ('connector' = 'webhook', 'url' = '{web}/alerts', 'format' = 'json', 'sink.batch.max-rows' = '100');
CREATE TABLE told (rule STRING, id BIGINT, device INT, v DOUBLE)
WITH ('connector' = 'kafka', 'topic' = 'alerts', 'properties.bootstrap.servers' = '{kafka}',
  'format' = 'json', 'sink.delivery-guarantee' = 'exactly-once',
  'sink.transactional-id-prefix' = 'plant');
CREATE TABLE stored (rule STRING, id BIGINT, device INT, v DOUBLE)
WITH ('connector' = 'jdbc', 'url' = '{postgresql}', 'table-name' = 'alerts', 'username' = 'postgres');
"""
_INSERT: Final = "INSERT INTO {sink} SELECT '{name}', id, device, v FROM "
_WINDOW: Final = (
    _INSERT
    + """(SELECT MIN(id) AS id, device, MAX(v) AS v
      FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '10' SECOND))
      WHERE metric = {metric} GROUP BY device, window_start, window_end) WHERE v > {least}"""
)
_OFFLINE: Final = (
    _INSERT
    + """(SELECT MAX(id) AS id, device, 0E0 AS v
      FROM TABLE(SESSION(TABLE readings PARTITION BY device, DESCRIPTOR(ts), INTERVAL '5' SECOND))
      WHERE MOD(device, 30) = {part} GROUP BY device, window_start, window_end)"""
)
_LIMIT: Final = (
    _INSERT
    + """(SELECT r.id, r.device, r.v FROM readings AS r
      JOIN devices FOR SYSTEM_TIME AS OF r.now AS d ON r.device = d.device
      WHERE r.metric = {metric} AND r.v > d.most + {more})"""
)
_THRESHOLD: Final = (
    _INSERT + "(SELECT id, device, v FROM readings WHERE metric = {metric}) WHERE v > {least}"
)
_TEXTS: Final = {
    "threshold": _THRESHOLD,
    "window": _WINDOW,
    "offline": _OFFLINE,
    "limit": _LIMIT,
}
# Of ten rules six are thresholds, two windows.
KINDS: Final = (*["threshold"] * 6, *["window"] * 2, "offline", "limit")


class Reading(NamedTuple):
    """One reading; `ms` is its event time."""

    id: int
    device: int
    metric: int
    v: float
    ms: int


class Alert(NamedTuple):
    """What a rule finds. `due`: the event time (ms) at which it is known."""

    rule: str
    id: int
    due: int


@dataclass(frozen=True)
class Rule:
    """One of the rules, by its number."""

    number: int

    @property
    def name(self) -> str:
        return f"r{self.number}"

    @property
    def kind(self) -> str:
        return KINDS[self.number % len(KINDS)]

    @property
    def sink(self) -> str:
        return SINKS[self.number % len(SINKS)]

    @property
    def metric(self) -> int:
        return self.number * 7 % METRICS

    @property
    def part(self) -> int:
        return self.number // len(KINDS)

    @property
    def least(self) -> float:
        return 99.0 + self.number % 9 / 10

    @property
    def sql(self) -> str:
        names = {"sink": self.sink, "name": self.name, "metric": self.metric, "part": self.part}
        more = self.number % 5 / 10
        return _TEXTS[self.kind].format(**names, least=self.least, more=more)


def rules() -> list[Rule]:
    return [Rule(n) for n in range(RULES)]


def most(device: int) -> float:
    """Returns the limit of a device, in the table of devices."""
    return 99.0 + device % 7 / 10


def reading(number: int) -> Reading | None:
    """Returns the reading of a number; None where its device is silent then."""
    mixed = number * 0x9E3779B97F4A7C15 & (1 << 64) - 1
    mixed = (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
    device, ms = mixed % DEVICES, START + number * 1000 // RATE
    if ms // _SILENT_MS % _TURNS == device % _TURNS:
        return None
    return Reading(number, device, (mixed >> 16) % METRICS, (mixed >> 32) % 100_000 / 1_000, ms)


def payload(found: Reading) -> bytes:
    return json.dumps(found._asdict(), separators=(",", ":")).encode()


def due(sent: int) -> Iterator[Alert]:
    """Yields what all rules have to find in the readings with numbers below `sent`."""
    by_metric: dict[int, list[Reading]] = {}
    by_device: dict[int, list[Reading]] = {}
    for found in filter(None, map(reading, range(sent))):
        by_metric.setdefault(found.metric, []).append(found)
        by_device.setdefault(found.device, []).append(found)
    for rule in rules():
        yield from _due(rule, by_metric.get(rule.metric, []), by_device)


def _due(
    rule: Rule, readings: Sequence[Reading], by_device: Mapping[int, Sequence[Reading]]
) -> Iterator[Alert]:
    match rule.kind:
        case "threshold":
            yield from (Alert(rule.name, r.id, r.ms) for r in readings if r.v > rule.least)
        case "limit":
            more = rule.number % 5 / 10
            found = (r for r in readings if r.v > most(r.device) + more)
            yield from (Alert(rule.name, r.id, r.ms) for r in found)
        case "window":
            yield from _windows(rule, readings)
        case _:
            devices = [d for d in by_device if d % 30 == rule.part]
            for device in devices:
                yield from _sessions(rule.name, by_device[device])


def _windows(rule: Rule, readings: Sequence[Reading]) -> Iterator[Alert]:
    found: dict[tuple[int, int], tuple[int, float]] = {}
    for r in readings:
        first, v = found.get((r.ms // WINDOW_MS, r.device), (r.id, r.v))
        found[r.ms // WINDOW_MS, r.device] = first, max(v, r.v)
    for (window, _), (first, v) in found.items():
        if v > rule.least:
            yield Alert(rule.name, first, (window + 1) * WINDOW_MS)


def _sessions(name: str, readings: Sequence[Reading]) -> Iterator[Alert]:
    for this, after in zip(readings, [*readings[1:], None], strict=True):
        if after is None or after.ms - this.ms >= GAP_MS:
            yield Alert(name, this.id, this.ms + GAP_MS)
