"""`sql backtest` with the 1,414 rules for process creations over files and a topic, as a command of
its own."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import sigma
from benchmarks.page import Section, Table
from sqlengine.broker.embedded import EmbeddedBroker, system_clock
from tests.conformance.sigma import ALERTS, table_of

# Passes over the log, of which each but the first is a copy: to warm up, and to measure.
PASSES = (1, 11)
WAYS = {
    "JSON lines": [f"--table={sigma.TABLE}=events.jsonl"],
    "JSON lines, gzip": [f"--table={sigma.TABLE}=events.jsonl.gz"],
    "a topic": ["--data=data"],
    "a topic, against an equal version": ["--data=data", "--against=rules"],
}
# Events per CPU second of rsigma 0.23.0 over JSON lines, measured once, on another machine.
RSIGMA = 24_700


def run() -> Section:
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        for passes in PASSES:
            _write(folder / str(passes), passes)
        rows = [_row(title, folder, options) for title, options in WAYS.items()]
    events = len(sigma.log()) * (PASSES[1] - PASSES[0])
    about = (
        f"`sql backtest` with {len(sigma.all_rules()):,} SigmaHQ rules for process creations, each"
        f" a file, over {events:,} copies of real events with other values: rows per CPU second of"
        " the one process, behind a first pass that warms up. All alerts are counted, and as many"
        " as are expected."
    )
    columns = ["the past", "rows per CPU second", "CPU µs a row"]
    note = (
        f"rsigma 0.23.0 (`engine eval`, Rust) made {RSIGMA:,} events per CPU second of 5,428 such"
        " events, ten times over, on 2 cores of an AMD EPYC: not side by side."
    )
    return Section("backtest", "Backtests", about, [Table("1,414 rules", columns, rows)], [note])


def _write(folder: Path, passes: int) -> None:
    """Writes rules, and the events of some passes as files and as a topic."""
    rules = folder / "rules"
    rules.mkdir(parents=True)
    table = table_of(sigma.TABLE, sigma.log(), sigma.all_rules())
    (rules / "_tables.sql").write_text(f"{ALERTS};\n{table};\n")
    for rule in sigma.all_rules():
        (rules / f"{rule.job}.sql").write_text(rule.sql)
    copies = [sigma.lines(number) for number in range(passes)]
    lines = b"".join(line + b"\n" for copy in copies for line in copy)
    (folder / "events.jsonl").write_bytes(lines)
    (folder / "events.jsonl.gz").write_bytes(gzip.compress(lines, 6))
    broker = EmbeddedBroker(folder / "data", fsync="none", clock=system_clock)
    broker.create_topic(sigma.TABLE)
    for copy in copies:
        broker.append(sigma.TABLE, 0, copy, timestamp_ms=system_clock())
    broker.close()


def _row(title: str, folder: Path, options: Sequence[str]) -> list[str]:
    (few, warm), (many, cpu_s) = (_measured(folder / str(n), n, options) for n in PASSES)
    rate = (many - few) / (cpu_s - warm)
    return [title, f"{rate:,.0f}", f"{1e6 / rate:.1f}"]


def _measured(folder: Path, passes: int, options: Sequence[str]) -> tuple[int, float]:
    """Runs the command; returns the rows that it read, and its CPU seconds."""
    command = [sys.executable, "-m", "sqlengine.cli", "backtest", "rules", *options]
    output = subprocess.run(
        [*command, "--output", "json"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    ).stdout
    found = json.loads(output.splitlines()[-1])
    expected = sum(sigma.expected().values()) * passes
    if found["alerts"] != expected:
        raise AssertionError(f"{found['alerts']} alerts, not {expected}")
    return found["rows"], found["cpu_seconds"]
