"""Lookup joins: the table's rows at arrival count, and retractions retract what was emitted."""

from __future__ import annotations

import pytest

from parser.types import BOOLEAN, INT, STRING, Schema
from planner.logical import JoinKind, LookupJoin
from planner.logical.change_kinds import ModifyKindSet
from planner.scalar import Call, ColumnRef
from sqlengine.executors.spark.worker import TaskContext
from sqlengine.operators.joins.lookup import LookupJoinOperator
from tests.operators.test_joins import (
    DELETE,
    INSERT,
    LEFT,
    RIGHT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Change,
    Source,
    batches,
)

A, B, B2 = (1, "a", 1), (7, "a", 5), (7, "a", 6)
WANTED = [
    "+I (1, 'a', 1, 7, 'a', 5)",
    "+I (2, 'z', 1, None, None, None)",
    "-U (1, 'a', 1, 7, 'a', 5)",
    "+U (3, 'a', 1, 7, 'a', 6)",
    "-D (3, 'a', 1, 7, 'a', 6)",
]


@pytest.mark.parametrize("most", [1, 10])
@pytest.mark.parametrize("restart", [False, True])
def test_emitted_rows_are_retracted(most: int, restart: bool) -> None:
    told: list[Change] = [(1, INSERT, B), (0, INSERT, A), (0, INSERT, (2, "z", 1)), (1, INSERT, B2)]
    told += [(0, UPDATE_BEFORE, A), (0, UPDATE_AFTER, (3, "a", 1)), (0, DELETE, (3, "a", 1))]
    assert _told(told, ("rid",), most, restart) == WANTED


@pytest.mark.parametrize("most", [1, 10])
def test_equal_rows_are_retracted_as_often_as_they_were_emitted(most: int) -> None:
    told: list[Change] = [
        (1, INSERT, B),
        (1, INSERT, B),
        (0, INSERT, A),
        (0, INSERT, A),
        (0, DELETE, A),
    ]
    both = "(1, 'a', 1, 7, 'a', 5)"
    assert _told(told, (), most, restart=False) == [f"+I {both}"] * 4 + [f"-D {both}"] * 2


def _told(told: list[Change], primary_key: tuple[str, ...], most: int, restart: bool) -> list[str]:
    equal = Call("=", (ColumnRef("k", STRING), ColumnRef("rk", STRING)), BOOLEAN)
    node = LookupJoin(
        Source(LEFT, ModifyKindSet.ALL),
        Source(RIGHT, ModifyKindSet.NONE),
        JoinKind.LEFT,
        equal,
        primary_key,
    )
    memory, operator = TaskContext(), LookupJoinOperator(node)
    operator.open(memory)
    found: list[str] = []
    for port, batch in batches(told, most):
        if restart:
            memory, operator = (
                TaskContext({n: t.dump() for n, t in memory.tables.items()}),
                LookupJoinOperator(node),
            )
            operator.open(memory)
        for _, out in operator.process(port, batch):
            kinds = [0] * out.num_rows if out.kinds is None else out.kinds.tolist()
            rows = zip(*(c.to_pylist() for c in out.columns), strict=True)
            found += [
                f"{('+I', '-U', '+U', '-D')[k]} {row}" for k, row in zip(kinds, rows, strict=True)
            ]
    return found


def test_the_primary_key_identifies_rows_of_the_table() -> None:
    equal = Call("=", (ColumnRef("id", INT), ColumnRef("rid", INT)), BOOLEAN)
    once, often = (
        LookupJoin(
            Source(LEFT, ModifyKindSet.NONE, (frozenset({"id"}),)),
            Source(RIGHT, ModifyKindSet.NONE),
            JoinKind.INNER,
            equal,
            key,
        )
        for key in (("rid",), ("rk",))
    )
    assert (once.upsert_keys, often.upsert_keys) == ((frozenset({"id"}),), ())
    assert once.schema == Schema((*LEFT, *RIGHT))
