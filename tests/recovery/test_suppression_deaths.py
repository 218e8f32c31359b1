"""The life of rules that hold alerts back, ended at every write that it makes: whoever opens the
folder again and goes on has the same alerts with the same numbers, over new versions and
shadows."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from sqlengine.config import Config
from sqlengine.engine import Engine
from tests.engine.by_hand import step
from tests.life.test_suppression_lives import COUNTED, HOUR, RULE, TABLES
from tests.recovery.crash_points import CrashAtWrite, Life, Outputs, check_every_death
from tests.recovery.test_shadow_deaths import (
    Operation,
    checkpoint,
    promote,
    remove,
    submit,
    values,
)

STORM = "threshold: 2 in 10m\n-- limit: 2/20m by host into n"

SHORT = COUNTED.replace("1h", "15m")


def feed(batch: int, engine: Engine) -> None:
    """Eight events, two minutes apart."""
    at = [(n, 2 * n) for n in range(batch * 8, batch * 8 + 8)]
    events = [
        {"id": n, "host": f"h{n % 3}", "ts": f"2026-01-01 {m // 60:02}:{m % 60:02}:00"}
        for n, m in at
    ]
    lines = [json.dumps(e).encode() for e in events]
    engine.broker.append("events", 0, lines, timestamp_ms=0, writer="feeder", epoch=batch + 1)
    step(engine)


def rule(head: str, where: str) -> str:
    return RULE.format(head=head, where=where)


OPERATIONS: tuple[Operation, ...] = (
    partial(submit, "tables", 1, TABLES),
    partial(submit, "r", 1, rule(HOUR, "id >= 0")),
    partial(submit, "s", 1, rule(STORM, "id > 3")),
    partial(submit, "c", 1, rule(SHORT, "id >= 0")),
    partial(feed, 0),
    partial(submit, "r", 2, rule(HOUR, "id >= 1")),  # goes on as silent as before
    partial(feed, 1),
    partial(submit, "c", 2, rule(SHORT, "id <> 9")),  # what it held back is told once
    checkpoint,
    partial(submit, "s", 2, rule(f"status: shadow\n-- {STORM}", "id > 4")),
    partial(feed, 2),
    partial(promote, "s"),
    partial(feed, 3),
    partial(submit, "r", 3, rule("suppress: 30m by host into n", "id >= 1")),  # begins anew
    partial(feed, 4),
    partial(remove, "s"),
    partial(feed, 5),
)


def open_engine(folder: Path) -> Engine:
    engine = Engine(Config(data=folder / "data", rows_per_read=3, checkpoint_ms=1 << 60))
    for topic in ("events", "out"):
        engine.broker.create_topic(topic, if_not_exists=True)
    return engine


def outputs(engine: Engine) -> Outputs:
    # An order among jobs is that of an epoch, and a life that dies may cut epochs otherwise.
    return {"out": sorted(values(engine, "out"))}


def live(folder: Path, chosen: CrashAtWrite) -> Outputs:
    return Life(lambda: open_engine(folder), OPERATIONS, outputs).live(chosen)


def test_a_death_at_every_47th_write_changes_nothing(tmp_path: Path) -> None:
    expected = check_every_death(tmp_path, live, lambda writes: range(1, writes + 1, 47))
    numbers = [json.loads(row)["n"] for row in expected["out"]]
    assert sum(numbers) > 10, "alerts are held back"


@pytest.mark.slow
@pytest.mark.parametrize("half", range(2))
def test_a_death_at_any_write_changes_nothing(tmp_path: Path, half: int) -> None:
    check_every_death(tmp_path, live, lambda writes: range(1 + half, writes + 1, 2))
