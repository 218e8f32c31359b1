"""Tables of databases: the rows of an epoch are there once and whole, values come back as they were."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.errors import ExecutionError, OptionError, UnsupportedError
from parser.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INT,
    STRING,
    Schema,
    array,
    decimal,
    timestamp,
    timestamp_ltz,
)  # fmt: skip
from parser.types import time as time_type
from planner.catalog import Table
from sqlengine.batch import Batch, RowKind, from_pydict
from sqlengine.broker.errors import BrokerFull
from sqlengine.connectors.base import Sink
from sqlengine.connectors.registry import open_sink, open_source
from tests.connectors.tables import SCHEMA, environment, table

INSERT, UB, UA, DELETE = (int(k) for k in RowKind)
ALL = Schema.of(
    id=BIGINT, ok=BOOLEAN, x=DOUBLE, price=decimal(10, 2), day=DATE, at=time_type(0), ts=timestamp(3),
    moment=timestamp_ltz(3), name=STRING, raw=BYTES,
)  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "app.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE totals (id BIGINT PRIMARY KEY, name TEXT)")
        database.execute("CREATE TABLE events (id BIGINT, name TEXT)")
    return path


def keyed(file: Path, name: str = "totals", schema: Schema = SCHEMA, **options: str) -> Table:
    found = table({"connector": "jdbc", "url": f"jdbc:sqlite:{file}", "table-name": name, **options}, schema)
    return Table(found.name, found.schema, found.physical, found.options, primary_key=("id",))


def plain(file: Path, name: str = "events") -> Table:
    return table({"connector": "jdbc", "url": f"jdbc:sqlite:{file}", "table-name": name})


def rows(file: Path, name: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(file) as database:
        return database.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall()


def changes(*found: tuple[int, int, str]) -> Batch:
    made = from_pydict(SCHEMA, {"id": [i for _, i, _ in found], "name": [n for _, _, n in found]})
    return Batch(SCHEMA, made.columns, made.num_rows, kinds=pa.array([k for k, _, _ in found], pa.int8()).to_numpy())


def write(target: Sink, epoch: int, *found: tuple[int, int, str]) -> int:
    target.write(changes(*found))
    return target.commit(epoch)


def test_epochs_are_written_once(file: Path) -> None:
    first = open_sink(plain(file), environment())
    assert first.last_epoch() is None
    told = [write(first, 3, (INSERT, 1, "a"), (INSERT, 1, "a")), write(first, 3, (INSERT, 1, "a")), first.commit(4)]
    first.close()
    again = open_sink(plain(file), environment())
    assert again.last_epoch() == 3
    assert [*told, write(again, 3, (INSERT, 1, "a")), write(again, 5, (INSERT, 2, "b"))] == [2, 0, 0, 0, 1]
    assert rows(file, "events") == [(1, "a"), (1, "a"), (2, "b")]


def test_a_writer_that_is_gone_leaves_whole_epochs(file: Path) -> None:
    """What a transaction had written when its process died is not there."""
    lost = open_sink(plain(file), environment())
    lost.write(changes((INSERT, 1, "a")))
    connection = lost._connection  # type: ignore[attr-defined]
    cursor = connection.cursor()
    cursor.execute("BEGIN IMMEDIATE")
    lost._apply(cursor)  # type: ignore[attr-defined]
    del cursor
    connection.close()
    assert rows(file, "events") == []
    assert write(open_sink(plain(file), environment()), 1, (INSERT, 1, "a")) == 1


def test_writers_and_tables_have_epochs_of_their_own(file: Path) -> None:
    for writer in ("g1", "g2"):
        assert write(open_sink(plain(file), environment(writer=writer)), 7, (INSERT, 1, writer)) == 1
    assert write(open_sink(keyed(file), environment(writer="g1")), 7, (INSERT, 1, "x")) == 1
    assert rows(file, "events") == [(1, "g1"), (1, "g2")]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([INSERT, UA, DELETE, UB]), st.integers(0, 3), st.sampled_from("abc")),
        min_size=1,
        max_size=30,
    ),
    st.integers(1, 5),
)
def test_a_table_with_a_key_holds_the_last_row_of_each(
    tmp_path_factory: pytest.TempPathFactory, told: list[tuple[int, int, str]], size: int
) -> None:
    path = tmp_path_factory.mktemp("db") / "app.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE totals (id BIGINT PRIMARY KEY, name TEXT)")
    target = open_sink(keyed(path), environment())
    model: dict[int, str] = {}
    for epoch, start in enumerate(range(0, len(told), size)):
        write(target, epoch, *told[start : start + size])
    for kind, key, name in told:
        model.pop(key, None)
        if kind in (INSERT, UA):
            model[key] = name
    assert rows(path, "totals") == sorted(model.items())


def test_values_come_back(file: Path) -> None:
    target = keyed(file, "everything", ALL)
    with pytest.raises(ExecutionError, match="cannot be written") as refused:
        open_sink(target, environment())
    assert refused.value.hint is not None
    with sqlite3.connect(file) as database:
        database.execute(refused.value.hint.removeprefix("make it in the database: "))
    moment = datetime(2024, 2, 29, 23, 59, 59, 123000)
    full = [
        1, True, 0.1, Decimal("12.30"), date(1969, 7, 20), time(4, 5, 6), moment, moment.replace(tzinfo=UTC),
        "it's \"x\"", b"\x00\xff",
    ]  # fmt: skip
    found = {c.name: [v, None] for c, v in zip(ALL, full, strict=True)} | {"id": [1, 2]}
    batch = from_pydict(ALL, found)
    sink = open_sink(target, environment())
    sink.write(batch)
    assert sink.commit(1) == 2
    source = open_source(target, environment())
    (shard,) = source.shards()
    chunk = source.read(shard, 0, max_rows=10)
    assert chunk is not None
    assert chunk.columns is not None
    assert [c.to_pylist() for c in chunk.columns.values()] == [c.to_pylist() for c in batch.columns]
    second = source.read(shard, 1, max_rows=1, until=2)
    assert second is not None
    assert second.columns is not None
    assert second.columns["id"].to_pylist() == [2]
    assert source.read(shard, 2, max_rows=1) is None


def test_a_table_that_changed_under_a_reader_is_told(file: Path) -> None:
    write(open_sink(plain(file), environment()), 1, (INSERT, 1, "a"))
    before = open_source(plain(file), environment()).shards()[0]
    same = open_source(plain(file), environment())
    assert same.read(before, 0, max_rows=1) is not None
    write(open_sink(plain(file), environment()), 2, (INSERT, 2, "b"))
    with pytest.raises(ExecutionError, match="has changed while it was read"):
        open_source(plain(file), environment()).read(before, 0, max_rows=1)


@pytest.fixture
def locked(file: Path) -> Iterator[sqlite3.Connection]:
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield other
    other.close()


def test_a_lock_is_an_error_of_the_job_and_the_rows_stay(
    file: Path, locked: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sqlengine.connectors.jdbc_dialects.BUSY_S", 0.01)
    locked.rollback()
    target = open_sink(plain(file), environment())
    locked.execute("BEGIN IMMEDIATE")
    with pytest.raises(ExecutionError, match="database is locked"):
        write(target, 1, (INSERT, 1, "a"))
    locked.rollback()
    assert target.commit(1) == 1
    assert rows(file, "events") == [(1, "a")]


def test_a_full_database_is_waited_for(file: Path) -> None:
    target = open_sink(plain(file), environment())
    pages = "PRAGMA max_page_count"
    connection = target._connection  # type: ignore[attr-defined]
    connection.execute(f"{pages} = {connection.execute('PRAGMA page_count').fetchone()[0]}")
    with pytest.raises(BrokerFull, match="no space to write to table 'events'"):
        write(target, 1, *[(INSERT, i, "x" * 1000) for i in range(50)])
    assert target.commit(1) == 50  # a new connection has room
    assert len(rows(file, "events")) == 50


@pytest.mark.parametrize(
    ("options", "schema", "error", "message"),
    [
        ({"url": "jdbc:oracle:thin:@x"}, SCHEMA, OptionError, "no database that the connector 'jdbc' knows"),
        ({"url": "jdbc:sqlite:/nowhere/x.db"}, SCHEMA, ExecutionError, "cannot open the SQLite database"),
        ({"table-name": "nothing"}, SCHEMA, ExecutionError, "no such table"),
        ({}, Schema.of(id=BIGINT, missing=INT), ExecutionError, "no such column"),
        ({}, Schema.of(id=BIGINT, name=array(INT)), UnsupportedError, "which the connector 'jdbc' cannot keep"),
        ({"sink.max-retries": "-1"}, SCHEMA, OptionError, "bad value '-1'"),
    ],
)
def test_mistakes_are_named(
    file: Path, options: dict[str, str], schema: Schema, error: type[Exception], message: str
) -> None:
    given = {"connector": "jdbc", "url": f"jdbc:sqlite:{file}", "table-name": "events", **options}
    with pytest.raises(error) as caught:
        open_sink(table(given, schema), environment())
    assert message in f"{caught.value} {getattr(caught.value, 'detail', '')}"


def test_a_value_that_the_column_cannot_hold_is_named(file: Path) -> None:
    write(open_sink(plain(file), environment()), 1, (INSERT, 1, "twelve"))
    wrong = table(dict(plain(file).options), Schema.of(id=BIGINT, name=DATE))
    with pytest.raises(ExecutionError, match="column 'name' of table 'events' holds a value that is no DATE"):
        open_source(wrong, environment())
