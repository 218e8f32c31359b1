"""Whatever the query: optimised and as it was bound, its rows are the same, and no row fails that
did not before.

Rows are computed here in the plainest way: every expression is written out over the columns of the
scan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parser import parse
from parser.statements import Query
from parser.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, Schema
from planner import bind, optimize
from planner.catalog import Catalog
from planner.logical import Filter, LogicalPlan, Project, Scan, Sink, Union
from planner.optimizer import PASSES
from planner.passes.split_conjuncts import split_conjuncts
from planner.rewrite import substitute
from planner.scalar import ColumnRef, Scalar
from sqlengine.batch import Batch
from sqlengine.expressions import evaluate
from tests.planning import analyzed

DDL = (
    "CREATE TABLE t (a INT, b BIGINT NOT NULL, s STRING, d DOUBLE, bo BOOLEAN) WITH ('connector' ="
    " 'topic')"
)
SCHEMA = Schema.of(a=INT, b=BIGINT.with_nullable(False), s=STRING, d=DOUBLE, bo=BOOLEAN)
VALUES = {
    "a": [0, 1, 2, None, -1, 2147483647, 1, None],
    "b": [0, 1, 2, 3, -1, 0, 1, 2],
    "s": ["", "a", "2", None, "B", "1", None, "ab"],
    "d": [0.0, float("nan"), 1.5, None, -0.0, float("inf"), 2.0, 1.0],
    "bo": [True, False, None, None, True, False, True, None],
}
ROWS = Batch(SCHEMA, tuple(pa.array(VALUES[c.name], c.type.arrow) for c in SCHEMA), 8)

numbers = st.sampled_from(
    ["a", "b", "0", "1", "2", "CAST(NULL AS INT)", "CAST(s AS INT)", "1 / a", "a + 1", "(1 + 1)"]
)
texts = st.sampled_from(
    ["s", "'a'", "'1'", "LOWER(s)", "CAST(a AS STRING)", "'A' || 'b'", "LOWER('A')"]
)
comparisons = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
leaves = st.one_of(
    st.sampled_from(
        ["bo", "TRUE", "FALSE", "a IS NULL", "b IS NOT NULL", "a = a", "s LIKE 'a%'", "d = d"]
    ),
    st.builds("{} {} {}".format, numbers, comparisons, numbers),
    st.builds("{} {} {}".format, texts, comparisons, texts),
    st.builds("d {} {}".format, comparisons, st.sampled_from(["1e0", "0e0", "d"])),
    st.builds(
        "{} IN ({})".format,
        numbers,
        st.lists(st.sampled_from(["0", "1", "2"]), min_size=1).map(", ".join),
    ),
    st.builds("{} BETWEEN {} AND {}".format, numbers, numbers, numbers),
)
conditions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds("({}) AND ({})".format, inner, inner),
        st.builds("({}) OR ({})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
        st.builds(
            "({}) IS {}".format,
            inner,
            st.sampled_from(["TRUE", "NOT TRUE", "FALSE", "NOT FALSE", "NULL"]),
        ),
        st.builds("CASE WHEN {} THEN {} ELSE {} END".format, inner, inner, inner),
    ),
    max_leaves=5,
)
items = st.builds(
    "{}, {} AS b, {} AS s, {} AS d, {} AS bo".format,
    st.sampled_from(["a", "a + 1 AS a", "CAST(s AS INT) AS a", "1 / a AS a"]),
    st.sampled_from(["b", "b * 2", "b - 1"]),
    texts,
    st.sampled_from(["d", "1e0"]),
    conditions,
)
sources = st.recursive(
    st.just("t"),
    lambda inner: st.one_of(
        st.builds("(SELECT {} FROM {})".format, items, inner),
        st.builds("(SELECT * FROM {} WHERE {})".format, inner, conditions),
        st.builds(
            "(SELECT a, b, s, d, bo FROM {} UNION ALL SELECT {} FROM {})".format,
            inner,
            items,
            inner,
        ),
    ),
    max_leaves=4,
)
queries = st.builds("SELECT {} FROM {} WHERE {}".format, items, sources, conditions)


def bound(sql: str) -> LogicalPlan:
    catalog = Catalog()
    for statement in parse(f"{DDL}; {sql}"):
        if isinstance(statement, Query):
            return analyzed(statement, catalog)
        found = bind(statement, catalog, {})
        assert not isinstance(found, tuple)
        catalog = catalog.put(found)
    raise AssertionError(sql)


# The columns of a node written over the scan, which rows of the scan it has, and which failed on
# the way.
Branch = tuple[dict[str, Scalar], np.ndarray, np.ndarray]


def branches(plan: LogicalPlan) -> Iterator[Branch]:
    match plan:
        case Scan():
            columns: dict[str, Scalar] = {c.name: ColumnRef(c.name, c.type) for c in plan.schema}
            yield columns, np.ones(ROWS.num_rows, bool), np.zeros(ROWS.num_rows, bool)
        case Filter():
            for columns, alive, failed in branches(plan.input):
                true, wrong = truth(substitute(plan.predicate, columns))
                yield columns, alive & true, failed | (alive & wrong)
        case Project():
            for columns, alive, failed in branches(plan.input):
                yield {n: substitute(e, columns) for n, e in plan.items}, alive, failed
        case Union():
            for branch in plan.branches:
                for columns, alive, failed in branches(branch):
                    yield dict(zip(plan.schema.names, columns.values(), strict=True)), alive, failed
        case Sink():
            yield from branches(plan.input)


def truth(predicate: Scalar) -> tuple[np.ndarray, np.ndarray]:
    vector = evaluate(predicate, ROWS)
    wrong = np.zeros(ROWS.num_rows, bool) if vector.errors is None else vector.errors.mask
    true = np.array([v is True for v in vector.array(ROWS.num_rows).to_pylist()])
    return true & ~wrong, wrong


def rows(plan: LogicalPlan) -> tuple[Counter[tuple[str, ...]], int]:
    """The rows of the plan, and how many failed."""
    found: Counter[tuple[str, ...]] = Counter()
    failures = 0
    for columns, alive, failed in branches(plan):
        vectors = [evaluate(columns[n], ROWS) for n in plan.schema.names]
        for vector in vectors:
            if vector.errors is not None:
                failed = failed | (alive & vector.errors.mask)
        values = [v.array(ROWS.num_rows).to_pylist() for v in vectors]
        found += Counter(
            tuple(shown(c[i]) for c in values) for i in np.flatnonzero(alive & ~failed)
        )
        failures += int(failed.sum())
    return found, failures


def shown(value: object) -> str:
    """NaN equals NaN here, and 1 is not TRUE."""
    return f"{value:f}" if isinstance(value, Decimal) else repr(value)


@example("SELECT a FROM (SELECT 1 / a AS a, b FROM t) WHERE b > 1 AND a > 0")
@example("SELECT a FROM (SELECT a, s FROM t WHERE a > 1) WHERE CAST(s AS INT) > 1")
@given(queries)
@settings(max_examples=100, deadline=None)
def test_optimised_queries_give_the_same_rows(sql: str) -> None:
    plan = bound(sql)
    expected, failures = rows(plan)
    found, new_failures = rows(optimize(plan))
    assert found == expected
    assert new_failures <= failures


@example("SELECT a FROM (SELECT a, s FROM t) WHERE CAST(s AS INT) > 1 AND a > 5", split_conjuncts)
@given(queries, st.sampled_from(PASSES))
@settings(max_examples=40, deadline=None)
def test_no_pass_needs_the_others(sql: str, single: object) -> None:
    plan = bound(sql)
    others = frozenset(p.__name__ for p in PASSES if p is not single)
    expected, failures = rows(plan)
    found, new_failures = rows(optimize(plan, disabled=others))
    assert found == expected
    assert new_failures <= failures
