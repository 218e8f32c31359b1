"""Tables of PostgreSQL: its types, what its form of rows could break, a server that is killed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from parser.errors import ExecutionError, OptionError, SqlError
from parser.types import (
    BIGINT,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    Schema,
    array,
    decimal,
    timestamp,
    timestamp_ltz,
)
from sqlengine.batch import Batch, RowKind, from_pydict
from sqlengine.connectors.registry import open_sink, open_source, rejects
from tests.connectors.databases import Database
from tests.connectors.tables import SCHEMA, environment
from tests.servers.postgresql import PostgresServer

# Whatever COPY, CSV and literals of arrays could take for something of theirs.
HOSTILE = ["", "\\N", "\\.", "a\n\\.\nb", 'tab\t"quotes" \\back', "{NULL,1}", "é😀\r\n", "NULL"]


@pytest.fixture
def database(postgresql: PostgresServer) -> Database:
    found = Database(postgresql.url, "postgres")
    found.execute("DROP SCHEMA IF EXISTS s CASCADE", "CREATE SCHEMA s")
    return found


def read(database: Database, name: str, schema: Schema, key: tuple[str, ...] = ()) -> Batch:
    source = open_source(database.table(name, schema, key), environment())
    (shard,) = source.shards()
    chunk = source.read(shard, 0, max_rows=100_000)
    found = {} if chunk is None or chunk.columns is None else chunk.columns
    return Batch(schema, tuple(found.values()), 0 if chunk is None else chunk.num_rows)


def write(database: Database, name: str, batch: Batch, key: tuple[str, ...] = ()) -> None:
    sink = open_sink(database.table(name, batch.schema, key), environment(writer=name))
    sink.write(batch)
    sink.commit((sink.last_epoch() or 0) + 1)
    sink.close()


def rows(batch: Batch) -> list[tuple[object, ...]]:
    return list(zip(*[c.to_pylist() for c in batch.columns], strict=True))


OWN = Schema.of(
    id=INT, u=STRING, j=STRING, b=STRING, mood=STRING, m=decimal(12, 2), n=decimal(10, 3),
    f=FLOAT, ts=timestamp(6), at=timestamp_ltz(3), ints=array(INT), texts=array(STRING),
    grid=array(array(DOUBLE)), days=array(DATE), times=array(timestamp(3)),
)  # fmt: skip


def test_types_of_its_own_come_and_go(database: Database) -> None:
    columns = (
        "id int PRIMARY KEY, u uuid, j jsonb, b json, mood s.mood, m money, n numeric, f real,"
        " ts timestamptz, at timestamptz, ints int[], texts varchar[], grid float8[],"
        " days date[], times timestamp[]"
    )
    database.execute(
        "CREATE TYPE s.mood AS ENUM ('sad', 'happy')",
        f"CREATE TABLE s.own ({columns})",
        f"CREATE TABLE s.copied ({columns})",
        """INSERT INTO s.own VALUES (1, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"a": [1, null]}',
           '{"b":"ü"}', 'happy', '$1,234.50', 1.2345, 0.1, '2024-07-01 12:00:00.123456+02',
           '2024-01-01 00:00:00.5+05:30', '{1,NULL,3}', '{"a,b",NULL,"","\\"q\\""}',
           '{{1.5,NaN},{NULL,-0.0}}', '{2024-02-29}', '{"2024-02-29 01:02:03.5"}'),
           (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '{}', '{}', NULL, NULL)""",
    )
    found = read(database, "s.own", OWN, ("id",))
    first, second = rows(found)
    assert [str(v) for v in first[:8]] == [
        "1", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", '{"a": [1, null]}', '{"b":"ü"}', "happy", "1234.50",
        "1.234", "0.10000000149011612",
    ]  # fmt: skip
    assert [str(v) for v in first[8:]] == [
        "2024-07-01 10:00:00.123456", "2023-12-31 18:30:00.500000+00:00", "[1, None, 3]",
        "['a,b', None, '', '\"q\"']", "[[1.5, nan], [None, -0.0]]", "[datetime.date(2024, 2, 29)]",
        "[datetime.datetime(2024, 2, 29, 1, 2, 3, 500000)]",
    ]  # fmt: skip
    assert second[1:] == (*[None] * 10, [], [], None, None)
    write(database, "s.copied", found, ("id",))
    assert str(rows(read(database, "s.copied", OWN, ("id",)))) == str(rows(found))


def test_texts_and_bytes_are_what_they_were(database: Database) -> None:
    schema = Schema.of(id=BIGINT, name=STRING, raw=BYTES, texts=array(STRING))
    database.execute("CREATE TABLE s.texts (id bigint, name text, raw bytea, texts text[])")
    big = "x" * 10_000_000
    names = [*HOSTILE, None, big]
    written = from_pydict(
        schema,
        {
            "id": list(range(len(names))),
            "name": names,
            "raw": [None if n is None else n.encode()[:100] for n in names],
            "texts": [None, *[[n, None] for n in names[1:-1]], []],
        },
    )
    write(database, "s.texts", written)
    assert rows(read(database, "s.texts", schema)) == rows(written)
    only = Schema.of(name=STRING)
    found = read(database, "s.texts", only).column("name").to_pylist()
    assert sorted(map(str, found)) == sorted(map(str, names))


def test_a_text_that_it_cannot_keep_is_rejected(database: Database) -> None:
    target = database.table("s.texts", SCHEMA)
    told = from_pydict(SCHEMA, {"id": [1, 2, 3], "name": ["a", "b\0", None]})
    assert list(rejects(target, told)) == [1]
    schema = Schema.of(id=BIGINT, names=array(STRING), more=array(array(STRING)))
    names = [["a"], None, [None, "b\0", "\0"], [], ["c"]]
    more = [[["a"]], [None, ["\0"]], [], None, [["b"], ["c"]]]
    told = from_pydict(schema, {"id": list(range(5)), "names": names, "more": more})
    found = rejects(database.table("s.texts", schema), told.slice(1, 4))
    assert {row: reason.split("'")[1] for row, reason in found.items()} == {1: "names", 0: "more"}


def test_rows_of_a_key_of_two_columns(database: Database) -> None:
    database.execute('CREATE TABLE s.pairs (a int, "b""" text, n int, PRIMARY KEY (a, "b"""))')
    schema = Schema.of(**{"a": INT, 'b"': STRING, "n": INT})
    told = from_pydict(schema, {"a": [1, 1, 2, 1], 'b"': ["x", "y", "x", "x"], "n": [1, 2, 3, 4]})
    write(database, "s.pairs", told, ("a", 'b"'))
    assert rows(read(database, "s.pairs", schema, ("a", 'b"'))) == [
        (1, "x", 4),
        (1, "y", 2),
        (2, "x", 3),
    ]
    gone = from_pydict(schema, {"a": [1, 2, 2], 'b"': ["x", "x", "x"], "n": [4, 3, 9]})
    kinds = pa.array([RowKind.DELETE, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER], pa.int8())
    write(
        database,
        "s.pairs",
        Batch(schema, gone.columns, gone.num_rows, kinds=kinds.to_numpy()),
        ("a", 'b"'),
    )
    assert rows(read(database, "s.pairs", schema, ("a", 'b"'))) == [(1, "y", 2), (2, "x", 9)]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (Schema.of(id=INT, name=INT), "is text in the PostgreSQL database, not INT.*as STRING"),
        (Schema.of(id=DOUBLE, at=DATE), r"timestamp with time zone .*not DATE.*TIMESTAMP_LTZ"),
        (Schema.of(n=INT), r"column 'n' of table 's.odd' holds a value that is no INT.*1\.5"),
        (Schema.of(at=timestamp_ltz(3)), r"a value that is no TIMESTAMP_LTZ\(3\).*infinity"),
        (Schema.of(id=array(INT)), "is integer in the PostgreSQL database, not ARRAY<INT>"),
        (Schema.of(nothing=INT), 'column "nothing" does not exist'),
    ],
)
def test_columns_and_values_that_do_not_fit_are_named(
    database: Database, schema: Schema, words: str
) -> None:
    database.execute(
        "CREATE TABLE s.odd (id int, name text, n numeric, at timestamptz)",
        "INSERT INTO s.odd VALUES (1, 'a', 1.5, 'infinity')",
    )
    with pytest.raises(ExecutionError) as caught:
        open_source(database.table("s.odd", schema), environment())
    error = caught.value
    assert pa.compute.match_substring_regex(
        pa.array([f"{error.message} {error.detail} {error.hint}"]), words
    )[0].as_py(), f"{error.message} {error.detail} {error.hint}"


def test_the_url_says_the_schema_and_nothing_unknown(database: Database) -> None:
    database.execute("CREATE TABLE s.events (id bigint, name text)")
    here = Database(database.url + "?currentSchema=s&sslmode=disable", "postgres")
    write(here, "events", from_pydict(SCHEMA, {"id": [1], "name": ["a"]}))
    assert database.rows("s.events") == [(1, "a")]
    assert database.rows("s.sqlengine_epochs")[0][1] == 1
    with pytest.raises(OptionError, match=r"parameter 'user' of the URL 'jdbc:postg.*es'"):
        open_sink(Database(database.url + "?user=x").table("events"), environment())


def test_a_server_that_is_killed_and_comes_back(
    database: Database, postgresql: PostgresServer
) -> None:
    """An epoch that it may or may not have committed is there once."""
    database.execute("CREATE TABLE s.events (id bigint, name text)")
    sink = open_sink(database.table("s.events", retries=0), environment())
    for epoch in range(1, 4):
        sink.write(from_pydict(SCHEMA, {"id": [epoch], "name": ["a"]}))
        if epoch == 2:
            postgresql.kill()
            with pytest.raises(SqlError) as caught:
                sink.commit(epoch)
            assert "\n" not in str(caught.value.detail)
            postgresql.start()
        assert sink.commit(epoch) == 1
    sink.close()
    assert [row[0] for row in database.rows("s.events")] == [1, 2, 3]
