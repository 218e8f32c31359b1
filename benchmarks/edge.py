"""How many jobs one core and 1 GB carry at 1,000 rows a second, 20 at a time: filters, windows,
frames and groups, a quarter each."""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final

from benchmarks.families import KINDS, TABLES
from benchmarks.families_live import records_of
from benchmarks.measure import in_a_process
from benchmarks.paced import Feeder, Pace, serving
from benchmarks.page import Section, Table

JOBS: Final = (100, 500, 1_000, 2_000, 4_000, 8_000)
PACE: Final = Pace(1_000, 20, 15)
LIMIT_MB: Final = 1_024
# A server carries what it takes in as it comes, with a tenth of its core to spare, within the
# memory, and with alerts that come within 100 ms.
_CORES, _KEPT, _P99_MS = 0.9, 0.98, 100.0
_FILTER: Final = (
    "INSERT INTO alerts SELECT 'r{i}', device, v FROM metrics WHERE metric = 'm{i}' AND v > {least}"
)
_TEXTS: Final = (_FILTER, KINDS["TUMBLE"], KINDS["OVER"], KINDS["GROUP BY"])


@dataclass(frozen=True)
class Carried:
    """What a server with some jobs took: cores, milliseconds, MB, and the share of the rate."""

    jobs: int
    cores: float
    p50: float
    p99: float
    peak_mb: float
    kept: float

    @property
    def fits(self) -> bool:
        return (
            self.cores <= _CORES
            and self.kept >= _KEPT
            and self.p99 <= _P99_MS
            and self.peak_mb <= LIMIT_MB
        )


def run() -> Section:
    found = list(_until_full())
    rows = [
        [
            f"{c.jobs:,}",
            f"{c.cores:.2f}",
            f"{c.p50:.1f}",
            f"{c.p99:.1f}",
            f"{c.peak_mb:,.0f}",
            f"{c.kept:.0%}",
        ]
        for c in found
    ]
    most = max((c.jobs for c in found if c.fits), default=0)
    return Section(
        "edge",
        "One core, 1 GB",
        f"An engine bound to one core with {PACE.rate:,} JSON rows a second from a topic,"
        f" {PACE.append} an append, for {PACE.seconds:.0f} s after as long a time to warm up; a"
        " quarter of its jobs each are filters, windows, frames and groups, with a metric of their"
        " own; 50 devices; exactly once.",
        [Table("Jobs", ["jobs", "cores", "p50 ms", "p99 ms", "peak MB", "rate kept"], rows)],
        [
            (
                f"{most:,} jobs fit: at most {_CORES} of the core, {LIMIT_MB:,} MB, and a p99 of"
                f" {_P99_MS:.0f} ms."
            )
        ],
    )


def _until_full() -> Iterator[Carried]:
    for jobs in JOBS:
        carried = Carried(**in_a_process("benchmarks.edge", jobs))
        yield carried
        if not carried.fits:
            return


def _measure(jobs: int) -> Carried:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    texts = {"tables": TABLES} | {
        f"r{i}": _TEXTS[i % len(_TEXTS)].format(i=i, least=30 + i % 40) for i in range(jobs)
    }
    with serving(texts, ("metrics",)) as engine:
        feeder = Feeder(engine, "metrics", records_of(jobs))
        feeder.load(PACE)
        load = feeder.load(PACE)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Carried(jobs, load.cores, load.p50, load.p99, peak, load.kept)


if __name__ == "__main__":
    print(json.dumps(asdict(_measure(int(sys.argv[1])))))
