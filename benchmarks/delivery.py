"""What delivery exactly once costs beside at least once: CPU per row when there is always more to
read and where each row comes alone, and the time from append to output at 10,000 rows a second, in
each fsync mode.

A latency is that of an append: until the end of the epoch that took in its last row, when what that
gives is in its topic."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final, get_args

from benchmarks.measure import cpu_of, percentile
from benchmarks.page import Section, Table
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.system.durability import Delivery, Fsync

TABLES: Final = """
CREATE TABLE events (id BIGINT, ts TIMESTAMP(3), k STRING, v INT, note STRING, WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE answers (id BIGINT, ts TIMESTAMP(3), k STRING, v INT, note STRING, WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND)
WITH ('connector' = 'topic', 'topic' = 'answers', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE found (id BIGINT, k STRING, v BIGINT) WITH ('connector' = 'topic', 'topic' = 'found', 'format' = 'json');
"""
JOBS: Final = {
    "filter": "INSERT INTO found SELECT id, k, v FROM events WHERE v < 30",
    "window": (
        "INSERT INTO found SELECT MAX(id), k, SUM(v) FROM TABLE(TUMBLE(TABLE events,"
        " DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY k, window_start, window_end"
    ),
    "join": (
        "INSERT INTO found SELECT e.id, e.k, a.v FROM events e JOIN answers a ON e.id = a.id "
        "AND a.ts BETWEEN e.ts AND e.ts + INTERVAL '1' SECOND WHERE e.v < 30"
    ),
}
INPUTS: Final = {"filter": ("events",), "window": ("events",), "join": ("events", "answers")}
MODES: Final[Sequence[Fsync]] = get_args(Fsync)
DELIVERIES: Final[Sequence[Delivery]] = ("at-least-once", "exactly-once")
ROUNDS = 2
# Rows to warm up with, to measure capacity with, that come alone, and those of the stream; a
# topic's share of each.
WARM, MANY, ALONE = 20_000, 200_000, 600
RATE, EVERY_S, SECONDS = 10_000, 0.01, 2.5
KEYS = 1_000


@dataclass
class Figures:
    """Of all rounds of one job in one mode."""

    cpu_s: float = 0.0
    rows: int = 0
    alone_s: float = 0.0
    alone: int = 0
    busy_s: float = 0.0
    wall_s: float = 0.0
    epochs: int = 0
    latencies_ms: list[float] = field(default_factory=list)

    @property
    def row_us(self) -> float:
        return self.cpu_s / self.rows * 1e6

    @property
    def alone_us(self) -> float:
        return self.alone_s / self.alone * 1e6

    @property
    def cores(self) -> float:
        return self.busy_s / self.wall_s


def run() -> Section:
    found = {(j, m, d): Figures() for j in JOBS for m in MODES for d in DELIVERIES}
    for _ in range(ROUNDS):
        for (job, mode, delivery), figures in found.items():
            _measure(job, mode, delivery, figures)
    rows = [
        _row(job, mode, *(found[job, mode, d] for d in DELIVERIES))
        for job in JOBS
        for mode in MODES
    ]
    columns = (
        *(
            "job, fsync",
            "CPU µs a row",
            "with epochs",
            "ratio",
            "cores at 10,000/s",
            "with epochs",
            "ratio",
        ),
        *("p50 ms", "with epochs", "p99 ms", "with epochs", "epochs/s"),
    )
    return Section(
        "delivery",
        "Exactly once beside at least once",
        f"A filter, a window of a second over {KEYS:,} keys and a join of two topics by key and"
        " time, from JSON into a topic; delivery at least once first, exactly once (`with epochs`)"
        f" behind it, {ROUNDS} runs of each in turn. CPU a row: {MANY:,} rows that are there"
        f" already, 4,096 a read. Then {RATE:,} rows a second from a thread of the same process,"
        f" {round(RATE * EVERY_S)} an append: the time from the call of an append to the end of the"
        " epoch that took its rows in, when what they give is in its topic.",
        [
            Table("What the record of each epoch costs", columns, rows),
            Table(
                "Rows that come one by one, each an epoch (fsync = none)",
                ("job", "CPU µs a row", "with epochs", "ratio"),
                [_alone_row(job, *(found[job, "none", d] for d in DELIVERIES)) for job in JOBS],
            ),
        ],
        [
            (
                "At least once: no record of epochs, no epoch in the output; the position is kept"
                " with checkpoints alone."
            ),
            (
                "With fsync = epoch an append, a record and an output are a sync each; the feeder"
                " waits for its own."
            ),
        ],
    )


def _row(job: str, mode: str, loose: Figures, exact: Figures) -> list[str]:
    times = [
        f"{percentile(f.latencies_ms, share):.1f}" for share in (0.5, 0.99) for f in (loose, exact)
    ]
    return [
        *(
            f"{job}, {mode}",
            f"{loose.row_us:.2f}",
            f"{exact.row_us:.2f}",
            f"{exact.row_us / loose.row_us:.2f}×",
        ),
        *(f"{loose.cores:.2f}", f"{exact.cores:.2f}", f"{exact.cores / loose.cores:.2f}×"),
        *(*times, f"{exact.epochs / exact.wall_s:,.0f}"),
    ]


def _alone_row(job: str, loose: Figures, exact: Figures) -> list[str]:
    ratio = f"{exact.alone_us / loose.alone_us:.2f}×"
    return [job, f"{loose.alone_us:,.0f}", f"{exact.alone_us:,.0f}", ratio]


def _measure(job: str, mode: Fsync, delivery: Delivery, figures: Figures) -> None:
    with _engine(job, mode, delivery) as engine:
        stream = Stream(engine, INPUTS[job])
        stream.append(WARM)
        stream.drain()
        stream.append(MANY)
        _, cpu = cpu_of(stream.drain)
        figures.cpu_s += cpu
        figures.rows += MANY
        if mode == "none":
            figures.alone_s += stream.drain_alone()
            figures.alone += ALONE
        stream.feed(figures)
        stream.check(job)


@contextmanager
def _engine(job: str, mode: Fsync, delivery: Delivery) -> Iterator[Engine]:
    """An engine with one job over empty topics, on the disk of this folder."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix="benchmark-") as folder:
        engine = Engine(Config(data=Path(folder), fsync=mode, delivery=delivery))
        try:
            for topic in ("events", "answers"):
                engine.broker.create_topic(topic)
            engine.submit("tables", TABLES)
            engine.submit("job", JOBS[job])
            yield engine
        finally:
            engine.close()


@lru_cache(maxsize=1)
def _lines() -> list[bytes]:
    """Events one after the other, ten in a millisecond."""
    count = WARM + MANY + ALONE + round(2 * RATE * SECONDS)
    return [
        b'{"id":%d,"ts":"2026-01-01 00:%02d:%02d.%03d","k":"key-%d","v":%d,"note":"what else an'
        b' event says, of %d bytes"}'
        % (n, n // 600_000, n // 10_000 % 60, n // 10 % 1000, n * 7919 % KEYS, n * 104_729 % 100, n)
        for n in range(count)
    ]


class Stream:
    """Events into the topics of a job, each of which gets its share, and how far the engine is with
    them."""

    def __init__(self, engine: Engine, topics: Sequence[str]) -> None:
        self._engine, self._topics = engine, topics
        self._runner = engine.graph.runner
        self._sent = 0
        self._appended: list[tuple[float, int]] = []
        self._done: list[tuple[float, int]] = []
        step = self._runner.step

        def watched() -> bool:
            busy = step()
            if busy:
                self._done.append((time.perf_counter(), self._position()))
            return busy

        self._runner.step = watched  # type: ignore[method-assign]

    def _position(self) -> int:
        return min(s.positions.get("0", 0) for s in self._runner.inputs.running.values())

    def append(self, rows: int) -> None:
        share = rows // len(self._topics)
        values = _lines()[self._sent : self._sent + share]
        at = time.perf_counter()
        for topic in self._topics:
            self._engine.broker.append(topic, 0, values, timestamp_ms=self._engine.now_ms())
        self._sent += share
        self._appended.append((at, self._sent))

    def drain(self) -> None:
        """Runs epochs, in this thread, until nothing is left."""
        while self._runner.step():
            pass

    def drain_alone(self) -> float:
        """CPU seconds of epochs that have one row of each topic."""
        cpu = 0.0
        for _ in range(ALONE // len(self._topics)):
            self.append(len(self._topics))
            cpu += cpu_of(self._runner.step)[1]
        self.drain()
        return cpu

    def feed(self, figures: Figures) -> None:
        """At the rate, beside the graph's thread; adds what was seen."""
        self._appended, self._done, epochs = [], [], self._runner.progress.epochs
        self._engine.start()
        began = time.perf_counter()
        _, cpu = cpu_of(self._feed)
        figures.busy_s += cpu
        figures.wall_s += time.perf_counter() - began
        figures.epochs += self._runner.progress.epochs - epochs
        done = iter(self._done)
        at, position = next(done)
        for sent, end in self._appended:
            while position < end:
                at, position = next(done)
            figures.latencies_ms.append((at - sent) * 1000)

    def _feed(self) -> None:
        feeder = threading.Thread(target=self._append_at_rate)
        feeder.start()
        feeder.join()
        while self._position() < self._sent:
            time.sleep(0.001)
        self._engine.graph.loop.call(lambda: None)  # the end of its epoch

    def _append_at_rate(self) -> None:
        start = time.perf_counter()
        for number in range(round(SECONDS / EVERY_S)):
            time.sleep(max(0.0, start + number * EVERY_S - time.perf_counter()))
            self.append(round(RATE * EVERY_S))

    def check(self, job: str) -> None:
        """What came out is what had to."""
        found = self._engine.broker.end_offset("found", 0)
        if job != "window":
            due = sum(1 for n in range(self._sent) if n * 104_729 % 100 < 30)
        else:
            due = (self._sent - 1) // 10_000 * KEYS
        if found != due:
            raise AssertionError(f"{job}: {found:,} rows came out, not {due:,}")
