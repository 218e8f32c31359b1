"""100 to 50,000 generated rules (2 to 4 conditions, 80 % of them from a common pool) over
one table: how the CPU of a row grows with the rules.

Ours: each rule is a job, JSON rows come from a topic, what matches goes into a blackhole. Flink's:
the same INSERTs as one STATEMENT SET over a source that is read and parsed once, the second of two
runs in one JVM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import own_mb
from benchmarks.page import Section, Table
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import Origin
from sqlengine.jobs.planning import JobText
from tests.conformance.sigma import drain

ORACLE = Path(__file__).parents[2] / "shared" / "oracle"
RULES = (100, 1_000, 10_000, 50_000)
ROWS = 100_000
WARM_UP = 20_000
# Rows read at a time, and how many rows and rules are enough for the smaller ones.
BATCH, SMALLER, SMALLER_ROWS, SMALLER_RULES = 4096, (512, 64), 30_000, (100, 1_000, 10_000)
# Rules and rows for Flink: its runs must be long enough to be warm, and the larger one takes
# minutes.
FLINK = ((100, 300_000), (1_000, 60_000))
TABLES = """
CREATE TABLE log (host STRING, proc STRING, cmdline STRING, path STRING, usr STRING)
WITH ('connector' = 'topic', 'topic' = 'log', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE hits (rule INT, host STRING, proc STRING, cmdline STRING, path STRING, usr STRING)
WITH ('connector' = 'blackhole');
"""


@dataclass(frozen=True)
class Ours:
    """`cpu_us`: per row, warm. `load_s`: CPU seconds to plan (child included) and compile all
    rules."""

    rules: int
    cpu_us: float
    load_s: float
    matches: float
    memory_mb: float


def run() -> Section:
    found = [_ours(n, ROWS) for n in RULES]
    first = found[0]
    rows = [
        [
            f"{o.rules:,}",
            f"{o.cpu_us:.1f}",
            f"{o.cpu_us / first.cpu_us:.1f}×",
            f"{o.matches:.2f}",
            f"{o.load_s:.1f}",
            f"{o.memory_mb:.0f}",
        ]
        for o in found
    ]
    columns = [
        "rules",
        "CPU µs a row",
        "of 100 rules'",
        "matches a row",
        "CPU s to load all rules",
        "memory MB",
    ]
    about = (
        "Generated rules of 2 to 4 conditions (REGEXP, LIKE, equality; 80 % from a common pool)"
        f" over {ROWS:,} JSON rows of 140 bytes from a topic, all columns of a match into a"
        f" blackhole; the first {WARM_UP:,} rows are not counted. Up to {BATCH:,} rows are read at a"
        " time. Each figure is the least of three parts of the rows."
    )
    return Section(
        "rules_gen",
        "More rules on one stream",
        about,
        [Table("CPU by number of rules", columns, rows), _smaller(found)],
    )


def _smaller(found: list[Ours]) -> Table:
    """CPU by the number of rows read at a time."""
    rows = []
    for rules in SMALLER_RULES:
        large = next(o for o in found if o.rules == rules)
        small = [_ours(rules, SMALLER_ROWS, batch) for batch in SMALLER]
        rows.append([f"{rules:,}", *(f"{o.cpu_us:.1f}" for o in (large, *small))])
    columns = ["rules", *(f"µs a row, {batch:,} at a time" for batch in (BATCH, *SMALLER))]
    return Table("CPU by rows a batch", columns, rows)


def run_flink() -> Section:
    """Both sides in one go: minutes, and 7 GB of memory for Flink."""
    rows = []
    for rules, count in FLINK:
        ours = _ours(rules, ROWS)
        warm, cold = _flink(rules, count)
        rows.append(
            [
                f"{rules:,}",
                f"{ours.cpu_us:.1f}",
                f"{warm:,.1f}",
                f"{cold:,.1f}",
                f"{warm / ours.cpu_us:,.0f}×",
                f"{count:,}",
            ]
        )
    columns = [
        "rules",
        "ours, CPU µs a row",
        "Flink 2.3, second run",
        "first run",
        "Flink needs",
        "rows of Flink's run",
    ]
    about = (
        "The same rules as one STATEMENT SET on Flink 2.3 (one JVM, parallelism 1, heap 6 GB,"
        " network memory 1 GB; a source that is read and parsed once for all rules, a blackhole"
        " behind). Planning is not counted on either side."
    )
    return Section(
        "rules_gen_flink",
        "The same rules on Flink",
        about,
        [Table("CPU by number of rules", columns, rows)],
    )


def generate(folder: Path, rules: int, rows: int) -> Path:
    """Writes log.json and a script with the rules as one statement set. Returns its path."""
    command = [
        sys.executable,
        str(ORACLE / "rules_gen.py"),
        str(folder),
        "--rules",
        str(rules),
        "--rows",
        str(rows),
    ]
    subprocess.run(command, check=True)
    return folder / f"rules_{rules}.sql"


def _ours(rules: int, rows: int, batch: int = BATCH) -> Ours:
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        script = generate(folder, rules, rows)
        lines = (folder / "log.json").read_bytes().splitlines()
        inserts = [
            s for s in script.read_text(encoding="utf-8").splitlines() if s.startswith("INSERT")
        ]
        engine = Engine(Config(data=folder / "data", rows_per_read=batch))
        try:
            load = _load(engine, inserts)
            warm_up = WARM_UP * rows // ROWS
            _feed(engine, lines[:warm_up])
            before = engine.rows_by_job().total()
            counted = len(lines) - warm_up
            parts = [lines[warm_up + n * counted // 3 :][: counted // 3] for n in range(3)]
            # The least of three: other programs on the machine only ever add.
            cpu = min(_feed(engine, part) / len(part) for part in parts)
            matches = (engine.rows_by_job().total() - before) / counted
            return Ours(rules, cpu * 1e6, load, matches, own_mb())
        finally:
            engine.close()


def _load(engine: Engine, inserts: list[str]) -> float:
    """CPU seconds until all rules run."""
    engine.broker.create_topic("log")
    before = sum(os.times()[:4])
    jobs = {"tables": JobText("tables", TABLES)}
    jobs |= {f"rule.{i}": JobText(f"rule.{i}", insert) for i, insert in enumerate(inserts)}
    refused = [o for o in engine.change(Request(Origin.SDK, jobs)).values() if o.error is not None]
    if refused:
        raise RuntimeError(f"{len(refused)} rules were refused: {refused[0].error}")
    engine.start()
    return sum(os.times()[:4]) - before


def _feed(engine: Engine, lines: list[bytes]) -> float:
    """CPU seconds from when the last row is in the topic."""

    def append() -> float:
        for i in range(0, len(lines), 10_000):
            engine.broker.append("log", 0, lines[i : i + 10_000], timestamp_ms=engine.now_ms())
        return time.process_time()

    start = engine.graph.loop.call(append)
    drain(engine)
    return time.process_time() - start


def _flink(rules: int, rows: int) -> tuple[float, float]:
    """CPU µs a row of the second and of the first run."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        script = generate(Path(name), rules, rows)
        command = [
            sys.executable,
            str(ORACLE / "flink_oracle.py"),
            "--time",
            "--rows",
            str(rows),
            "--repeat",
            "2",
        ]
        command += ["--heap", "6g", "--network", "1g", str(script)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    timings = [e for e in map(json.loads, done.stdout.splitlines()) if e["kind"] == "timing"]
    return timings[-1]["cpu_us_per_row"], timings[0]["cpu_us_per_row"]
