"""Rules changed one at a time among 1,414 while events come in at half the measured capacity.

A latency is that of an event: from its append to the end of the epoch that took it in, when its
alerts are in their topic. A change is measured from the request to its answer: planned, compiled,
switched to, and written down."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks import sigma
from benchmarks.copies import ID, STRIDE, to_lines
from benchmarks.measure import cpu_of, percentile
from benchmarks.page import Section, Table
from sqlengine.engine import Engine
from tests.conformance.sigma import Rule, drain, read_alerts

CHANGES = 200
EVERY_S = 0.25
# Changes to learn what one costs by itself, and seconds of events without changes.
QUIET, CALM_S = 20, 5.0
# So many copies hold more values than the caches: when they come again (with new ids) they are new
# to them.
COPIES = 12
# Events of one append.
BATCH = 50
KINDS = ("add", "replace", "remove")
_ID = f'"{ID}": '.encode()


class Stream:
    """Copies of the log one after the other, without end; `sent` events were taken."""

    def __init__(self) -> None:
        self.sent = 0
        self._copies = [
            [self._parts(line) for line in to_lines(sigma.copy(n))] for n in range(COPIES)
        ]

    def _parts(self, line: bytes) -> tuple[bytes, int, bytes]:
        """What is before the id, the id, and what is behind it."""
        before, name, rest = line.partition(_ID)
        digits = rest[: len(rest) - len(rest.lstrip(b"0123456789"))]
        return before + name, int(digits), rest[len(digits) :]

    def take(self, count: int) -> list[bytes]:
        """The next records."""
        taken = []
        for i in range(self.sent, self.sent + count):
            copy, place = divmod(i, len(self._copies[0]))
            before, number, behind = self._copies[copy % COPIES][place]
            taken.append(b"%s%d%s" % (before, number + (copy - copy % COPIES) * STRIDE, behind))
        self.sent += count
        return taken


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

    @property
    def rate(self) -> float:
        return self.events / self.wall_s


def run() -> Section:
    stream = Stream()
    with sigma.engine() as engine:
        watch = watch_of(engine)
        capacity = _capacity(engine, stream)
        number, cpu = cpu_of(lambda: len(_change(engine, QUIET, 0.0)) + _withdraw(engine))
        calm = _round(engine, watch, stream, capacity / 2, 0)
        busy = _round(engine, watch, stream, capacity / 2, CHANGES)
        _check(Counter((rule, int(event)) for rule, event in read_alerts(engine)), stream.sent)
    rows = [_line("all", [ms for _, ms in busy.changes])]
    rows += [_line(kind, [ms for k, ms in busy.changes if k == kind]) for kind in KINDS]
    columns = ["", "number", "p50 ms", "p99 ms", "longest ms"]
    others = [
        _line("without changes", calm.latencies),
        _line(f"with {CHANGES} changes", busy.latencies),
    ]
    ratio = percentile(busy.latencies, 0.99) / percentile(calm.latencies, 0.99)
    notes = [
        (
            f"{busy.events:,} events, {busy.rate:,.0f} a second; the capacity measured before was"
            f" {capacity:,.0f}."
        ),
        (
            f"Cores busy: {busy.cpu_s / busy.wall_s:.2f}; without changes"
            f" {calm.cpu_s / calm.wall_s:.2f}."
        ),
        (
            "Nothing lost or doubled: unchanged rules raised exactly their alerts, a changed one"
            " all between its first and last."
        ),
        f"With no events to disturb it a change costs {cpu / number * 1000:.0f} ms of CPU.",
        f"p99 of the events with changes: {ratio:.1f}× that without.",
    ]
    return Section(
        "changes",
        "Rules changed while events come in",
        f"{CHANGES} changes, one each {EVERY_S * 1000:.0f} ms or when the last is done, of"
        f" {len(sigma.all_rules()):,} rules: a rule added, one replaced by another condition, one"
        f" removed, in turn. Events come at half the capacity measured just before, {BATCH} an"
        " append, from the same process.",
        [
            Table("From request to answer of a change", columns, rows),
            Table("Latency of events", columns, others),
        ],
        notes,
    )


def _line(name: str, values: Sequence[float]) -> list[str]:
    shown = (
        f"{percentile(values, 0.5):.1f}",
        f"{percentile(values, 0.99):.1f}",
        f"{max(values, default=0):.1f}",
    )
    return [name, f"{len(values):,}", *shown]


def watch_of(engine: Engine) -> Watch:
    """Notes after each epoch how far the source is."""
    watch, runner = Watch(), engine.graph.runner
    step = runner.step

    def watched() -> bool:
        busy = step()
        if busy:
            for source in runner.inputs.running.values():
                watch.done.append((time.perf_counter(), source.positions.get("0", 0)))
        return busy

    runner.step = watched  # type: ignore[method-assign]
    return watch


def _capacity(engine: Engine, stream: Stream) -> float:
    """Events a second of wall time when there are always more; the first copy warms up."""
    for copies in (1, 5):
        lines = stream.take(copies * len(sigma.log()))

        def append() -> float:
            engine.broker.append(sigma.TABLE, 0, lines, timestamp_ms=0)  # noqa: B023  called at once
            return time.perf_counter()

        start = engine.graph.loop.call(append)
        drain(engine)
    return len(lines) / (time.perf_counter() - start)


def _round(engine: Engine, watch: Watch, stream: Stream, rate: float, changes: int) -> Round:
    """Events until all changes are made, or for a while."""
    watch.appended, watch.done = [], []
    enough = threading.Event()
    feeder = threading.Thread(target=_feed, args=(engine, watch, stream, rate, enough))
    made: list[tuple[str, float]] = []
    first = stream.sent

    def work() -> None:
        feeder.start()
        made.extend(_change(engine, changes, EVERY_S))
        enough.wait(0 if changes else CALM_S)
        enough.set()
        feeder.join()
        drain(engine)

    start = time.perf_counter()
    _, cpu = cpu_of(work)
    return Round(watch.latencies_ms(), made, stream.sent - first, cpu, time.perf_counter() - start)


def _feed(
    engine: Engine, watch: Watch, stream: Stream, rate: float, enough: threading.Event
) -> None:
    start, first = time.perf_counter(), stream.sent
    while not enough.is_set():
        wait = start + (stream.sent - first) / rate - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        part = stream.take(BATCH)
        at = time.perf_counter()
        done = engine.broker.append(sigma.TABLE, 0, part, timestamp_ms=engine.now_ms())
        watch.appended.append((at, done.next_offset))


def _known(number: int) -> Rule:
    return sigma.all_rules()[number * 7 % len(sigma.all_rules())]


def _added(number: int) -> Rule:
    """A rule that is not there yet: a known one with one predicate more, which is always true."""
    known = _known(number)
    where = f"({known.where}) AND `{ID}` > {-1 - number}"
    return Rule(f"new.{number}", f"new-{number}", known.level, where, known.table)


def _withdraw(engine: Engine) -> int:
    """Removes all added rules, one at a time; gives their number."""
    added = [job.name for job in engine.jobs() if job.name.startswith("new.")]
    for name in added:
        engine.remove(name)
    return len(added)


def _change(engine: Engine, count: int, every_s: float) -> list[tuple[str, float]]:
    """Adds a rule, gives one that was added another condition, removes one; what kind and how long
    each took."""
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


def _check(alerts: Counter[tuple[str, int]], sent: int) -> None:
    """Exactly the expected alerts of unchanged rules; of the others a stretch without holes,
    nothing twice."""
    if any(times > 1 for times in alerts.values()):
        raise AssertionError("an alert came twice")
    raised: dict[str, set[int]] = {}
    for rule_id, event in alerts:
        raised.setdefault(rule_id, set()).add(event)
    due = _due(sent)
    for rule in sigma.all_rules():
        if raised.get(rule.id, set()) != set(due.get(rule.id, ())):
            raise AssertionError(f"the alerts of '{rule.id}' are not the expected ones")
    for rule_id in [r for r in raised if r.startswith("new-")]:
        every = due[_known(int(rule_id.removeprefix("new-"))).id]
        places = [i for i, event in enumerate(every) if event in raised[rule_id]]
        if len(places) != len(raised[rule_id]) or places[-1] - places[0] + 1 != len(places):
            raise AssertionError(f"the alerts of '{rule_id}' have a hole")


def _due(sent: int) -> dict[str, list[int]]:
    """The events, in order, that each rule must find among the first `sent`."""
    place = {event[ID]: i for i, event in enumerate(sigma.copy(0))}
    found: dict[str, list[tuple[int, int]]] = {}
    for rule, event in sigma.expected():
        for copy in range(sent // len(place) + 1):
            at = copy * len(place) + place[event]
            if at < sent:
                found.setdefault(rule, []).append((at, event + copy * STRIDE))
    return {rule: [event for _, event in sorted(events)] for rule, events in found.items()}
