"""State TTL (table.exec.state.ttl) of ranks as in Flink: rows expire without retractions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

from parser import parse
from planner import bind
from planner.catalog import Catalog, Table
from planner.graph.physical import PhysicalNode
from planner.logical import Scan
from sqlengine.batch import from_pydict
from sqlengine.executors.build import OperatorFactory
from sqlengine.formats.results import rows_of
from tests.operators.proof import SCHEMA
from tests.operators.test_proof_of_queries import TABLE, TOP
from tests.operators.windows import Chain
from tests.planning import optimized

SETTINGS = {"table.exec.state.ttl": "1 s", "table.exec.mini-batch.enabled": "false"}
NUMBERED = TOP.format("{}", 2).replace("*", "i, n", 1)
COUNTED = "(SELECT k, i, COUNT(*) AS m FROM e GROUP BY k, i)"

Given = Sequence[tuple[int, int, int]]  # processing time in ms, time of the event, i


def told(sql: str, given: Given) -> list[str]:
    """What comes out, each row with the number of the row that made it."""
    return running(sql, given)[0]


def running(sql: str, given: Given) -> tuple[list[str], Chain]:
    (created,) = parse(TABLE)
    table = bind(created, Catalog(), {})
    assert isinstance(table, Table)
    (query,) = parse(sql)
    plan = optimized(query, Catalog().put(table), SETTINGS)
    node, nodes = plan.input, list[PhysicalNode]()
    while not isinstance(node, Scan):
        nodes.insert(
            0, PhysicalNode(str(len(nodes)), node, node.schema.names, {}, frozenset({"job"}), 0)
        )
        (node,) = node.inputs
    chain = Chain([OperatorFactory().build(n, None) for n in nodes])
    found = []
    for number, (now, ts, i) in enumerate(given):
        batch = from_pydict(SCHEMA, {"ts": [ts], "k": ["a"], "i": [i], "m": [Decimal(i)]})
        for made in chain.push(replace(batch, proctime=now)):
            found += [f"{number}: {op} {' '.join(map(str, row))}" for op, row in rows_of(made)]
    return found, chain


@pytest.mark.parametrize(
    ("sql", "given", "wanted"),
    [
        (
            NUMBERED.format("i DESC"),
            [(0, 0, 9), (500, 0, 8), (1200, 0, 7)],
            ["0: +I 9 1", "1: +I 8 2", "2: +I 7 2"],
        ),
        (
            NUMBERED.format("i DESC"),
            [(0, 0, 9), (900, 0, 8), (1950, 0, 7)],
            ["0: +I 9 1", "1: +I 8 2", "2: +I 7 1"],
        ),
        (
            NUMBERED.format("m DESC, i").replace("FROM e", f"FROM {COUNTED}"),
            [(0, 0, 3), (500, 0, 4), (1200, 0, 4)],
            ["0: +I 3 1", "1: +I 4 2", "2: -U 4 1", "2: +U 4 1"],
        ),
        (
            TOP.format("ts", 1).replace("*", "i", 1),
            [(0, 1000, 1), (100, 4000, 2), (1200, 8000, 3), (1300, 12000, 4)],
            ["1: +I 1", "3: +I 3"],
        ),
    ],
    ids=["one is forgotten", "all are forgotten", "counts", "first by time"],
)
def test_rows_are_forgotten(sql: str, given: Given, wanted: list[str]) -> None:
    assert told(sql, given) == wanted


def test_a_key_of_an_interval_before_is_forgotten_with_its_frame() -> None:
    over = (
        "OVER (PARTITION BY i ORDER BY ts RANGE BETWEEN INTERVAL '1' SECOND PRECEDING AND CURRENT"
        " ROW)"
    )
    given = [(0, 1000 * i, i) for i in range(100)]
    _, chain = running(f"SELECT i, COUNT(*) {over} AS n, SUM(m) {over} AS s FROM e", given)
    held = {name: len(table) for name, table in chain.context.tables.items()}
    assert max(held.values()) < 20, held
