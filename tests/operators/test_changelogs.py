"""Normalisation and upsert materialisation against models of dicts and lists: any changes, any
batch size, restarts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.types import BOOLEAN, INT, STRING, Schema
from planner.logical import Normalize, UpsertMaterialize, Values
from planner.scalar import Call, ColumnRef, Literal
from sqlengine.batch import MAX_WATERMARK, Batch
from sqlengine.executors.spark.worker import TaskContext
from sqlengine.operators.base import ERROR_PORT, Operator
from sqlengine.operators.changelog.normalize import NormalizeOperator
from sqlengine.operators.changelog.resolve_conflicts import ResolveConflictsOperator
from sqlengine.operators.changelog.upsert_materialize import UpsertMaterializeOperator

SCHEMA = Schema.of(k=STRING, u=INT, v=INT)
SOURCE = Values((), SCHEMA)
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)

Row: TypeAlias = tuple[str | None, int | None, int | None]
Change: TypeAlias = tuple[int, Row]

keys = st.sampled_from(["a", "b", None])
numbers = st.one_of(st.none(), st.integers(0, 3))
rows = st.tuples(keys, numbers, numbers)


def batch_of(told: Sequence[Change], watermark: int = 0) -> Batch:
    columns = tuple(
        pa.array([row[i] for _, row in told], c.type.arrow) for i, c in enumerate(SCHEMA)
    )
    kinds = np.array([kind for kind, _ in told], np.int8)
    return Batch(
        SCHEMA, columns, len(told), watermark=watermark, kinds=kinds if kinds.any() else None
    )


def run(
    make: Callable[[], Operator],
    told: Sequence[Change],
    most: int,
    restart: int | None = None,
    last: int = 0,
    width: int = 3,
) -> list[Change]:
    """Returns the first `width` columns of the output; before batch `restart` another operator
    restores the state. A tick with the watermark `last` ends the stream."""
    memory, operator = TaskContext(), make()
    operator.open(memory)
    batches = [batch_of(told[i : i + most]) for i in range(0, len(told), most)]
    found: list[Change] = []
    for number, batch in enumerate([*batches, batch_of([], last)]):
        if number == restart:
            memory, operator = TaskContext({n: t.dump() for n, t in memory.tables.items()}), make()
            operator.open(memory)
        for port, out in operator.process(0, batch):
            assert port != ERROR_PORT or out.num_rows
            kinds = [0] * out.num_rows if out.kinds is None else out.kinds.tolist()
            columns = [c.to_pylist() for c in out.columns[:width]]
            found += (
                [] if port == ERROR_PORT else zip(kinds, zip(*columns, strict=True), strict=True)
            )
    return found


def left_over(told: Sequence[Change]) -> Counter[Row]:
    """Returns the rows that remain after full changes; fails if a row is retracted that does not
    exist."""
    found: Counter[Row] = Counter()
    for kind, row in told:
        found[row] += 1 if kind in (INSERT, UPDATE_AFTER) else -1
        assert found[row] >= 0, "taken back before it came"
    return +found


def by_key(told: Sequence[Change]) -> dict[object, Row]:
    """Returns the rows that remain after changes by the first column."""
    held: dict[object, Row] = {}
    for kind, row in told:
        assert (kind == INSERT) != (row[0] in held), "new rows are +I, and no others"
        if kind == DELETE:
            del held[row[0]]
        else:
            held[row[0]] = row
    return held


def normalize(below: int | None) -> Callable[[], Operator]:
    limit = (
        None if below is None else Call("<", (ColumnRef("v", INT), Literal(below, INT)), BOOLEAN)
    )
    return lambda: NormalizeOperator(Normalize(SOURCE, ("k",), limit))


@settings(max_examples=75, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE]), rows), max_size=20
    ),
    st.sampled_from([None, 2]),
    st.integers(2, 7),
    st.integers(0, 5),
)
def test_upserts_become_a_full_changelog(
    told: list[Change], below: int | None, most: int, restart: int
) -> None:
    model: dict[object, Row] = {}
    for kind, row in told:
        if kind == UPDATE_BEFORE:
            continue
        if kind == DELETE or (below is not None and (row[2] is None or row[2] >= below)):
            model.pop(row[0], None)
        else:
            model[row[0]] = row
    for size, again in ((1, None), (most, None), (most, restart)):
        assert left_over(run(normalize(below), told, size, again)) == Counter(model.values())


def test_a_row_for_which_the_filter_fails_changes_nothing() -> None:
    share = Call("/", (Literal(6, INT), ColumnRef("v", INT)), INT)
    above = Call(">", (share, Literal(1, INT)), BOOLEAN)
    memory, operator = TaskContext(), NormalizeOperator(Normalize(SOURCE, ("k",), above))
    operator.open(memory)
    told: list[Change] = [
        (INSERT, ("a", 1, 3)),
        (UPDATE_AFTER, ("a", 2, 0)),
        (DELETE, ("b", 1, 0)),
        (INSERT, ("c", 1, 9)),
    ]
    (_, letters), (_, out) = operator.process(0, batch_of(told))
    assert [c.to_pylist() for c in out.columns] == [["a"], [1], [3]]
    assert letters.column("reason").to_pylist() == ["division by zero"]
    assert memory.counters["rows_in_error"] == letters.num_rows == 1
    (_, out) = operator.process(0, batch_of([(UPDATE_AFTER, ("a", 3, 6))]))[0]
    assert [c.to_pylist() for c in out.columns] == [["a"], [1], [3]], (
        "6 / 6 > 1 is FALSE: the first row goes"
    )
    assert out.kinds is not None
    assert out.kinds.tolist() == [DELETE]


@st.composite
def valid_changes(draw: st.DrawFn) -> list[Change]:
    """Rows that come and go, each taken back only while it is there; `u` tells the rows of a key
    apart."""
    held: list[Row] = []
    told: list[Change] = []
    for row, pick in draw(st.lists(st.tuples(rows, st.integers(0, 99)), max_size=20)):
        same = next((r for r in held if r[:2] == row[:2]), None)
        if held and pick % 3 == 0:
            gone = held.pop(pick % len(held))
            told.append((DELETE, gone))
        elif same is None:
            held.append(row)
            told.append((INSERT, row))
        else:
            held[held.index(same)] = row
            told += [(UPDATE_BEFORE, same), (UPDATE_AFTER, row)]
    return told


def materialize(rows_by: tuple[str, ...]) -> Callable[[], Operator]:
    return lambda: UpsertMaterializeOperator(UpsertMaterialize(SOURCE, ("k",), rows_by))


@settings(max_examples=75, deadline=None)
@given(valid_changes(), st.sampled_from([("u",), ()]), st.integers(2, 7), st.integers(0, 5))
def test_the_last_row_of_a_key_is_there(
    told: list[Change], rows_by: tuple[str, ...], most: int, restart: int
) -> None:
    history: dict[object, list[Row]] = {}
    for kind, row in told:
        there = history.setdefault(row[0], [])
        if kind in (INSERT, UPDATE_AFTER):
            there.append(row)
        else:
            there.remove(row)
    last = {key: there[-1] for key, there in history.items() if there}
    for size, again in ((1, None), (most, None), (most, restart)):
        found = by_key(run(materialize(rows_by), told, size, again))
        assert found.keys() == last.keys()
        assert all(row in history[key] for key, row in found.items())
        if not rows_by:
            assert found == last


def resolve(conflict: str) -> Callable[[], Operator]:
    return lambda: ResolveConflictsOperator(UpsertMaterialize(SOURCE, ("k",), ("u",), conflict))


@settings(max_examples=100, deadline=None)
@given(valid_changes(), st.integers(1, 7), st.integers(0, 5))
def test_the_first_row_of_a_key_stays(told: list[Change], most: int, restart: int) -> None:
    """All rows wait for the end here: what came and went before it does not count."""
    left: dict[object, list[Row]] = {}
    for kind, row in told:
        there = left.setdefault(row[0], [])
        if kind in (INSERT, UPDATE_AFTER):
            there.append(row)
        else:
            there.remove(next(r for r in there if r[1] == row[1]))
    first = {key: there[0] for key, there in left.items() if there}
    assert by_key(run(resolve("NOTHING"), told, most, restart, MAX_WATERMARK)) == first


ROWS: list[Change] = [(INSERT, ("a", 1, 1)), (INSERT, ("a", 2, 2))]


def test_rows_come_back_when_the_last_one_goes() -> None:
    told = [*ROWS, (DELETE, ("a", 2, 2)), (DELETE, ("a", 1, 1))]
    found = run(materialize(("u",)), told, 1)
    assert found == [
        (INSERT, ("a", 1, 1)),
        (UPDATE_AFTER, ("a", 2, 2)),
        (UPDATE_AFTER, ("a", 1, 1)),
        (DELETE, ("a", 1, 1)),
    ]


@pytest.mark.parametrize(("conflict", "letters"), [("NOTHING", 0), ("ERROR", 1)])
def test_a_second_row_of_a_key(conflict: str, letters: int) -> None:
    memory, operator = TaskContext(), resolve(conflict)()
    operator.open(memory)
    assert [out.num_rows for _, out in operator.process(0, batch_of(ROWS))] == [0]
    output = operator.process(0, batch_of([], 1))
    assert [out.num_rows for port, out in output if port == ERROR_PORT] == [1] * letters
    assert [out.num_rows for port, out in output if port == 0] == [1]
