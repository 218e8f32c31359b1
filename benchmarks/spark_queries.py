"""The same statements in this process, and on Spark with one core and with two: Nexmark, and a
thousand rules over one table."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmarks.measure import tree_cpu_s
from benchmarks.nexmark.events import write
from benchmarks.nexmark.run import Quiet, rows_read, script
from benchmarks.page import Section, Table
from benchmarks.rules_gen import generate
from planner.settings import MINI_BATCH
from sqlengine.config import LOCAL, Cluster
from sqlengine.session.environment import open_runner
from sqlengine.session.runner import Runner
from sqlengine.session.session import Session

EVENTS, RULES, ROWS = 1_000_000, 1_000, 300_000
QUERIES: Final = ("q0", "q2", "q4", "q5", "q7", "q8", "q11", "q18")
# The rows that the embedded executor reads at once; on Spark an epoch reads 16 times as many.
PER_READ: Final = 4096
PLACES: Final[Mapping[str, tuple[str, Cluster]]] = {
    "embedded": ("embedded", LOCAL),
    "Spark, one core": ("spark", Cluster("local[1]")),
    "Spark, two cores": ("spark", Cluster("local[2]")),
}
# µs of CPU a row, and rows a second.
Figure = tuple[float, float]


def run() -> Section:
    with tempfile.TemporaryDirectory(prefix="sqlengine-bench-") as name:
        data = Path(name)
        write(data, EVENTS)
        texts = {q: (script(q, data), rows_read(q, data)) for q in QUERIES}
        texts[f"{RULES:,} rules"] = _rules(data), ROWS
        found = {place: _measured(data, place, texts) for place in PLACES}
    rows = [_row(q, [found[place][q] for place in PLACES]) for q in texts]
    columns = ["", *(f"{place}: CPU µs a row, rows/s" for place in PLACES), "two cores to one"]
    return Section(
        "spark_queries",
        "Statements on Spark",
        f"Nexmark over {EVENTS:,} events and {RULES:,} generated rules over {ROWS:,} rows, from JSON files into a"
        f" blackhole, reads of {PER_READ:,} rows: the second run of each in one process (one JVM), with the CPU of all"
        " processes.",
        [Table("CPU and speed", columns, rows)],
    )


def _rules(data: Path) -> str:
    """One statement set, with the tables of the generator over its file."""
    script = generate(data, RULES, ROWS).read_text(encoding="utf-8")
    return script.replace("'connector' = 'lines'", "'connector' = 'filesystem'")


def _measured(data: Path, place: str, texts: Mapping[str, tuple[str, int]]) -> dict[str, Figure]:
    where, cluster = PLACES[place]
    folder = data / re.sub(r"\W", "", place)
    with open_runner(folder, PER_READ, where, cluster=cluster) as runner:
        return {name: _second(runner, text, rows) for name, (text, rows) in texts.items()}


def _second(runner: Runner, text: str, rows: int) -> Figure:
    for _ in range(2):
        cpu, wall = tree_cpu_s(os.getpid()), time.monotonic()
        Session(runner, Quiet(), settings={MINI_BATCH: "true"}).run(text)
        cpu, wall = tree_cpu_s(os.getpid()) - cpu, time.monotonic() - wall
    return cpu / rows * 1e6, rows / wall


def _row(name: str, figures: list[Figure]) -> list[str]:
    (_, one), (_, two) = figures[-2:]
    return [name, *(f"{cpu:.1f}, {speed:,.0f}" for cpu, speed in figures), f"{two / one:.2f}×"]
