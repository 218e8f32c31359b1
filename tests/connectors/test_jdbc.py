"""Tables of databases: the rows of an epoch are there once and whole, values come back as they
were."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parser.errors import ExecutionError, OptionError, PlanError, UnsupportedError
from parser.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INT,
    STRING,
    Column,
    Schema,
    decimal,
    map_of,
    timestamp,
    timestamp_ltz,
)  # fmt: skip
from parser.types import time as time_type
from planner.catalog import Table
from planner.logical import Scan
from planner.scalar import Call, ColumnRef, Literal
from sqlengine.batch import Batch, RowKind, from_pydict
from sqlengine.connectors import registry
from sqlengine.connectors.base import Sink
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.jdbc import values
from sqlengine.connectors.jdbc.connector import JdbcConnector
from sqlengine.connectors.jdbc.dialect import DatabaseBusy, DatabaseFull
from sqlengine.connectors.jdbc.sink import JdbcSink
from sqlengine.connectors.registry import open_source
from tests.connectors.databases import Database, sqlite
from tests.connectors.tables import SCHEMA, Clock, environment, table

INSERT, UB, UA, DELETE = (int(k) for k in RowKind)
KEY = ("id",)
_writers = count()
ALL = Schema.of(
    id=BIGINT, ok=BOOLEAN, x=DOUBLE, price=decimal(10, 2), day=DATE, at=time_type(0), ts=timestamp(3),
    moment=timestamp_ltz(3), name=STRING, raw=BYTES,
)  # fmt: skip


@pytest.fixture
def database(server: Database) -> Database:
    key = server.dialect.text
    server.execute(
        *[
            f"DROP TABLE IF EXISTS {t}"
            for t in ("totals", "events", "everything", "sqlengine_epochs")
        ]
    )
    server.execute(
        f"CREATE TABLE totals (id BIGINT PRIMARY KEY, name {key})",
        f"CREATE TABLE events (id BIGINT, name {key})",
    )
    return server


_opened: list[Sink] = []


def open_sink(target: Table, services: Environment) -> Sink:
    """A sink that is closed with the test."""
    _opened.append(registry.open_sink(target, services))
    return _opened[-1]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


def changes(*found: tuple[int, int, str]) -> Batch:
    made = from_pydict(SCHEMA, {"id": [i for _, i, _ in found], "name": [n for _, _, n in found]})
    return Batch(
        SCHEMA,
        made.columns,
        made.num_rows,
        kinds=pa.array([k for k, _, _ in found], pa.int8()).to_numpy(),
    )


def write(target: Sink, epoch: int, *found: tuple[int, int, str]) -> int:
    target.write(changes(*found))
    return target.commit(epoch)


def test_epochs_are_written_once(database: Database) -> None:
    first = open_sink(database.table("events"), environment())
    assert first.last_epoch() is None
    told = [
        write(first, 3, (INSERT, 1, "a"), (INSERT, 1, "a")),
        write(first, 3, (INSERT, 1, "a")),
        first.commit(4),
    ]
    first.close()
    again = open_sink(database.table("events"), environment())
    assert again.last_epoch() == 3
    assert [*told, write(again, 3, (INSERT, 1, "a")), write(again, 5, (INSERT, 2, "b"))] == [
        2,
        0,
        0,
        0,
        1,
    ]
    assert database.rows("events") == [(1, "a"), (1, "a"), (2, "b")]


def test_a_writer_that_is_gone_leaves_whole_epochs(database: Database) -> None:
    """What a transaction had written when its process died is not there."""
    lost = JdbcConnector().sink(database.table("events"), environment())
    assert isinstance(lost, JdbcSink)
    lost.write(changes((INSERT, 1, "a")))
    connection = lost._connection
    assert connection is not None
    cursor = connection.cursor()
    cursor.execute(database.dialect.begin)
    lost._at_once(cursor)
    del cursor
    connection.close()
    assert database.rows("events") == []
    assert write(open_sink(database.table("events"), environment()), 1, (INSERT, 1, "a")) == 1


def test_writers_and_tables_have_epochs_of_their_own(database: Database) -> None:
    for writer in ("g1", "g2"):
        assert (
            write(
                open_sink(database.table("events"), environment(writer=writer)),
                7,
                (INSERT, 1, writer),
            )
            == 1
        )
    assert (
        write(
            open_sink(database.table("totals", key=KEY), environment(writer="g1")),
            7,
            (INSERT, 1, "x"),
        )
        == 1
    )
    assert database.rows("events") == [(1, "g1"), (1, "g2")]


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([INSERT, UA, DELETE, UB]), st.integers(0, 3), st.sampled_from("abc")
        ),
        min_size=1,
        max_size=30,
    ),
    st.integers(1, 5),
)
def test_a_table_with_a_key_holds_the_last_row_of_each(
    database: Database, told: list[tuple[int, int, str]], size: int
) -> None:
    database.execute("DELETE FROM totals")
    target = open_sink(database.table("totals", key=KEY), environment(writer=f"w{next(_writers)}"))
    model: dict[int, str] = {}
    for epoch, start in enumerate(range(0, len(told), size)):
        write(target, epoch, *told[start : start + size])
    for kind, key, name in told:
        model.pop(key, None)
        if kind in (INSERT, UA):
            model[key] = name
    assert database.rows("totals") == sorted(model.items())
    target.close()


def test_a_table_without_a_column_tells_those_that_it_has(database: Database) -> None:
    schema = Schema.of(id=BIGINT, nme=STRING)
    with pytest.raises(ExecutionError, match=r"table .totals. .* cannot be written") as refused:
        open_sink(database.table("totals", schema), environment())
    assert refused.value.hint == "it has the columns id, name; declare those, or add to them there"


def test_values_come_back(database: Database) -> None:
    target = database.table("everything", ALL, KEY)
    with pytest.raises(ExecutionError, match="cannot be written") as refused:
        open_sink(target, environment())
    assert refused.value.hint is not None
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


def test_names_may_be_like_marks(database: Database) -> None:
    schema = Schema.of(**{"id": BIGINT, "a%s": BIGINT, "100%": STRING, 'b?%d`"': STRING})
    quoted = [database.dialect.quoted(name) for name in schema.names]
    kinds = ["BIGINT PRIMARY KEY", "BIGINT", *["VARCHAR(20)"] * 2]
    name = database.dialect.quoted("of%s%%")
    columns = ", ".join(f"{n} {k}" for n, k in zip(quoted, kinds, strict=True))
    database.execute(f"DROP TABLE IF EXISTS {name}", f"CREATE TABLE {name} ({columns})")
    target = database.table("of%s%%", schema, KEY)
    sink = open_sink(target, environment())
    for value in "x", "%s":
        found = {n: [value, "?"] for n in schema.names} | {"id": [1, 2], "a%s": [3, 4]}
        sink.write(from_pydict(schema, found))
        sink.commit(1 if value == "x" else 2)
    source = open_source(target, environment())
    chunk = source.read(source.shards()[0], 0, max_rows=10)
    assert chunk is not None
    assert chunk.columns is not None
    assert [c.to_pylist() for c in chunk.columns.values()] == [[1, 2], [3, 4], *[["%s", "?"]] * 2]
    where = Call("=", (ColumnRef("a%s", BIGINT), Literal(4, BIGINT)), BOOLEAN)
    asked = registry.open_scan(Scan(registry.declared(target), where), environment())
    assert asked.end(asked.shards()[0]) == 1


def test_a_table_that_changed_under_a_reader_is_told(database: Database) -> None:
    write(open_sink(database.table("events"), environment()), 1, (INSERT, 1, "a"))
    before = open_source(database.table("events"), environment()).shards()[0]
    same = open_source(database.table("events"), environment())
    assert same.read(before, 0, max_rows=1) is not None
    write(open_sink(database.table("events"), environment()), 2, (INSERT, 2, "b"))
    with pytest.raises(ExecutionError, match="has changed while it was read"):
        open_source(database.table("events"), environment()).read(before, 0, max_rows=1)


def test_a_lock_is_not_waited_for_here_and_the_rows_stay(database: Database) -> None:
    clock = Clock(0)
    target = open_sink(database.table("events", retries=1), environment(clock=clock))
    write(target, 1, (INSERT, 1, "a"))
    other = database.connect()
    other.cursor().execute(database.dialect.begin)
    other.cursor().execute("DELETE FROM sqlengine_epochs")
    with pytest.raises(
        DatabaseBusy, match=r"table 'events' of the .* database is locked by another"
    ):
        write(target, 2, (INSERT, 2, "b"))
    clock.now = 9_999
    with pytest.raises(DatabaseBusy):
        target.commit(2)
    clock.now = 10_000
    with pytest.raises(ExecutionError, match="is locked by another"):
        target.commit(2)
    other.rollback()
    other.close()
    assert target.commit(2) == 1
    assert database.rows("events") == [(1, "a"), (2, "b")]


def test_a_lost_connection_is_made_again(database: Database) -> None:
    target = JdbcConnector().sink(database.table("events"), environment())
    write(target, 1, (INSERT, 1, "a"))
    target._connection.close()  # type: ignore[attr-defined]
    assert write(target, 2, (INSERT, 2, "b")) == 1
    target.close()
    assert database.rows("events") == [(1, "a"), (2, "b")]


def test_a_full_database_is_waited_for(tmp_path: Path) -> None:
    database = sqlite(tmp_path)
    database.execute("CREATE TABLE events (id BIGINT, name TEXT)")
    target = JdbcConnector().sink(database.table("events"), environment())
    connection = target._connection  # type: ignore[attr-defined]
    connection.execute(
        f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').fetchone()[0]}"
    )
    with pytest.raises(DatabaseFull, match="no space to write to table 'events'"):
        write(target, 1, *[(INSERT, i, "x" * 1000) for i in range(50)])
    assert target.commit(1) == 50  # a new connection has room
    assert len(database.rows("events")) == 50


@pytest.mark.parametrize(
    ("options", "schema", "error", "message"),
    [
        (
            {"url": "jdbc:oracle:thin:@x"},
            SCHEMA,
            OptionError,
            "no database that the connector 'jdbc' knows",
        ),
        (
            {"url": "jdbc:mysql://u:secret@h:port/app"},
            SCHEMA,
            OptionError,
            "knows: 'jdbc:mysql://…'",
        ),
        ({"url": "jdbc:mysql://[h/app"}, SCHEMA, OptionError, "knows: 'jdbc:mysql://…'"),
        (
            {"url": "jdbc:sqlite:/nowhere/x.db"},
            SCHEMA,
            ExecutionError,
            "cannot open the SQLite database",
        ),
        (
            {"url": "jdbc:mysql://127.0.0.1:1/app"},
            SCHEMA,
            ExecutionError,
            "cannot open the MySQL database",
        ),
        ({"table-name": "nothing"}, SCHEMA, ExecutionError, "cannot be written"),
        ({}, Schema.of(id=BIGINT, missing=INT), ExecutionError, "cannot be written"),
        (
            {},
            Schema.of(id=BIGINT, name=map_of(STRING, INT)),
            UnsupportedError,
            "which tables of the connector 'jdbc' do not have",
        ),
        ({"sink.max-retries": "-1"}, SCHEMA, OptionError, "bad value '-1'"),
    ],
)
def test_mistakes_are_named(
    database: Database,
    options: dict[str, str],
    schema: Schema,
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error) as caught:
        open_sink(table({**database.table("events").options, **options}, schema), environment())
    assert message in f"{caught.value} {getattr(caught.value, 'detail', '')}"


def test_a_value_that_the_column_cannot_hold_is_named(database: Database) -> None:
    write(open_sink(database.table("events"), environment()), 1, (INSERT, 1, "twelve"))
    wrong = table(dict(database.table("events").options), Schema.of(id=BIGINT, name=DATE))
    with pytest.raises(
        ExecutionError,
        match=r"column 'name' of table 'events' (holds a value that is no|is text in .*, not) DATE",
    ):
        open_source(wrong, environment())


AWKWARD = "a\"b`c';--%s %(x)s {y} ? ü\\"


def test_names_and_values_are_never_statements(server: Database) -> None:
    """Of tables and columns, whatever is in them; a name with a NUL, which stands for a value in a
    statement that is made, is refused."""
    schema = Schema.of(**{AWKWARD: STRING, f"{AWKWARD}2": STRING})
    quoted, text = server.dialect.quoted, server.dialect.text
    name = AWKWARD
    server.execute(
        f"DROP TABLE IF EXISTS {quoted(name)}",
        f"CREATE TABLE {quoted(name)} ({quoted(AWKWARD)} {text} PRIMARY KEY,"
        f" {quoted(AWKWARD + '2')} {text})",
    )
    made = server.table(name, schema, (AWKWARD,))
    for epoch in (1, 2):
        sink = open_sink(made, environment())
        sink.write(from_pydict(schema, {AWKWARD: [AWKWARD, "x"], f"{AWKWARD}2": ["'", str(epoch)]}))
        sink.commit(epoch)
        sink.close()
    source = open_source(made, environment())
    chunk = source.read(source.shards()[0], 0, max_rows=10)
    assert chunk is not None
    assert chunk.columns is not None
    rows = sorted(zip(*(c.to_pylist() for c in chunk.columns.values()), strict=True))
    assert rows == sorted([(AWKWARD, "'"), ("x", "2")])
    with pytest.raises(PlanError, match="no name in a database: it has the character NUL"):
        open_source(server.table("a\0b", schema), environment())


@pytest.mark.parametrize("given", [str, Decimal])
def test_all_digits_of_a_decimal_are_read(given: Callable[[str], object]) -> None:
    """28 are what Python keeps by itself; with more, the job failed."""
    text = "-9999999999999999999999999999.0123456789"
    read = values.read([given(text)], Column("n", decimal(38, 10)), "t")
    assert read.to_pylist() == [Decimal(text)]
    with pytest.raises(ExecutionError, match=r"holds a value that is no DECIMAL\(38, 10\)"):
        values.read([given("1" + text[1:])], Column("n", decimal(38, 10)), "t")
