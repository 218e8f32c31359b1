"""The proof of the form for the operators of queries: one process at any size of batches, two
instances with buckets moving between them, and a restart behind every batch leave the same rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest

from parser import parse
from planner import bind
from planner.catalog import Catalog, Table
from planner.graph.physical import PhysicalNode
from planner.logical import LogicalPlan, Scan
from sqlengine.batch import Batch
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.spark.worker import TaskContext
from sqlengine.formats.results import rows_of
from sqlengine.operators.base import Operator
from sqlengine.operators.changelog.row_kinds import kinds_of
from sqlengine.state.keys import BUCKETS, buckets_of
from tests.operators.proof import SCHEMA, Chunk, feed, introductions
from tests.operators.windows import Chain, end_of_input
from tests.planning import optimized

TABLE = """CREATE TABLE e (ts TIMESTAMP(3), k STRING, i INT, m DECIMAL(10, 2), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH ('connector' = 'topic', 'topic' = 'e', 'format' = 'json')"""
TOP = (
    "SELECT * FROM (SELECT k, i, m, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {}) AS n FROM e)"
    " WHERE n <= {}"
)
QUERIES = {
    "group": (
        "SELECT k, COUNT(*), SUM(i), COUNT(DISTINCT i), SUM(DISTINCT m), MAX(m) FROM e GROUP BY k"
    ),
    "narrow": (
        "SELECT k, SUM(CAST(i * 50 AS TINYINT)), AVG(CAST(i * 50 AS TINYINT)), SUM(i * 900000000)"
        " FROM e GROUP BY k"
    ),
    "narrow over": (
        "SELECT k, i, AVG(CAST(i * 50 AS TINYINT)) OVER (PARTITION BY k ORDER BY ts) FROM e"
    ),
    "top": TOP.format("i DESC, m", 3),
    "last": TOP.format("ts DESC", 1).replace("*", "k, i", 1),
    "first": TOP.format("ts", 1).replace("*", "k, i", 1),
    "over": "SELECT k, i, SUM(i) OVER (PARTITION BY k ORDER BY ts) FROM e",
    "over numbers": (
        "SELECT k, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts), RANK() OVER (PARTITION BY k"
        " ORDER BY ts) FROM e"
    ),
    "over rows": (
        "SELECT k, i, MAX(m) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT"
        " ROW) FROM e"
    ),
    "over range": (
        "SELECT k, COUNT(i) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '3' SECOND"
        " PRECEDING AND CURRENT ROW) FROM e"
    ),
    "lag": "SELECT k, i, LAG(i, 2) OVER (PARTITION BY k ORDER BY ts) FROM e",
    "over sorted": "SELECT k, i, SUM(i) OVER (PARTITION BY k ORDER BY i) FROM e",
    "over sorted rows": (
        "SELECT k, i, MAX(m) OVER (PARTITION BY k ORDER BY i ROWS BETWEEN UNBOUNDED PRECEDING AND"
        " CURRENT ROW) FROM e"
    ),
    "hop": (
        "SELECT k, COUNT(*), SUM(i), window_end FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL"
        " '2' SECOND, INTERVAL '6' SECOND)) GROUP BY k, window_start, window_end"
    ),
    "session": (
        "SELECT k, COUNT(*), SUM(m), window_end FROM TABLE(SESSION(TABLE e PARTITION BY k,"
        " DESCRIPTOR(ts), INTERVAL '1' SECOND)) GROUP BY k, window_start, window_end"
    ),
}
# Rows come together by one key and then by another: not for instances side by side.
COUNTED = "SELECT k, i, COUNT(*) AS c FROM e GROUP BY k, i"
OF_CHANGES = {
    "rising": TOP.replace("m,", "c,").format("c DESC, i", 2).replace("FROM e", f"FROM ({COUNTED})"),
    "rising rows": (
        TOP.replace("m,", "c,")
        .format("c DESC, i", 2)
        .replace("FROM e", f"FROM ({COUNTED})")
        .replace("*", "k, c", 1)
    ),
    "over updated": (
        "SELECT k, i, RANK() OVER (PARTITION BY k ORDER BY i), MAX(c) OVER (PARTITION BY k ORDER"
        f" BY i) FROM ({COUNTED})"
    ),
    "updated": (
        TOP.replace("m,", "c,").format("c, i DESC", 2).replace("FROM e", f"FROM ({COUNTED})")
    ),
}
each_query = pytest.mark.parametrize("name", QUERIES)
every_query = pytest.mark.parametrize("name", [*QUERIES, *OF_CHANGES])


@dataclass(frozen=True)
class Operators:
    """Those of one query, up to the first that needs rows of a key together, and from it on; `key`:
    of that."""

    below: tuple[PhysicalNode, ...]
    keyed: tuple[PhysicalNode, ...]
    key: tuple[str, ...]

    def made(self, nodes: Sequence[PhysicalNode]) -> list[Operator]:
        return [OperatorFactory().build(n, None) for n in nodes]

    def all(self) -> Chain:
        return Chain(self.made((*self.below, *self.keyed)))


def operators(name: str) -> Operators:
    (created,) = parse(TABLE)
    table = bind(created, Catalog(), {})
    assert isinstance(table, Table)
    (query,) = parse((QUERIES | OF_CHANGES)[name])
    plan: LogicalPlan = optimized(query, Catalog().put(table)).input
    nodes: list[PhysicalNode] = []
    while not isinstance(plan, Scan):
        nodes.insert(
            0, PhysicalNode(str(len(nodes)), plan, plan.schema.names, {}, frozenset({"job"}), 0)
        )
        (plan,) = plan.inputs
    first = next(i for i, n in enumerate(nodes) if n.plan.exchange(0) is not None)  # type: ignore[union-attr]
    key = nodes[first].plan.exchange(0)  # type: ignore[union-attr]
    assert key is not None
    return Operators(tuple(nodes[:first]), tuple(nodes[first:]), key)


def pieces(chunks: Sequence[Chunk], size: int) -> Iterator[Batch]:
    yield from introductions(list(chunks))
    for chunk in chunks:
        for start in range(0, len(chunk.rows), size):
            yield chunk.batch(start, size)
    yield end_of_input(SCHEMA)


def left(batches: Sequence[Batch]) -> Counter[str]:
    """The rows that are there in the end."""
    counts: Counter[str] = Counter()
    for batch in batches:
        for op, row in rows_of(batch):
            counts[json.dumps(row)] += -1 if op in ("-U", "-D") else 1
    assert not [row for row, n in counts.items() if n < 0], (
        "nothing is taken back that was not there"
    )
    return +counts


def in_one_process(name: str, chunks: Sequence[Chunk], size: int) -> Counter[str]:
    chain = operators(name).all()
    return left([b for piece in pieces(chunks, size) for b in chain.push(piece)])


@every_query
def test_the_size_of_batches_changes_nothing(name: str) -> None:
    chunks = feed(1, chunks=12)
    wanted = in_one_process(name, chunks, 1)
    assert len(wanted) > 8
    assert in_one_process(name, chunks, 4) == wanted
    assert in_one_process(name, chunks, 1000) == wanted


@each_query
def test_two_instances_and_buckets_that_move(name: str) -> None:
    chunks, parts = feed(2, chunks=12), operators(name)
    source = Chain(parts.made(parts.below))
    instances = [Chain(parts.made(parts.keyed)) for _ in range(2)]
    owner = np.repeat([0, 1], BUCKETS // 2)
    output: list[Batch] = []
    for n, piece in enumerate(pieces(chunks, 7)):
        for batch in source.push(piece):
            if n in (8, 17, 29):
                move(
                    instances,
                    owner,
                    range(10, 50) if n != 17 else range(20, 128),
                    to=1 if n != 17 else 0,
                )
            keys = [batch.column(k) for k in parts.key]
            target = owner[
                buckets_of([batch.schema.type(k) for k in parts.key], keys, batch.num_rows)
            ]
            for i, instance in enumerate(instances):
                part = replace(batch.take(np.flatnonzero(target == i)), watermark=batch.watermark)
                output += instance.push(part)
    assert left(output) == in_one_process(name, chunks, 1000)


def move(instances: Sequence[Chain], owner: np.ndarray, buckets: range, to: int) -> None:
    source, target = instances[1 - to].context.tables, instances[to].context.tables
    moved = [b for b in buckets if owner[b] != to]
    for table_name, table in source.items():
        if table.everywhere:
            continue
        target[table_name].load(table.dump(moved))
        table.drop(moved)
    owner[moved] = to


@every_query
def test_a_restart_behind_every_batch(name: str) -> None:
    chunks, parts = feed(3, chunks=8), operators(name)
    held: dict[str, pa.Table] = {}
    output: list[Batch] = []
    for piece in pieces(chunks, 9):
        chain = Chain(parts.made((*parts.below, *parts.keyed)), TaskContext(held))
        output += chain.push(piece)
        held = {n: t.dump() for n, t in chain.context.tables.items()}
    assert left(output) == in_one_process(name, chunks, 1000)


def test_rows_that_are_only_added_have_no_other_kind() -> None:
    chain = operators("over").all()
    assert not any(
        kinds_of(b).any() for piece in pieces(feed(4, chunks=5), 6) for b in chain.push(piece)
    )
