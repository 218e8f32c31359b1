"""4,000 rules, a quarter of them with state, over one stream for ten minutes, and 1,000 changes of
them meanwhile: nothing dropped, memory flat, each alert of the version that was valid.

A row is a function of its number, so a model can say afterwards what each rule had to find."""

from __future__ import annotations

import json
import random
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, TypeAlias

from benchmarks.measure import own_mb, percentile
from benchmarks.paced import Feeder, Load, Pace, serving
from benchmarks.page import Section, Table
from sqlengine.engine import Engine

RULES, CHANGES = 4_000, 1_000
PACE: Final = Pace(5_000, 50, 600)
METRICS, DEVICES = 1_000, 50
# Event time: a row a millisecond, windows of ten seconds.
START: Final = 1_704_067_200_000
WINDOW_MS: Final = 10_000
TABLES: Final = """
CREATE TABLE metrics (id BIGINT, device STRING, metric STRING, v DOUBLE, ms BIGINT,
  ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'metrics', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE alerts (rule STRING, version INT, place BIGINT, device STRING, v DOUBLE)
WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json');
"""
_INSERT: Final = "INSERT INTO alerts SELECT '{name}', {version}, place, device, v FROM "
# One rule of eight has a window, one a frame of rows.
QUERIES: Final = {
    "window": _INSERT
    + """(SELECT MIN(id) AS place, device, MAX(v) AS v
      FROM TABLE(TUMBLE(TABLE metrics, DESCRIPTOR(ts), INTERVAL '10' SECOND))
      WHERE metric = 'm{metric}' GROUP BY device, window_start, window_end) WHERE v > {least}""",
    "over": _INSERT
    + """(SELECT id AS place, device, MAX(v) OVER (PARTITION BY device ORDER BY ts
      ROWS BETWEEN 4 PRECEDING AND CURRENT ROW) AS v
      FROM metrics WHERE metric = 'm{metric}') WHERE v > {least}""",
    "filter": _INSERT
    + "(SELECT id AS place, device, v FROM metrics WHERE metric = 'm{metric}') WHERE v > {least}",
}
KINDS: Final = ("window", "over", *["filter"] * 6)
# A value of a rule, with the number of the row that has its place, and the device.
Found: TypeAlias = tuple[int, str, float]


@dataclass
class Rule:
    """One rule; `version` counts its changes, each of which raises the limit."""

    number: int
    version: int = 0
    # By version.
    limits: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.limits.append(97.0 + self.number % 5 / 4)

    @property
    def kind(self) -> str:
        return KINDS[self.number % len(KINDS)]

    @property
    def metric(self) -> int:
        return self.number * 7 % METRICS

    @property
    def name(self) -> str:
        return f"r{self.number}"

    @property
    def sql(self) -> str:
        names = {"name": self.name, "version": self.version, "metric": self.metric}
        return QUERIES[self.kind].format(**names, least=self.limits[-1])

    def change(self) -> None:
        """Makes the next version."""
        self.version += 1
        self.limits.append(self.limits[-1] + 0.1)


def row(number: int) -> tuple[str, int, float]:
    """Returns device, metric and value of a row."""
    mixed = number * 0x9E3779B97F4A7C15 & (1 << 64) - 1
    mixed = (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
    return f"d{mixed % DEVICES}", (mixed >> 16) % METRICS, (mixed >> 32) % 100_000 / 1_000


def records(first: int, end: int) -> list[bytes]:
    """Returns rows of the topic."""
    return [
        json.dumps({"id": n, "device": d, "metric": f"m{m}", "v": v, "ms": START + n}).encode()
        for n, (d, m, v) in ((n, row(n)) for n in range(first, end))
    ]


def run(pace: Pace = PACE, changes: int = CHANGES) -> Section:
    rules, memory = [Rule(n) for n in range(RULES)], [own_mb()]
    jobs = {"tables": TABLES} | {rule.name: rule.sql for rule in rules}
    with serving(jobs, ("metrics", "alerts")) as engine:
        feeder = Feeder(engine, "metrics", records)
        feeder.load(Pace(pace.rate, pace.append, 20))  # warms up
        taken: list[float] = []
        load = feeder.load(
            pace, lambda: taken.extend(_change(engine, rules, changes, pace.seconds, memory))
        )
        _check(rules, list(_alerts(engine)), feeder.sent)
    return _section(load, taken, memory, pace)


def _change(
    engine: Engine, rules: Sequence[Rule], count: int, seconds: float, memory: list[float]
) -> Iterator[float]:
    """Replaces rules by their next versions, evenly; yields what each took (ms), and notes the
    memory 20 times."""
    chance, start = random.Random(1), time.perf_counter()
    for number in range(count):
        time.sleep(max(0.0, start + number * seconds / count - time.perf_counter()))
        rule = chance.choice(rules)
        rule.change()
        at = time.perf_counter()
        engine.submit(rule.name, rule.sql)
        yield (time.perf_counter() - at) * 1_000
        if number % max(1, count // 20) == 0:
            memory.append(own_mb())


def _alerts(engine: Engine) -> Iterator[tuple[str, int, Found]]:
    """Yields rule, version and what was found."""
    offset = 0
    while (read := engine.broker.read("alerts", 0, offset)) is not None:
        for value in read.values.to_pylist():
            alert = json.loads(value)
            yield alert["rule"], alert["version"], (alert["place"], alert["device"], alert["v"])
        offset = read.next_offset


def _check(rules: Sequence[Rule], alerts: Iterable[tuple[str, int, Found]], sent: int) -> None:
    """AssertionError unless each rule has found what its versions had to."""
    found: dict[str, list[tuple[int, Found]]] = {}
    for name, version, alert in alerts:
        found.setdefault(name, []).append((version, alert))
    by_metric: dict[int, list[Found]] = {}
    for number in range(sent):
        device, metric, v = row(number)
        by_metric.setdefault(metric, []).append((number, device, v))
    for rule in rules:
        due = list(_due(rule.kind, by_metric.get(rule.metric, []), sent))
        _judge(rule, due, found.get(rule.name, []))


def _due(kind: str, rows: Sequence[Found], sent: int) -> Iterator[Found]:
    """Yields the values that a rule compares with its limit, in the order of their places."""
    if kind == "filter":
        yield from rows
    elif kind == "over":
        frames: dict[str, deque[float]] = {}
        for number, device, v in rows:
            frame = frames.setdefault(device, deque(maxlen=5))
            frame.append(v)
            yield number, device, max(frame)
    else:
        closed = (START + sent - 1) // WINDOW_MS * WINDOW_MS - START  # the last has not fired
        windows: dict[tuple[int, str], Found] = {}
        for number, device, v in rows:
            at = (START + number) // WINDOW_MS, device
            first, _, most = windows.get(at, (number, device, v))
            windows[at] = first, device, max(most, v)
        yield from sorted(w for w in windows.values() if w[0] < closed)


def _judge(rule: Rule, due: Sequence[Found], found: Sequence[tuple[int, Found]]) -> None:
    """Each version has found a stretch of what was due, without a hole, and nothing twice; between
    two of them nothing was due for the one until the other began."""
    of_version = [sorted(f for v, f in found if v == n) for n in range(rule.version + 1)]
    places = {f[0]: i for i, f in enumerate(due)}
    begin = 0
    for version, alerts in enumerate(of_version):
        if not alerts:
            continue
        first, last = places[alerts[0][0]], places[alerts[-1][0]]
        wanted = [f for f in due[first : last + 1] if f[2] > rule.limits[version]]
        assert first >= begin, f"{rule.name}: version {version} began before the last had ended"
        assert alerts == wanted, f"{rule.name}: version {version} has not found what was due"
        begin = last + 1
    ends = [(v, places[a[0][0]], places[a[-1][0]]) for v, a in enumerate(of_version) if a]
    edges = [(0, -1, -1), *ends, (rule.version, len(due), len(due))]
    for (before, _, end), (after, start, _) in pairwise(edges):
        gap = [f[2] for f in due[end + 1 : start]]
        assert _split(gap, rule.limits[before : after + 1]), f"{rule.name}: alerts are missing"


def _split(gap: Sequence[float], limits: Sequence[float]) -> bool:
    """True if versions with these limits may have come one after the other in the gap, and found
    nothing in it."""
    # Limits rise: what a later version would find, an earlier one would, too.
    version = 0
    for v in gap:
        while version < len(limits) and v > limits[version]:
            version += 1
        if version == len(limits):
            return False
    return True


def _section(load: Load, taken: Sequence[float], memory: Sequence[float], pace: Pace) -> Section:
    shares = [f"{percentile(load.latencies, q):.1f}" for q in (0.5, 0.9, 0.99, 0.999, 1.0)]
    changes = [f"{percentile(taken, q):.1f}" for q in (0.5, 0.9, 0.99, 0.999, 1.0)]
    settled = memory[len(memory) // 4 :]
    return Section(
        "mixed",
        "4,000 rules, a quarter of them with state",
        f"{RULES:,} rules over one topic, of which {RULES // 4:,} have windows or frames, at"
        f" {pace.rate:,} rows a second, {pace.append} an append, for {pace.seconds / 60:.0f}"
        f" minutes; {len(taken):,} of the rules replaced meanwhile. Rows from the same process,"
        " alerts into a topic, exactly once.",
        [
            Table(
                "Milliseconds",
                ["", "p50", "p90", "p99", "p99.9", "longest"],
                [["from append to alert", *shares], ["a change", *changes]],
            ),
            Table(
                "The process",
                ["cores", "MB at the start", "MB after a quarter", "MB at the end", "rate kept"],
                [
                    [
                        f"{load.cores:.2f}",
                        f"{memory[0]:,.0f}",
                        f"{settled[0]:,.0f}",
                        f"{settled[-1]:,.0f}",
                        f"{load.kept:.0%}",
                    ]
                ],
            ),
        ],
        [
            (
                "Nothing lost or doubled: every rule found what a model finds, each alert with the"
                " version that was valid."
            ),
        ],
    )


if __name__ == "__main__":
    seconds, changes = sys.argv[1:]
    section = run(Pace(PACE.rate, PACE.append, float(seconds)), int(changes))
    for table in section.tables:
        print(table.rows)
