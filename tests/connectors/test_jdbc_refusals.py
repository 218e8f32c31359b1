"""Rows that a database refuses become dead letters, and all others are written once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from parser.errors import ExecutionError
from parser.types import BIGINT, STRING, Schema
from planner.catalog import Table
from sqlengine.batch import Batch, RowKind, from_pydict
from sqlengine.config import Config
from sqlengine.connectors.base import RowsRefused, Sink
from sqlengine.connectors.registry import open_sink
from sqlengine.engine import Engine
from sqlengine.engine.dead_letters import DeadLetterFilter
from tests.connectors.databases import Database
from tests.connectors.tables import environment
from tests.support import eventually

SCHEMA = Schema.of(id=BIGINT, name=STRING, boss=BIGINT)
DELETE = RowKind.DELETE
Row = tuple[int, str | None, int | None]


@pytest.fixture
def database(server: Database) -> Database:
    late = " DEFERRABLE INITIALLY DEFERRED" if server.dialect.name != "MySQL" else ""
    server.execute(
        "DROP TABLE IF EXISTS people",
        "DROP TABLE IF EXISTS sqlengine_epochs",
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name VARCHAR(5) NOT NULL UNIQUE,"
        " boss BIGINT, CHECK (id < 1000), CHECK (length(name) < 6),"
        f" FOREIGN KEY (boss) REFERENCES people (id){late})",
    )
    return server


def target(database: Database, *, key: bool, **options: str) -> Table:
    found = database.table("people", SCHEMA, ("id",) if key else ())
    return Table(
        found.name, found.schema, found.physical, {**found.options, **options},
        primary_key=found.primary_key,
    )  # fmt: skip


_opened: list[Sink] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


def opened(table: Table) -> Sink:
    _opened.append(open_sink(table, environment()))
    return _opened[-1]


def batch(rows: Sequence[Row], kind: RowKind = RowKind.INSERT) -> Batch:
    columns = dict(zip(SCHEMA.names, map(list, zip(*rows, strict=True)), strict=True))
    made = from_pydict(SCHEMA, columns)
    return Batch(SCHEMA, made.columns, len(rows), kinds=np.full(len(rows), kind, np.int8))


def commit(sink: Sink, epoch: int) -> tuple[int, list[tuple[Row, str]]]:
    """Commits as a graph does; returns the number of rows, and those that were refused."""
    told: list[tuple[Row, str]] = []
    while True:
        try:
            return sink.commit(epoch), told
        except RowsRefused:
            for refused in sink.refused():
                rows = list(zip(*(c.to_pylist() for c in refused.rows.columns), strict=True))
                told += [(rows[place], reason) for place, reason in refused.reasons.items()]


GOOD: list[Row] = [(i, f"n{i}", None) for i in range(1, 301)]
BAD: list[Row] = [
    (401, None, None),
    (402, "n7", None),
    (403, "toolong", None),
    (404, "n404", 999),
    (2000, "n2000", None),
]


@pytest.mark.parametrize("key", [True, False])
def test_only_rows_that_are_refused_are_left_out(database: Database, key: bool) -> None:
    sink = opened(target(database, key=key))
    # Whose boss comes behind it.
    # Of SQLite foreign keys have to be asked for; MySQL updates the row of any key that is there.
    taken = {"SQLite": [404], "MySQL": [402] if key else []}.get(database.dialect.name, [])
    bad = [row for row in BAD if row[0] not in taken]
    rows = [(500, "n500", 501), *GOOD, *bad, (501, "n501", None)]
    before_a_crash = opened(target(database, key=key))
    before_a_crash.write(batch(rows))
    with pytest.raises(RowsRefused):
        before_a_crash.commit(1)
    assert database.rows("people") == []
    sink.write(batch(rows[:200]))
    sink.write(batch(rows[200:]))
    count, told = commit(sink, 1)
    assert count == 302
    assert {row for row, _ in told} == set(bad)
    assert all(reason for _, reason in told)
    assert database.rows("people") == sorted([*GOOD, (500, "n500", 501), (501, "n501", None)])
    sink.write(batch([(502, "n502", None)]))
    assert commit(sink, 2) == (1, [])
    # They are told before the others are written, so that this is all that a crash repeats.
    again = opened(target(database, key=key))
    again.write(batch(rows))
    assert commit(again, 1) == (0, [])


def test_a_key_that_is_refused_keeps_its_row(database: Database) -> None:
    sink = opened(target(database, key=True))
    sink.write(batch([(1, "a", None), (2, "b", 1)]))
    assert commit(sink, 1) == (2, [])
    # The first of two rows of a key is not what the table is to have.
    sink.write(batch([(1, "x", None), (3, "c", None), (1, "toolong", None)]))
    assert [row for row, _ in commit(sink, 2)[1]] == [(1, "toolong", None)]
    assert database.rows("people") == [(1, "a", None), (2, "b", 1), (3, "c", None)]
    if database.dialect.name != "SQLite":  # which asks for no foreign keys unless it is told to
        sink.write(batch([(1, "a", None)], DELETE))
        assert [row for row, _ in commit(sink, 3)[1]] == [(1, "a", None)]
    # What held it up goes with it.
    sink.write(batch([(1, "a", None)], DELETE))
    sink.write(batch([(2, "b", None), (3, "toolong", None)]))
    assert [row for row, _ in commit(sink, 4)[1]] == [(3, "toolong", None)]
    assert database.rows("people") == [(2, "b", None), (3, "c", None)]


def test_a_table_may_want_its_job_to_fail(database: Database) -> None:
    sink = opened(target(database, key=True, **{"sink.on-error": "fail"}))
    sink.write(batch([(1, "a", None), *BAD[:1]]))
    with pytest.raises(ExecutionError, match="refused table 'people'"):
        sink.commit(1)
    assert not sink.refused()
    assert database.rows("people") == []


def test_a_job_goes_on_behind_rows_that_are_refused(database: Database, tmp_path: Path) -> None:
    engine = Engine(Config(data=tmp_path / "data", checkpoint_ms=200))
    engine.start()
    user = f", 'username' = '{database.username}'" if database.username else ""
    text = f"""
    CREATE TABLE events (id BIGINT, name STRING, boss BIGINT)
    WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
    CREATE TABLE people (id BIGINT, name STRING, boss BIGINT, PRIMARY KEY (id) NOT ENFORCED)
    WITH ('connector' = 'jdbc', 'url' = '{database.url}', 'table-name' = 'people'{user});
    INSERT INTO people SELECT * FROM events ON CONFLICT DO DEDUPLICATE;"""
    try:
        engine.broker.create_topic("events")
        engine.submit("keeps", text)
        lines = [b'{"id":%d,"name":"n%d"}' % (i, i) for i in range(1, 51)]
        bad = [b'{"id":60}', b'{"id":2000,"name":"n7"}']
        engine.broker.append("events", 0, [*lines, *bad], timestamp_ms=0)
        eventually(lambda: len(database.rows("people")) == 50)
        eventually(lambda: len(list(engine.dead_letters.read(DeadLetterFilter(job="keeps")))) == 2)
        engine.broker.append("events", 0, [b'{"id":62,"name":"n62"}'], timestamp_ms=0)
        eventually(lambda: len(database.rows("people")) == 51)
        assert engine.job("keeps").state.name == "RUNNING"
    finally:
        engine.close()
