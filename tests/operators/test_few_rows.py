"""Conditions that few rows take another way through: what they let pass is what they let pass of
many."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from parser.types import BIGINT, BOOLEAN, DOUBLE, STRING, Schema, timestamp
from sqlengine.batch import from_pydict
from sqlengine.connectors.memory.tables import Memory
from sqlengine.operators.rules import RulesOperator
from tests.operators.running import Running

ROWS = Schema.of(id=BIGINT, i=BIGINT, d=DOUBLE, s=STRING, o=BOOLEAN)
TABLES = """
CREATE TABLE t (id BIGINT, i BIGINT, d DOUBLE, s STRING, o BOOLEAN) WITH ('connector' = 'memory', 'name' = 't');
CREATE TABLE o (id BIGINT) WITH ('connector' = 'memory', 'name' = 'o');
INSERT INTO o SELECT id FROM t WHERE {}
"""
VALUES: dict[str, Sequence[object]] = {
    "i": (None, 0, 1, 3, -(2**63), 2**53 + 1),
    "d": (None, 0.0, -0.0, 0.5, float("nan"), float("inf"), 9007199254740993.0),
    "s": (None, "", "a", "b", "B", "é", "a "),
    "o": (None, True, False),
}
CONDITIONS = (
    *("i < 3", "3 <= i", "i = 9007199254740993", "i <> 1", "i IS NULL", "i < d", "i = NULL"),
    *("d > 0.5", "d <> 0.5", "d = 0.0", "d <= -0.0", "NOT (d >= 0.5)", "d IS NOT NULL", "d = d"),
    *("s = 'a'", "s <> 'a'", "s >= 'b'", "s IS NULL", "NOT (s = 'a' AND i = 1)", "s = ''"),
    *("o", "NOT o", "o = TRUE", "o <> FALSE", "o IS NULL OR i = 1", "1 = 1", "o AND o IS NOT NULL"),
)


def passed(condition: str, at_once: int) -> list[object]:
    """Returns the rows for which the condition is TRUE, where so many are read at once."""
    memory, number = Memory(), 60
    memory.table("t").open = True
    running = Running(TABLES.format(condition), memory)
    names = [n for n in ROWS.names if n != "id"]
    for start in range(0, number, at_once):
        ids = range(start, start + at_once)
        columns = {n: [VALUES[n][i * 7 // 3 % len(VALUES[n])] for i in ids] for n in names}
        memory.table("t").append(from_pydict(ROWS, {"id": list(ids), **columns}))
        running.after(start)
    return [row[-1] for row in running.after(number)]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_is_the_same_for_few_rows(condition: str) -> None:
    assert passed(condition, 1) == passed(condition, 60)


def test_few_rules_are_plain() -> None:
    running = Running(TABLES.format("i < 3 AND s = 'a'"))
    operators = (node.operator for node in running.runner.executor.running.values())
    assert [len(o._plain) for o in operators if isinstance(o, RulesOperator)] == [1]


NEAR = """
CREATE TABLE {name} (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'memory', 'name' = '{name}');
"""
NEAR_JOB = """
CREATE TABLE o (e BIGINT, a BIGINT) WITH ('connector' = 'memory', 'name' = 'o');
INSERT INTO o SELECT e.id, a.id FROM e JOIN a ON MOD(e.id, 3) = MOD(a.id, 3)
AND a.ts BETWEEN e.ts AND e.ts + INTERVAL '2' SECOND
"""


def test_rows_of_an_inner_interval_join_go_together() -> None:
    """They are kept a second longer, and match no longer."""
    memory, tables = Memory(), ("e", "a")
    for name in tables:
        memory.table(name).open = True
    texts = "".join(NEAR.format(name=name) for name in tables)
    running, most = Running(texts + NEAR_JOB, memory), 0
    for n in range(0, 100, 2):  # a row each of 100 ms
        for name, number in zip(tables, (n, n + 1), strict=True):
            row = from_pydict(
                Schema.of(id=BIGINT, ts=timestamp(3)), {"id": [number], "ts": [number * 100]}
            )
            memory.table(name).append(row)
            running.after(n)
        kept = running.runner.executor.tables
        most = max(most, *(len(t) for n, t in kept.items() if n.endswith(("left", "right"))))
    found = running.after(100)
    pairs = ((e, a) for e in range(0, 100, 2) for a in range(1, 100, 2))
    assert [row[-2:] for row in found] == [
        [e, a] for e, a in pairs if 0 <= a - e <= 20 and e % 3 == a % 3
    ]
    assert 10 <= most <= 17, "2 s, a second more, and half of a second for the clean-up"
