"""Nexmark's queries here, and beside Flink on the same files."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import in_a_process
from benchmarks.nexmark.events import write
from benchmarks.nexmark.run import names, rows_read, script
from benchmarks.page import Section, Table
from benchmarks.rules_gen import ORACLE

EVENTS = 500_000
# Each of Flink's runs is one of a warm JVM; the first of two warms the query's own code.
_HEAP = "1g"


@dataclass(frozen=True)
class Figure:
    """CPU µs a row, rows a second, peak memory in MB."""

    cpu_us: float
    rows_per_s: float
    peak_mb: float


def run() -> Section:
    """Ours alone."""
    with tempfile.TemporaryDirectory(prefix="nexmark-") as name:
        data = Path(name)
        write(data, EVENTS)
        rows = [[q, f"{rows_read(q, data):,}", *_cells(_ours(q, data))] for q in names()]
    columns = ["query", "rows", "CPU µs a row", "rows a second", "peak MB"]
    return Section("nexmark", "Nexmark", _about(), [Table("Queries", columns, rows)])


def run_flink() -> Section:
    """Both sides, in turns, query by query: tens of minutes."""
    with tempfile.TemporaryDirectory(prefix="nexmark-") as name:
        data = Path(name)
        write(data, EVENTS)
        theirs = _flink(data)
        ours = {q: _ours(q, data) for q in names()}
        rows = [_row(q, rows_read(q, data), ours[q], theirs.get(q)) for q in names()]
    ratios = {q: ours[q].cpu_us / f.cpu_us for q, f in theirs.items()}
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    memory = max(f.peak_mb for f in ours.values()) / max(f.peak_mb for f in theirs.values())
    slower = sorted(q for q, r in ratios.items() if r > 1)
    notes = [
        f"Geometric mean of the CPU: {mean:.2f} of Flink's.",
        f"Slower than Flink: {', '.join(slower) or 'none'}.",
        f"Peak memory of the greediest query: {memory:.2f} of that of Flink's JVM.",
    ]
    columns = [
        "query",
        "rows",
        "ours, CPU µs a row",
        "Flink's",
        "of Flink's",
        "rows a second",
        "Flink's",
        "peak MB",
        "Flink's",
    ]
    about = (
        f"{_about()} Flink 2.3: one JVM for all queries, parallelism 1, heap {_HEAP}, the second of"
        " two runs of each."
    )
    return Section(
        "nexmark_flink", "Nexmark beside Flink", about, [Table("Queries", columns, rows)], notes
    )


def _about() -> str:
    return (
        f"{EVENTS:,} events (92 % bids) as JSON lines, read by the filesystem connector, results"
        " into a blackhole; each query in a process of its own, the second of two runs; planning"
        " counts."
    )


def _cells(figure: Figure) -> list[str]:
    return [f"{figure.cpu_us:.2f}", f"{figure.rows_per_s:,.0f}", f"{figure.peak_mb:.0f}"]


def _row(query: str, rows: int, ours: Figure, flink: Figure | None) -> list[str]:
    if flink is None:
        return [
            query,
            f"{rows:,}",
            f"{ours.cpu_us:.2f}",
            "does not run",
            "",
            f"{ours.rows_per_s:,.0f}",
            "",
            f"{ours.peak_mb:.0f}",
            "",
        ]
    pairs = [f"{ours.cpu_us:.2f}", f"{flink.cpu_us:.2f}", f"{ours.cpu_us / flink.cpu_us:.2f}"]
    speed = [f"{ours.rows_per_s:,.0f}", f"{flink.rows_per_s:,.0f}"]
    return [query, f"{rows:,}", *pairs, *speed, f"{ours.peak_mb:.0f}", f"{flink.peak_mb:.0f}"]


def _ours(query: str, data: Path) -> Figure:
    found = in_a_process("benchmarks.nexmark.run", data, query)
    return Figure(found["cpu_us"], found["rows_per_s"], found["peak_mb"])


def _flink(data: Path) -> dict[str, Figure]:
    """All queries in one JVM, each twice."""
    texts = []
    for query in names():
        path = data / f"{query}.sql"
        path.write_text(script(query, data), encoding="utf-8")
        texts.append(str(path))
    command = [
        sys.executable,
        str(ORACLE / "flink_oracle.py"),
        "--time",
        "--repeat",
        "2",
        "--heap",
        _HEAP,
        *texts,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    found: dict[str, Figure] = {}
    for line in done.stdout.splitlines():
        event = json.loads(line)
        if event["kind"] == "timing":
            query = Path(event["file"]).stem
            rows = rows_read(query, data)
            found[query] = Figure(
                event["cpu_s"] / rows * 1e6, rows / event["job_s"], event["peak_rss_mb"]
            )
    return found
