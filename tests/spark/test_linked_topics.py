"""Tasks read long ranges of topics from the files themselves, and give what they give where the driver
reads, also where the topic or the files are gone meanwhile. Nothing here starts a JVM."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.storage import index
from sqlengine.broker.storage.compression import Compression
from sqlengine.executors.spark.options import SparkOptions
from sqlengine.session import spark
from tests.spark.scripting import Outcome, run
from tests.spark.staged import Frames, Map, RepeatedFrames, Staged
from tests.spark.test_encoded_in_tasks import Watched, stored

ROWS, SHARDS = 700, 2
TABLE = """
SET 'job.on-error' = 'dead-letter';
CREATE TABLE e (ts TIMESTAMP(3), k STRING, v INT, place BIGINT METADATA FROM 'offset', s INT METADATA FROM 'shard',
  came TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', body BYTES METADATA FROM 'key', WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'topic', 'topic' = 'e', 'format' = 'json', 'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset');
CREATE TABLE target ({columns}) WITH ('connector' = 'topic', 'topic' = 'out', 'format' = 'json');
INSERT INTO target {query};
"""


@dataclass(frozen=True)
class Case:
    """A query; `empty`: some records have no value. Then rows in turns are other ones, since a turn
    of what tasks read has so many records, and a turn of the driver's so many rows."""

    columns: str
    query: str
    compression: Compression = "none"
    empty: bool = False

    @property
    def text(self) -> str:
        return TABLE.format(columns=self.columns, query=self.query)


CASES = {
    "rows": Case(
        "k STRING, v INT, place BIGINT, s INT, c TIMESTAMP_LTZ(3), b BYTES",
        "SELECT k, v, place, s, came, body FROM e WHERE v % 3 = 0",
    ),
    "packed": Case("k STRING, n BIGINT", "SELECT k, place FROM e", compression="zstd"),
    "late": Case(
        "k STRING, e TIMESTAMP(3), n BIGINT, v INT",
        """SELECT k, window_end, COUNT(*), SUM(v) FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '3' SECOND))
           GROUP BY k, window_start, window_end""",
    ),
    "empty": Case("k STRING, n BIGINT", "SELECT k, place FROM e", empty=True),
}


def fill(case: Case, folder: Path) -> None:
    """Rows of two shards, of which some are late, and two are no JSON."""
    rng, broker = random.Random(5), EmbeddedBroker(folder, segment_bytes=20_000)
    broker.create_topic("e", SHARDS, compression=case.compression)
    for shard in range(SHARDS):
        now, lines = 0, list[bytes | None]()
        for n in range(ROWS):
            now += rng.randint(0, 40)
            ts = f"2024-01-01 00:{now // 60_000:02}:{now // 1000 % 60:02}.{now % 1000:03}"
            if rng.random() < 0.1:
                ts = "2024-01-01 00:00:00.000" if rng.random() < 0.5 else ts
            row = {"ts": ts, "k": rng.choice("abc"), "v": rng.randint(0, 20)}
            lines.append(
                None
                if case.empty and n % 97 == 5
                else b"{"
                if n == 300
                else json.dumps(row).encode()
            )
        while lines:
            count = rng.randint(1, 40)
            batch, lines = lines[:count], lines[count:]
            keys = rng.choice([None, [b"%d" % len(batch)] * len(batch)])
            broker.append("e", shard, batch, keys=keys, timestamp_ms=1_700_000_000_000 + len(lines))
    broker.close()


def outcome(case: Case, folder: Path, where: str = "spark") -> tuple[Outcome, object]:
    fill(case, folder / "topics")
    found = run(case.text, folder, folder, where, rows_per_read=20)
    assert not found.errors
    assert found.rows
    return found, stored(folder)


class Trimmed(Frames):
    """Retention takes the files of the topic before tasks read them."""

    topics: ClassVar[Path]

    def task(self, run: Map, part: pa.Table) -> pa.Table:
        for segment in (self.topics / "topics" / "e").rglob("*.seg"):
            segment.unlink()
        return super().task(run, part)


class Elsewhere(Frames):
    """Tasks run where the links are not."""

    tasks: ClassVar[Callable[[], list[Path]]]

    def task(self, run: Map, part: pa.Table) -> pa.Table:
        links = Elsewhere.tasks()
        for link in links:
            link.rename(link.with_suffix(".away"))
        try:
            return super().task(run, part)
        finally:
            for link in links:
                link.with_suffix(".away").rename(link)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setattr(index, "INDEX_BYTES", 512)
    found = Watched()
    monkeypatch.setattr(spark, "SparkExecutor", found.executor)
    return found


@pytest.mark.parametrize("name", CASES)
def test_tasks_read_what_the_driver_would(
    name: str, watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark, "OwnSpark", lambda *_: Staged(3, RepeatedFrames))
    by_tasks = outcome(CASES[name], tmp_path / "tasks")
    assert watched.counted("ranges read by tasks") > 2 * SHARDS
    assert not list((tmp_path / "tasks").rglob("handed-over/*")), "links are not kept"
    monkeypatch.setattr(spark, "SparkOptions", partial(SparkOptions, links=False))
    read = watched.counted("ranges read by tasks")
    by_driver = outcome(CASES[name], tmp_path / "driver")
    assert watched.counted("ranges read by tasks") == read
    assert by_tasks[0] == by_driver[0]
    assert by_tasks[1] == by_driver[1] or CASES[name].empty
    in_one_process, _ = outcome(CASES[name], tmp_path / "embedded", "embedded")
    assert by_tasks[0] == in_one_process
    assert in_one_process.set_aside == SHARDS


def test_what_is_gone_meanwhile_is_read(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, _ = outcome(CASES["rows"], tmp_path / "embedded", "embedded")
    Trimmed.topics = tmp_path / "tasks" / "topics"
    monkeypatch.setattr(spark, "OwnSpark", lambda *_: Staged(3, Trimmed))
    fill(CASES["rows"], Trimmed.topics)
    found = run(CASES["rows"].text, tmp_path, tmp_path / "tasks", "spark", rows_per_read=20)
    assert found.rows == expected.rows
    assert watched.counted("ranges read by tasks") > 2 * SHARDS


def test_the_driver_reads_what_tasks_cannot(
    watched: Watched,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    expected, _ = outcome(CASES["late"], tmp_path / "embedded", "embedded")
    Elsewhere.tasks = lambda: list((tmp_path / "tasks").rglob("handed-over/*.seg"))
    monkeypatch.setattr(spark, "OwnSpark", lambda *_: Staged(3, Elsewhere))
    found, _ = outcome(CASES["late"], tmp_path / "tasks")
    assert found == expected
    assert watched.counted("ranges read by tasks") == 0
    assert caplog.text.count("the server reads topics itself") == 1
