"""A filter for two per cent of a table of Parquet in the order of time: groups of rows that hold
none of these left out, and all of them read; in this process and on Spark with two cores."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import tree_cpu_s
from benchmarks.nexmark.run import Quiet
from benchmarks.page import Section, Table
from planner.settings import FILTER_PUSH_DOWN
from sqlengine.config import LOCAL, Cluster
from sqlengine.session.environment import open_runner
from sqlengine.session.runner import Runner
from sqlengine.session.session import Session

ROWS, PER_GROUP, PER_READ = 2_000_000, 50_000, 32_768
PLACES: Final[Mapping[str, tuple[str, Cluster]]] = {
    "embedded": ("embedded", LOCAL),
    "Spark, two cores": ("spark", Cluster("local[2]")),
}
FILTERED: Final = """
CREATE TABLE readings (ts TIMESTAMP(3), host STRING, v DOUBLE, note STRING)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet');
CREATE TABLE totals (host STRING, n BIGINT, s DOUBLE) WITH ('connector' = 'blackhole');
SET 'execution.runtime-mode' = 'batch';
INSERT INTO totals SELECT host, COUNT(*), SUM(v) FROM readings
WHERE ts >= TIMESTAMP '2024-05-01 14:00:00' AND ts < TIMESTAMP '2024-05-01 14:28:48' GROUP BY host;
"""


def run() -> Section:
    rows = []
    with tempfile.TemporaryDirectory(prefix="sqlengine-bench-") as name:
        folder = Path(name)
        path = folder / "readings"
        _write(path)
        for place, (where, cluster) in PLACES.items():
            with open_runner(folder / where, PER_READ, where, cluster=cluster) as runner:
                took = [_took(runner, path, on) for _ in range(2) for on in (True, False)]
            (cpu, s), (all_cpu, all_s) = took[2:]
            figures = [f"{n:.2f}" for n in (cpu, s, all_cpu, all_s)]
            rows.append([place, *figures, f"{all_cpu / cpu:.1f}×"])
    return Section(
        "parquet_filter",
        "A filter over Parquet",
        f"Counts and sums by host of the rows of half an hour, 2 % of a day of {ROWS:,} rows in the order of time, in a"
        f" Parquet file with groups of {PER_GROUP:,} rows: the second run of each, with all processes.",
        [
            Table(
                "CPU seconds and seconds",
                ["", "CPU s", "s", "all groups read: CPU s", "s", "CPU"],
                rows,
            )
        ],
    )


def _write(path: Path) -> None:
    path.mkdir()
    at = np.arange(ROWS)
    begin = int(datetime.fromisoformat("2024-05-01T00:00:00+00:00").timestamp() * 1000)
    hosts = pa.array([f"h{n}" for n in range(100)])
    table = pa.table(
        {
            "ts": pa.array(begin + at * 86_400_000 // ROWS).view(pa.timestamp("ms")),
            "host": hosts.take(pa.array(at * 7 % 100)),
            "v": pa.array(at % 1000 / 8),
            "note": pa.array([f"reading {n * 37 % ROWS} of a sensor" for n in range(ROWS)]),
        }
    )
    pq.write_table(table, path / "day.parquet", row_group_size=PER_GROUP)


def _took(runner: Runner, path: Path, on: bool) -> tuple[float, float]:
    """CPU seconds and seconds of a run."""
    cpu, wall = tree_cpu_s(os.getpid()), time.monotonic()
    session = Session(runner, Quiet(), settings={FILTER_PUSH_DOWN: str(on).lower()})
    session.run(FILTERED.format(path=path))
    return tree_cpu_s(os.getpid()) - cpu, time.monotonic() - wall
