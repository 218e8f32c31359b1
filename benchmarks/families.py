"""Many jobs with state over one stream, equal but for their conditions and literals: as families and
each by itself.

Jobs of a server read JSON rows from a topic, exactly once, and write alerts to a blackhole. One row
in as many as there are jobs belongs to each of them."""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.measure import in_a_process, own_mb
from benchmarks.page import Section, Table
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import Origin
from sqlengine.jobs.planning import JobText
from tests.conformance.sigma import drain

TABLES: Final = """
CREATE TABLE metrics (device STRING, metric STRING, v DOUBLE, ts TIMESTAMP(3),
    WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'topic', 'topic' = 'metrics', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE alerts (rule STRING, device STRING, a DOUBLE) WITH ('connector' = 'blackhole');
CREATE TABLE highest (rule STRING, device STRING, a DOUBLE) WITH ('connector' = 'blackhole');
"""
KINDS: Final = {
    "TUMBLE": """INSERT INTO alerts SELECT 'r{i}', device, AVG(v)
        FROM TABLE(TUMBLE(TABLE metrics, DESCRIPTOR(ts), INTERVAL '10' SECOND))
        WHERE metric = 'm{i}' GROUP BY device, window_start, window_end HAVING AVG(v) > {least}""",
    "GROUP BY": """INSERT INTO alerts SELECT 'r{i}', device, a FROM (
        SELECT device, MAX(v) AS a FROM metrics WHERE metric = 'm{i}' GROUP BY device)
        WHERE a > {least}""",
    "OVER": """INSERT INTO alerts SELECT 'r{i}', device, a FROM (SELECT device, AVG(v) OVER (
        PARTITION BY device ORDER BY ts ROWS BETWEEN 4 PRECEDING AND CURRENT ROW) AS a
        FROM metrics WHERE metric = 'm{i}') WHERE a > {least}""",
    "SESSION": """INSERT INTO alerts SELECT 'r{i}', device, AVG(v) FROM metrics WHERE metric = 'm{i}'
        GROUP BY device, SESSION(ts, INTERVAL '10' SECOND) HAVING AVG(v) > {least}""",
    "TOPN": """INSERT INTO highest SELECT 'r{i}', device, v FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY device ORDER BY v DESC) AS nth
        FROM metrics WHERE metric = 'm{i}') WHERE nth <= 3 AND v > {least}""",
    "JOIN": """INSERT INTO alerts SELECT 'r{i}', a.device, b.v - a.v
        FROM (SELECT * FROM metrics WHERE metric = 'm{i}') AS a
        JOIN (SELECT * FROM metrics WHERE metric = 'm{i}' AND v > {least}) AS b
        ON a.device = b.device AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '10' SECOND AND b.v > a.v + 50""",
}
# Jobs that differ in the lengths of their windows, too.
SIZES: Final = {
    "TUMBLE SIZES": """INSERT INTO alerts SELECT 'r{i}', device, AVG(v)
        FROM TABLE(TUMBLE(TABLE metrics, DESCRIPTOR(ts), INTERVAL '{seconds}' SECOND))
        WHERE metric = 'm{i}' GROUP BY device, window_start, window_end HAVING AVG(v) > {least}""",
    "HOP SIZES": """INSERT INTO alerts SELECT 'r{i}', device, AVG(v)
        FROM TABLE(HOP(TABLE metrics, DESCRIPTOR(ts), INTERVAL '{seconds}' SECOND, INTERVAL '{threefold}' SECOND))
        WHERE metric = 'm{i}' GROUP BY device, window_start, window_end HAVING AVG(v) > {least}""",
}
JOBS: Final = (20, 200, 2_000)
# Rows at a time, and how many in all: of small reads each costs more.
READS: Final = {4096: 200_000, 20: 10_000}
# Jobs that run alone take long: so many at most, and a tenth of the rows.
_ALONE_AT_MOST: Final = 200
_ALONE_ROWS: Final = 10


@dataclass(frozen=True)
class Cost:
    """CPU µs a row, and MB of memory with all jobs."""

    cpu_us: float
    memory_mb: float


def run() -> Section:
    rows = []
    for kind in (*KINDS, *SIZES):
        for jobs in JOBS:
            together = {read: cost_of(kind, jobs, read, families=True) for read in READS}
            alone = jobs <= _ALONE_AT_MOST
            apart = {r: cost_of(kind, jobs, r, families=False) for r in READS if alone}
            memory = [f"{costs[20].memory_mb:,.0f}" if costs else "" for costs in (together, apart)]
            rows.append([kind, f"{jobs:,}", *_texts(together), *_texts(apart), *memory])
    columns = ["", "jobs", *(f"{what} {read:,}" for what in ("family", "alone") for read in READS)]
    return Section(
        "families",
        "Families of jobs with state",
        "CPU µs a row of a server whose jobs have one shape, by rows at a time; JSON from a topic,"
        " exactly once, 50 devices, a metric for each job.",
        [Table("CPU µs a row", [*columns, "MB family", "MB alone"], rows)],
        [f"Load of the machine meanwhile: {os.getloadavg()[0]:.0f}."],
    )


def _texts(costs: dict[int, Cost]) -> list[str]:
    return [f"{costs[r].cpu_us:,.0f}" if r in costs else "" for r in READS]


def cost_of(kind: str, jobs: int, read: int, *, families: bool) -> Cost:
    return Cost(*in_a_process("benchmarks.families", kind, jobs, read, int(families)))


def _measure(kind: str, jobs: int, read: int, families: bool) -> Cost:
    texts = {"tables": JobText("tables", TABLES)}
    for i in range(jobs):
        texts[f"r{i}"] = JobText(f"r{i}", text_of(kind, i))
    lines = lines_of(jobs, READS[read] // (1 if families else _ALONE_ROWS))
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        engine = Engine(Config(data=Path(name), rows_per_read=read, families=families))
        try:
            engine.broker.create_topic("metrics")
            for outcome in engine.change(Request(Origin.SDK, texts)).values():
                if outcome.error is not None:
                    raise RuntimeError(outcome.error)
            engine.start()
            _feed(engine, lines[: len(lines) // 4])
            cpu = _feed(engine, lines[len(lines) // 4 :])
            return Cost(cpu / (len(lines) * 3 // 4) * 1e6, own_mb())
        finally:
            engine.close()


def text_of(kind: str, number: int) -> str:
    """Returns the text of a job by its number."""
    seconds = 5 + number % 20
    return (KINDS | SIZES)[kind].format(
        i=number, least=30 + number % 40, seconds=seconds, threefold=3 * seconds
    )


def lines_of(jobs: int, count: int) -> list[bytes]:
    """Readings, 100 a second of event time."""
    chance = random.Random(1)
    return [
        json.dumps(
            {
                "device": f"d{chance.randrange(50)}",
                "metric": f"m{chance.randrange(jobs)}",
                "v": chance.random() * 100,
                "ts": f"2024-01-01 {n // 360_000:02}:{n // 6_000 % 60:02}:{n // 100 % 60:02}.{n % 100:02}0",
            }
        ).encode()
        for n in range(count)
    ]


def _feed(engine: Engine, lines: list[bytes]) -> float:
    """CPU seconds from when the last row is in the topic."""

    def append() -> float:
        engine.broker.append("metrics", 0, lines, timestamp_ms=engine.now_ms())
        return time.process_time()

    start = engine.graph.loop.call(append)
    drain(engine)
    return time.process_time() - start


if __name__ == "__main__":
    kind, jobs, read, families = sys.argv[1:]
    cost = _measure(kind, int(jobs), int(read), families == "1")
    print(json.dumps([cost.cpu_us, cost.memory_mb]))
