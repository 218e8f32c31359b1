"""Rows that come one after the other share epochs, a backlog is read at once, and changes do not wait
for either."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlengine.config import Config
from sqlengine.engine import Engine
from tests.conformance.sigma import drain
from tests.engine.by_hand import EVENTS, rows

COPY = "INSERT INTO outs SELECT 'copy', id FROM events"
# Longer than anything that a test does meanwhile.
LONG_S = 1.0


@contextmanager
def running(folder: Path, **options: float) -> Iterator[Engine]:
    engine = Engine(Config(data=folder, rows_per_read=10, **options))  # type: ignore[arg-type]
    try:
        for topic in ("events", "out"):
            engine.broker.create_topic(topic)
        engine.submit("copy", f"{EVENTS}{COPY}")
        engine.start()
        yield engine
    finally:
        engine.close()


def append(engine: Engine, first: int, end: int) -> None:
    lines = [json.dumps({"id": n, "ms": n}).encode() for n in range(first, end)]
    engine.broker.append("events", 0, lines, timestamp_ms=0)


def epochs_of(engine: Engine, appends: int) -> int:
    """The epochs of as many appends of one row, the first of which has been read."""
    append(engine, 0, 1)
    drain(engine)
    before = engine.graph.runner.epoch
    for n in range(1, appends):
        append(engine, n, n + 1)
        time.sleep(0.01)
    drain(engine)
    assert rows(engine) == [["copy", n] for n in range(appends)]
    return engine.graph.runner.epoch - before


def test_few_rows_share_an_epoch(tmp_path: Path) -> None:
    with running(tmp_path, latency_target_s=LONG_S) as engine:
        assert epochs_of(engine, 20) <= 5


def test_without_a_target_no_row_waits(tmp_path: Path) -> None:
    with running(tmp_path, latency_target_s=0.0) as engine:
        append(engine, 0, 1)
        drain(engine)
        began = time.monotonic()
        append(engine, 1, 2)
        drain(engine)
        assert time.monotonic() - began < LONG_S


def test_a_backlog_and_changes_do_not_wait(tmp_path: Path) -> None:
    with running(tmp_path, latency_target_s=30.0) as engine:
        began = time.monotonic()
        append(engine, 0, 95)
        drain(engine)  # ten epochs
        engine.submit("more", f"{COPY} WHERE id < 0")
        assert time.monotonic() - began < 25
        assert engine.graph.runner.epoch >= 10
        assert rows(engine) == [["copy", n] for n in range(95)]
