"""OVER in an order that is not time against a model of lists; a change accesses little more than
what it emits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.types import BIGINT, INT, STRING, Schema
from planner.logical import Frame, Over, OverCall, SortKey
from planner.logical.change_kinds import ModifyKindSet
from sqlengine.batch import Batch
from sqlengine.executors.spark.worker import TaskContext
from sqlengine.formats.results import rows_of
from sqlengine.operators.over import runs as over_runs
from sqlengine.operators.over.sorted import OverSortedOperator
from tests.operators.state_access import count_access
from tests.operators.test_joins import Source

SCHEMA = Schema.of(id=INT, k=STRING, o=INT, v=INT)
Row: TypeAlias = tuple[Any, ...]
NUMBER = BIGINT.with_nullable(False)
CALLS = {
    "ROW_NUMBER": OverCall("n", "ROW_NUMBER", (), NUMBER),
    "RANK": OverCall("r", "RANK", (), NUMBER),
    "DENSE_RANK": OverCall("d", "DENSE_RANK", (), NUMBER),
    "COUNT": OverCall("c", "COUNT", (), NUMBER),
    "SUM": OverCall("s", "SUM", ("v",), INT, INT),
    "MAX": OverCall("m", "MAX", ("v",), INT, INT),
    "DISTINCT": OverCall("u", "COUNT DISTINCT", ("v",), NUMBER, INT),
    "LAG": OverCall("l", "LAG", ("v",), INT, INT, (1,)),
    "LAG_OR": OverCall("b", "LAG", ("v", "id"), INT, INT, (2,)),
}


def node(names: Sequence[str], rows: bool, changes: ModifyKindSet) -> Over:
    source = Source(SCHEMA, changes)
    return Over(source, ("k",), (SortKey("o"),), Frame(rows), tuple(CALLS[n] for n in names))


def batch_of(changes: Sequence[tuple[int, Row]]) -> Batch:
    columns = tuple(
        pa.array([r[i] for _, r in changes], c.type.arrow) for i, c in enumerate(SCHEMA)
    )
    kinds = np.array([k for k, _ in changes], np.int8)
    return Batch(SCHEMA, columns, len(changes), kinds=kinds if kinds.any() else None)


def value(name: str, held: Sequence[Row], at: int, rows: bool) -> int | None:
    """Of the row at this place of a key's rows in order."""
    order = [r[2] for r in held]
    first, end = order.index(order[at]), len(order) - order[::-1].index(order[at])
    seen = [r[3] for r in held[: at + 1 if rows else end]]
    there = [v for v in seen if v is not None]
    match name:
        case "ROW_NUMBER":
            return at + 1
        case "RANK":
            return first + 1
        case "DENSE_RANK":
            return len(set(order[: at + 1]))
        case "LAG" | "LAG_OR":
            last, back = (at if rows else end - 1), (1 if name == "LAG" else 2)
            return (
                held[last - back][3]
                if last >= back
                else held[last][0]
                if name == "LAG_OR"
                else None
            )
        case "COUNT":
            return len(seen)
        case "DISTINCT":
            return len(set(there))
    return (sum(there) if name == "SUM" else max(there)) if there else None


def wanted(held: Sequence[Row], names: Sequence[str], rows: bool) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for key in {r[1] for r in held}:
        own = sorted((r for r in held if r[1] == key), key=lambda r: r[2])
        found.update((*r, *(value(n, own, i, rows) for n in names)) for i, r in enumerate(own))
    return found


ROWS = st.tuples(
    st.integers(0, 3), st.sampled_from("ab"), st.integers(0, 4), st.sampled_from([None, 0, 1, 5])
)
STEPS = st.lists(st.tuples(st.booleans(), ROWS, st.integers(0, 40)), min_size=1, max_size=40)


@given(
    steps=STEPS,
    names=st.lists(st.sampled_from(sorted(CALLS)), min_size=1, max_size=3, unique=True),
    rows=st.booleans(),
    size=st.integers(1, 9),
    retracts=st.booleans(),
)
@settings(max_examples=30, deadline=None)
def test_the_rows_are_those_of_the_model(
    steps: Sequence[tuple[bool, Row, int]],
    names: Sequence[str],
    rows: bool,
    size: int,
    retracts: bool,
) -> None:
    """Equal rows each stand where they came, with a value of their own; the first of them goes
    first."""
    operator = OverSortedOperator(
        node(names, rows, ModifyKindSet.ALL if retracts else ModifyKindSet.NONE)
    )
    memory = TaskContext()
    held: list[Row] = []
    left: Counter[Row] = Counter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(over_runs, "_BLOCK", 2)
        operator.open(memory)
        for start in range(0, len(steps), size):
            changes: list[tuple[int, Row]] = []
            come: list[Row] = []
            for goes, row, which in steps[start : start + size]:
                if goes and retracts and held:
                    gone = held[which % len(held)]
                    changes.append((3, gone))
                    held.remove(gone)
                else:
                    changes.append((0, row))
                    come.append(row)
            held += come
            for _, made in operator.process(0, batch_of(changes)):
                for op, told in rows_of(made):
                    left[tuple(told)] += -1 if op in ("-U", "-D") else 1
                    assert left[tuple(told)] >= 0
            assert +left == wanted(held, names, rows)
            if start % 2:
                operator = OverSortedOperator(
                    node(names, rows, ModifyKindSet.ALL if retracts else ModifyKindSet.NONE)
                )
                memory = TaskContext({n: t.dump() for n, t in memory.tables.items()})
                operator.open(memory)


def touched(name: str, rows: bool, size: int, orders: Sequence[int]) -> tuple[int, int]:
    """Rows of state for rows of one key that come one at a time, where so many are there; and the
    rows told."""
    operator = OverSortedOperator(node([name], rows, ModifyKindSet.NONE))
    operator.open(TaskContext())
    operator.process(0, batch_of([(0, (n, "a", 10 * n, 9 - n % 7)) for n in range(size)]))
    told = 0
    with count_access() as found:
        for order in orders:
            told += sum(
                b.num_rows for _, b in operator.process(0, batch_of([(0, (0, "a", order, 1))]))
            )
    return found.rows, told


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_row_at_the_end_accesses_no_more_of_a_larger_state(name: str, rows: bool) -> None:
    (small, told), (large, _) = (
        touched(name, rows, n, range(10 * n, 10 * n + 10)) for n in (300, 600)
    )
    assert told == 10
    assert 0 < large <= 1.2 * small + 10


@pytest.mark.parametrize("name", ["MAX", "SUM", "RANK"])
def test_a_row_between_others_accesses_what_it_emits(name: str) -> None:
    (small, told), (large, large_told) = (
        touched(name, False, n, [j * 7919 % (10 * n) for j in range(20)]) for n in (900, 1800)
    )
    if name == "MAX":  # nobody behind it has another value
        assert told == 20
        assert large <= 1.3 * small
    else:
        assert large <= 6 * large_told


def test_equal_rows_share_a_value_that_is_not_looked_at_where_it_stays() -> None:
    (small, told), (large, _) = (touched("MAX", False, 10 * n, [5] * n) for n in (60, 120))
    assert told == 60
    assert large <= 2.4 * small
