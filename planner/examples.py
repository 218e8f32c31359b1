"""Examples in docstrings: what one step of the analysis or one pass makes of a statement.

>>> show("merge_filters", "SELECT a FROM (SELECT * FROM t WHERE a > 1) WHERE s = 'x'")
Filter (s = 'x')
  Filter (a > 1)
    Scan t (topic)
-->
Filter ((a > 1) AND (s = 'x'))
  Scan t (topic)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from textwrap import dedent

from parser import parse
from parser.statements import CreateTable, Insert, Query, Set, StatementSet
from planner.binder import bind
from planner.capabilities import Capabilities, SinkCapabilities, SourceCapabilities
from planner.catalog import Catalog, Table
from planner.explain import explain
from planner.logical.change_kinds import INSERT_ONLY, UPSERT
from planner.plan import plan

TABLES = """
CREATE TABLE t (a INT, b BIGINT NOT NULL, s STRING) WITH ('connector' = 'topic');
CREATE TABLE u (a INT, c BIGINT NOT NULL, s STRING) WITH ('connector' = 'topic');
CREATE TABLE e (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'topic');
CREATE TABLE totals (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'topic');
CREATE TABLE late (k STRING, v INT) WITH ('connector' = 'topic');
CREATE TABLE files (id INT, dt STRING METADATA FROM 'partition.dt' VIRTUAL)
  WITH ('connector' = 'filesystem');
CREATE TABLE asked (id INT, p AS PROCTIME()) WITH ('connector' = 'topic');
CREATE TABLE dim (id INT, name STRING)
  WITH ('connector' = 'filesystem', 'lookup.cache' = 'FULL');
CREATE TABLE kept (id INT, name STRING, v DOUBLE) WITH ('connector' = 'jdbc');
"""


def show(step: str, sql: str) -> None:
    """Prints the part of a query's plan that the step or pass `step` changes, before and after it.
    `sql`: a query or an INSERT over TABLES, behind any number of SET statements."""
    *settings, statement = parse(sql)
    assert isinstance(statement, Query | Insert | StatementSet)
    planned = plan(
        statement,
        catalog(),
        {s.key or "": s.value or "" for s in settings if isinstance(s, Set)},
        capabilities_of=capabilities_of,
        traced=True,
    )
    (trace,) = planned.traces
    plans = [plan for _, plan in trace.steps]
    after = [name for name, _ in trace.steps].index(step)
    print("\n-->\n".join(_changed(*(explain(plans[i]).splitlines() for i in (after - 1, after)))))


def _changed(before: list[str], after: list[str]) -> Iterator[str]:
    """Both texts without the lines that they have in common at their ends, but for the first one
    below what has changed."""
    same = [a == b for a, b in zip(before, after, strict=False)]
    above = [*same, False].index(False)
    below = list(zip(reversed(before[above:]), reversed(after[above:]), strict=False))
    equal = [*(a.lstrip() == b.lstrip() for a, b in below), False].index(False)
    for lines in (before, after):
        yield dedent("\n".join(lines[above : len(lines) - max(equal - 1, 0)]))


def catalog() -> Catalog:
    catalog = Catalog()
    for statement in parse(TABLES):
        assert isinstance(statement, CreateTable)
        table = bind(statement, catalog, {})
        catalog = catalog.put(replace(table, queried=table.connector == "jdbc"))
    return catalog


def capabilities_of(table: Table) -> Capabilities:
    """A table with a primary key takes updates and deletions by it."""
    changelog = UPSERT if table.primary_key else INSERT_ONLY
    return Capabilities(SourceCapabilities(), SinkCapabilities(changelog))
