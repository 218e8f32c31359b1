"""What Spark costs and gives: a window over files beside the embedded executor and a program that is
written by hand, and a server whose job has a large state there."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.measure import percentile, tree_cpu_s
from benchmarks.page import Section, Table
from planner.catalog import Catalog
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.executors.spark.executor import SparkExecutor
from sqlengine.session.environment import open_runner
from sqlengine.session.output import PrinterOutput
from sqlengine.session.printers import PRINTERS
from sqlengine.session.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS, FILES, HOSTS, PER_READ = 2_000_000, 4, 100, 32_768
KEYS, CHANGED, EPOCHS = 400_000, 1_000, 24
_COLUMNS: Final = "host STRING, v BIGINT, ts TIMESTAMP(3)"
WINDOW: Final = """
CREATE TABLE events ({columns}, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json');
CREATE TABLE counts (host STRING, e TIMESTAMP(3), n BIGINT, s BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO counts SELECT host, window_end, COUNT(*), SUM(v)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY host, window_start, window_end;
"""
TOTALS: Final = """
CREATE TABLE changes (k BIGINT, v BIGINT) WITH ('connector' = 'topic', 'topic' = 'changes', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset');
CREATE TABLE totals (k BIGINT, n BIGINT, s BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'blackhole');
INSERT INTO totals SELECT k, COUNT(*), SUM(v) FROM changes GROUP BY k;
"""
Took = tuple[float, float]


def run() -> Section:
    with tempfile.TemporaryDirectory(prefix="sqlengine-bench-") as name:
        folder = Path(name)
        window, server = _windows(folder), _server(folder)
    return Section(
        "spark",
        "Spark",
        f"A TUMBLE of a minute over {ROWS:,} rows in {FILES} JSON files by {HOSTS} hosts, reads of {PER_READ:,} rows: `sql run` here and"
        " on Spark with all cores of this machine, and a batch program of PySpark by hand, which makes no changelog and drops no late"
        " rows; the second run of each, with all processes. Then a server whose job counts by"
        f" {KEYS:,} keys on Spark: {EPOCHS} times {CHANGED:,} changes.",
        [window, server],
        [
            "A whole file of state comes with every seventeenth epoch, or when the changes have as many rows.",
            "An epoch on Spark is a job with an exchange: some tenths of a second, whatever it has to do.",
        ],
    )


# ---- a window over files -------------------------------------------------------------------------


def _windows(folder: Path) -> Table:
    path = folder / "events"
    _write_events(path)
    took = {"embedded": _script(folder, path, "embedded"), "Spark": _script(folder, path, "spark")}
    took["PySpark, by hand"] = _by_hand(path)
    cpu = took["embedded"][0]
    rows = [
        [name, f"{seconds:.1f}", f"{wall:.1f}", f"{seconds / cpu:.2f}×"]
        for name, (seconds, wall) in took.items()
    ]
    return Table("TUMBLE over files", ["", "CPU s", "s", "CPU of embedded"], rows)


def _write_events(path: Path) -> None:
    path.mkdir()
    each = ROWS // FILES
    for file in range(FILES):
        lines = (
            f'{{"host": "h{n * 7 % HOSTS}", "v": {n % 1000}, "ts": "2024-01-01 {n // 360_000:02}:'
            f'{n // 6000 % 60:02}:{n // 100 % 60:02}"}}'
            for n in range(file * each, (file + 1) * each)
        )
        (path / f"{file}.json").write_text("\n".join(lines))


def _script(folder: Path, path: Path, where: str) -> Took:
    data = folder / where
    data.mkdir()
    with open_runner(data, PER_READ, where) as runner:

        def script() -> None:
            session = Session(
                runner, PrinterOutput(PRINTERS["table"](None), messages=False), Catalog()
            )
            session.run(WINDOW.format(path=path, columns=_COLUMNS), None)
            assert session.good

        script()
        return _took(script)


def _by_hand(path: Path) -> Took:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    spark: SparkSession = SparkSession.builder.master("local[*]").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", str(os.cpu_count()))

    def program() -> None:
        events = spark.read.schema("host STRING, v BIGINT, ts TIMESTAMP").json(str(path))
        counts = events.groupBy("host", f.window("ts", "1 minute")).agg(f.count("*"), f.sum("v"))
        counts.write.format("noop").mode("overwrite").save()

    try:
        program()
        return _took(program)
    finally:
        spark.stop()


def _took(work: Callable[[], None]) -> Took:
    """CPU seconds of this process and its children, and seconds."""
    cpu, wall = tree_cpu_s(os.getpid()), time.monotonic()
    work()
    return tree_cpu_s(os.getpid()) - cpu, time.monotonic() - wall


# ---- a server ------------------------------------------------------------------------------------


def _server(folder: Path) -> Table:
    with _engine(folder / "server") as engine:
        graph = engine.graphs.of("totals")
        executor, took = graph.executor, list[Took]()
        assert isinstance(executor, SparkExecutor)
        _append(engine, range(KEYS))
        before = dict(executor.state_files)
        sizes = [_state_bytes(folder)]
        for epoch in range(EPOCHS):
            keys = range(epoch * CHANGED, (epoch + 1) * CHANGED)
            first = graph.runner.epoch
            cpu, wall = _took(partial(_append, engine, keys))
            # A shard may be read in an epoch before the other.
            epochs = graph.runner.epoch - first
            took.append((cpu / epochs, wall / epochs))
            sizes.append(_state_bytes(folder))
        wrote = {k: n - before.get(k, 0) for k, n in executor.state_files.items()}
    written = [(b - a) / 1e6 for a, b in pairwise(sizes) if b > a]
    rows = [
        ["an epoch, s (p50)", f"{percentile([wall for _, wall in took], 0.5):.2f}"],
        ["an epoch, CPU s (p50)", f"{percentile([cpu for cpu, _ in took], 0.5):.2f}"],
        ["state files with changes", f"{wrote.get('delta state files', 0)}"],
        ["whole state files", f"{wrote.get('whole state files', 0)}"],
        ["written for 1,000 changes, MB (p50)", f"{percentile(written, 0.5):.2f}"],
        ["whole files of state, MB", f"{sizes[0] / 1e6:.1f}"],
    ]
    return Table("Counts of many keys", ["", ""], rows)


@contextmanager
def _engine(folder: Path) -> Iterator[Engine]:
    # No checkpoint in between: files would be deleted, whose sizes are looked at.
    config = Config(data=folder, target="spark", checkpoint_ms=1 << 60, checkpoint_rows=1 << 60)
    engine = Engine(config)
    try:
        engine.broker.create_topic("changes", 2)
        engine.start()
        engine.submit("totals", TOTALS)
        yield engine
    finally:
        engine.close()


def _append(engine: Engine, keys: range) -> None:
    """Appends changes, and waits until the job has counted them."""
    graph = engine.graphs.of("totals")
    lines = [json.dumps({"k": k, "v": 1}).encode() for k in keys]
    for shard in range(2):
        engine.broker.append("changes", shard, lines[shard::2], timestamp_ms=0)
    ends = {str(shard): engine.broker.end_offset("changes", shard) for shard in range(2)}
    while True:
        (source,) = graph.runner.inputs.running.values()
        if dict(source.positions) == ends and graph.runner.guard.view() is None:
            return
        time.sleep(0.005)


def _state_bytes(folder: Path) -> int:
    return sum(f.stat().st_size for f in (folder / "server" / "tasks").rglob("*-*-of-*"))
