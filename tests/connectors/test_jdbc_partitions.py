"""Tables of databases by partitions: every row within the bounds once, in one process and in tasks,
and the same ones after a crash, or none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from parser.errors import ExecutionError, OptionError
from parser.types import BIGINT, BOOLEAN, DATE, DOUBLE, STRING, Schema, decimal, timestamp
from planner.catalog import Table
from sqlengine.config import Config, Target
from sqlengine.connectors.base import Source
from sqlengine.connectors.jdbc.partitions import partitions_of
from sqlengine.connectors.registry import open_source, options_of
from sqlengine.engine import Engine
from sqlengine.jobs.job import JobState
from sqlengine.machine import THIS
from sqlengine.session.environment import open_runner
from sqlengine.session.session import Session
from sqlengine.session.spark import script_runner
from tests.connectors.databases import Database, sqlite
from tests.connectors.tables import environment
from tests.spark.scripting import Collected
from tests.spark.staged import RepeatedFrames, Staged
from tests.support import eventually

READINGS = Schema.of(
    id=BIGINT, v=DOUBLE, n=decimal(8, 2), d=DATE, ts=timestamp(3), s=STRING, ok=BOOLEAN
)
COUNT = 60


@pytest.fixture
def database(server: Database) -> Database:
    """Rows 0 to 59, a day and a half of each apart, with NULL in the tenth."""
    columns = (f"{c.name} {server.dialect.type_name(c.type, False)}" for c in READINGS)
    statements = ["DROP TABLE IF EXISTS readings", f"CREATE TABLE readings ({', '.join(columns)})"]
    for i in range(COUNT):
        day, hour = 1 + i // 4, i % 4 * 6
        known = f"{i}, {i}.5, {i}.25, '2024-05-{day:02}', '2024-05-{day:02} {hour:02}:30:00.000'"
        text = known if i != 9 else "NULL, NULL, NULL, NULL, NULL"
        statements.append(f"INSERT INTO readings VALUES ({text}, 'r{i}', TRUE)")
    server.execute(*statements)
    return server


def by(column: str, number: object, lower: object, upper: object) -> dict[str, str]:
    given = {"column": column, "num": number, "lower-bound": lower, "upper-bound": upper}
    return {f"scan.partition.{name}": str(value) for name, value in given.items()}


def table_of(database: Database, options: Mapping[str, str]) -> Table:
    found = database.table("readings", READINGS)
    return replace(found, options={**found.options, **options})


def read(source: Source, positions: dict[str, int], polls: int = 1000) -> list[str]:
    """The texts of rows that come in so many polls."""
    found: list[str] = []
    for _ in range(polls):
        before = dict(positions)
        for shard, offset in before.items():
            if (chunk := source.read(shard, offset, max_rows=4)) is not None:
                assert chunk.columns is not None
                found += chunk.columns["s"].to_pylist()
                positions[shard] = chunk.end
        if positions == before:
            break
    return found


def names(first: int, last: int) -> list[str]:
    return [f"r{i}" for i in range(first, last + 1) if i != 9]


@pytest.mark.parametrize("fetch", ["0", "7"])
@pytest.mark.parametrize(
    ("options", "shards", "first", "last"),
    [
        (by("id", 4, 0, 59), 4, 0, 59),
        (by("id", 7, 3, 40), 7, 3, 40),
        (by("id", 9, 5, 7), 3, 5, 7),
        (by("id", 1, -100, 100), 1, 0, 59),
        # No value falls between two ranges.
        (by("v", 5, 0, 60), 5, 0, 59),
        (by("n", 5, 10, 20), 5, 10, 19),
        (by("d", 4, "2024-05-02", "2024-05-05"), 4, 4, 19),
        (by("ts", 3, "2024-05-01 06:30:00", "2024-05-03 00:00:00"), 3, 1, 7),
    ],
)
def test_partitions_have_each_row_within_the_bounds(
    options: dict[str, str], shards: int, first: int, last: int, fetch: str, database: Database
) -> None:
    source = open_source(table_of(database, {**options, "scan.fetch-size": fetch}), environment())
    positions = dict.fromkeys(source.shards(), 0)
    assert len(positions) == shards
    assert read(source, positions) == names(first, last)
    assert positions == {s: source.end(s) for s in positions}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scan.partition.column": "id"}, "has no option 'scan.partition.num', which"),
        (by("gone", 2, 0, 9), "option 'scan.partition.column' names 'gone', which is no column"),
        (by("s", 2, 0, 9), "option 'scan.partition.column' names column 's', which is STRING"),
        (by("id", 0, 0, 9), "'scan.partition.num'"),
        (by("id", 10**9, 0, 10**12), "expected an integer from 1 to 10,000"),
        (by("id", 2, "a", 9), "invalid value 'a' of option 'scan.partition.lower-bound'"),
        (by("d", 2, "2024-05-01", 9), "invalid value '9' of option 'scan.partition.upper-bound'"),
        (by("id", 2, 9, 0), "option 'scan.partition.lower-bound' is above"),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], said: str, tmp_path: Path) -> None:
    of = table_of(sqlite(tmp_path), options)
    with pytest.raises(OptionError, match=said):
        partitions_of(of, options_of(of))


def test_a_reader_goes_on_where_it_was(database: Database) -> None:
    of = table_of(database, by("id", 3, 0, 59))
    first = open_source(of, environment())
    positions = dict.fromkeys(first.shards(), 0)
    found = read(first, positions, polls=7)
    marks = first.marks()
    assert 0 < len(found) < COUNT
    # What has been read to its end may change.
    database.execute("DELETE FROM readings WHERE id = 0", "INSERT INTO readings (id) VALUES (1)")
    again = open_source(of, environment())
    again.resume(positions, marks)
    assert again.shards() == list(positions)
    assert found + read(again, positions) == names(0, 59)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE readings SET s = 'other' WHERE id = 22",
        "DELETE FROM readings WHERE id = 55",
        "INSERT INTO readings (id) VALUES (59)",
    ],
)
def test_rows_that_changed_meanwhile_are_told(change: str, database: Database) -> None:
    of = table_of(database, by("id", 3, 0, 59))
    first = open_source(of, environment())
    positions = dict.fromkeys(first.shards(), 0)
    read(first, positions, polls=7)
    database.execute(change)
    again = open_source(of, environment())
    again.resume(positions, first.marks())
    with pytest.raises(ExecutionError, match="has changed while it was read"):
        read(again, positions)


def test_an_epoch_that_is_repeated_sees_the_same(database: Database) -> None:
    """Before the first checkpoint the log of epochs alone knows what was read."""
    of = table_of(database, by("id", 3, 0, 59))
    first = open_source(of, environment())
    shard = first.shards()[0]
    chunk = first.read(shard, 0, max_rows=5)
    assert chunk is not None
    for change in (
        "UPDATE readings SET v = 0 WHERE id = 59",
        "UPDATE readings SET v = 7 WHERE id = 3",
    ):
        again = open_source(of, environment())
        again.resume({shard: 0}, {})
        again.expect(shard, chunk.start, chunk.end, chunk.digest)
        repeated = again.read(shard, chunk.start, max_rows=5, until=chunk.end)
        assert repeated is not None
        assert repeated.columns == chunk.columns
        database.execute(change)
    again = open_source(of, environment())
    again.expect(shard, chunk.start, chunk.end, chunk.digest)
    with pytest.raises(ExecutionError, match="has changed while it was read"):
        again.read(shard, chunk.start, max_rows=5, until=chunk.end)


SCRIPT = """
CREATE TABLE readings (id BIGINT, v DOUBLE, s STRING) WITH ('connector' = 'jdbc', 'url' = '{url}',
  'table-name' = 'readings', 'scan.partition.column' = 'id', 'scan.partition.num' = '5',
  'scan.partition.lower-bound' = '2', 'scan.partition.upper-bound' = '50');
SET 'execution.runtime-mode' = 'batch';
EXPLAIN SELECT s FROM readings;
SELECT s FROM readings WHERE v > 10;
SELECT id - id / 7 * 7 AS k, COUNT(*), SUM(v) FROM readings GROUP BY id - id / 7 * 7;
"""


def test_tasks_read_partitions(database: Database, tmp_path: Path) -> None:
    if database.username is not None:
        pytest.skip("one database is enough")
    text, found = SCRIPT.format(url=database.url), []
    opened = [
        open_runner(tmp_path / "here", 7, "embedded"),
        script_runner(tmp_path / "there", 7, Staged(2)),
        script_runner(tmp_path / "again", 7, Staged(3, RepeatedFrames)),
    ]
    for one in opened:
        collected = Collected(text)
        with one as runner:
            Session(runner, collected).run(text)
        outcome = collected.finish()
        assert not outcome.errors
        explained = [row for row in outcome.rows if row.startswith("statement 2")]
        found.append({r: n for r, n in outcome.rows.items() if r not in explained})
    assert "readings, read by tasks" in str(explained)
    assert found[0] == found[1] == found[2]
    assert sum(found[0].values()) > 40


JOB = """
CREATE TABLE readings (id BIGINT, s STRING) WITH ('connector' = 'jdbc', 'url' = '{url}',
  'table-name' = 'readings', 'scan.partition.column' = 'id', 'scan.partition.num' = '4',
  'scan.partition.lower-bound' = '0', 'scan.partition.upper-bound' = '59');
CREATE TABLE said (id BIGINT, s STRING, waits STRING) WITH ('connector' = 'topic', 'topic' = 'said', 'format' = 'json');
CREATE TABLE more (waits STRING) WITH ('connector' = 'topic', 'topic' = 'more', 'format' = 'json');
INSERT INTO said SELECT id, s, '' FROM readings UNION ALL SELECT 0, '', waits FROM more;
"""


def engine(folder: Path, target: Target) -> Engine:
    """A server that takes no checkpoint by itself."""
    tasks = replace(THIS, spark=lambda config: Staged(2, RepeatedFrames))
    opened = Engine(Config(data=folder / "data", target=target, checkpoint_ms=1 << 60), tasks)
    opened.start()
    return opened


def ids(server: Engine) -> list[int]:
    records = server.broker.read("said", 0, 0)
    lines = [] if records is None else records.values.to_pylist()
    return sorted(json.loads(line)["id"] for line in lines)


def die(server: Engine) -> None:
    server.graph.loop.stop()
    server.graph.runner.broken = True
    server.close()


@pytest.mark.parametrize(
    ("first", "then", "changed", "said"),
    [
        ("spark", "spark", False, ""),
        ("spark", "spark", True, "has changed while it was read"),
        pytest.param("embedded", "spark", False, "", marks=pytest.mark.slow),
        pytest.param(
            "embedded", "spark", True, "has changed while it was read", marks=pytest.mark.slow
        ),
        ("spark", "embedded", False, "cannot be read again here"),
    ],
)
def test_a_server_whose_tasks_read_is_killed(
    first: Target,
    then: Target,
    changed: bool,
    said: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its epochs are repeated with the rows that there were, or not at all."""
    database = sqlite(tmp_path)
    database.execute("CREATE TABLE readings (id BIGINT, s VARCHAR(20))")
    for i in range(COUNT):
        database.execute(f"INSERT INTO readings VALUES ({i}, 'r{i}')")
    server = engine(tmp_path, first)
    server.broker.create_topic("more")
    server.submit("reads", JOB.format(url=database.url))
    eventually(lambda: ids(server) == list(range(COUNT)), lambda: str(server.job("reads")))
    die(server)
    if changed:
        database.execute("UPDATE readings SET s = 'other' WHERE id = 22")
    server = engine(tmp_path, then)
    try:
        eventually(lambda: said in caplog.text, lambda: str(server.job("reads")))
        if changed and first == "spark":
            eventually(lambda: server.job("reads").state is JobState.FAILED)
        if not said:
            assert server.job("reads").state is JobState.RUNNING
            assert server.job("reads").restarts == 0
        assert ids(server) == list(range(COUNT))
    finally:
        server.close()
