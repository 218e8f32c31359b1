"""Rows are found in mapped files as in state: any types, keys, conditions, doubles and NULLs, also
where different keys have one hash."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INT,
    STRING,
    Column,
    DataType,
    Schema,
    array,
    decimal,
    timestamp,
)
from planner.catalog import Table
from planner.logical import JoinKind, LookupJoin, MappedScan
from planner.logical.change_kinds import ModifyKindSet
from planner.scalar import Call, ColumnRef, Scalar
from sqlengine.batch import Batch
from sqlengine.dimensions import hashing
from sqlengine.dimensions import table as tables
from sqlengine.dimensions.columns import ColumnWriter, MappedColumns
from sqlengine.dimensions.index import MappedIndex
from sqlengine.dimensions.table import Lookup, MappedTable, build_index
from sqlengine.executors.spark.worker import TaskContext
from sqlengine.operators.base import ERROR_PORT
from sqlengine.operators.joins import rows as pairs
from sqlengine.operators.joins.lookup import LookupJoinOperator
from sqlengine.operators.joins.mapped import MappedDimension, VersionRecord
from sqlengine.operators.scan import raw_schema
from tests.operators.test_joins import Source

Row = tuple[object, ...]

# Types of keys with values of which some are equal, and some nearly.
VALUES: dict[str, tuple[DataType, Sequence[object]]] = {
    "text": (STRING, ["", "a", "ab", "abcdefgh", "abcdefgi", "abcdefghi", "é" * 9, None]),
    "long": (STRING, ["x" * 40 + c for c in "abc"]),
    "bytes": (BYTES, [b"", b"\0", b"\0\0", b"\xff" * 8, None]),
    "int": (INT, [0, 1, -1, 2**31 - 1, None]),
    "bigint": (BIGINT, [0, 1, 1 << 32, (1 << 32) + 1, -(2**63), None]),
    "double": (DOUBLE, [0.0, -0.0, 1.5, float("nan"), float("inf"), None]),
    "boolean": (BOOLEAN, [True, False, None]),
    "date": (DATE, [0, 1, 20_000, None]),
    "time": (timestamp(3), [0, 1, 1_700_000_000_000, None]),
    "decimal": (decimal(6, 2), [Decimal("0.00"), Decimal("1.00"), Decimal("-1.50"), None]),
    "array": (array(INT), [[], [1], [1, None], None]),
}


@dataclass(frozen=True)
class Case:
    """A table of rows (key columns, id, w), the rows that ask (key columns, v), and the join."""

    kinds: tuple[str, ...]
    null_safe: tuple[bool, ...]
    kind: JoinKind
    residual: bool
    unique: str
    dim: tuple[Row, ...]
    left: tuple[Row, ...]

    @property
    def left_schema(self) -> Schema:
        keys = (Column(f"k{i}", VALUES[k][0]) for i, k in enumerate(self.kinds))
        return Schema((*keys, Column("v", INT)))

    @property
    def right_schema(self) -> Schema:
        keys = (Column(f"d{i}", VALUES[k][0]) for i, k in enumerate(self.kinds))
        return Schema((*keys, Column("id", INT), Column("w", INT)))

    @property
    def primary_key(self) -> tuple[str, ...]:
        keys = tuple(f"d{i}" for i in range(len(self.kinds)))
        return {"": (), "id": ("id",), "key": keys}[self.unique]

    def condition(self) -> Scalar:
        parts: list[Scalar] = []
        for i, (kind, null_safe) in enumerate(zip(self.kinds, self.null_safe, strict=True)):
            sides = (ColumnRef(f"k{i}", VALUES[kind][0]), ColumnRef(f"d{i}", VALUES[kind][0]))
            parts.append(Call("IS NOT DISTINCT FROM" if null_safe else "=", sides, BOOLEAN))
        if self.residual:
            parts.append(Call("<", (ColumnRef("v", INT), ColumnRef("w", INT)), BOOLEAN))
        return parts[0] if len(parts) == 1 else Call("AND", tuple(parts), BOOLEAN)

    def join(self, right: Source | MappedScan) -> LookupJoin:
        left = Source(self.left_schema, ModifyKindSet.NONE)
        return LookupJoin(left, right, self.kind, self.condition(), self.primary_key)


def batch(schema: Schema, rows: Sequence[Row]) -> Batch:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [
        pa.array(list(values), c.type.arrow) for c, values in zip(schema, columns, strict=True)
    ]
    return Batch(schema, tuple(arrays), len(rows))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kinds = tuple(draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=2)))
    keys = [st.sampled_from(VALUES[k][1]) for k in kinds]
    number = st.integers(0, 3)
    dim = draw(st.lists(st.tuples(*keys, number, number), max_size=12))
    left = draw(st.lists(st.tuples(*keys, number), max_size=8))
    return Case(
        kinds,
        tuple(draw(st.booleans()) for _ in kinds),
        draw(st.sampled_from((JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI))),
        draw(st.booleans()),
        draw(st.sampled_from(("", "id", "key"))),
        tuple(dim),
        tuple(left),
    )


def in_state(case: Case) -> list[str]:
    operator = LookupJoinOperator(case.join(Source(case.right_schema, ModifyKindSet.NONE)))
    operator.open(TaskContext())
    if case.dim:
        assert list(operator.process(1, batch(case.right_schema, case.dim))) == []
    return list(told(operator, case))


def mapped(case: Case) -> list[str]:
    schema = case.right_schema
    table = Table(("c", "d", "dim"), schema, schema, {"connector": "filesystem"})
    null_safe = tuple(f"d{i}" for i, safe in enumerate(case.null_safe) if safe)
    keys = tuple(f"d{i}" for i in range(len(case.kinds)))
    rows = Source(schema, ModifyKindSet.NONE)
    unique = tuple(dict.fromkeys((*keys, *case.primary_key))) if case.primary_key else ()
    scan = MappedScan(table, None, True, rows, keys, null_safe, unique)
    with tempfile.TemporaryDirectory() as folder:
        join = case.join(scan)
        operator = LookupJoinOperator(join, MappedDimension(join, Built(case, Path(folder))))
        operator.open(TaskContext())
        record = (VersionRecord("only").encode(), 0)
        operator.process(1, batch(raw_schema(Schema(())), [record]))
        list(operator.process(1, batch(raw_schema(Schema(())), [record])))
        return list(told(operator, case))


@dataclass(frozen=True)
class Built:
    """The one version of a case's table, written when it is asked for."""

    case: Case
    folder: Path

    def open(self, name: str, schema: Schema, by: Lookup) -> MappedTable:
        writer = ColumnWriter(self.folder, schema)
        for start in range(0, len(self.case.dim), 5):
            part = batch(schema, self.case.dim[start : start + 5])
            writer.add(part.columns, part.num_rows)
        writer.finish(lambda: None)
        columns = MappedColumns(self.folder, schema, writer.num_rows)
        build_index(self.folder / "index", columns, schema, by, 5, lambda: None)
        return MappedTable(columns, MappedIndex(self.folder / "index"), schema, by)


def told(operator: LookupJoinOperator, case: Case) -> Iterator[str]:
    asked = batch(case.left_schema, case.left)
    for port, out in operator.process(0, asked):
        assert port != ERROR_PORT
        yield from map(repr, zip(*(c.to_pylist() for c in out.columns), strict=True))


@pytest.mark.parametrize("hashes", ["good", "equal", "few"])
@pytest.mark.parametrize("most", [1 << 16, 2])
def test_look_ups_give_the_same_rows(
    hashes: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = hashing.hash_keys

    def worse(
        types: Sequence[DataType], columns: Sequence[pa.Array], num_rows: int, seed: int
    ) -> hashing.HashArray:
        found = real(types, columns, num_rows, seed)
        return found & np.uint64(0 if hashes == "equal" else 3 << 62)

    if hashes != "good":
        monkeypatch.setattr(tables, "hash_keys", worse)
    monkeypatch.setattr(pairs, "MOST_PAIRS", most)

    @settings(max_examples=60, deadline=None)
    @given(cases())
    def check(case: Case) -> None:
        wanted, found = in_state(case), mapped(case)
        # The place of a row in state may be that of one which was there before it.
        assert sorted(found) == sorted(wanted)
        assert found == wanted or case.primary_key

    check()


def test_equal_keys_hash_alike_wherever_they_stand() -> None:
    values = ["", "a", "abcdefgh", "é" * 9, "x" * 100, None, "a"]
    whole = pa.array(values)
    again = pa.array(["pad", *values[::-1], "pad"]).slice(1, len(values))
    large = whole.cast(pa.large_string())
    found = [hashing.hash_keys([STRING], [a], len(values), 9) for a in (whole, again, large)]
    assert found[0].tolist() == found[1][::-1].tolist() == found[2].tolist()
    assert len(set(found[0].tolist())) == len(values) - 1
