"""Rules change at random in mid-stream, with crashes in between: each alert is judged by the
version of its rule that was valid when its event was read, nothing is lost or doubled, and what a
rule knows of its alerts goes on where it counts them as before. Versions that run as shadows write
elsewhere, until they are promoted or withdrawn, by a command or by their canary."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
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
# By the head: the minutes of a period, the alerts in it, and whether words count
# apart.
CLOSED = "-- @rule\n-- suppress: 30m by word, then count into n\n"
LIMITS: dict[str, tuple[int, int, bool]] = {
    CLOSED: (30, 1, True),
    "-- @rule\n-- suppress: 30m by word into n\n": (30, 1, True),
    "-- @rule\n-- suppress: 20m into n\n": (20, 1, False),
    "-- @rule\n-- limit: 2/1h into n\n": (60, 2, False),
}
SHADOW = "-- @rule\n-- status: shadow\n"
CANARY = "-- @rule\n-- canary: 1h, max-rate 1/h\n"
MOST = 1  # rows of a canary
NAMES = st.sampled_from(["r1", "r2", "r3"])
ACTIONS = st.one_of(
    st.tuples(
        st.just("append"),
        st.lists(st.tuples(st.sampled_from(WORDS), st.integers(0, 10)), max_size=5),
    ),
    st.tuples(st.just("step"), st.none()),
    *(
        st.tuples(
            st.just("submit"), st.tuples(NAMES, st.sampled_from(sorted(CONDITIONS)), st.just(head))
        )
        for head in ("", *LIMITS, SHADOW, CANARY)
    ),
    st.tuples(st.just("promote"), NAMES),
    st.tuples(st.just("withdraw"), NAMES),
    st.tuples(st.just("look"), st.sampled_from([0.4, 0.7])),
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
    due: int = 0
    last: tuple[int, str, int] = (0, "", 0)

    def closed(self, minute: int) -> list[tuple[int, str, int, int | None]]:
        """The alert that ends the period, once it is over at that minute."""
        if not self.held or minute < self.due:
            return []
        told, self.held = self.held, 0
        return [(*self.last, told)]

    def hold(self, alert: tuple[int, str, int], period: int, watermark: int) -> None:
        """Takes an alert that is held back, of which a row at the end of the period will tell."""
        if self.held == 1:
            # The watermark is in ms, and the period over one before its last minute.
            end = self.began + period
            self.due = end if end > watermark else watermark + period
        self.last = alert

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
    """What should have happened: `ended` are the alerts that end periods, `known` by rule name the version, the condition and the head of
    the live text, and what it has `counted`, by word; `shadows` likewise, and `ran` how long each
    canary has run (h)."""

    events: list[tuple[str | None, int]] = field(default_factory=list)
    read: int = 0
    versions: dict[str, int] = field(default_factory=dict)
    known: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    counted: dict[str, dict[str | None, Counted]] = field(default_factory=dict)
    alerts: list[tuple[int, str, int, int | None]] = field(default_factory=list)
    shadows: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    shadow_alerts: list[tuple[int, str, int]] = field(default_factory=list)
    ran: dict[tuple[str, int], float] = field(default_factory=dict)
    ended: list[tuple[int, str, int, int | None]] = field(default_factory=list)
    watermark: int = -1_000

    def read_all(self) -> None:
        for number in range(self.read, len(self.events)):
            self._close()
            for name in sorted(self.running):
                version, condition, head = self.known[name]
                if CONDITIONS[condition](*self.events[number]):
                    self._fire(number, name, version, head)
            for name, (version, condition, _) in sorted(self.shadows.items()):
                if CONDITIONS[condition](*self.events[number]):
                    self.shadow_alerts.append((number, name, version))
            self.watermark = max(self.watermark, 10 * self.events[number][1])
        self._close()
        self.read = len(self.events)

    def _close(self) -> None:
        for name in self.running:
            if self.known[name][2] == CLOSED:
                for counted in self.counted[name].values():
                    self.ended += counted.closed(self.watermark)

    def _fire(self, number: int, name: str, version: int, head: str) -> None:
        if head not in LIMITS:
            self.alerts.append((number, name, version, None))
            return
        (word, amount), (period, most, by_word) = self.events[number], LIMITS[head]
        counted = self.counted[name].setdefault(word if by_word else "", Counted())
        if head == CLOSED and abs(10 * amount - counted.began) >= period:
            counted.due = self.watermark
            self.ended += counted.closed(self.watermark)
        told = counted.number(10 * amount, period, most)
        if told is None and head == CLOSED:
            counted.hold((number, name, version), period, self.watermark)
        if told is not None:
            self.alerts.append((number, name, version, told))

    def has(self, name: str, condition: str, head: str) -> tuple[int, str, str] | None:
        """The version that has this text already, live or as the shadow that it asks for."""
        held = [self.known.get(name), self.shadows.get(name) if head in (SHADOW, CANARY) else None]
        return next((v for v in held if v is not None and v[1:] == (condition, head)), None)

    def submit(self, name: str, condition: str, head: str) -> None:
        if self.has(name, condition, head):
            return
        anew = name not in self.running or self.known[name][2] != head
        if anew and head not in (SHADOW, CANARY):
            self.counted[name] = {}
        self.versions[name] = self.versions.get(name, 0) + 1
        version = self.versions[name], condition, head
        if head in (SHADOW, CANARY):
            self.shadows[name] = version
        else:
            self.known[name] = version
            self.running.add(name)
            self.shadows.pop(name, None)

    def may_promote(self, name: str) -> bool:
        return name in self.shadows and (name not in self.known or name in self.running)

    def promote(self, name: str) -> None:
        self.known[name] = self.shadows.pop(name)
        self.running.add(name)

    def look(self, hours: float) -> None:
        """Canaries look at their rows and at the clock, which has gone on."""
        for name, (version, _, head) in list(self.shadows.items()):
            if head != CANARY:
                continue
            runs = name not in self.known or name in self.running
            ran = self.ran.get((name, version), 0.0) + hours * runs
            self.ran[name, version] = ran
            found = [a for a in self.shadow_alerts if a[1:] == (name, version)]
            if len(found) > MOST:
                del self.shadows[name]
            elif ran >= 1 and self.may_promote(name):
                self.promote(name)


@dataclass
class Life:
    """An engine whose graph is stepped by hand."""

    folder: Path
    engine: Engine
    hours: float = 0.0

    def look(self, hours: float) -> None:
        """Canaries look before and after some hours."""
        self.engine.canaries._now = lambda: self.hours * 3600
        self.engine.canaries.check()
        self.hours += hours
        self.engine.canaries.check()

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

    def submit(self, model: Model, name: str, condition: str, head: str) -> None:
        held = model.has(name, condition, head)
        version = self.engine.log.next_version(name) if held is None else held[0]
        sql = (
            f"INSERT INTO alerts (rule, version, id, word, ts)"
            f" SELECT '{name}', {version}, id, word, ts FROM events WHERE {condition}"
        )
        model.submit(name, condition, head)
        self.engine.submit(name, head + sql)


# Chance rarely ends a period: here it outlasts a crash and a change of the rule.
ENDING: list[tuple[str, object]] = [
    ("submit", ("r1", "NOT (word IN ('', 'x_y'))", CLOSED)),
    ("append", [("curl", 1), ("curl", 2), ("curl", 3), ("bash -c", 3), ("bash -c", 2)]),
    ("step", None),
    ("crash", None),
    ("submit", ("r1", "LOWER(word) LIKE '%curl%'", CLOSED)),
    ("append", [("curl", 3)]),
    ("step", None),
    ("checkpoint", None),
    ("append", [("", 9), ("curl", 9)]),
    ("step", None),
]


@settings(max_examples=20, deadline=None)
@example(ENDING)
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
        came = read_alerts(life.engine)
        assert sorted(came, key=str) == sorted([*model.alerts, *model.ended], key=str)
        # Periods of several rules and words end at once, in no order.
        assert [alert for alert in came if alert not in model.ended] == model.alerts
        assert actions != ENDING or [alert[3] for alert in model.ended] == [3, 1]
        assert read_shadows(life.engine) == sorted(model.shadow_alerts)
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
        case "submit", (str() as name, str() as condition, str() as head):
            life.submit(model, name, condition, head)
        case "promote" | "withdraw" | "look", _:
            act_on_shadows(life, model, kind, value)
        case "remove", str() if value in model.known or value in model.shadows:
            engine.remove(value)
            model.known.pop(value, None)
            model.running.discard(value)
            model.shadows.pop(value, None)
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


def act_on_shadows(life: Life, model: Model, kind: str, value: object) -> None:
    match kind, value:
        case "promote", str() if model.may_promote(value):
            life.engine.promote(value)
            model.promote(value)
        case "withdraw", str() if value in model.shadows:
            life.engine.remove(f"{value}@shadow")
            model.shadows.pop(value)
        case "look", float():
            life.look(value)
            model.look(0)
            model.look(value)


def read_shadows(engine: Engine) -> list[tuple[int, str, int]]:
    """(event, rule, version): each shadow has a sink of its own, so they come in no order."""
    if "_shadow" not in engine.broker.topic_names():
        return []
    records = engine.broker.read("_shadow", 0, 0)
    rows = [] if records is None else map(json.loads, records.values.to_pylist())
    return sorted((r["row"]["id"], r["rule"], r["row"]["version"]) for r in rows)


def read_alerts(engine: Engine) -> list[tuple[int, str, int, int | None]]:
    """(event, rule, version, number) in the order of the topic."""
    found, offset = [], 0
    while (records := engine.broker.read("alerts", 0, offset)) is not None:
        for value in records.values.to_pylist():
            alert = json.loads(value)
            found.append((alert["id"], alert["rule"], alert["version"], alert["n"]))
        offset = records.next_offset
    return found
