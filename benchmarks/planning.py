"""Ten thousand small rules planned, and planned again from the cache on disk; each time in a
process of its own."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.page import Section, Table
from planner.catalog import Catalog
from sqlengine.jobs.plan_cache import PlanCache
from sqlengine.jobs.planning import JobText, PlannedJob, plan_jobs

ORACLE = Path(__file__).parents[2] / "shared" / "oracle"
RULES = 10_000
TABLES = """CREATE TABLE log (host STRING, proc STRING, cmdline STRING, path STRING, usr STRING)
WITH ('connector' = 'topic', 'topic' = 'log', 'format' = 'json');
CREATE TABLE hits (rule INT, host STRING, proc STRING, cmdline STRING, path STRING, usr STRING)
WITH ('connector' = 'blackhole')"""


def run() -> Section:
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        command = [
            sys.executable,
            str(ORACLE / "rules_gen.py"),
            name,
            "--rules",
            str(RULES),
            "--rows",
            "1",
        ]
        subprocess.run(command, check=True)
        rows = [_row(title, folder) for title in ("planned", "from the cache")]
    about = (
        f"{RULES:,} generated rules of 2 to 4 conditions, each a job of its own: text to optimised"
        " plan, in a new process (its imports are not counted)."
    )
    columns = ["", "CPU s", "CPU ms a rule", "peak memory MB", "plans from the cache"]
    return Section(
        "planning", "Parsing and planning", about, [Table("10,000 rules", columns, rows)]
    )


def _row(title: str, folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import measure; measure({str(folder)!r})"],
        check=True,
        capture_output=True,
    )
    cpu, memory, hits = json.loads(done.stdout)
    return [title, f"{cpu:.1f}", f"{cpu / RULES * 1000:.2f}", f"{memory:.0f}", f"{hits:,}"]


def measure(folder: str) -> None:
    """Plans all; prints CPU seconds, the peak of memory in MB and how many plans came from the
    cache."""
    text = (Path(folder) / f"rules_{RULES}.sql").read_text(encoding="utf-8")
    rules = [line for line in text.splitlines() if line.startswith("INSERT")]
    jobs = [JobText("tables", TABLES), *(JobText(f"r{i}", sql) for i, sql in enumerate(rules))]
    start = time.process_time()
    with PlanCache(Path(folder) / "plans") as cache:
        plans = plan_jobs(jobs, Catalog(), {}, plan=cache.plan)
    cpu = time.process_time() - start
    assert all(isinstance(p, PlannedJob) for p in plans)
    print(
        json.dumps(
            [cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, cache.counters["hits"]]
        )
    )
