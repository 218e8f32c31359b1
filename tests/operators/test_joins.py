"""Joins against a model of lists: any changes, any batch size, restarts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.types import BOOLEAN, INT, STRING, Schema
from planner.logical import Join, JoinKind, LogicalPlan, Names
from planner.logical.change_kinds import ModifyKindSet
from planner.logical.node import constant_if_insert_only, never, no_columns
from planner.scalar import Call, ColumnRef, Scalar
from sqlengine.batch import Batch
from sqlengine.executors.spark.worker import TaskContext
from sqlengine.operators.joins.regular import JoinOperator

LEFT = Schema.of(id=INT, k=STRING, v=INT)
RIGHT = Schema.of(rid=INT, rk=STRING, w=INT)
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = range(4)

Row = tuple[object, ...]
Change = tuple[int, int, Row]  # port, kind, row


@dataclass(frozen=True)
class Source(LogicalPlan):
    """The properties of an input that a join reads."""

    row: Schema
    may: ModifyKindSet
    unique: tuple[Names, ...] = ()

    column_sources = no_columns
    forwards_window = never
    monotonicity = cached_property(constant_if_insert_only)

    @property
    def schema(self) -> Schema:
        return self.row

    @property
    def parameters(self) -> tuple[str, ...]:
        return (str(self.row),)

    @property
    def changes(self) -> ModifyKindSet:
        return self.may

    @property
    def upsert_keys(self) -> tuple[Names, ...]:
        return self.unique


def call(function: str, left: str, right: str) -> Call:
    return Call(
        function, (ColumnRef(left, LEFT.type(left)), ColumnRef(right, RIGHT.type(right))), BOOLEAN
    )


@dataclass(frozen=True)
class Case:
    """How the sides come (append, rows, or unique by the columns named), and what joins them."""

    kind: JoinKind
    left: str
    right: str
    null_safe: bool
    residual: bool
    keyed: bool

    @property
    def node(self) -> Join:
        parts: list[Scalar] = []
        if self.keyed:
            parts.append(call("IS NOT DISTINCT FROM" if self.null_safe else "=", "k", "rk"))
        if self.residual:
            parts.append(call("<", "v", "w"))
        condition = parts[0] if len(parts) == 1 else Call("AND", tuple(parts), BOOLEAN)
        return Join(
            self._side(LEFT, self.left), self._side(RIGHT, self.right), self.kind, condition
        )

    def _side(self, schema: Schema, form: str) -> LogicalPlan:
        if form in ("append", "rows"):
            return Source(schema, ModifyKindSet.NONE if form == "append" else ModifyKindSet.ALL)
        return Source(
            schema, ModifyKindSet.ALL, (frozenset({schema.names[("id", "k").index(form)]}),)
        )

    def holds(self, left: Row, right: Row) -> bool:
        equal = left[1] == right[1] and (self.null_safe or left[1] is not None)
        less = left[2] is not None and right[2] is not None and left[2] < right[2]  # type: ignore[operator]
        return (equal or not self.keyed) and (less or not self.residual)

    def result(self, left: Sequence[Row], right: Sequence[Row]) -> Counter[Row]:
        """What the join is, of all rows that are there."""
        found: Counter[Row] = Counter()
        for a in left:
            matches = [b for b in right if self.holds(a, b)]
            match self.kind:
                case JoinKind.SEMI | JoinKind.ANTI:
                    found[a] += bool(matches) is (self.kind is JoinKind.SEMI)
                case _:
                    found.update(a + b for b in matches)
                    found[(*a, None, None, None)] += self.kind.keeps(0) and not matches
        for b in right if self.kind.keeps(1) else ():
            found[(None, None, None, *b)] += not any(self.holds(a, b) for a in left)
        return +found


cases = st.builds(
    Case,
    st.sampled_from(list(JoinKind)),
    st.sampled_from(["append", "rows", "id", "k"]),
    st.sampled_from(["append", "rows", "id", "k"]),
    st.booleans(),
    st.booleans(),
    st.just(True),
) | st.builds(
    Case,
    st.sampled_from(list(JoinKind)),
    *[st.sampled_from(["append", "rows"])] * 2,
    *map(st.just, (False, True, False)),
)
rows = st.tuples(
    st.integers(1, 3), st.sampled_from(["a", "b", None]), st.sampled_from([1, 2, None])
)
steps = st.lists(st.tuples(st.integers(0, 1), st.booleans(), st.integers(0, 9), rows), max_size=30)


def changes(
    case: Case, given_steps: Sequence[tuple[int, bool, int, Row]]
) -> tuple[list[Change], list[list[Row]]]:
    """Changes that such inputs can have, and the rows that are there in the end."""
    held: list[list[Row]] = [[], []]
    told: list[Change] = []
    for port, takes, which, row in given_steps:
        form, there = (case.left, case.right)[port], held[port]
        at = None if form in ("append", "rows") else ("id", "k").index(form)
        old = next((r for r in there if at is not None and r[at] == row[at]), None)
        if takes and there and form != "append":
            old = there[which % len(there)]
            there.remove(old)
            told.append((port, DELETE, old))
        elif old is not None:
            there[there.index(old)] = row
            told += [(port, UPDATE_BEFORE, old), (port, UPDATE_AFTER, row)]
        else:
            there.append(row)
            told.append((port, INSERT, row))
    return told, held


def batches(told: Sequence[Change], most: int) -> Iterator[tuple[int, Batch]]:
    """Consecutive changes of a side as batches of at most so many rows."""
    for port, part in groupby(told, lambda c: c[0]):
        pending = list(part)
        schema = (LEFT, RIGHT)[port]
        for start in range(0, len(pending), most):
            chunk = pending[start : start + most]
            columns = (
                pa.array([c[2][i] for c in chunk], c2.type.arrow) for i, c2 in enumerate(schema)
            )
            kinds = np.array([c[1] for c in chunk], np.int8)
            yield (
                port,
                Batch(schema, tuple(columns), len(chunk), kinds=kinds if kinds.any() else None),
            )


def run(
    case: Case, told: Sequence[Change], most: int, restart: int | None = None
) -> list[tuple[int, Row]]:
    """Returns the output of the operator; before batch `restart` another one restores its state."""
    memory = TaskContext()
    operator = JoinOperator(case.node)
    operator.open(memory)
    found: list[tuple[int, Row]] = []
    for number, (port, batch) in enumerate(batches(told, most)):
        if number == restart:
            memory = TaskContext({name: table.dump() for name, table in memory.tables.items()})
            operator = JoinOperator(case.node)
            operator.open(memory)
        for _, out in operator.process(port, batch):
            kinds = [0] * out.num_rows if out.kinds is None else out.kinds.tolist()
            found += zip(
                kinds, zip(*(c.to_pylist() for c in out.columns), strict=True), strict=True
            )
    return found


def left_over(told: Sequence[tuple[int, Row]]) -> Counter[Row]:
    """Returns the rows that remain after the changes; fails if a row is retracted that does not
    exist."""
    found: Counter[Row] = Counter()
    for kind, row in told:
        found[row] += 1 if kind in (INSERT, UPDATE_AFTER) else -1
        assert found[row] >= 0, "taken back before it came"
    return +found


@settings(max_examples=200, deadline=None)
@given(cases, steps, st.integers(2, 9), st.integers(0, 9))
def test_a_join_is_that_of_the_rows_that_are_there(
    case: Case, given_steps: list[tuple[int, bool, int, Row]], most: int, restart: int
) -> None:
    told, (left, right) = changes(case, given_steps)
    single = run(case, told, 1)
    assert left_over(single) == case.result(left, right)
    assert sorted(run(case, told, most), key=repr) == sorted(single, key=repr)
    assert left_over(run(case, told, most, restart)) == case.result(left, right)
    # As if these were too many pairs to be held at once.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sqlengine.operators.joins.rows.MOST_PAIRS", 2)
        assert sorted(run(case, told, most), key=repr) == sorted(single, key=repr)


def changelog(kind: JoinKind, told: list[Change]) -> list[str]:
    case = Case(kind, "rows", "rows", False, False, True)
    return [f"{('+I', '-U', '+U', '-D')[k]} {row}" for k, row in run(case, told, 10)]


A, A2 = (1, "a", 1), (2, "a", 2)
B, B2 = (7, "a", 1), (7, "a", 2)


@pytest.mark.parametrize(
    ("kind", "told", "wanted"),
    [
        (
            JoinKind.LEFT,
            [
                (0, INSERT, A),
                (1, INSERT, B),
                (1, UPDATE_BEFORE, B),
                (1, UPDATE_AFTER, B2),
                (1, DELETE, B2),
            ],
            [
                "+I (1, 'a', 1, None, None, None)",
                "-D (1, 'a', 1, None, None, None)",
                "+I (1, 'a', 1, 7, 'a', 1)",
                "-U (1, 'a', 1, 7, 'a', 1)",
                "+I (1, 'a', 1, None, None, None)",
                "-D (1, 'a', 1, None, None, None)",
                "+I (1, 'a', 1, 7, 'a', 2)",
                "-D (1, 'a', 1, 7, 'a', 2)",
                "+I (1, 'a', 1, None, None, None)",
            ],
        ),
        (
            JoinKind.INNER,
            [(1, INSERT, B), (0, INSERT, A), (0, UPDATE_BEFORE, A), (0, UPDATE_AFTER, A2)],
            ["+I (1, 'a', 1, 7, 'a', 1)", "-U (1, 'a', 1, 7, 'a', 1)", "+U (2, 'a', 2, 7, 'a', 1)"],
        ),
        (
            JoinKind.ANTI,
            [(0, INSERT, A), (1, INSERT, B), (1, INSERT, B), (1, DELETE, B), (1, DELETE, B)],
            ["+I (1, 'a', 1)", "-D (1, 'a', 1)", "+I (1, 'a', 1)"],
        ),
        (
            JoinKind.SEMI,
            [
                (0, INSERT, A),
                (1, INSERT, B),
                (1, UPDATE_BEFORE, B),
                (1, UPDATE_AFTER, B2),
                (0, DELETE, A),
            ],
            ["+I (1, 'a', 1)", "-U (1, 'a', 1)", "+U (1, 'a', 1)", "-D (1, 'a', 1)"],
        ),
    ],
    ids=lambda v: v.value if isinstance(v, JoinKind) else "",
)
def test_kinds_are_those_of_flink(kind: JoinKind, told: list[Change], wanted: list[str]) -> None:
    assert changelog(kind, told) == wanted


def test_rows_are_kept_as_long_as_their_side_says() -> None:
    node = Join(
        Source(LEFT, ModifyKindSet.NONE),
        Source(RIGHT, ModifyKindSet.NONE),
        JoinKind.INNER,
        call("=", "k", "rk"),
        ttl_ms=100,
        ttls_ms=(None, 1_000),
    )
    operator = JoinOperator(node)
    operator.open(TaskContext())
    found = []
    for at, port, row in [
        (0, 0, A),
        (0, 1, B),
        (99, 1, B),
        (150, 1, B),
        (900, 0, A),
        (1_200, 0, A2),
    ]:
        ((_, batch),) = batches([(port, INSERT, row)], 1)
        ((_, out),) = operator.process(port, replace(batch, proctime=at))
        found.append(out.num_rows)
    assert found == [0, 1, 1, 0, 3, 0]
