"""An epoch of the engine on Spark beside a micro-batch of Structured Streaming: files appear one after
the other in a folder, and a window counts their rows. Both read with all cores of this machine."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.measure import percentile, tree_cpu_s
from benchmarks.page import Section, Table
from sqlengine.config import Config
from sqlengine.engine import Engine

SIZES: Final = (1_000, 50_000)
# Files of each size; the first ones warm the processes up.
FILES, WARM = 24, 6
HOSTS: Final = 100
_TICK_S: Final = 0.002
JOB: Final = """
CREATE TABLE events (host STRING, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json', 'source.monitor-interval' = '10 ms');
CREATE TABLE counts (host STRING, e TIMESTAMP(3), n BIGINT, s BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO counts SELECT host, window_end, COUNT(*), SUM(v)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY host, window_start, window_end;
"""


@dataclass
class Took:
    """Seconds from the appearance of each file until its rows are counted, and the CPU seconds of all
    processes for it."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def row(self, name: str, rows: int) -> list[str]:
        wall = [percentile(self.wall, share) for share in (0.5, 0.99)]
        cpu = percentile(self.cpu, 0.5)
        return [name, f"{rows:,}", *(f"{w:.2f}" for w in wall), f"{cpu:.2f}"]


# Makes a file of so many rows appear, which are counted when it returns.
Feed = Callable[[int], None]


def run() -> Section:
    with tempfile.TemporaryDirectory(prefix="sqlengine-bench-") as name:
        folder = Path(name)
        with _engine(folder / "engine") as feed:
            engine = _measured(feed)
        with _structured(folder / "structured") as feed:
            structured = _measured(feed)
    rows = [
        took.row(name, size)
        for size in SIZES
        for name, took in (("the engine", engine[size]), ("Structured Streaming", structured[size]))
    ]
    columns = ["", "rows of a file", "s (p50)", "s (p99)", "CPU s (p50)"]
    return Section(
        "spark_streaming",
        "Epochs on Spark and micro-batches",
        f"A TUMBLE of a minute by {HOSTS} hosts over JSON files that appear one after the other, {FILES} of each size, the"
        f" first {WARM} not counted: a job of a server on Spark, and a query of Structured Streaming that is written by hand"
        " (watermark, append mode, checkpoint in a folder), in a JVM of its own each.",
        [Table("From the appearance of a file until its rows are counted", columns, rows)],
        [
            "Windows that end with a file are out then, of Structured Streaming by a second batch without rows."
        ],
    )


def _measured(feed: Feed) -> dict[int, Took]:
    found: dict[int, Took] = {}
    for size in SIZES:
        took = found[size] = Took()
        for number in range(FILES):
            cpu, wall = tree_cpu_s(os.getpid()), time.monotonic()
            feed(size)
            if number >= WARM:
                took.wall.append(time.monotonic() - wall)
                took.cpu.append(tree_cpu_s(os.getpid()) - cpu)
    return found


class _Files:
    """Writes files into a folder, whose rows follow each other in time, a minute for each file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "events"
        self.path.mkdir(parents=True)
        self.rows = self._number = 0

    def write(self, rows: int) -> None:
        """Makes a file appear as a whole."""
        minute = f"2024-01-01 {self._number // 60:02}:{self._number % 60:02}"
        lines = (
            f'{{"host": "h{n * 7 % HOSTS}", "v": {n % 1000}, "ts": "{minute}:{n * 60 // rows:02}"}}\n'
            for n in range(rows)
        )
        hidden = self.path / f".{self._number:04}.json"
        hidden.write_text("".join(lines))
        hidden.rename(self.path / hidden.name[1:])
        self.rows += rows
        self._number += 1


@contextmanager
def _engine(folder: Path) -> Iterator[Feed]:
    files = _Files(folder)
    engine = Engine(Config(data=folder / "data", target="spark"))
    try:
        engine.start()
        engine.submit("counts", JOB.format(path=files.path))
        runner = engine.graphs.of("counts").runner

        def feed(rows: int) -> None:
            files.write(rows)
            while runner.outputs.progress.rows_in < files.rows or runner.guard.view() is not None:
                time.sleep(_TICK_S)

        yield feed
    finally:
        engine.close()


@contextmanager
def _structured(folder: Path) -> Iterator[Feed]:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    files = _Files(folder)
    spark = SparkSession.builder.master("local[*]").getOrCreate()
    try:
        spark.conf.set("spark.sql.shuffle.partitions", str(os.cpu_count()))
        events = spark.readStream.schema("host STRING, v BIGINT, ts TIMESTAMP").json(
            str(files.path)
        )
        window = f.window("ts", "1 minute")
        counts = events.withWatermark("ts", "5 seconds").groupBy("host", window)
        written = counts.agg(f.count("*"), f.sum("v")).writeStream.format("noop")
        query = written.option("checkpointLocation", str(folder / "checkpoint")).start()

        def feed(rows: int) -> None:
            files.write(rows)
            query.processAllAvailable()

        yield feed
        query.stop()
    finally:
        spark.stop()
