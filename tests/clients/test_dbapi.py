"""The DB-API 2.0 module, over a server and over an engine in this process."""

from __future__ import annotations

import datetime as dt
import itertools
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from parser.writer.row_inserts import RowInsert, row_insert
from sqlengine import SqlError, dbapi
from sqlengine.connection.parameters import AT_ONCE, in_parts
from sqlengine.service import Service
from tests.clients.conftest import fill

NAMES = (f"made_{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def local() -> Iterator[dbapi.Connection]:
    with dbapi.connect() as connection:
        fill(connection.engine)
        yield connection


@pytest.fixture(params=["server", "process"])
def connection(request: pytest.FixtureRequest) -> Iterator[dbapi.Connection]:
    if request.param == "process":
        yield request.getfixturevalue("local")
        return
    server: Service = request.getfixturevalue("server")
    with dbapi.connect(server.url) as connection:
        yield connection


@pytest.fixture
def cursor(connection: dbapi.Connection) -> Iterator[dbapi.Cursor]:
    with connection.cursor() as cursor:
        yield cursor


def table(cursor: dbapi.Cursor, columns: str = "id BIGINT, name STRING") -> str:
    """Makes a table over a topic of its own; returns its name."""
    name = next(NAMES)
    cursor.execute(
        f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'topic', 'topic' = '{name}', 'format' = 'json')"
    )
    return name


def test_the_module() -> None:
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "qmark")
    assert issubclass(dbapi.ProgrammingError, dbapi.DatabaseError)
    assert issubclass(dbapi.InterfaceError, dbapi.Error)
    assert dbapi.Connection.OperationalError is dbapi.OperationalError
    assert dbapi.Binary(b"a") == b"a"
    assert dbapi.Date(2026, 1, 2) == dt.date(2026, 1, 2)
    assert dbapi.TimestampFromTicks(0).date() == dbapi.DateFromTicks(0)
    assert dbapi.TimestampFromTicks(0).time() == dbapi.TimeFromTicks(0)


def test_rows(cursor: dbapi.Cursor) -> None:
    asked = cursor.execute("SELECT id, name FROM items WHERE id >= ? AND name LIKE ?", (1, "n%"))
    assert asked is cursor
    assert cursor.fetchone() == (1, "n1")
    assert cursor.fetchmany() == [(2, "n2")]
    assert cursor.fetchmany(2) == [(3, "n3"), (4, "n4")]
    assert cursor.fetchmany(2) == cursor.fetchall() == []
    assert cursor.fetchone() is None
    assert cursor.rowcount == -1
    assert [row[0] for row in cursor.execute("SELECT id FROM cheap ORDER BY id")] == [0, 1, 2]
    assert cursor.execute("SELECT id FROM cheap").fetch_arrow_table().num_rows == 3
    cursor.execute("SELECT id FROM cheap")
    assert sum(batch.num_rows for batch in cursor.fetch_record_batches()) == 3


def test_the_description(cursor: dbapi.Cursor) -> None:
    cursor.execute(
        "SELECT id, name, price, bought, X'00' AS b, TRUE AS t, ARRAY[1] AS a, id AS id FROM items"
    )
    described = cursor.description
    assert described is not None
    kinds = [dbapi.NUMBER, dbapi.STRING, dbapi.NUMBER, dbapi.DATETIME, dbapi.BINARY, dbapi.NUMBER]
    for column, kind in zip(described, kinds, strict=False):
        assert column[1] == kind
        assert kind == column[1]
        assert column[1] != dbapi.ROWID
    price, data = described[2], described[4]
    assert (price[1], price[4:]) == ("DECIMAL(10, 2)", (10, 2, True))
    assert (data[3], data[6]) == (1, False)
    assert described[6][1] not in kinds
    cursor.execute("SET 'table.local-time-zone' = 'UTC'")
    assert cursor.description is None
    with pytest.raises(dbapi.InterfaceError):
        cursor.fetchone()


def test_inserts(cursor: dbapi.Cursor) -> None:
    name = table(cursor)
    cursor.execute(f"INSERT INTO {name} VALUES (?, ?)", (1, "it's"))
    assert cursor.rowcount == 1
    cursor.executemany(
        f"INSERT INTO {name} (name, id) VALUES (?, ?);", [(None, n) for n in range(2500)]
    )
    assert cursor.rowcount == 2500
    cursor.executemany(
        f"INSERT INTO {name} SELECT ?, 'x' FROM (VALUES (1), (2)) AS v(n)", [[7], [8]]
    )
    assert cursor.rowcount == 4
    cursor.executemany(f"INSERT INTO {name} VALUES (?, ?)", [])
    assert cursor.rowcount == 0
    cursor.execute(f"SELECT COUNT(*), COUNT(name) FROM {name}")
    assert cursor.fetchall() == [(2505, 5)]
    with pytest.raises(dbapi.InterfaceError):
        cursor.executemany("SELECT ?", [[1]])


def test_definitions_are_for_all(connection: dbapi.Connection, cursor: dbapi.Cursor) -> None:
    name = table(cursor)
    with pytest.raises(dbapi.ProgrammingError, match=r"exists already.*IF NOT EXISTS, or DROP"):
        cursor.execute(f"CREATE TABLE {name} (id INT) WITH ('connector' = 'blackhole')")
    cursor.execute(f"CREATE TABLE IF NOT EXISTS {name} (id INT) WITH ('connector' = 'blackhole')")
    cursor.execute(f"CREATE VIEW v_{name} AS SELECT id FROM {name}")
    cursor.execute(f"CREATE OR REPLACE VIEW v_{name} AS SELECT id + 1 AS id FROM {name}")
    cursor.execute(f"INSERT INTO {name} (id) VALUES (1)")
    assert cursor.execute(f"SELECT id FROM v_{name}").fetchall() == [(2,)]
    assert f"view.v_{name}" in connection.engine.jobs
    with pytest.raises(dbapi.ProgrammingError, match="is used by"):
        cursor.execute(f"DROP TABLE {name}")
    cursor.execute(f"ALTER TABLE {name} SET ('scan.startup.mode' = 'latest-offset')")
    cursor.execute(f"DROP VIEW v_{name}")
    cursor.execute(f"DROP TABLE {name}")
    cursor.execute(f"DROP TABLE IF EXISTS {name}")
    with pytest.raises(dbapi.ProgrammingError, match="does not exist"):
        cursor.execute(f"DROP TABLE {name}")


MIXED = (
    "i INT, n BIGINT, d DOUBLE, p DECIMAL(10, 2), s STRING, v VARCHAR(20), b BYTES, t BOOLEAN,"
    " day_ DATE, ts TIMESTAMP(6), instant TIMESTAMP_LTZ(6)"
)
PLAIN = (
    -(1 << 31),
    1 << 40,
    1.5,
    Decimal("12.30"),
    "it's",
    "\0'; --",
    b"\x00'",
    True,
    dt.date(2026, 1, 2),
    dt.datetime(2026, 1, 2, 3, 4, 5, 678901),
    dt.datetime(2026, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2))),
)


def test_arguments_of_wrong_types(cursor: dbapi.Cursor) -> None:
    wrong: Any = 5
    with pytest.raises(dbapi.InterfaceError, match="a statement is a text, not 5"):
        cursor.execute(wrong)
    with pytest.raises(dbapi.InterfaceError, match="a statement is a text, not 5"):
        cursor.executemany(wrong, [])
    with pytest.raises(dbapi.InterfaceError, match="a number of rows is 0 or more, not -1"):
        cursor.execute("SELECT 1").fetchmany(-1)


def test_polars_knows_the_types(cursor: dbapi.Cursor) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    found = polars.read_database("SELECT -1 AS n, 'x' AS s", cursor)
    assert found.to_dicts() == [{"n": -1, "s": "x"}]


@pytest.mark.parametrize("style", ["qmark", "pyformat"])
def test_many_rows_are_as_each_of_them(connection: dbapi.Connection, style: Any) -> None:
    """executemany sends columns, execute literals: the rows are equal, with and without NULLs."""
    cursor = connection.cursor()
    name = table(cursor, MIXED)
    nothing = (None,) * len(PLAIN)
    rows = [PLAIN, PLAIN, (*nothing[:5], *PLAIN[5:]), (None, *PLAIN[1:])]
    for row in rows:
        cursor.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)
    names = [f"c{n}" for n in range(len(PLAIN))]
    cursor.connection = SimpleNamespace(engine=connection.engine, paramstyle=style)
    marks = ", ".join("?" if style == "qmark" else f"%({n})s" for n in names)
    given: Any = rows if style == "qmark" else [dict(zip(names, r, strict=True)) for r in rows]
    cursor.executemany(f"INSERT INTO {name} VALUES ({marks})", given)
    assert cursor.rowcount == len(rows)
    cursor.executemany(f"INSERT INTO {name} VALUES ({marks})", given[2:3])  # all NULL in columns
    cursor.execute(f"SELECT * FROM {name}")
    found = cursor.fetchall()
    assert found[: len(rows)] == found[len(rows) : -1]
    assert found[-1] == found[2]
    assert found[0][:10] == PLAIN[:10]


@pytest.mark.parametrize(
    "values",
    [
        [1, 2.5, None],
        [1, Decimal("2.5")],
        [True, 1],
        [dt.date(2026, 1, 1), dt.datetime(2026, 1, 1)],
        [dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)],
        [1 << 70],
        [[1, 2]],
        [dt.timedelta(1)],
        [Decimal("NaN")],
        ["\ud800"],
        [None, None],
    ],
)
def test_values_that_are_no_plain_column_are_literals(values: list[object]) -> None:
    insert = RowInsert("INSERT INTO t", (0,))
    rows = [(value,) for value in values]
    assert list(in_parts(insert, rows)) == [rows]


@pytest.mark.parametrize(
    ("sql", "keys"),
    [
        ("INSERT INTO t VALUES (?)", (0,)),
        ("INSERT INTO t (a, b) VALUES (? ,?);", (0, 1)),
        ("INSERT INTO t (a, b) VALUES (?, /* two */ ?)", None),
        ("INSERT INTO t VALUES (? + 1)", None),
        ("INSERT INTO t VALUES (?, 1)", None),
        ("INSERT INTO t VALUES (?), (?)", None),
        ("INSERT INTO t SELECT ?", None),
        ("INSERT INTO t /*+ OPTIONS('a' = ?) */ VALUES (?)", None),
        ("UPDATE t SET a = ?", None),
    ],
)
def test_rows_of_marks_alone(sql: str, keys: tuple[int, ...] | None) -> None:
    found = row_insert(sql, "qmark")
    assert (None if found is None else found.keys) == keys


def test_parts_before_one_that_fails_stay(cursor: dbapi.Cursor) -> None:
    name = table(cursor)
    rows = [(n, "x") for n in range(AT_ONCE + 1)]
    with pytest.raises(dbapi.ProgrammingError, match="the statement has 2 parameters"):
        cursor.executemany(f"INSERT INTO {name} VALUES (?, ?)", [*rows, (1, "x", 2)])
    assert cursor.execute(f"SELECT COUNT(*) FROM {name}").fetchall() == [(AT_ONCE,)]


def test_databases(connection: dbapi.Connection) -> None:
    cursor, name = connection.cursor(), next(NAMES)
    with pytest.raises(dbapi.ProgrammingError, match=r"'default_catalog\.\w+' does not exist"):
        cursor.execute(f"DROP DATABASE {name}")
    cursor.execute(f"CREATE DATABASE {name} COMMENT 'made here'")
    cursor.execute(f"CREATE DATABASE IF NOT EXISTS {name}")
    with pytest.raises(dbapi.ProgrammingError, match="exists already"):
        cursor.execute(f"CREATE DATABASE {name}")
    assert f"database.{name}" in connection.engine.jobs
    cursor.execute(f"USE {name}")
    cursor.execute("CREATE TABLE a (n INT) WITH ('connector' = 'blackhole')")
    cursor.execute("ALTER TABLE a ADD (m INT)")
    assert [row[0] for row in cursor.execute("DESCRIBE a")] == ["n", "m"]
    with pytest.raises(dbapi.ProgrammingError, match=r"is not empty \(a\)"):
        cursor.execute(f"DROP DATABASE {name}")
    cursor.execute("DROP TABLE a")
    cursor.execute("USE default_database")
    cursor.execute(f"DROP DATABASE {name}")
    cursor.execute(f"DROP DATABASE IF EXISTS {name}")


def test_a_name_that_a_table_had_before(cursor: dbapi.Cursor) -> None:
    """The job of a table that was renamed keeps its name, and the table."""
    name, other = next(NAMES), next(NAMES)
    cursor.execute(f"CREATE TABLE {name} (n INT) WITH ('connector' = 'blackhole')")
    cursor.execute(f"ALTER TABLE {name} RENAME TO {other}")
    cursor.execute(f"CREATE TABLE {name} (m INT) WITH ('connector' = 'blackhole')")
    for table_, column in ((name, "m"), (other, "n")):
        assert [row[0] for row in cursor.execute(f"DESCRIBE {table_}")] == [column]
        cursor.execute(f"DROP TABLE {table_}")


OWN = "CREATE TABLE {0} (id BIGINT) WITH ('connector' = 'topic', 'topic' = '{0}', 'topic.owned' = 'true', 'format' = 'json')"


def test_a_table_of_a_query(connection: dbapi.Connection, cursor: dbapi.Cursor) -> None:
    """It is made and filled at once where the query ends; one that fails leaves no table; OR
    REPLACE takes the rows along; where rows go on to come, a job writes them."""
    name, failed = next(NAMES), next(NAMES)
    made = OWN.format(name).replace("(id BIGINT) ", "") + " AS "
    assert cursor.execute(made + "SELECT id FROM (VALUES (1), (2)) AS v (id)").rowcount == 2
    cursor.execute(made.replace("TABLE", "TABLE IF NOT EXISTS") + "SELECT 3 AS id")
    assert cursor.execute(f"SELECT id FROM {name} ORDER BY id").fetchall() == [(1,), (2,)]
    for wrong in ("SELECT 1 / (id - 1) AS id FROM (VALUES (1)) AS v (id)", "SELECT nope"):
        with pytest.raises(dbapi.DatabaseError, match=r"division by zero|unknown column"):
            cursor.execute(made.replace(name, failed) + wrong)
    assert failed not in connection.engine.topics
    assert f"table.{failed}" not in connection.engine.jobs
    cursor.execute(made.replace("CREATE", "CREATE OR REPLACE") + "SELECT 'x' AS word")
    assert cursor.execute(f"SELECT * FROM {name}").fetchall() == [("x",)]
    counted = made.replace(name, copy := next(NAMES)) + f"SELECT word, COUNT(*) AS n FROM {name}"
    cursor.execute("SET 'execution.runtime-mode' = 'batch'")
    assert cursor.execute(f"{counted} GROUP BY word").rowcount == 1
    cursor.execute("RESET 'execution.runtime-mode'")
    assert cursor.execute(f"SELECT * FROM {copy}").fetchall() == [("x", 1)]
    with pytest.raises(dbapi.ProgrammingError, match="cannot be replaced by a query of itself"):
        cursor.execute(made.replace("CREATE", "CREATE OR REPLACE") + f"SELECT word FROM {name}")
    with pytest.raises(dbapi.ProgrammingError, match="does not exist"):
        cursor.execute(made.replace("CREATE", "REPLACE").replace(name, failed) + "SELECT 1 AS n")
    cursor.execute(made.replace(name, next(NAMES)) + f"SELECT word FROM {name}")
    assert cursor.job is not None
    connection.engine.jobs[cursor.job].remove()


def test_a_topic_that_is_the_tables_own_goes_with_it(
    connection: dbapi.Connection, cursor: dbapi.Cursor
) -> None:
    name, topics = next(NAMES), connection.engine.topics
    for id_ in (1, 2):
        cursor.execute(OWN.format(name))
        assert name in topics
        cursor.execute(f"INSERT INTO {name} VALUES ({id_})")
        assert cursor.execute(f"SELECT id FROM {name}").fetchall() == [(id_,)]
        cursor.execute(f"DROP TABLE {name}")
        assert name not in topics
    cursor.execute(OWN.format(name))
    with pytest.raises(dbapi.DatabaseError, match="'_own' belongs to the system"):
        cursor.execute(OWN.format("_own"))
    with pytest.raises(dbapi.ProgrammingError, match=f"topic '{name}' exists already"):
        cursor.execute(f"CREATE TABLE {next(NAMES)} LIKE {name}")
    with pytest.raises(dbapi.NotSupportedError, match="counts for the topic that"):
        cursor.execute(f"ALTER TABLE {name} SET ('topic' = 'items')")
    other = next(NAMES)
    cursor.execute(OWN.format(other).replace(f"'{other}', 'topic.owned' = 'true'", f"'{name}'"))
    with pytest.raises(dbapi.ProgrammingError, match=f"is also that of '{other}'"):
        cursor.execute(f"DROP TABLE {name}")
    cursor.execute(f"DROP TABLE {other}")
    assert name in topics
    cursor.execute(f"DROP TABLE {name}")


def test_a_topic_that_is_there_becomes_no_tables_own(
    connection: dbapi.Connection, cursor: dbapi.Cursor
) -> None:
    name = next(NAMES)
    connection.engine.create_topic(name)
    for _ in range(2):
        with pytest.raises(dbapi.ProgrammingError, match=f"topic '{name}' exists already"):
            cursor.execute(OWN.format(name))
        assert f"table.{name}" not in connection.engine.jobs
    cursor.execute(OWN.format(name).replace("'topic.owned' = 'true', ", ""))
    cursor.execute(f"DROP TABLE {name}")
    assert name in connection.engine.topics


def test_what_others_have_defined_stays(cursor: dbapi.Cursor) -> None:
    for statement in (
        "DROP TABLE keyed",
        "CREATE OR REPLACE VIEW cheap AS SELECT 1 AS a",
        "DROP VIEW cheap",
    ):
        with pytest.raises(dbapi.ProgrammingError, match=r"is defined by '(keyed|items)'"):
            cursor.execute(statement)


def test_an_insert_without_end_is_a_job(connection: dbapi.Connection, cursor: dbapi.Cursor) -> None:
    name = table(cursor)
    cursor.execute(f"INSERT INTO {name} SELECT id, name FROM items")
    assert cursor.job is not None
    assert cursor.rowcount == -1
    assert connection.engine.jobs[cursor.job].state == "running"
    cursor.execute(f"STOP JOB '{cursor.job}'")


def test_batch_mode_defines_and_reads_to_the_present_end(cursor: dbapi.Cursor) -> None:
    cursor.execute("SET 'execution.runtime-mode' = 'batch'")
    name = table(cursor)
    cursor.execute(f"INSERT INTO {name} SELECT id, name FROM items")
    assert (cursor.rowcount, cursor.job) == (5, None)
    cursor.execute(f"DROP TABLE {name}")
    cursor.execute("RESET 'execution.runtime-mode'")


def test_a_row_in_error_is_no_silent_loss(cursor: dbapi.Cursor) -> None:
    name = table(cursor)
    with pytest.raises(dbapi.DataError, match="cannot cast"):
        cursor.execute(f"INSERT INTO {name} (id) VALUES (CAST(? AS BIGINT))", ["x"])
    assert cursor.execute(f"SELECT COUNT(*) FROM {name}").fetchall() == [(0,)]


@pytest.mark.parametrize(
    ("statement", "parameters", "kind"),
    [
        ("SELEC 1", None, dbapi.ProgrammingError),
        ("SELECT nope FROM items", None, dbapi.ProgrammingError),
        ("SELECT * FROM nope", None, dbapi.ProgrammingError),
        ("SELECT ?", None, dbapi.NotSupportedError),
        ("SELECT ?", (), dbapi.ProgrammingError),
        ("SELECT ?", (object(),), dbapi.DataError),
        (
            "MERGE INTO a USING b ON a.x = b.x WHEN MATCHED THEN UPDATE SET x = 1",
            None,
            dbapi.NotSupportedError,
        ),
    ],
)
def test_errors(
    cursor: dbapi.Cursor,
    statement: str,
    parameters: tuple[object, ...] | None,
    kind: type[dbapi.Error],
) -> None:
    with pytest.raises(kind) as error:
        cursor.execute(statement, parameters)
    assert error.value.message
    assert isinstance(error.value.__cause__, SqlError)
    assert cursor.execute("SELECT 1").fetchall() == [(1,)]


def test_styles_and_settings(server: Service) -> None:
    with dbapi.connect(
        server.url, paramstyle="pyformat", settings={"table.local-time-zone": "Asia/Tokyo"}
    ) as connection:
        cursor = connection.cursor()
        cursor.execute(
            "SELECT %(a)s, CAST(%(t)s AS STRING)",
            {"a": Decimal("1.5"), "t": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)},
        )
        assert cursor.fetchall() == [(Decimal("1.5"), "2026-01-01 09:00:00.000000")]
    with pytest.raises(dbapi.InterfaceError):
        dbapi.connect(server.url, paramstyle="percent")  # type: ignore[arg-type]
    with pytest.raises(dbapi.OperationalError), dbapi.connect("http://127.0.0.1:9") as nobody:
        nobody.cursor().execute("SELECT 1")


def test_the_end_of_connections(server: Service) -> None:
    connection = dbapi.connect(server.url)
    cursor = connection.cursor()
    connection.commit()
    with pytest.raises(dbapi.NotSupportedError):
        connection.rollback()
    cursor.close()
    with pytest.raises(dbapi.InterfaceError):
        cursor.execute("SELECT 1")
    connection.close()
    connection.close()
    assert connection.closed
    for use in (connection.cursor, connection.commit):
        with pytest.raises(dbapi.InterfaceError):
            use()


def test_a_cursor_streams_and_follows(server: Service) -> None:
    """Rows come before the last one is made, and `cancel` of another thread ends them."""
    with dbapi.connect(server.url) as connection:
        cursor = connection.cursor()
        cursor.execute(
            "CREATE TEMPORARY TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000')"
        )
        following = connection.cursor(follow=True)
        following.execute("SELECT n FROM ticks")
        assert len(following.fetchmany(10)) == 10
        began = time.monotonic()
        threading.Timer(0.2, following.cancel).start()
        following.fetchall()
        assert time.monotonic() - began < 20
        following.execute("SELECT COUNT(*) AS n FROM items")
        assert following.fetchone() is not None
        following.close()
