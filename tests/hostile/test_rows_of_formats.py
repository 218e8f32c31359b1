"""A row that its format cannot write is an error of that row, not of its table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sqlengine.connectors.registry import get_connector
from sqlengine.engine import Engine
from sqlengine.engine.dead_letters import DeadLetterFilter
from sqlengine.jobs.job import JobState
from tests.engine.by_hand import die, open_engine, step

TABLES = """
CREATE TABLE events (host STRING, word STRING)
WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
"""
# Their line breaks are told from others by quotes alone.
BARE = "'format' = 'csv', 'csv.disable-quote-character' = 'true'"
TARGETS = {
    "raw": "CREATE TABLE words (word STRING) WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'raw')",
    "rolling": "CREATE TABLE words (word STRING) WITH ('connector' = 'filesystem', 'path' = '{out}', 'format' = 'raw', 'sink.rolling-policy.file-size' = '1 b')",
    "partitioned": "CREATE TABLE words (host STRING, word STRING) PARTITIONED BY (host) WITH ('connector' = 'filesystem', 'path' = '{out}', " + BARE + ")",
}  # fmt: skip


def feed(engine: Engine, *words: str) -> None:
    lines = [json.dumps({"host": f"h{i % 2}", "word": w}).encode() for i, w in enumerate(words)]
    engine.broker.append("events", 0, lines, timestamp_ms=0)
    step(engine)


def written(folder: Path) -> list[str]:
    files = [f for f in folder.rglob("*") if f.is_file() and not f.name.startswith(".")]
    return sorted(line for f in files for line in f.read_text().split("\n") if line)


@pytest.mark.parametrize("kind", TARGETS)
def test_a_line_break_costs_its_row(tmp_path: Path, kind: str) -> None:
    engine = open_engine(tmp_path)
    engine.submit("tables", TABLES + TARGETS[kind].format(out=tmp_path / "out"))
    columns = "host, word" if kind == "partitioned" else "word"
    engine.submit("job", f"INSERT INTO words SELECT {columns} FROM events")
    feed(engine, "a", "b", "two\nlines", "c", "\n", "d")
    feed(engine, "e")
    assert written(tmp_path / "out") == ["a", "b", "c", "d", "e"]
    assert engine.job("job").state is JobState.RUNNING
    letters = engine.dead_letters.last(DeadLetterFilter(job="job"), 10)
    assert [letter.job for letter in letters] == ["job", "job"]
    assert all("line break" in letter.reason for letter in letters)
    die(engine)
    again = open_engine(tmp_path)  # its epochs come again
    step(again)
    assert written(tmp_path / "out") == ["a", "b", "c", "d", "e"]
    assert len(again.dead_letters.last(DeadLetterFilter(job="job"), 10)) == 2
    again.close()


def test_a_connector_that_cannot_tell_fails_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine(tmp_path)
    engine.submit("tables", TABLES + TARGETS["raw"].format(out=tmp_path / "out"))
    engine.submit("job", "INSERT INTO words SELECT word FROM events")

    def rejects(table: object, rows: object) -> dict[int, str]:
        raise KeyError("a fault of the connector")

    monkeypatch.setattr(get_connector("filesystem"), "rejects", rejects)
    with pytest.raises(Exception, match="table 'words' cannot be written: its connector failed"):
        feed(engine, "a")
    assert not engine.graphs.broken
    monkeypatch.undo()
    engine.close()
