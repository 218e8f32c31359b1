"""A row that its format cannot write is an error of that row, not of its table."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from sqlengine.batch import Batch
from sqlengine.connectors.registry import get_connector
from sqlengine.engine import Engine
from sqlengine.engine.dead_letters import DeadLetterFilter
from sqlengine.formats.base import Decoded, Decoder, Encoder, OutOfReach
from sqlengine.formats.json_ import JsonFormat
from sqlengine.formats.registry import decoder_for
from sqlengine.jobs.job import JobState
from tests.connectors.tables import table
from tests.engine.by_hand import die, open_engine, step
from tests.service.harness import running
from tests.support import eventually

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


WORDS = "CREATE TABLE words (word STRING) WITH ('connector' = 'topic', 'topic' = 'words', 'format' = 'json')"


class Moody(Decoder):
    """A decoder that raises for records with the word 'boom'; with `lies` it loses a row."""

    def __init__(self, real: Decoder, *, lies: bool) -> None:
        self._real, self._lies = real, lies

    def decode(self, records: pa.Array) -> Decoded:
        decoded = self._real.decode(records)
        if not any(b"boom" in record for record in records.to_pylist()):
            return decoded
        if self._lies:
            return replace(decoded, num_rows=decoded.num_rows + 1)
        raise KeyError("boom")


@pytest.mark.parametrize("lies", [False, True])
def test_a_decoder_that_raises_costs_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, lies: bool
) -> None:
    real = JsonFormat.decoder
    monkeypatch.setattr(
        JsonFormat, "decoder", lambda self, *args: Moody(real(self, *args), lies=lies)
    )
    engine = open_engine(tmp_path)
    engine.submit("tables", TABLES + TARGETS["raw"].format(out=tmp_path / "out"))
    engine.submit("job", "INSERT INTO words SELECT word FROM events")
    engine.broker.append("events", 0, [b"no json"], timestamp_ms=0)
    feed(engine, "a", "boom", "b", "boom", "c")
    assert written(tmp_path / "out") == ["a", "b", "c"]
    letters = engine.dead_letters.last(DeadLetterFilter(), 10)
    assert [letter.subject for letter in letters] == ["events"] * 3
    assert [("format 'json' failed" in x.reason, "boom" in x.payload) for x in letters] == [
        (False, False),
        (True, True),
        (True, True),
    ]
    assert [letter.offset for letter in letters] == [0, 2, 4]
    engine.close()


class Nothing(Decoder):
    """A decoder that cannot make columns without rows."""

    def __init__(self, real: Decoder) -> None:
        self._real = real

    def decode(self, records: pa.Array) -> Decoded:
        decoded = self._real.decode(records)
        if len(decoded.bad) == len(records):
            raise StopIteration
        return decoded


def test_records_are_bad_where_none_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = JsonFormat.decoder
    monkeypatch.setattr(JsonFormat, "decoder", lambda self, *args: Nothing(real(self, *args)))
    decoder = decoder_for(table({"connector": "topic", "topic": "t", "format": "json"}))
    for records in ([], [b"x", b"y"]):
        decoded = decoder.decode(pa.array(records, pa.binary()))
        assert [c.type for c in decoded.columns] == [pa.int64(), pa.string()]
        assert (decoded.num_rows, [b.row for b in decoded.bad]) == (0, list(range(len(records))))


class Dependent(Decoder):
    """A decoder that asks a service, which is `away` for some records."""

    away: set[bytes]

    def __init__(self, real: Decoder) -> None:
        self._real = real

    def decode(self, records: pa.Array) -> Decoded:
        if not self.away.isdisjoint(records.to_pylist()):
            raise OutOfReach("the service does not answer", detail="no route")
        return self._real.decode(records)


def test_rows_wait_for_a_service_that_their_format_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job fails and is started again by its policy; no record is at fault."""
    real = JsonFormat.decoder
    rows = [json.dumps({"host": "h", "word": str(i)}).encode() for i in range(10)]
    Dependent.away = set(rows[6:7])
    monkeypatch.setattr(JsonFormat, "decoder", lambda self, *args: Dependent(real(self, *args)))
    job = "SET 'restart-strategy.type' = 'fixed-delay'; SET 'restart-strategy.fixed-delay.delay' = '300 ms';"
    with running(tmp_path / "data") as (_, user):
        for topic in ("events", "words"):
            user.topic(topic)
        user.submit("tables", TABLES + WORDS)
        user.submit("job", f"{job} INSERT INTO words SELECT word FROM events")
        user.write("events", *rows)
        eventually(lambda: "the service does not answer" in str(user.job("job")))
        Dependent.away = set()
        eventually(lambda: len(user.read("words")) == 10)
        assert [row["word"] for row in user.read("words")] == [str(i) for i in range(10)]
        assert not user.letters()


class Short(Encoder):
    """An encoder that raises for the word 'boom', and makes no record of the word 'none'."""

    def __init__(self, real: Encoder) -> None:
        self._real = real

    def encode(self, batch: Batch) -> pa.Array:
        words = batch.column("word").to_pylist()
        if "boom" in words:
            raise KeyError("boom")
        return self._real.encode(batch).filter(pa.array([word != "none" for word in words]))


def test_an_encoder_that_raises_costs_the_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = JsonFormat.encoder
    monkeypatch.setattr(JsonFormat, "encoder", lambda self, *args: Short(real(self, *args)))
    engine = open_engine(tmp_path)
    engine.submit(
        "tables",
        TABLES + WORDS,
    )
    engine.submit("job", "INSERT INTO words SELECT word FROM events")
    feed(engine, "a", "boom", "b", "none", "c")
    records = engine.broker.read("words", 0, 0)
    assert records is not None
    assert [json.loads(v)["word"] for v in records.values.to_pylist()] == ["a", "b", "c"]
    reasons = [letter.reason for letter in engine.dead_letters.last(DeadLetterFilter("job"), 10)]
    assert ["KeyError" in reason for reason in reasons] == [True, False]
    assert "does not make a record of each" in reasons[1]
    engine.close()


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
