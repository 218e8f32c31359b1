"""`sql backtest` with the 1,414 rules for process creations over files and a topic, as a command of
its own."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import sigma
from benchmarks.page import Section, Table
from sqlengine.broker.embedded import EmbeddedBroker, system_clock
from tests.conformance.sigma import ALERTS, table_of

COPIES = 20
# rsigma 0.23.0, `engine eval` over JSON lines of the same events on this machine (events per CPU
# second), measured once.
RSIGMA = 24_700


def run() -> Section:
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        _write(folder)
        file = f"--table={sigma.TABLE}={{}}"
        ways = {
            "JSON lines": [file.format(folder / "events.jsonl")],
            "JSON lines, gzip": [file.format(folder / "events.jsonl.gz")],
            "a topic": [f"--data={folder / 'data'}"],
            "a topic, against an equal version": [
                f"--data={folder / 'data'}",
                f"--against={folder / 'rules'}",
            ],
        }
        rows = [_row(title, folder, options) for title, options in ways.items()]
    events = len(sigma.log()) * (COPIES + 1)
    about = (
        f"`sql backtest` with {len(sigma.all_rules()):,} SigmaHQ rules for process creations, each"
        f" a file, over {events:,} real events and copies of them with other values: rows per CPU"
        " second from the first read on, of the one process; all alerts are counted, and as many as"
        " are expected."
    )
    columns = ["the past", "rows per CPU second", "CPU µs a row", "beside rsigma 0.23.0"]
    note = f"rsigma 0.23.0 (`engine eval`, Rust) on this machine: {RSIGMA:,} events per CPU second."
    return Section("backtest", "Backtests", about, [Table("1,414 rules", columns, rows)], [note])


def _write(folder: Path) -> None:
    """Writes rules, and the events as files and as a topic."""
    rules = folder / "rules"
    rules.mkdir()
    table = table_of(sigma.TABLE, sigma.log(), sigma.all_rules())
    (rules / "_tables.sql").write_text(f"{ALERTS};\n{table};\n")
    for rule in sigma.all_rules():
        (rules / f"{rule.job}.sql").write_text(rule.sql)
    copies = [sigma.lines(number) for number in range(COPIES + 1)]
    lines = b"".join(line + b"\n" for copy in copies for line in copy)
    (folder / "events.jsonl").write_bytes(lines)
    (folder / "events.jsonl.gz").write_bytes(gzip.compress(lines, 6))
    broker = EmbeddedBroker(folder / "data", fsync="none", clock=system_clock)
    broker.create_topic(sigma.TABLE)
    for copy in copies:
        broker.append(sigma.TABLE, 0, copy, timestamp_ms=system_clock())
    broker.close()


def _row(title: str, folder: Path, options: Sequence[str]) -> list[str]:
    command = [sys.executable, "-m", "sqlengine.cli", "backtest", str(folder / "rules"), *options]
    done = subprocess.run(
        [*command, "--output", "json"], check=True, stdout=subprocess.PIPE, text=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    expected = sum(sigma.expected().values()) * (COPIES + 1)
    if found["alerts"] != expected:
        raise AssertionError(f"{found['alerts']} alerts, not {expected}")
    rate = found["rows"] / found["cpu_seconds"]
    return [title, f"{rate:,.0f}", f"{1e6 / rate:.1f}", f"{rate / RSIGMA:.1f}×"]
