"""Partitions of files: exactly once in each of them, and only those are read that a condition
names."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser import parse
from parser.errors import SqlError
from parser.statements import Show
from planner import bind
from planner.catalog import Catalog, Table
from planner.logical import Filter, LogicalPlan, Scan
from sqlengine.batch import from_pydict
from sqlengine.catalog.partitions import show_partitions
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.filesystem.connector import FilesystemConnector
from sqlengine.connectors.filesystem.partitioned_sink import PartitionedFileSink
from sqlengine.connectors.filesystem.partitions import folder_of, partitions
from sqlengine.connectors.registry import declared, open_scan, open_sink
from sqlengine.system.file_access import ANY_FILES
from tests.planning import optimized

TEXTS = st.text(st.characters(min_codepoint=1, max_codepoint=300), min_size=1, max_size=6)


def table(path: Path, columns: str = "id INT, k STRING", keys: str = "k", more: str = "") -> Table:
    sql = (
        f"CREATE TABLE t ({columns}) PARTITIONED BY ({keys}) WITH ('connector' = 'filesystem',"
        f" 'path' = '{path}', "
    )
    (statement,) = parse(f"{sql}{more}'format' = 'json')")
    made = bind(statement, Catalog(), {})
    assert isinstance(made, Table)
    return declared(made)


def environment(writer: str = "w") -> Environment:
    return Environment(None, lambda: 0, writer)


def rows(of: Table, where: str = "") -> Counter[tuple[str, str]]:
    """Each record with the folder that it is in."""
    (statement,) = parse(f"SELECT * FROM t {where}")
    node: LogicalPlan = optimized(statement, Catalog().put(of))
    while not isinstance(node, Scan):
        assert not isinstance(node, Filter)
        (node,) = node.inputs
    source = open_scan(node, environment())
    found: Counter[tuple[str, str]] = Counter()
    for shard in source.shards():
        chunk = source.read(shard, 0, max_rows=1000)
        if chunk is not None:
            assert chunk.records is not None
            values = chunk.metadata["partition.k"].to_pylist()
            found.update(
                zip(map(str, values), (r.decode() for r in chunk.records.to_pylist()), strict=True)
            )
    source.close()
    return found


def test_an_epoch_that_is_repeated_completes_what_a_crash_has_left(tmp_path: Path) -> None:
    of = table(tmp_path / "t")
    sink = FilesystemConnector().sink(of, environment())
    assert isinstance(sink, PartitionedFileSink)
    sink.write(from_pydict(of.schema, {"id": [1, 2], "k": ["a", "b"]}))
    assert sink.commit(1) == 2
    second = from_pydict(of.schema, {"id": [3, 4, 5], "k": ["a", "b", None]})
    sink.write(second)
    sink._open["k=a"].commit(2)  # the process dies between two partitions,
    (torn,) = (tmp_path / "t/k=b").glob("part-*")
    torn.write_bytes(torn.read_bytes() + b'{"id":')  # and in the middle of a record
    sink.close()
    again = open_sink(of, environment())
    assert rows(of) == Counter({("a", '{"id":1}'): 1, ("b", '{"id":2}'): 1, ("a", '{"id":3}'): 1})
    again.write(second)
    assert again.commit(2) == 2
    again.close()
    assert sorted(rows(of)) == [
        ("None", '{"id":5}'),
        ("a", '{"id":1}'),
        ("a", '{"id":3}'),
        ("b", '{"id":2}'),
        ("b", '{"id":4}'),
    ]


def test_more_partitions_than_files_may_be_open(tmp_path: Path) -> None:
    of = table(tmp_path / "t")
    sink = open_sink(of, environment())
    for epoch in (1, 2):
        sink.write(
            from_pydict(of.schema, {"id": list(range(150)), "k": [f"k{i}" for i in range(150)]})
        )
        assert sink.commit(epoch) == 150
    sink.close()
    assert set(rows(of).values()) == {2}
    assert len(rows(of)) == 150


@given(values=st.lists(st.tuples(TEXTS, st.one_of(st.none(), TEXTS)), max_size=4))
@settings(max_examples=40, deadline=None)
def test_any_text_is_the_name_of_a_folder(
    values: list[tuple[str, str | None]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("names")
    for pair in values:
        (root / folder_of(["a b", "c"], pair, "__D__")).mkdir(parents=True, exist_ok=True)
    assert {found for _, found in partitions(root, ["a b", "c"], "__D__")} == set(values)


def test_conditions_leave_partitions_unread(tmp_path: Path) -> None:
    of = table(tmp_path / "t")
    sink = open_sink(of, environment())
    sink.write(from_pydict(of.schema, {"id": [1, 2, 3], "k": ["a", "b", None]}))
    sink.commit(1)
    sink.close()
    for where, wanted in (
        ("WHERE k = 'b'", "b"),
        ("WHERE k IS NULL", "None"),
        ("WHERE k > 'a'", "b"),
    ):
        assert [k for k, _ in rows(of, where)] == [wanted]


def test_a_name_that_is_no_value_is_told(tmp_path: Path) -> None:
    of = table(tmp_path / "t", "id INT, k INT")
    folder = tmp_path / "t/k=one"
    folder.mkdir(parents=True)
    (folder / "part-0").write_text('{"id":1}\n')
    with pytest.raises(SqlError, match="'one' in the name of folder"):
        rows(of)


@pytest.mark.parametrize(
    ("columns", "keys", "said"),
    [
        ("id INT, k ARRAY<INT>", "k", "which no name can hold"),
        ("k INT", "k", "all columns of table 't' are partition"),
    ],
)
def test_what_can_be_no_partition(columns: str, keys: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SqlError, match=said):
        open_sink(table(tmp_path / "t", columns, keys), environment())


def test_partitions_are_listed(tmp_path: Path) -> None:
    of = table(tmp_path / "t", "id INT, k STRING, n INT", "k, n")
    sink = open_sink(of, environment())
    sink.write(from_pydict(of.schema, {"id": [1, 2, 3], "k": ["a", "b/c", None], "n": [1, 1, 2]}))
    sink.commit(1)
    sink.close()
    catalog = Catalog().put(of)

    def shown(text: str) -> list[str]:
        (statement,) = parse(f"SHOW PARTITIONS {text}")
        assert isinstance(statement, Show)
        names: list[str] = (
            show_partitions(catalog, statement, ANY_FILES).column("partition name").to_pylist()
        )
        return names

    assert shown("t") == ["k=__DEFAULT_PARTITION__/n=2", "k=a/n=1", "k=b%2Fc/n=1"]
    assert shown("t PARTITION (n = 1, k = 'b/c')") == ["k=b%2Fc/n=1"]
    with pytest.raises(SqlError, match="'id' is no partition column"):
        shown("t PARTITION (id = 1)")
