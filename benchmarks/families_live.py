"""Jobs with state over a stream that comes at a steady rate, few rows at a time; and the same jobs
as one STATEMENT SET of Flink's, over a file."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.families import KINDS, TABLES, cost_of, lines_of
from benchmarks.measure import in_a_process, own_mb
from benchmarks.paced import Feeder, Pace, serving
from benchmarks.page import Section, Table
from benchmarks.rules_gen import ORACLE

JOBS: Final = (20, 200, 2_000)
MIXED: Final = "mixed"
PACES: Final = (Pace(1_000, 20, 15), Pace(10_000, 200, 10))
_FLINK_JOBS, _FLINK_ROWS = 200, 200_000
_FLINK_SOURCE: Final = """
CREATE TABLE metrics (device STRING, metric STRING, v DOUBLE, ts TIMESTAMP(3),
    WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
WITH ('connector' = 'lines', 'path' = '{path}', 'format' = 'json');
CREATE TABLE alerts (rule STRING, device STRING, a DOUBLE) WITH ('connector' = 'blackhole');
"""


@dataclass(frozen=True)
class Live:
    """Cores, milliseconds from append to the end of its epoch, and KB of each job."""

    cores: float
    p50: float
    p99: float
    kb_a_job: float
    kept: float

    @property
    def cells(self) -> tuple[str, str, str]:
        cores = f"{self.cores:.2f}" if self.kept > 0.95 else f"behind ({self.kept:.0%})"
        return cores, f"{self.p50:.1f}", f"{self.p99:.1f}"


def run() -> Section:
    kinds, rows = (*KINDS, MIXED), []
    for kind in kinds:
        for jobs in JOBS:
            found = [
                Live(**in_a_process("benchmarks.families_live", kind, jobs, place))
                for place in range(len(PACES))
            ]
            cells = [cell for live in found for cell in live.cells]
            rows.append([kind, f"{jobs:,}", *cells, f"{found[0].kb_a_job:.0f}"])
    rates = [f"{p.rate:,}/s: {what}" for p in PACES for what in ("cores", "p50 ms", "p99 ms")]
    about = ", ".join(f"{p.rate:,} rows a second, {p.append} an append" for p in PACES)
    return Section(
        "families_live",
        "Families at a steady rate",
        f"The jobs of the section before over a topic with {about}, from the same process; from an"
        " append to the end of the epoch that took it. Memory beyond that of an engine with one job.",
        [Table("A server", ["", "jobs", *rates, "KB a job"], rows)],
        [f"Load of the machine meanwhile: {os.getloadavg()[0]:.0f}."],
    )


def run_flink() -> Section:
    """Both sides in one go: minutes, and 8 GB of memory for Flink."""
    rows = []
    for kind in KINDS:
        ours = cost_of(kind, _FLINK_JOBS, 4096, families=True)
        cpu, memory = _flink(kind)
        rows.append(
            [
                kind,
                f"{ours.cpu_us:.1f}",
                f"{cpu:.1f}",
                f"{cpu / ours.cpu_us:.1f}×",
                f"{ours.memory_mb:,.0f}",
                f"{memory:,.0f}",
            ]
        )
    columns = ["", "ours, CPU µs a row", "Flink's", "Flink needs", "ours, MB", "Flink's"]
    return Section(
        "families_flink",
        "The same jobs on Flink",
        f"{_FLINK_JOBS} jobs as one STATEMENT SET on Flink 2.3 over {_FLINK_ROWS:,} rows (one JVM,"
        " parallelism 1, heap 8 GB, managed memory 3 GB, a source that is read and parsed once for"
        " all, the second run), and as jobs of a server at reads of 4,096.",
        [Table("CPU and memory", columns, rows)],
    )


def _flink(kind: str) -> tuple[float, float]:
    """CPU µs a row of the second run, and the peak of the JVM's memory in MB."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        data, script = Path(name) / "metrics.json", Path(name) / "jobs.sql"
        data.write_bytes(b"\n".join(lines_of(_FLINK_JOBS, _FLINK_ROWS)) + b"\n")
        inserts = ";\n".join(_text(kind, i) for i in range(_FLINK_JOBS))
        script.write_text(
            f"{_FLINK_SOURCE.format(path=data)}EXECUTE STATEMENT SET BEGIN\n{inserts};\nEND;\n"
        )
        command = [sys.executable, str(ORACLE / "flink_oracle.py"), "--time", "--repeat", "2"]
        command += ["--rows", str(_FLINK_ROWS), "--heap", "8g", "--network", "1g"]
        done = subprocess.run(
            [*command, "--managed", "3g", str(script)], capture_output=True, text=True, check=True
        )
    timing = [e for e in map(json.loads, done.stdout.splitlines()) if e["kind"] == "timing"][-1]
    return timing["cpu_us_per_row"], timing["peak_rss_mb"]


def _text(kind: str, i: int) -> str:
    kinds = list(KINDS.values())
    text = KINDS[kind] if kind in KINDS else kinds[i % len(kinds)]
    return text.format(i=i, least=30 + i % 40)


def records_of(jobs: int) -> Callable[[int, int], list[bytes]]:
    """Returns what makes readings of as many metrics, a thousand a second of event time."""
    chance = random.Random(1)

    def line(n: int) -> bytes:
        seconds = f"{n // 3_600_000 % 24:02}:{n // 60_000 % 60:02}:{n // 1_000 % 60:02}"
        reading = {
            "device": f"d{chance.randrange(50)}",
            "metric": f"m{chance.randrange(jobs)}",
            "v": chance.random() * 100,
            "ts": f"2024-01-01 {seconds}.{n % 1_000:03}",
        }
        return json.dumps(reading).encode()

    return lambda first, end: [line(n) for n in range(first, end)]


def _measure(kind: str, jobs: int, pace: Pace) -> Live:
    def load(count: int) -> tuple[Live, float]:
        texts = {"tables": TABLES} | {f"r{i}": _text(kind, i) for i in range(count)}
        with serving(texts, ("metrics",)) as engine:
            feeder = Feeder(engine, "metrics", records_of(count))
            feeder.load(pace if count > 1 else Pace(pace.rate, pace.append, 1))
            if count == 1:
                return Live(0, 0, 0, 0, 0), own_mb()
            found = feeder.load(pace)
            return Live(found.cores, found.p50, found.p99, 0, found.kept), own_mb()

    _, base = load(1)
    live, memory = load(jobs)
    return Live(live.cores, live.p50, live.p99, (memory - base) * 1024 / jobs, live.kept)


if __name__ == "__main__":
    print(json.dumps(asdict(_measure(sys.argv[1], int(sys.argv[2]), PACES[int(sys.argv[3])]))))
