"""Rules that are added, replaced and removed one after the other on a running pipeline on Spark, while
rows arrive: how long each takes until its first row, and that nothing is lost or doubled."""

from __future__ import annotations

import json
import random
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from benchmarks.measure import percentile
from benchmarks.page import Section, Table
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.executors.spark.executor import SparkExecutor

CHANGES: Final = 200
RULES: Final = 100  # that stay
RATE: Final = 2_000  # events a second
SHARDS: Final = 2
# Events of one append, and the seconds that a rule may take until its first row.
_BATCH: Final = 100
_PATIENCE_S: Final = 120.0
Kind: TypeAlias = Literal["add", "replace", "remove"]
KINDS: Final[tuple[Kind, ...]] = ("add", "replace", "remove")

TABLES: Final = """
CREATE TABLE events (id BIGINT, k BIGINT) WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json',
  'scan.startup.mode' = 'latest-offset');
CREATE TABLE alerts (rule STRING, id BIGINT) WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json');
CREATE TABLE totals (k BIGINT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'totals', 'format' = 'json', 'upsert' = 'true', 'topic.auto-create' = 'true');
"""
TOTALS: Final = "INSERT INTO totals SELECT k, COUNT(*) FROM events GROUP BY k"
# A rule that finds some events, and one that finds every tenth event of each shard.
_STRIDE: Final = 20  # between two events of a shard that a rule finds
STAYS: Final = (
    "INSERT INTO alerts SELECT 'stays-{0}', id FROM events WHERE k = {0} AND MOD(id, 1000) < 100"
)
CHANGES_TO: Final = (
    "INSERT INTO alerts SELECT '{0}', id FROM events WHERE MOD(id, 20) IN (6, 7) -- {0}"
)


@dataclass
class Alerts:
    """The alerts as a reader of the topic sees them: the ids of each rule, and when its first one
    was there (monotonic s)."""

    ids: dict[str, list[int]] = field(default_factory=dict)
    first: dict[str, float] = field(default_factory=dict)
    offset: int = 0

    def read(self, engine: Engine) -> bool:
        """Reads what is new; False if there is nothing."""
        records = engine.broker.read("alerts", 0, self.offset)
        if records is None:
            return False
        now = time.monotonic()
        for row in map(json.loads, records.values.to_pylist()):
            self.ids.setdefault(row["rule"], []).append(row["id"])
            self.first.setdefault(row["rule"], now)
        self.offset = records.next_offset
        return True


@dataclass
class Feed:
    """Events at an even rate; `sent`: their number."""

    engine: Engine
    sent: int = 0
    _enough: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self, alerts: Alerts) -> Iterator[None]:
        """Sends events, and reads alerts, in threads of their own while the body runs."""
        threads = [
            threading.Thread(target=self._send),
            threading.Thread(target=self._read, args=(alerts,)),
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._enough.set()
            for thread in threads:
                thread.join()

    def _send(self) -> None:
        began = time.monotonic()
        while not self._enough.is_set():
            self._enough.wait(max(began + self.sent / RATE - time.monotonic(), 0.0))
            ids = range(self.sent, self.sent + _BATCH)
            lines = [b'{"id": %d, "k": %d}' % (i, i % RULES) for i in ids]
            for shard in range(SHARDS):
                part = lines[shard::SHARDS]
                self.engine.broker.append("events", shard, part, timestamp_ms=self.engine.now_ms())
            self.sent += _BATCH

    def _read(self, alerts: Alerts) -> None:
        while not self._enough.is_set():
            if not alerts.read(self.engine):
                self._enough.wait(0.005)


@dataclass(frozen=True)
class Change:
    """A change that was made: it took `call_s` until its answer, and `effect_s` until the first row
    of the new rule was in the topic; those that remove a rule have none."""

    kind: Kind
    rule: str
    replaces: str | None
    call_s: float
    effect_s: float | None


def run() -> Section:
    with (
        tempfile.TemporaryDirectory(prefix="sqlengine-bench-") as name,
        _engine(Path(name)) as engine,
    ):
        alerts, feed = Alerts(), Feed(engine)
        with feed.running(alerts):
            _await(lambda: any(rule.startswith("stays") for rule in alerts.first))
            made = _change(engine, alerts)
        _await(lambda: _read_to_the_end(engine))
        while alerts.read(engine):
            pass
        check(alerts.ids, made, feed.sent, _totals(engine))
        executor = engine.graphs.of("totals").executor
        assert isinstance(executor, SparkExecutor)
        epochs = executor.progress.epochs, executor.progress.seconds
    return _section(made, feed.sent, *epochs)


@contextmanager
def _engine(folder: Path) -> Iterator[Engine]:
    engine = Engine(Config(data=folder, target="spark"))
    try:
        for topic, shards in (("events", SHARDS), ("alerts", 1)):
            engine.broker.create_topic(topic, shards)
        engine.start()
        engine.submit("tables", TABLES)
        engine.submit("totals", TOTALS)
        engine.submit("stay", "\n;".join(STAYS.format(n) for n in range(RULES)))
        yield engine
    finally:
        engine.close()


def _change(engine: Engine, alerts: Alerts) -> list[Change]:
    """Makes all changes one after the other: adds a rule, gives it another text, removes one."""
    chance, live = random.Random(1), list[tuple[str, str]]()  # jobs with their rules
    made: list[Change] = []
    for number in range(CHANGES):
        kind, rule = KINDS[number % 3] if len(live) > 3 else "add", f"rule-{number}"
        job, replaces = f"job{number}", None
        if kind != "add":
            job, replaces = live.pop(chance.randrange(len(live)))
        began = time.monotonic()
        if kind == "remove":
            engine.remove(job)
        else:
            engine.submit(job, CHANGES_TO.format(rule))
            live.append((job, rule))
        call_s, effect_s = time.monotonic() - began, None
        if kind != "remove":
            _await(lambda: rule in alerts.first)  # noqa: B023  called at once
            effect_s = alerts.first[rule] - began
        made.append(Change(kind, rule, replaces, call_s, effect_s))
    return made


def _await(done: object) -> None:
    assert callable(done)
    end = time.monotonic() + _PATIENCE_S
    while not done():
        if time.monotonic() > end:
            raise AssertionError(f"nothing came in {_PATIENCE_S:.0f} s")
        time.sleep(0.005)


def _read_to_the_end(engine: Engine) -> bool:
    graph = engine.graphs.of("totals")
    ends = {str(shard): engine.broker.end_offset("events", shard) for shard in range(SHARDS)}
    sources = graph.runner.inputs.running.values()
    return all(dict(s.positions) == ends for s in sources) and graph.runner.guard.view() is None


def _totals(engine: Engine) -> dict[int, int]:
    rows = map(json.loads, engine.broker.read_latest("totals").values())
    return {row["k"]: row["n"] for row in rows}


def check(
    ids: Mapping[str, list[int]], made: list[Change], sent: int, totals: Mapping[int, int]
) -> None:
    """Compares alerts and totals with what was sent. Rules that stay find exactly their events;
    those that change find a stretch of each shard without holes, and a text that replaces another
    goes on where that has ended. Nothing comes twice."""
    if totals != {k: len(range(k, sent, RULES)) for k in range(RULES)}:
        raise AssertionError("the totals are not those of what was sent")
    for rule, found in ids.items():
        if len(set(found)) != len(found):
            raise AssertionError(f"an alert of {rule} came twice")
    for k in range(RULES):
        due = [i for i in range(k, sent, RULES) if i % 1000 < 100]
        if sorted(ids.get(f"stays-{k}", [])) != due:
            raise AssertionError(f"the alerts of rule {k}, which stays, are not the expected ones")
    follows = {c.replaces: c.rule for c in made if c.kind == "replace" and c.replaces}
    for change in (c for c in made if c.kind == "add"):
        line, found = change.rule, list(ids[change.rule])
        while line in follows:
            line = follows[line]
            found += ids[line]
        for shard in range(SHARDS):
            mine = sorted(i for i in found if i % SHARDS == shard)
            if mine and mine != list(range(mine[0], mine[-1] + 1, _STRIDE)):
                raise AssertionError(f"the alerts of {change.rule} have a hole, or came twice")


def _section(made: list[Change], sent: int, epochs: int, seconds: float) -> Section:
    rows = [
        [
            kind,
            f"{len(mine)}",
            *_shown([c.call_s for c in mine]),
            *_shown([c.effect_s for c in mine if c.effect_s is not None]),
        ]
        for kind in KINDS
        if (mine := [c for c in made if c.kind == kind])
    ]
    columns = ["", "number", "answer, s (p50)", "p99", "first row, s (p50)", "p99"]
    notes = [
        f"An epoch took {seconds / epochs:.2f} s in Spark, on average of the last {epochs:,}.",
        (
            "Nothing lost or doubled: totals by key are those of what was sent, rules that stay found exactly their events, and"
            " one that changes every event between its first and its last of each shard, also where one text took over from another."
        ),
    ]
    return Section(
        "spark_changes",
        "Rules changed on Spark",
        f"{CHANGES} changes, one after the other, of a server whose jobs run on Spark: {RULES} rules and a count by key that stay, and a"
        f" rule that is added, given another text, or removed. Meanwhile {RATE:,} events a second came, {sent:,} in all. From the"
        " request until its answer, and until the first row of the new rule is in the topic of alerts.",
        [Table("From the request", columns, rows)],
        notes,
    )


def _shown(values: list[float]) -> list[str]:
    if not values:
        return ["-", "-"]
    return [f"{percentile(values, 0.5):.2f}", f"{percentile(values, 0.99):.2f}"]
