"""Parquet: every type comes back as it was written, files of others are read by their columns, and
what does not fit is told."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser import parse
from parser.errors import SqlError
from planner import bind
from planner.catalog import Catalog, Table
from sqlengine.batch import from_pydict
from sqlengine.connectors.base import Source
from sqlengine.connectors.registry import declared, open_sink, open_source
from tests.connectors.tables import Clock, environment

COLUMNS = """b BOOLEAN, t TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, num DECIMAL(10, 2), c CHAR(3), v STRING,
byt BYTES, d1 DATE, hour_ TIME(3), ts TIMESTAMP(3), nanos TIMESTAMP(9), ltz TIMESTAMP_LTZ(3), a ARRAY<INT>,
m MAP<STRING, DOUBLE>, r ROW<x INT, y ARRAY<STRING>>"""
VALUES: dict[str, list[object]] = {
    "b": [True, None],
    "t": [-128, None],
    "s": [32767, None],
    "i": [-(2**31), None],
    "l": [2**63 - 1, None],
    "f": [0.5, None],
    "d": [1e300, None],
    "num": [Decimal("-12345678.90"), None],
    "c": ["a  ", None],
    "v": ["ä\n", None],
    "byt": [b"\0\xff", None],
    "d1": [dt.date(1600, 2, 29), None],
    "hour_": [dt.time(23, 59, 59, 999_000), None],
    "ts": [dt.datetime(2024, 5, 1, 12, 0, 0, 123_000), None],
    "nanos": [dt.datetime(1970, 1, 1, 0, 0, 0, 1), None],
    "ltz": [dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC), None],
    "a": [[1, None], None],
    "m": [[("k", 1.5)], None],
    "r": [{"x": 1, "y": ["z"]}, None],
}


def table(path: Path, columns: str = COLUMNS, more: str = "") -> Table:
    sql = (
        f"CREATE TABLE t ({columns}) WITH ('connector' = 'filesystem', 'path' = '{path}',"
        f" {more}'format' = 'parquet')"
    )
    (statement,) = parse(sql)
    made = bind(statement, Catalog(), {})
    assert isinstance(made, Table)
    return declared(made)


def rows(source: Source, max_rows: int = 1000) -> list[dict[str, object]]:
    """All rows that are there now; a replay of each range gives the same."""
    found: list[dict[str, object]] = []
    for shard in source.shards():
        offset = source.start(shard)
        while (chunk := source.read(shard, offset, max_rows=max_rows)) is not None:
            again = source.read(shard, chunk.start, max_rows=1, until=chunk.end)
            assert chunk.columns is not None
            assert again is not None
            assert again.columns == chunk.columns
            found += pa.table(dict(chunk.columns)).to_pylist()
            offset = chunk.end
        assert offset == source.end(shard)
    source.close()
    return found


@pytest.mark.parametrize(
    "options",
    ["", "'parquet.write.int64.timestamp' = 'true', 'parquet.timestamp.time.unit' = 'nanos', "],
)
def test_every_type_comes_back(options: str, tmp_path: Path) -> None:
    of = table(tmp_path, more=options)
    sink = open_sink(of, environment())
    written = from_pydict(of.schema, VALUES)
    sink.write(written)
    assert sink.commit(1) == 2
    sink.close()
    assert rows(open_source(of, environment())) == written.to_table().to_pylist()


def test_types_in_the_file_are_those_of_flink(tmp_path: Path) -> None:
    of = table(tmp_path)
    sink = open_sink(of, environment())
    sink.write(from_pydict(of.schema, VALUES))
    sink.commit(1)
    sink.close()
    schema = pq.ParquetFile(next(tmp_path.glob("part-*"))).schema
    kinds = {
        c.path: (c.physical_type, str(c.logical_type).partition("(")[0])
        for c in map(schema.column, range(len(schema)))
    }
    assert kinds["t"] == kinds["s"] == ("INT32", "Int")
    assert kinds["hour_"] == ("INT32", "Time")
    assert kinds["ts"][0] == kinds["ltz"][0] == "INT96"
    assert kinds["num"] == ("FIXED_LEN_BYTE_ARRAY", "Decimal")
    assert kinds["v"] == ("BYTE_ARRAY", "String")
    assert {"a.list.element", "m.key_value.key", "m.key_value.value"} <= kinds.keys()


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    group=st.integers(1, 15),
    max_rows=st.integers(1, 25),
)
def test_files_are_read_in_any_portions(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], group: int, max_rows: int
) -> None:
    folder = tmp_path_factory.mktemp("in")
    wanted = []
    for number, size in enumerate(sizes):
        ids = pa.array(range(1000 * number, 1000 * number + size), pa.int64())
        pq.write_table(
            pa.table({"other": ids, "id": ids}), folder / f"{number}.parquet", row_group_size=group
        )
        wanted += [{"id": i, "name": None} for i in ids.to_pylist()]
    assert (
        rows(open_source(table(folder, "id BIGINT, name STRING"), environment()), max_rows)
        == wanted
    )


def test_more_files_than_are_read_at_once_come_in_turn(tmp_path: Path) -> None:
    for number in range(20):
        pq.write_table(
            pa.table({"id": pa.array([number], pa.int64())}), tmp_path / f"{number:02}.parquet"
        )
    source = open_source(table(tmp_path, "id BIGINT"), environment())
    read: dict[str, int] = dict.fromkeys(source.shards(), 0)
    first = [s for s in read if source.read(s, 0, max_rows=10) is not None]
    assert len(first) == 8
    for _ in range(3):
        for shard, at in read.items():
            chunk = source.read(shard, at, max_rows=10)
            read[shard] = chunk.end if chunk is not None else at
    assert set(read.values()) == {1}


def test_new_files_are_found_at_the_interval(tmp_path: Path) -> None:
    clock = Clock(0)
    pq.write_table(pa.table({"id": pa.array([1], pa.int64())}), tmp_path / "a.parquet")
    source = open_source(
        table(tmp_path, "id BIGINT", "'source.monitor-interval' = '1 s', "),
        environment(clock=clock),
    )
    assert not source.bounded
    pq.write_table(pa.table({"id": pa.array([2], pa.int64())}), tmp_path / "b.parquet")
    assert len(source.shards()) == 1
    clock.now = 1000
    assert [s[-9:] for s in source.shards()] == ["a.parquet", "b.parquet"]


def test_types_that_mean_the_same_fit(tmp_path: Path) -> None:
    there = {
        "i": pa.array([7], pa.int16()),
        "s": pa.array(["x"]).dictionary_encode(),
        "d": pa.array([0.5], pa.float32()),
    }
    pq.write_table(pa.table(there), tmp_path / "a.parquet")
    assert rows(open_source(table(tmp_path, "i BIGINT, s STRING, d DOUBLE"), environment())) == [
        {"i": 7, "s": "x", "d": 0.5}
    ]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("s INT", r"column 's' of '.*a.parquet' is no INT"),
        ("i TINYINT", "holds what is no TINYINT"),
        ("n INT NOT NULL", "row 1 of '.*' has NULL for column 'n'"),
    ],
)
def test_what_does_not_fit_is_told(columns: str, said: str, tmp_path: Path) -> None:
    there = {
        "s": ["a", "b"],
        "i": pa.array([1, 1000], pa.int32()),
        "n": pa.array([1, None], pa.int32()),
    }
    pq.write_table(pa.table(there), tmp_path / "a.parquet")
    with pytest.raises(SqlError, match=said):
        rows(open_source(table(tmp_path, columns), environment()))


def test_a_file_that_is_none_or_changes_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 not yet")
    with pytest.raises(SqlError, match="cannot be read as Parquet"):
        rows(open_source(table(path, "id BIGINT"), environment()))
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int64())}), path)
    source = open_source(table(path, "id BIGINT"), environment())
    pq.write_table(pa.table({"id": pa.array([1], pa.int64())}), tmp_path / "b")
    (tmp_path / "b").rename(path)
    with pytest.raises(SqlError, match="has changed under a running job"):
        rows(source)


@pytest.mark.parametrize(
    ("columns", "more", "said"),
    [
        ("i INTERVAL DAY", "", "format 'parquet' cannot hold"),
        ("i INT", "'parquet.compression' = 'zip', ", "bad value 'zip'"),
        ("i INT", "'parquet.utc-timezone' = 'false', ", "bad value 'false'"),
        ("i INT", "'source.follow' = 'true', ", "do not grow"),
    ],
)
def test_what_parquet_has_not_is_refused(
    columns: str, more: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(SqlError, match=said):
        open_source(table(tmp_path, columns, more), environment())


def test_a_topic_holds_no_files() -> None:
    (statement,) = parse(
        "CREATE TABLE t (i INT) WITH ('connector' = 'topic', 'topic' = 't', 'format' = 'parquet')"
    )
    made = bind(statement, Catalog(), {})
    assert isinstance(made, Table)
    with pytest.raises(SqlError, match="whole files, and not of records"):
        open_sink(made, environment())
