"""What a rule knows of the alerts that it has given: over new versions, restarts and kills, and for
as long as it should."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.machine import Machine
from tests.engine.by_hand import die, rows, step

TABLES = """
CREATE TABLE events (id BIGINT, host STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
CREATE TABLE alerts (rule STRING, id BIGINT, host STRING, ts TIMESTAMP(3), n BIGINT)
WITH ('connector' = 'topic', 'topic' = 'out', 'format' = 'json');
CREATE TABLE clocked (rule STRING, id BIGINT, host STRING, n BIGINT)
WITH ('connector' = 'topic', 'topic' = 'out', 'format' = 'json');
"""
RULE = """-- @rule
-- {head}
INSERT INTO alerts (rule, id, host, ts) SELECT RULE_NAME(), id, host, ts FROM events WHERE {where}"""
HOUR = "suppress: 1h by host into n"
COUNTED = "suppress: 1h by host, then count into n"


class World:
    """An engine that is stepped by hand, with a clock of its own (s)."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now, self.events = folder, 0, 0
        self.open()
        self.engine.submit("tables", TABLES)

    def open(self) -> None:
        config = Config(data=self.folder, checkpoint_ms=1 << 60, isolation=False)
        self.engine = Engine(config, Machine(clock=lambda: 1000 * self.now))
        for topic in ("events", "out"):
            self.engine.broker.create_topic(topic, if_not_exists=True)

    def rule(self, name: str, where: str = "id >= 0", head: str = HOUR) -> None:
        self.engine.submit(name, RULE.format(head=head, where=where))

    def send(self, *times: str, host: str = "a") -> None:
        """Reads an event for each time of the day, whose number is its id."""
        for time in times:
            event = {"id": self.events, "host": host, "ts": f"2026-01-01 {time}:00"}
            self.engine.broker.append("events", 0, [json.dumps(event).encode()], timestamp_ms=0)
            self.events += 1
        step(self.engine)

    def came(self, rule: str) -> list[tuple[int, int]]:
        """The ids of a rule's alerts, each with its number."""
        return [(int(str(r[1])), int(str(r[-1]))) for r in rows(self.engine) if r[0] == rule]

    def held(self, rule: str) -> int:
        return self.engine.counts()[rule].held_back


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "data")
    yield world
    world.engine.close()


def test_a_changed_rule_stays_silent_as_long_as_before(world: World) -> None:
    world.rule("r", "host = 'a'")
    world.send("12:00", "12:10")
    world.rule("r", "host = 'a' AND id < 100")
    world.send("12:20")
    world.rule("r", "host IN ('a', 'b')")
    world.send("12:30", host="b")
    world.send("12:59", "13:00")
    assert world.came("r") == [(0, 0), (3, 0), (5, 3)]
    assert world.held("r") == 3


@pytest.mark.parametrize("head", ["suppress: 50m by host into n", "suppress: 1h into n"])
def test_another_time_or_key_begins_anew(world: World, head: str) -> None:
    world.rule("r")
    world.send("12:00", "12:10")
    world.rule("r", head=head)
    world.send("12:20")
    assert world.came("r") == [(0, 0), (2, 0)]


def test_a_rule_may_forget_its_alerts(world: World) -> None:
    world.rule("r")
    world.send("12:00", "12:10")
    text = RULE.format(head=HOUR, where="id >= 1")
    world.engine.submit("r", text.replace("INSERT", "SET 'job.state' = 'reset';\nINSERT"))
    world.send("12:20")
    assert world.came("r") == [(0, 0), (2, 0)]


def test_rules_of_one_kind_count_for_themselves(world: World) -> None:
    for number in range(4):
        world.rule(f"r{number}", f"id >= {number}")
    world.send("12:00", "12:10", "12:20", "12:30", "12:40")
    assert len(world.engine.graph.executor.run.families) == 1
    assert {f"r{n}": world.held(f"r{n}") for n in range(4)} == {"r0": 4, "r1": 3, "r2": 2, "r3": 1}
    world.engine.remove("r0")
    world.rule("r4", "id > 5")
    world.send("13:05", "13:10", "13:20")
    assert world.came("r0") == [(0, 0)]
    assert world.came("r1") == [(1, 0), (6, 4)]
    assert world.came("r4") == [(6, 0)]
    assert {f"r{n}": world.held(f"r{n}") for n in (1, 2, 4)} == {"r1": 5, "r2": 4, "r4": 1}


def test_alerts_of_a_maintenance_are_counted_by_rule(world: World) -> None:
    for number in range(3):
        world.rule(f"r{number}", f"id >= {number}", head="maintenance: 12:00-13:00")
    world.send("12:00", "12:10", "13:00")
    assert [world.held(f"r{n}") for n in range(3)] == [2, 1, 0]
    assert [len(rows(world.engine)), world.engine.counts()["r0"].rows] == [3, 1]


def killed(world: World) -> None:
    die(world.engine)
    world.open()


def closed(world: World) -> None:
    world.engine.close()
    world.open()


def kept_and_killed(world: World) -> None:
    world.engine.graph.runner.checkpoint(wait=True)
    killed(world)


@pytest.mark.parametrize("restart", [killed, closed, kept_and_killed])
def test_a_restart_changes_nothing(world: World, restart: Callable[[World], None]) -> None:
    head = "threshold: 2 in 10m by host\n-- suppress: 1h by host into n\n-- limit: 1/2h"
    world.rule("r", head=HOUR)
    world.rule("all", head=head)
    world.send("12:00", "12:05", "12:10")
    restart(world)
    world.send("12:15", "12:59", "13:00", "13:06", "13:09")
    restart(world)
    world.send("14:10", "14:11")
    assert world.came("r") == [(0, 0), (5, 4), (8, 2)]
    assert world.came("all") == [(1, 0), (9, 3)]
    assert (world.held("r"), world.held("all")) == (7, 3)


@pytest.mark.parametrize("restart", [killed, closed, kept_and_killed])
def test_a_row_ends_each_period_whatever_happens(
    world: World, restart: Callable[[World], None]
) -> None:
    world.rule("r", head=COUNTED)
    world.send("12:00", "12:05", "12:10")
    restart(world)
    world.rule("r", "id <> 4", head=COUNTED)
    world.send("12:15", "12:50", "12:59")
    restart(world)
    world.send("14:10", host="b")
    restart(world)
    assert world.came("r") == [(0, 0), (6, 0), (5, 4)]
    world.send("14:11", "14:12")
    world.send("14:15", host="b")
    world.send("16:00", host="c")
    assert world.came("r")[3:] == [(7, 0), (10, 0), (9, 1), (8, 1)]
    assert world.held("r") == 6


def test_rules_of_one_kind_end_their_own_periods(world: World) -> None:
    for number in range(4):
        world.rule(f"r{number}", f"id >= {number}", head=COUNTED)
    world.send("12:00", "12:10", "12:20", "12:30", "12:40")
    assert len(world.engine.graph.executor.run.families) == 1
    assert {f"r{n}": world.held(f"r{n}") for n in range(4)} == {"r0": 4, "r1": 3, "r2": 2, "r3": 1}
    world.send("14:00", host="b")
    assert [world.came(f"r{n}") for n in (0, 3)] == [
        [(0, 0), (5, 0), (4, 4)],
        [(3, 0), (5, 0), (4, 1)],
    ]


def test_the_clock_ends_periods_without_a_row(world: World) -> None:
    text = "INSERT INTO clocked SELECT RULE_NAME(), id, host, 0 FROM events"
    world.engine.submit("r", f"-- @rule\n-- {COUNTED}\n{text}")
    for now in (0, 1000, 3599):
        world.now = now
        world.send("12:00")
    assert world.came("r") == [(0, 0)]
    world.now = 3600
    step(world.engine)
    assert world.came("r") == [(0, 0), (2, 2)]
    executor = world.engine.graph.executor
    (node,) = [n for n, o in executor.running.items() if "Periods" in type(o.node.plan).__name__]
    world.now = 3 * 3600
    world.send("12:00", host="b")
    assert len(executor.tables_of(node)["keys"]) == 1


def test_a_number_is_told_before_it_is_forgotten(world: World) -> None:
    world.rule("r", head=COUNTED)
    world.send("12:00", "12:05")
    world.now = 26 * 3600
    world.send("12:10", host="b")
    assert world.came("r") == [(0, 0), (1, 1), (2, 0)]


def test_state_is_forgotten_a_day_after_its_time(world: World) -> None:
    text = "INSERT INTO clocked SELECT RULE_NAME(), id, host, 0 FROM events"
    world.engine.submit("r", f"-- @rule\n-- {HOUR}\n{text}")
    for now in (0, 3599, 3600, 4000, 4000 + 24 * 3600, 4001 + 50 * 3600):
        world.now = now
        world.send("12:00")
    assert world.came("r") == [(0, 0), (2, 1), (4, 1), (5, 0)]
    world.now += 25 * 3600
    world.send("12:00", host="b")
    executor = world.engine.graph.executor
    (over,) = [n for n, node in executor.running.items() if "Over" in type(node.node.plan).__name__]
    assert len(executor.tables_of(over)["keys"]) == 1
