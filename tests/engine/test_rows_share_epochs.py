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
READ = 10
SHORT_S = 1.0
# Longer than a test may take: what waits for its end fails.
ENDLESS_S = 10_000.0


@contextmanager
def running(folder: Path, latency_target_s: float) -> Iterator[Engine]:
    engine = Engine(Config(data=folder, rows_per_read=READ, latency_target_s=latency_target_s))
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


def test_few_rows_share_an_epoch(tmp_path: Path) -> None:
    with running(tmp_path, SHORT_S) as engine:
        append(engine, 0, 1)
        drain(engine)
        before, began = engine.graph.runner.epoch, time.monotonic()
        for n in range(1, 40):
            append(engine, n, n + 1)
            time.sleep(0.01)
        drain(engine)
        took = time.monotonic() - began
        # An epoch of as many rows as are read at once goes on at once.
        assert engine.graph.runner.epoch - before <= 2 + 39 / READ + took / SHORT_S
        assert rows(engine) == [["copy", n] for n in range(40)]


def test_a_backlog_and_changes_do_not_wait(tmp_path: Path) -> None:
    with running(tmp_path, ENDLESS_S) as engine:
        append(engine, 0, 95)
        drain(engine)
        engine.submit("more", f"{COPY} WHERE id < 0")
        assert engine.graph.runner.epoch >= 10
        assert rows(engine) == [["copy", n] for n in range(95)]


def test_without_a_target_no_row_waits(tmp_path: Path) -> None:
    with running(tmp_path, 0.0) as engine:
        for n in range(3):
            append(engine, n, n + 1)
            drain(engine)
        assert rows(engine) == [["copy", n] for n in range(3)]
