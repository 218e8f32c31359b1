"""Rules changed one at a time among 1,414 while events come in at half the measured capacity.

A latency is that of an event: from its append to the end of the epoch that took it in, when its alerts are in their
topic. A change is measured from the request to its answer: planned, compiled, switched to, and written down."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks import sigma
from benchmarks.copies import STRIDE
from benchmarks.measure import cpu_of, percentile
from benchmarks.page import Section, Table
from sqlengine.engine import Engine
from tests.conformance.sigma import Rule, drain, read_alerts

CHANGES = 200
EVERY_S = 0.05
QUIET = 20
COPIES = 24
# Events of one append.
BATCH = 50
KINDS = ("add", "replace", "remove")


@dataclass
class Watch:
    """When how much was appended, and when how much was done."""

    appended: list[tuple[float, int]] = field(default_factory=list)
    done: list[tuple[float, int]] = field(default_factory=list)

    def latencies_ms(self) -> list[float]:
        """Of each append, the time until the epoch that took in its last event had ended."""
        found, i = [], 0
        for at, end in self.appended:
            while i < len(self.done) and self.done[i][1] < end:
                i += 1
            if i < len(self.done):
                found.append((self.done[i][0] - at) * 1000)
        return found


@dataclass(frozen=True)
class Round:
    """What one run saw. `changes`: (kind, milliseconds)."""

    latencies: Sequence[float]
    changes: Sequence[tuple[str, float]]
    events: int
    cpu_s: float
    wall_s: float


def run() -> Section:
    lines = [sigma.lines(n) for n in range(COPIES)]
    with sigma.engine() as engine:
        watch = _watch(engine)
        capacity = _capacity(engine, lines[:2])
        number, cpu = cpu_of(lambda: len(_change(engine, QUIET, 0.0)) + _withdraw(engine))
        quiet_ms = cpu / number * 1000
        calm = _round(engine, watch, lines[2 : COPIES // 3], capacity / 2, 0)
        busy = _round(engine, watch, lines[COPIES // 3 :], capacity / 2, CHANGES)
        alerts = Counter((rule, int(event)) for rule, event in read_alerts(engine))
        _check(alerts)
    rows = [_line("all", [ms for _, ms in busy.changes])]
    rows += [_line(kind, [ms for k, ms in busy.changes if k == kind]) for kind in KINDS]
    columns = ["", "number", "p50 ms", "p99 ms", "longest ms"]
    others = [_line("without changes", calm.latencies), _line(f"with {CHANGES} changes", busy.latencies)]
    pace = f"{busy.events / busy.wall_s:,.0f} events a second (measured capacity {capacity:,.0f})"
    ratio = percentile(busy.latencies, 0.99) / percentile(calm.latencies, 0.99)
    notes = [
        f"{busy.events:,} events at {pace}, {CHANGES / busy.wall_s:.1f} changes a second; {busy.cpu_s:.1f} CPU seconds.",
        "Nothing lost or doubled: unchanged rules raised exactly their alerts, a changed one all between its first and last.",
        f"With no events to disturb it a change costs {quiet_ms:.0f} ms of CPU.",
        f"p99 of the events with changes: {ratio:.1f}× that without.",
    ]
    return Section(
        "changes",
        "Rules changed while events come in",
        f"{CHANGES} changes, one each {EVERY_S * 1000:.0f} ms, of {len(sigma.all_rules()):,} rules: a rule added, one "
        "replaced by another condition, one removed, in turn. Events come at half the capacity measured just before, "
        f"{BATCH} an append.",
        [Table("From request to answer of a change", columns, rows), Table("Latency of events", columns, others)],
        notes,
    )


def _line(name: str, values: Sequence[float]) -> list[str]:
    shown = (f"{percentile(values, 0.5):.1f}", f"{percentile(values, 0.99):.1f}", f"{max(values, default=0):.1f}")
    return [name, f"{len(values):,}", *shown]


def _watch(engine: Engine) -> Watch:
    """Notes after each epoch how far the source is."""
    watch, runner = Watch(), engine.graph.runner
    step = runner.step

    def watched() -> bool:
        busy = step()
        if busy:
            for source in runner.sources.values():
                watch.done.append((time.perf_counter(), source.positions.get("0", 0)))
        return busy

    runner.step = watched  # type: ignore[method-assign]
    return watch


def _capacity(engine: Engine, copies: Sequence[list[bytes]]) -> float:
    """Events a second of wall time when there are always more; the first copy warms up."""
    for lines in copies:
        engine.graph.loop.call(lambda: engine.broker.append(sigma.TABLE, 0, lines, timestamp_ms=0))  # noqa: B023
        start = time.perf_counter()
        drain(engine)
        seconds = time.perf_counter() - start
    return len(copies[-1]) / seconds


def _round(engine: Engine, watch: Watch, copies: Sequence[list[bytes]], rate: float, changes: int) -> Round:
    events = [e for lines in copies for e in lines]
    watch.appended, watch.done = [], []
    feeder = threading.Thread(target=_feed, args=(engine, watch, events, rate))
    made: list[tuple[str, float]] = []

    def work() -> None:
        feeder.start()
        made.extend(_change(engine, changes, EVERY_S))
        feeder.join()
        drain(engine)

    start = time.perf_counter()
    _, cpu = cpu_of(work)
    return Round(watch.latencies_ms(), made, len(events), cpu, time.perf_counter() - start)


def _feed(engine: Engine, watch: Watch, events: Sequence[bytes], rate: float) -> None:
    start = time.perf_counter()
    for i in range(0, len(events), BATCH):
        wait = start + i / rate - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        part = list(events[i : i + BATCH])
        at = time.perf_counter()
        done = engine.broker.append(sigma.TABLE, 0, part, timestamp_ms=engine.now_ms())
        watch.appended.append((at, done.next_offset))


def _added(number: int) -> Rule:
    """A rule that is not there yet: a known one with one predicate more, which is always true."""
    known = sigma.all_rules()[number * 7 % len(sigma.all_rules())]
    where = f"({known.where}) AND `_id` > {-1 - number}"
    return Rule(f"new.{number}", f"new-{number}", known.level, where, known.table)


def _withdraw(engine: Engine) -> int:
    """Removes all added rules, one at a time; gives their number."""
    added = [job.name for job in engine.jobs() if job.name.startswith("new.")]
    for name in added:
        engine.remove(name)
    return len(added)


def _change(engine: Engine, count: int, every_s: float) -> list[tuple[str, float]]:
    """Adds a rule, gives one that was added another condition, removes one: always the same number, more or less."""
    chance = random.Random(1)
    live: list[int] = []
    made = []
    start = time.perf_counter()
    for number in range(count):
        time.sleep(max(0.0, start + number * every_s - time.perf_counter()))
        kind = KINDS[number % 3] if len(live) > 3 else "add"
        at = time.perf_counter()
        if kind == "add":
            engine.submit(f"new.{number}", _added(number).sql)
            live.append(number)
        else:
            old = live.pop(chance.randrange(len(live)))
            if kind == "replace":
                engine.submit(f"new.{old}", _added(number).sql)
            else:
                engine.remove(f"new.{old}")
        made.append((kind, (time.perf_counter() - at) * 1000))
    return made


def _check(alerts: Counter[tuple[str, int]]) -> None:
    """Exactly the expected alerts of unchanged rules; of the others a stretch without holes, nothing twice."""
    steady = Counter({key: n for key, n in alerts.items() if not key[0].startswith("new-")})
    if steady != sigma.expected_of(list(range(COPIES))):
        raise AssertionError("the alerts of unchanged rules are not the expected ones")
    place = {json.loads(line)[_ID]: i for i, line in enumerate(sigma.log())}
    orders: dict[str, list[int]] = {}
    for (rule, event), times in alerts.items():
        if rule.startswith("new-"):
            copy, first = divmod(event, STRIDE)
            orders.setdefault(rule, []).extend([copy * len(place) + place[first]] * times)
    for rule, found in orders.items():
        of_pass = sorted(place[e] for r, e in sigma.expected() if r == sigma.all_rules()[_known(rule)].id)
        every = [n * len(place) + p for n in range(COPIES) for p in of_pass]
        begin = every.index(min(found))
        if sorted(found) != every[begin : begin + len(found)]:
            raise AssertionError(f"the alerts of '{rule}' have a hole or come twice")


_ID = "_id"


def _known(rule: str) -> int:
    return int(rule.removeprefix("new-")) * 7 % len(sigma.all_rules())
