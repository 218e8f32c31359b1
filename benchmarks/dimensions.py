"""Tables that rows are looked up in: keys of 50 bytes, values of 20, in a file that is mapped into
memory.

A version is built of a CSV file as a server builds it; probes are batches of keys that get the
value beside each. See `dimensions_others` for others over the same file."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.csv

from benchmarks.dimensions_data import (
    BATCH,
    ENTRIES,
    KEY_BYTES,
    PROBES,
    QUERY,
    VALUE_BYTES,
    asked,
    keys,
    write_csv,
)
from benchmarks.measure import cpu_of, in_a_process, percentile
from benchmarks.page import Section, Table
from parser import parse
from parser.statements import CreateTable, Query
from parser.types import Schema
from planner.binder import bind
from planner.catalog import Catalog
from planner.logical import LookupJoin, MappedScan
from planner.plan import plan
from planner.rewrite import nodes
from sqlengine.batch import Batch
from sqlengine.config import Config
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.registry import capabilities_of, declared
from sqlengine.dimensions.table import MappedTable
from sqlengine.dimensions.versions import INDEX, VersionFiles
from sqlengine.engine import Engine
from sqlengine.executors.dimensions.source import MappedSource
from sqlengine.executors.node_state.node_context import NodeContext
from sqlengine.operators.joins.lookup import LookupJoinOperator
from sqlengine.operators.joins.mapped import MappedDimension, StoredColumns, VersionRecord
from sqlengine.operators.scan import raw_schema

PROCESSES: Final = 4
TABLES: Final = """
CREATE TABLE asked (k STRING, p AS PROCTIME()) WITH ('connector' = 'topic', 'topic' = 'asked', 'format' = 'json');
CREATE TABLE dim (k STRING, v STRING, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'filesystem', 'path' = '{folder}/dim.csv', 'format' = 'csv', 'lookup.cache' = 'FULL'{reload});
"""
# The load while the table is read again: rows an append, appends a second, seconds.
ROWS_AT_ONCE, APPENDS_S, LOAD_S = 20, 50, 20


@dataclass(frozen=True)
class Built:
    """CPU s of building a version, bytes of its index and of its columns, and MB of memory that
    were taken at most beyond those that the process began with."""

    cpu_s: float
    index: float
    columns: float
    peak_mb: float


def run() -> Section:
    built, probed, shared = [], [], []
    for entries in ENTRIES:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
            folder = Path(name)
            write_csv(folder / "dim.csv", entries)
            made = Built(*_measured("build", folder, entries))
            plain = entries * (KEY_BYTES + VALUE_BYTES)
            beside = (made.index + made.columns - plain) / entries
            built.append(
                [f"{entries:,}", f"{made.index / entries:.1f}", f"{beside:.1f}",
                 f"{made.cpu_s:.1f}", f"{made.peak_mb:,.0f}",
                 f"{(made.index + made.columns) / 1e6:,.0f}"]
            )  # fmt: skip
            rates = _measured("probe", folder, entries)
            probed.append([f"{entries:,}", *(f"{r:.2f}" for r in rates)])
            one, four = (_shared(folder, entries, n) for n in (1, PROCESSES))
            shared.append([f"{entries:,}", f"{one:,.0f}", f"{four:,.0f}"])
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        write_csv(Path(name) / "dim.csv", ENTRIES[0])
        load = _measured("load", Path(name), ENTRIES[0])
    return Section(
        "dimensions",
        "Tables that rows are looked up in",
        f"Keys of {KEY_BYTES} bytes and values of {VALUE_BYTES}, in a file that is mapped into memory.",
        [
            Table(
                "A version, built of a CSV file",
                ["entries", "index, bytes an entry", "beside keys and values, bytes an entry",
                 "CPU s", "memory meanwhile, MB", "files, MB"],
                built,
            ),
            Table(
                "Million probes per CPU second, with the value",
                ["entries", "hits", "misses", "skewed", "the join, hits"],
                probed,
            ),
            Table("Proportional set size of the table, MB", ["entries", "1 process", f"{PROCESSES} together"], shared),
            Table(
                f"Latency at {ROWS_AT_ONCE * APPENDS_S:,} rows/s, {ENTRIES[0]:,} entries, ms",
                ["", "p50", "p99", "versions meanwhile"],
                [
                    ["table at rest", f"{load[0]:.1f}", f"{load[1]:.1f}", ""],
                    ["read again all the time", f"{load[2]:.1f}", f"{load[3]:.1f}", f"{load[4]:.0f}"],
                ],
            ),
        ],
        [f"Load of the machine meanwhile: {os.getloadavg()[0]:.0f}."],
    )  # fmt: skip


# ---- children ------------------------------------------------------------------------------------


def _measured(what: str, folder: Path, entries: int) -> list[float]:
    found: list[float] = in_a_process("benchmarks.dimensions", what, folder, entries)
    return found


def join_of(folder: Path) -> LookupJoin:
    """The join of the query as it is planned."""
    catalog = Catalog()
    for statement in parse(TABLES.format(folder=folder, reload="")):
        assert isinstance(statement, CreateTable)
        catalog = catalog.put(declared(bind(statement, catalog, {})))
    (query,) = parse(QUERY)
    assert isinstance(query, Query)
    (sink,) = plan(query, catalog, {}, capabilities_of=capabilities_of).sinks
    return next(n for n in nodes(sink) if isinstance(n, LookupJoin))


def _source(folder: Path) -> MappedSource:
    environment = Environment(None, lambda: 0, "benchmark", dimensions=folder / "dimensions")
    scan = join_of(folder).right
    assert isinstance(scan, MappedScan)
    return MappedSource(scan, environment, load=False)


def _name(folder: Path) -> str:
    (version,) = (folder / "dimensions" / "sources").glob("*/0")
    return f"{version.parent.name}/0"


def mapped(folder: Path) -> MappedTable:
    scan = join_of(folder).right
    assert isinstance(scan, MappedScan)
    stored = StoredColumns(scan)
    return VersionFiles(folder / "dimensions").open(_name(folder), stored.schema, stored.lookup)


def build(folder: Path) -> list[float]:
    source = _source(folder)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _, cpu = cpu_of(source.reload)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    version = folder / "dimensions" / "sources" / _name(folder)
    columns = sum(p.stat().st_size for p in version.glob("column*"))
    return [cpu, (version / INDEX).stat().st_size, columns, peak / 1024]


def probe(folder: Path, entries: int) -> list[float]:
    table = mapped(folder)
    rates = []
    for all_keys in asked(entries):
        _probe(table, all_keys)
        _, cpu = cpu_of(partial(_probe, table, all_keys))
        rates.append(PROBES / cpu / 1e6)
    hits = next(asked(entries))
    plan = join_of(folder)
    operator = LookupJoinOperator(plan, MappedDimension(plan, VersionFiles(folder / "dimensions")))
    operator.open(NodeContext("join", 0, {}, {}))
    record = [pa.array([VersionRecord(_name(folder)).encode()]), pa.array([0])]
    list(operator.process(1, Batch(raw_schema(Schema(())), tuple(record), 1)))
    schema = join_of(folder).left.schema
    none = pa.nulls(BATCH, schema.columns[-1].type.arrow)

    def join() -> None:
        for start in range(0, PROBES, BATCH):
            columns = (hits.slice(start, BATCH), none)[: len(schema)]
            list(operator.process(0, Batch(schema, columns, BATCH)))

    join()
    return [*rates, PROBES / cpu_of(join)[1] / 1e6]


def _probe(table: MappedTable, some: pa.Array) -> int:
    found = 0
    for start in range(0, len(some), BATCH):
        part = some.slice(start, BATCH)
        _, rows, covered = table.first_matches([part], len(part), 1 << 16)
        assert covered == len(part)
        found += len(table.column("v", rows))
    return found


def _shared(folder: Path, entries: int, processes: int) -> float:
    """The proportional set sizes (MB) of the table in so many processes that have all probed it."""
    command = [sys.executable, "-m", "benchmarks.dimensions", "share", str(folder), str(entries)]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    try:
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()  # all have probed
        total = 0.0
        for child in children:
            text, _ = child.communicate("\n") if processes == 1 else (_ask(child), None)
            total += float(text)
        return total
    finally:
        for child in children:
            child.kill()


def _ask(child: subprocess.Popen[str]) -> str:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write("\n")
    child.stdin.flush()
    return child.stdout.readline()


def share(folder: Path, entries: int) -> None:
    table = mapped(folder)
    some = next(asked(entries))
    _probe(table, some)
    print("probed", flush=True)
    sys.stdin.readline()
    print(_mapped_mb(), flush=True)
    sys.stdin.readline()


def _mapped_mb() -> float:
    """The proportional set size of the files of the table in this process."""
    total, counts = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            counts = "/dimensions/" in line
        elif counts and line.startswith("Pss:"):
            total += int(line.split()[1])
    return total / 1024


def under_load(folder: Path, entries: int) -> list[float]:
    """p50 and p99 (ms) of rows from their append to their result: at rest, and while the table is
    read again all the time; and how many versions came meanwhile."""
    engine = Engine(Config(data=folder / "data"))
    try:
        for topic in ("asked", "told"):
            engine.broker.create_topic(topic)
        text = TABLES.format(
            folder=folder, reload=", 'lookup.full-cache.periodic-reload.interval' = '1 ms'"
        )
        told = "CREATE TABLE told (k STRING, v STRING) WITH ('connector' = 'topic', 'topic' = 'told', 'format' = 'json');"
        engine.submit("job", f"{text}{told}INSERT INTO told {QUERY}")
        engine.start()
        _latencies(engine, entries, 5)
        quiet = _latencies(engine, entries, LOAD_S)
        versions = _versions(folder)
        line = f"{'x' * KEY_BYTES},{'y' * VALUE_BYTES}\n"

        def change() -> None:
            with (folder / "dim.csv").open("a") as file:
                file.write(line)

        busy = _latencies(engine, entries, LOAD_S, change)
        times = [percentile(found, share) for found in (quiet, busy) for share in (0.5, 0.99)]
        return [*times, _versions(folder) - versions]
    finally:
        engine.close()


def _versions(folder: Path) -> int:
    found = (folder / "data" / "dimensions" / "sources").glob("*/*")
    return 1 + max((int(p.name) for p in found if p.name.isdigit()), default=-1)


def _latencies(
    engine: Engine, entries: int, seconds: int, also: Callable[[], object] | None = None
) -> list[float]:
    """Latencies (ms) of appends of rows, one after the other at a fixed rate; `also` is called once
    a second."""
    chance = np.random.default_rng(2)
    broker, found = engine.broker, []
    due = time.monotonic()
    for number in range(seconds * APPENDS_S):
        due += 1 / APPENDS_S
        time.sleep(max(0.0, due - time.monotonic()))
        some = keys(chance.integers(0, entries, ROWS_AT_ONCE)).to_pylist()
        lines = [json.dumps({"k": k}).encode() for k in some]
        before, start = broker.end_offset("told", 0), time.monotonic()
        broker.append("asked", 0, lines, timestamp_ms=engine.now_ms())
        while broker.end_offset("told", 0) < before + ROWS_AT_ONCE:
            time.sleep(0.0002)
        found.append((time.monotonic() - start) * 1000)
        if also is not None and number % APPENDS_S == 0:
            also()
    return found


if __name__ == "__main__":
    what, where, number = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    if what == "share":
        share(where, number)
    else:
        measures = {
            "build": lambda: build(where),
            "probe": lambda: probe(where, number),
            "load": lambda: under_load(where, number),
        }
        print(json.dumps(measures[what]()))
