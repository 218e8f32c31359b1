"""Rules change at random in mid-stream, with crashes in between: each alert is judged by the
version of its rule that was valid when its event was read, nothing is lost or doubled, and what a
rule knows of its alerts goes on where it counts them as before."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sqlengine.config import Config
from sqlengine.engine import Engine

TABLES = """
CREATE TABLE events (id BIGINT, word STRING, amount INT, ts AS TO_TIMESTAMP_LTZ(amount * 600000, 3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
CREATE TABLE alerts (rule STRING, version INT, id BIGINT, word STRING, ts TIMESTAMP_LTZ(3), n BIGINT)
WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json');
"""
WORDS = ("curl", "Curl", "bash -c", "", "x_y", None)
CONDITIONS: dict[str, Callable[[Any, Any], bool]] = {
    "LOWER(word) LIKE '%curl%'": lambda w, a: w is not None and "curl" in w.lower(),
    "word = 'curl' OR amount > 7": lambda w, a: w == "curl" or a > 7,
    "word IS NULL AND amount < 5": lambda w, a: w is None and a < 5,
    "REGEXP(word, '^b.*c$')": lambda w, a: w == "bash -c",
    "NOT (word IN ('', 'x_y'))": lambda w, a: w is not None and w not in ("", "x_y"),
    "(word LIKE 'x%') IS NOT TRUE AND amount BETWEEN 3 AND 6": lambda w, a: (
        not (w or "").startswith("x") and 3 <= a <= 6
    ),
    "amount + 1 > 9": lambda w, a: a + 1 > 9,
}
# By what stands in the head: the minutes of a period, the alerts in it, and whether words count
# apart.
LIMITS: dict[str, tuple[int, int, bool]] = {
    "": (0, 0, False),
    "suppress: 30m by word into n": (30, 1, True),
    "suppress: 20m into n": (20, 1, False),
    "limit: 2/1h into n": (60, 2, False),
}
NAMES = st.sampled_from(["r1", "r2", "r3"])
ACTIONS = st.one_of(
    st.tuples(
        st.just("append"),
        st.lists(st.tuples(st.sampled_from(WORDS), st.integers(0, 10)), max_size=5),
    ),
    st.tuples(st.just("step"), st.none()),
    st.tuples(
        st.just("submit"),
        st.tuples(NAMES, st.sampled_from(sorted(CONDITIONS)), st.sampled_from(sorted(LIMITS))),
    ),
    st.tuples(st.just("remove"), NAMES),
    st.tuples(st.just("stop"), NAMES),
    st.tuples(st.just("start"), NAMES),
    st.tuples(st.just("checkpoint"), st.none()),
    st.tuples(st.just("crash"), st.none()),
)


@dataclass
class Counted:
    """The alerts of a rule in the present period: the minute in which it began, how many have
    passed, and how many have been held back since."""

    began: int = -1_000
    passed: int = 0
    held: int = 0

    def number(self, minute: int, period: int, most: int) -> int | None:
        """The number of an alert; None where it is held back."""
        if abs(minute - self.began) >= period:
            self.began, self.passed = minute, 0
        if self.passed >= most:
            self.held += 1
            return None
        told, self.held = self.held, 0
        self.passed += 1
        return told


@dataclass
class Model:
    """What should have happened: by rule name its version, condition and limit, and what it has
    `counted`, by word."""

    events: list[tuple[str | None, int]] = field(default_factory=list)
    read: int = 0
    versions: dict[str, int] = field(default_factory=dict)
    known: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    counted: dict[str, dict[str | None, Counted]] = field(default_factory=dict)
    alerts: list[tuple[int, str, int, int | None]] = field(default_factory=list)

    def read_all(self) -> None:
        for number in range(self.read, len(self.events)):
            for name in sorted(self.running):
                version, condition, limit = self.known[name]
                if CONDITIONS[condition](*self.events[number]):
                    self._fire(number, name, version, limit)
        self.read = len(self.events)

    def _fire(self, number: int, name: str, version: int, limit: str) -> None:
        if not limit:
            self.alerts.append((number, name, version, None))
            return
        (word, amount), (period, most, by_word) = self.events[number], LIMITS[limit]
        counted = self.counted[name].setdefault(word if by_word else "", Counted())
        told = counted.number(10 * amount, period, most)
        if told is not None:
            self.alerts.append((number, name, version, told))

    def submit(self, name: str, condition: str, limit: str) -> None:
        if name in self.known and self.known[name][1:] == (condition, limit):
            return
        if name not in self.running or self.known[name][2] != limit:
            self.counted[name] = {}
        self.versions[name] = self.versions.get(name, 0) + 1
        self.known[name] = (self.versions[name], condition, limit)
        self.running.add(name)


@dataclass
class Life:
    """An engine whose graph is stepped by hand."""

    folder: Path
    engine: Engine

    def crash(self) -> None:
        """As if the process had died: no last epoch, no checkpoint."""
        self.engine.graph.store.close()
        self.engine.broker.close()
        self.engine = Engine(Config(data=self.folder))

    def append(self, model: Model, rows: list[tuple[str | None, int]]) -> None:
        lines = []
        for word, amount in rows:
            lines.append(
                json.dumps({"id": len(model.events), "word": word, "amount": amount}).encode()
            )
            model.events.append((word, amount))
        if lines:
            self.engine.broker.append("events", 0, lines, timestamp_ms=0)

    def submit(self, model: Model, name: str, condition: str, limit: str) -> None:
        version = self.engine.log.next_version(name)
        held = self.engine.log.jobs.get(name)
        if held is not None and (condition, limit) == model.known.get(name, (0, "", ""))[1:]:
            version = held.version
        head = f"-- @rule\n-- {limit}\n" if limit else ""
        sql = (
            f"{head}INSERT INTO alerts (rule, version, id, word, ts)"
            f" SELECT '{name}', {version}, id, word, ts FROM events WHERE {condition}"
        )
        model.submit(name, condition, limit)
        self.engine.submit(name, sql)


@settings(max_examples=20, deadline=None)
@given(st.lists(ACTIONS, max_size=30))
def test_each_alert_is_judged_by_the_version_valid_for_its_event(
    actions: list[tuple[str, object]],
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "data"
        life, model = Life(folder, Engine(Config(data=folder))), Model()
        for topic in ("events", "alerts"):
            life.engine.broker.create_topic(topic)
        life.engine.submit("tables", TABLES)
        life.engine.submit(
            "sentinel",
            "INSERT INTO alerts (rule, version, id) SELECT 'none', 0, id FROM events WHERE amount < 0",
        )
        for kind, value in actions:
            act(life, model, kind, value)
        act(life, model, "step", None)
        assert read_alerts(life.engine) == model.alerts
        life.engine.close()


def act(life: Life, model: Model, kind: str, value: object) -> None:
    engine = life.engine
    match kind, value:
        case "append", list():
            life.append(model, value)
        case "step", _:
            while engine.graph.runner.step():
                pass
            model.read_all()
        case "submit", (str() as name, str() as condition, str() as limit):
            life.submit(model, name, condition, limit)
        case "remove", str() if value in model.known:
            engine.remove(value)
            model.known.pop(value)
            model.running.discard(value)
        case "stop", str() if value in model.known:
            engine.stop_job(value)
            model.running.discard(value)
        case "start", str() if value in model.known:
            engine.start_job(value)
            if value not in model.running:
                model.counted[value] = {}
            model.running.add(value)
        case "checkpoint", _:
            engine.graph.runner.checkpoint(wait=True)
        case "crash", _:
            life.crash()


def read_alerts(engine: Engine) -> list[tuple[int, str, int, int | None]]:
    """(event, rule, version, number) in the order of the topic."""
    found, offset = [], 0
    while (records := engine.broker.read("alerts", 0, offset)) is not None:
        for value in records.values.to_pylist():
            alert = json.loads(value)
            found.append((alert["id"], alert["rule"], alert["version"], alert["n"]))
        offset = records.next_offset
    return found
