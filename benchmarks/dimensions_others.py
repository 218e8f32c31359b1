"""Look-ups in a dict of Python, a HashMap of Java, and Flink's look-up join with a full cache, over
the table of `dimensions`."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.dimensions_data import (
    BATCH,
    ENTRIES,
    PIECE,
    PROBES,
    QUERY,
    asked,
    keys,
    values,
    write_csv,
)
from benchmarks.measure import cpu_of, in_a_process, own_mb
from benchmarks.page import Section, Table
from benchmarks.rules_gen import ORACLE


def run() -> Section:
    rows = []
    for entries in ENTRIES:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
            folder = Path(name)
            write_csv(folder / "dim.csv", entries)
            if entries == ENTRIES[0]:
                rows.append(
                    [
                        f"{entries:,}",
                        "dict of Python",
                        *_others(in_a_process("benchmarks.dimensions_others", entries)),
                    ]
                )
            rows.append([f"{entries:,}", "HashMap of Java", *_others(_java(folder, entries))])
            if entries == ENTRIES[0]:
                rows.append(
                    [f"{entries:,}", "Flink, full cache", *_others(_flink(folder, entries))]
                )
    return Section(
        "dimensions_others",
        "Look-ups beside others",
        "The same file and keys as in `dimensions`, hits. Of Flink it is the whole job, which reads the"
        " keys as JSON and loads the table, and the memory of the whole process.",
        [
            Table(
                "Bytes and probes",
                ["entries", "", "bytes an entry", "million probes per CPU second"],
                rows,
            )
        ],
    )


def _others(found: list[float]) -> list[str]:
    size, rate = found
    return [f"{size:.0f}", f"{rate:.2f}"]


def in_dict(entries: int) -> list[float]:
    gc.disable()
    before = own_mb()
    table: dict[str, str] = {}
    for start in range(0, entries, PIECE):
        numbers = np.arange(start, min(start + PIECE, entries))
        table.update(zip(keys(numbers).to_pylist(), values(numbers).to_pylist(), strict=True))
    size = (own_mb() - before) * (1 << 20) / entries
    some = next(asked(entries))

    def get() -> None:
        for start in range(0, PROBES, BATCH):
            pa.array(list(map(table.get, some.slice(start, BATCH).to_pylist())))

    get()
    return [size, PROBES / cpu_of(get)[1] / 1e6]


def _java(folder: Path, entries: int) -> list[float]:
    source = Path(__file__).with_name("HashMapLookups.java")
    command = ["java", "-Xmx8g", str(source), str(folder / "dim.csv"), str(entries), str(PROBES)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _flink(folder: Path, entries: int) -> list[float]:
    """Flink's look-up join with a full cache in the second run of a script; bytes of the whole
    process."""
    with (folder / "asked.json").open("w") as file:
        for key in next(asked(entries)).to_pylist():
            file.write(json.dumps({"k": key}) + "\n")
    script = folder / "join.sql"
    script.write_text(f"""
CREATE TABLE asked (k STRING, p AS PROCTIME()) WITH ('connector' = 'lines', 'path' = '{folder}/asked.json', 'format' = 'json');
CREATE TABLE dim (k STRING, v STRING) WITH ('connector' = 'file-lookup', 'path' = '{folder}/dim.csv');
CREATE TABLE told (k STRING, v STRING) WITH ('connector' = 'blackhole');
INSERT INTO told {QUERY};
""")
    command = [
        sys.executable,
        str(ORACLE / "flink_oracle.py"),
        "--heap",
        "8g",
        "--time",
        "--rows",
        str(PROBES),
    ]
    done = subprocess.run([*command, str(script)], capture_output=True, text=True, check=True)
    timing = [json.loads(line) for line in done.stdout.splitlines() if '"timing"' in line]
    print(timing[-1], file=sys.stderr)
    return [timing[-1]["peak_rss_mb"] * (1 << 20) / entries, PROBES / timing[-1]["cpu_s"] / 1e6]


if __name__ == "__main__":
    print(json.dumps(in_dict(int(sys.argv[1]))))
