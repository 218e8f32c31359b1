"""The life of a shadow and of canaries, ended at every write that it makes: whoever opens the folder
again and goes on has the same alerts, the same rows of shadows, and the same history."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest

from sqlengine.config import Config
from sqlengine.engine import Engine
from tests.engine.by_hand import EVENTS, step
from tests.recovery.crash_points import CrashAtWrite, Life, Outputs, check_every_death

WINDOW = """INSERT INTO outs SELECT 'w', COUNT(*) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND))
GROUP BY {by} window_start, window_end"""
SHADOW = "-- @rule\n-- status: shadow\n"
CANARY = "-- @rule\n-- canary: 1h, max-rate 2x\n"
Operation: TypeAlias = Callable[[Engine], object]


def feed(batch: int, engine: Engine) -> None:
    numbers = range(batch * 8, batch * 8 + 8)
    events = [json.dumps({"id": n, "ms": n * 100, "host": f"h{n % 3}"}).encode() for n in numbers]
    engine.broker.append("events", 0, events, timestamp_ms=0, writer="feeder", epoch=batch + 1)
    step(engine)


def submit(name: str, version: int, sql: str, engine: Engine) -> None:
    """Submits a text unless it has become this version, in a life before that died behind it."""
    if engine.log.next_version(name) <= version:
        engine.submit(name, sql)
    step(engine)


def promote(name: str, engine: Engine) -> None:
    engine.promote(name)
    step(engine)


def remove(name: str, engine: Engine) -> None:
    if name in engine.log.jobs:
        engine.remove(name)


def look(hours: float, engine: Engine) -> None:
    """A look at the canaries before and after a time."""
    clock = [0.0]
    engine.canaries._now = lambda: clock[0]
    engine.canaries.check()
    clock[0] += hours * 3600
    engine.canaries.check()
    step(engine)


def checkpoint(engine: Engine) -> None:
    for graph in engine.graphs.by_name.values():
        graph.runner.checkpoint(wait=True)


def rule(name: str, least: int) -> str:
    return f"INSERT INTO outs SELECT '{name}', id FROM events WHERE id > {least}"


OPERATIONS: tuple[Operation, ...] = (
    partial(submit, "tables", 1, EVENTS),
    partial(submit, "w", 1, WINDOW.format(by="")),
    partial(submit, "r", 1, rule("r", 3)),
    partial(feed, 0),
    partial(submit, "w", 2, SHADOW + WINDOW.format(by="")),  # equal to the live version
    partial(submit, "r", 2, SHADOW + rule("r", 5)),
    partial(feed, 1),
    checkpoint,
    partial(promote, "w"),
    partial(feed, 2),
    partial(remove, "r@shadow"),
    partial(submit, "w", 3, SHADOW + WINDOW.format(by="host,")),
    partial(submit, "r", 3, CANARY + rule("r", 20)),
    partial(feed, 3),
    partial(promote, "w"),
    partial(look, 2),  # promotes
    partial(submit, "r", 4, CANARY + rule("r", 0) + " OR id >= 0"),
    partial(submit, "n", 1, "-- @rule\n-- canary: 1h, max-rate 3/h\n" + rule("n", 0)),
    partial(feed, 4),
    partial(look, 0.4),  # rolls n back; twice that, where a life dies behind it, is no hour
    partial(feed, 5),
)


def live(folder: Path, chosen: CrashAtWrite) -> Outputs:
    return Life(lambda: open_engine(folder), OPERATIONS, outputs).live(chosen)


def open_engine(folder: Path) -> Engine:
    engine = Engine(Config(data=folder / "data", rows_per_read=3, checkpoint_ms=1 << 60))
    for topic in ("events", "out"):
        engine.broker.create_topic(topic, if_not_exists=True)
    return engine


def outputs(engine: Engine) -> Outputs:
    found = {topic: values(engine, topic) for topic in ("out", "_shadow", "_shadow_live")}
    for topic in ("_shadow", "_shadow_live"):  # their times and epochs are those of each life
        rows = (json.loads(v) for v in found[topic])
        found[topic] = [f"{r['rule']} {r['version']} {r['row']}" for r in rows]
    # An order among jobs is that of an epoch, and a life that dies may cut epochs otherwise.
    found = {topic: sorted(rows) for topic, rows in found.items()}
    return {**found, "history": [f for name in "nrw" for f in fates(engine, name)]}


def values(engine: Engine, topic: str) -> list[str]:
    records = engine.broker.read(topic, 0, 0)
    return [] if records is None else [v.decode() for v in records.values.to_pylist()]


def fates(engine: Engine, name: str) -> list[str]:
    return [f"{name} {v.version} {v.shadow} {v.beside} {v.fate}" for v in engine.history(name)]


def test_a_death_at_every_61st_write_changes_nothing(tmp_path: Path) -> None:
    expected = check_every_death(tmp_path, live, lambda writes: range(1, writes + 1, 61))
    told = "\n".join(expected["history"])
    assert "promoted by its canary: " in told
    assert "n 1 True 0 rolled back by its canary" in told


@pytest.mark.slow
@pytest.mark.parametrize("quarter", range(4))
def test_a_death_at_any_write_changes_nothing(tmp_path: Path, quarter: int) -> None:
    check_every_death(tmp_path, live, lambda writes: range(1 + quarter, writes + 1, 4))
