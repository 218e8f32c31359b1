"""Top-N over rows that are updated: what a batch changes in one partition says nothing of others."""

from __future__ import annotations

from decimal import Decimal

from parser import parse
from planner import bind
from planner.catalog import Catalog, Table
from planner.graph.physical import PhysicalNode
from planner.logical import Scan
from sqlengine.batch import from_pydict
from sqlengine.executors.build import OperatorFactory
from sqlengine.formats.results import rows_of
from tests.operators.proof import SCHEMA
from tests.operators.test_proof_of_queries import TABLE
from tests.operators.windows import Chain
from tests.planning import optimized

MOST = """SELECT k, c, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY c DESC) AS n
    FROM (SELECT k, i, COUNT(*) AS c FROM e GROUP BY k, i)) WHERE n <= 2"""


def test_partitions_whose_rows_all_change_at_once_keep_apart() -> None:
    (created,) = parse(TABLE)
    table = bind(created, Catalog(), {})
    assert isinstance(table, Table)
    (query,) = parse(MOST)
    node = optimized(query, Catalog().put(table), {"table.exec.mini-batch.enabled": "true"}).input
    nodes: list[PhysicalNode] = []
    while not isinstance(node, Scan):
        name = str(len(nodes))
        nodes.insert(0, PhysicalNode(name, node, node.schema.names, {}, frozenset({"job"}), 0))
        (node,) = node.inputs
    chain = Chain([OperatorFactory().build(n, None) for n in nodes])
    told = []
    for keys in (["a", "b"], ["b", "a"]):
        columns: dict[str, list[object]] = {
            "ts": [0, 0],
            "k": [*keys],
            "i": [1, 1],
            "m": [Decimal(1), Decimal(1)],
        }
        for made in chain.push(from_pydict(SCHEMA, columns)):
            told += [f"{op} {' '.join(map(str, row))}" for op, row in rows_of(made)]
    first, second = ["+I a 1 1", "+I b 1 1"], ["-U b 1 1", "+U b 2 1", "-U a 1 1", "+U a 2 1"]
    assert told == [*first, *second]
