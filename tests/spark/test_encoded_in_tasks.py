"""What tasks make of rows for sinks is what the sinks themselves would store, also of rows that cannot be
stored. Nothing here starts a JVM."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.executors.spark.executor import SparkExecutor
from sqlengine.executors.spark.options import SparkOptions
from sqlengine.session import spark
from tests.spark.scripting import Outcome, run
from tests.spark.staged import RepeatedFrames, Staged

SOURCE = """
SET 'job.on-error' = 'dead-letter';
CREATE TABLE made (n BIGINT, v INT) WITH ('connector' = 'datagen', 'number-of-rows' = '600',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '0', 'fields.n.end' = '599', 'fields.v.min' = '0', 'fields.v.max' = '90');
CREATE VIEW rows_of AS SELECT n, CAST(n % 7 AS STRING) AS k, n / 8.0 AS f,
  CASE WHEN n % 11 = 0 THEN NULL ELSE CONCAT('€ "', CAST(n AS STRING), CASE WHEN n < 300 AND n % 50 = 13 THEN CHR(10) ELSE '' END) END AS t FROM made;
CREATE TABLE target ({columns}) {options};
INSERT INTO target {query};
"""
COLUMNS = "n BIGINT, k STRING, f DOUBLE, t STRING"
TOPIC = "'connector' = 'topic', 'topic' = 'out', 'topic.auto-create.shards' = '3'"
FILES = "'connector' = 'filesystem', 'path' = '${OUT}/files'"
EVERY = "SELECT * FROM rows_of"
COUNTED = "SELECT k, COUNT(*), MAX(t) FROM rows_of WHERE n % 3 = 0 GROUP BY k"


@dataclass(frozen=True)
class Case:
    """Rows for a table. `encoded`: tasks make what it stores, for all batches or (None) some of
    them; `bad`: so many rows cannot be stored."""

    options: str
    query: str = EVERY
    columns: str = COLUMNS
    encoded: bool | None = True
    bad: int = 0

    @property
    def text(self) -> str:
        options = self.options if self.options.startswith("PART") else f"WITH ({self.options})"
        return SOURCE.format(columns=self.columns, options=options, query=self.query)


TOTALS = "k STRING, n BIGINT, t STRING, PRIMARY KEY (k) NOT ENFORCED"
UNQUOTED = "'format' = 'csv', 'csv.disable-quote-character' = 'true'"
CASES = {
    "topic": Case(f"{TOPIC}, 'format' = 'json'"),
    "packed": Case(f"{TOPIC}, 'format' = 'csv', 'compression' = 'zstd'"),
    "keys": Case(f"{TOPIC}, 'format' = 'json', 'key.fields' = 'k;t'"),
    "upserts": Case(f"{TOPIC}, 'format' = 'json', 'upsert' = 'true'", COUNTED, TOTALS),
    "changes": Case(f"{TOPIC}, 'format' = 'debezium-json'", COUNTED, TOTALS),
    "raw": Case(
        f"{TOPIC}, 'format' = 'raw', 'raw.charset' = 'latin-1'", "SELECT t FROM rows_of", "t STRING"
    ),
    "json": Case(f"{FILES}, 'format' = 'json'"),
    "csv": Case(f"{FILES}, 'format' = 'csv'"),
    "breaks": Case(f"{FILES}, {UNQUOTED}", encoded=None, bad=6),
    "rolling": Case(
        f"{FILES}, {UNQUOTED}, 'sink.rolling-policy.file-size' = '1 kb'", bad=6, encoded=None
    ),
    "partitions": Case(f"PARTITIONED BY (k) WITH ({FILES}, {UNQUOTED})", bad=6, encoded=False),
    "memory": Case("'connector' = 'blackhole'", encoded=False),
}


@dataclass
class Watched:
    """Runs scripts in tasks of this process, and keeps their executors."""

    executors: list[SparkExecutor] = field(default_factory=list)

    def executor(self, *arguments: Any) -> SparkExecutor:
        self.executors.append(SparkExecutor(*arguments))
        return self.executors[-1]

    def counted(self, what: str) -> int:
        return sum(e.state_files[what] for e in self.executors)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    found = Watched()
    monkeypatch.setattr(spark, "SparkExecutor", found.executor)
    monkeypatch.setattr(spark, "OwnSpark", lambda *_: Staged(3, RepeatedFrames))
    return found


@pytest.mark.parametrize("name", CASES)
def test_tasks_make_what_sinks_would_store(
    name: str, watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]

    def outcome(where: str, folder: str) -> tuple[Outcome, object]:
        found = run(case.text, tmp_path, tmp_path / folder, where)
        assert not found.errors
        return found, stored(tmp_path / folder)

    by_tasks = outcome("spark", "tasks")
    encoded = watched.counted("batches encoded")
    assert (encoded > 0) is (case.encoded is not False)
    monkeypatch.setattr(spark, "SparkOptions", partial(SparkOptions, encodes=False))
    by_sinks = outcome("spark", "sinks")
    assert watched.counted("batches encoded") == encoded
    assert by_tasks == by_sinks
    in_one_process, _ = outcome("embedded", "embedded")
    assert by_tasks[0] == in_one_process
    assert in_one_process.set_aside == case.bad


def stored(folder: Path) -> object:
    """The bytes of all files, and all records by topic and shard, with their keys; in order."""
    files = [
        path.read_bytes()
        for path in sorted((folder / "out").rglob("*"))
        if path.is_file() and path.name[0] != "."
    ]
    broker = EmbeddedBroker(folder / "topics", fsync="none", clock=lambda: 0)
    topics = []
    for topic in broker.topics():
        for shard in range(topic.shards):
            records = broker.read(topic.name, shard, 0, max_records=1_000_000)
            if records is not None:
                keys = [] if records.keys is None else records.keys.to_pylist()
                topics.append((topic.name, shard, records.values.to_pylist(), keys))
    broker.close()
    return files, topics
