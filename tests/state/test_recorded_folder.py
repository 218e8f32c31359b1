"""A recorded data folder of a killed server, in the formats of its time: it is read, or rejected
with a remedy.

After an intended change of a format that rejects older ones, record it again: `pytest --update`,
this file.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.engine.dead_letters import DeadLetterFilter
from sqlengine.snapshots.savepoint_files import Savepoint
from tests.engine.by_hand import EVENTS, WINDOW, append, die, of_job, rows, step

RECORDED = Path(__file__).with_name("recorded.tar.gz")
TABLES = """
CREATE TABLE counts (host STRING, n BIGINT, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'counts', 'format' = 'json', 'upsert' = 'true');
CREATE TABLE lines (id BIGINT, host STRING) WITH ('connector' = 'filesystem', 'path' = 'out/lines', 'format' = 'json');
CREATE TABLE lake (id BIGINT, host STRING) PARTITIONED BY (host)
WITH ('connector' = 'filesystem', 'path' = 'out/lake', 'format' = 'parquet');
"""
JOBS = {
    "window": WINDOW.format(name="window"),
    "counts": "INSERT INTO counts SELECT host, COUNT(*) FROM events GROUP BY host",
    "lines": "INSERT INTO lines SELECT id, host FROM events",
    "lake": "INSERT INTO lake SELECT id, host FROM events",
    "saved": (
        "INSERT INTO outs SELECT 'saved', SUM(id) FROM events GROUP BY TUMBLE(ts, INTERVAL '1'"
        " SECOND)"
    ),
}


def opened() -> Engine:
    return Engine(
        Config(data=Path("data"), checkpoint_ms=1 << 60, checkpoints="topic", plan_cache=False)
    )


def record(folder: Path) -> None:
    """A life that ends with epochs behind its last checkpoint, a savepoint, and a dead letter."""
    engine = opened()
    for topic in ("events", "out"):
        engine.broker.create_topic(topic)
    engine.submit("tables", EVENTS + TABLES)
    for name, sql in JOBS.items():
        engine.submit(name, sql)
    append(engine, 100, 200, 1300)
    engine.broker.append("events", 0, [b"{"], timestamp_ms=0)
    step(engine)
    engine.save_job("saved", stop=True)
    engine.graph.runner.checkpoint(wait=True)
    append(engine, 1400, 1500)
    step(engine)
    die(engine)
    with tarfile.open(RECORDED, "w:gz") as archive:
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "lock"):
            archive.add(path, path.relative_to(folder))


def lake() -> list[int]:
    files = Path("out/lake").rglob("part-*.parquet")
    return sorted(i for file in files for i in pq.ParquetFile(file).read().column("id").to_pylist())


def test_a_folder_of_before_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, update: bool
) -> None:
    if update:
        (tmp_path / "recorded").mkdir()
        monkeypatch.chdir(tmp_path / "recorded")
        record(tmp_path / "recorded")
    monkeypatch.chdir(tmp_path)
    with tarfile.open(RECORDED) as archive:
        archive.extractall(tmp_path, filter="data")
    engine = opened()
    try:
        assert of_job(engine, "window") == [2]
        assert rows(engine, "counts")[-1] == ["h0", 1]
        (savepoint,) = engine.savepoints.all()
        assert isinstance(savepoint, Savepoint)
        assert engine.start_job("saved", savepoint.path).savepoint == savepoint.path
        append(engine, 2600, 3700)
        step(engine)
        assert of_job(engine, "window") == [2, 3, 1]
        assert of_job(engine, "saved") == [300, 4200, 2600]
        assert dict(map(tuple, rows(engine, "counts"))) == {"h0": 1, "h1": 3, "h2": 3}  # type: ignore[arg-type]
        assert len(list(engine.dead_letters.read(DeadLetterFilter()))) == 1
    finally:
        engine.close()
    assert Path("out/lines").is_dir()
    assert lake() == [100, 200, 1300, 1400, 1500, 2600, 3700]
