"""What plans promise to those who merge and run them: identities, laziness, limits,
explanations."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path

import pytest

import planner
from parser import parse
from parser.errors import PlanError
from parser.statements import Query
from planner import PlannedStatement, bind, explain, optimize
from planner.catalog import Catalog, Table
from planner.explain import explain_json
from planner.logical import Filter, LogicalPlan, Project, Scan, Sink
from planner.optimizer import PASSES, disabled_passes
from planner.scalar import Call, walk
from sqlengine.connectors.registry import capabilities_of
from tests.planning import analyzed, optimized

TABLES = """
CREATE TABLE t (a INT, b BIGINT NOT NULL, s STRING, ts TIMESTAMP(3), lt TIMESTAMP_LTZ(3)) WITH ('connector' = 'topic');
CREATE TABLE p (a INT, now AS PROCTIME()) WITH ('connector' = 'topic');
CREATE VIEW random AS SELECT a, UUID() AS id FROM t;
"""
OPTIONS = "WITH ('connector' = 'topic')"


def catalog_of(text: str) -> Catalog:
    catalog = Catalog()
    for statement in parse(text):
        bound = bind(statement, catalog, {})
        assert not isinstance(bound, tuple)
        catalog = catalog.put(bound)
    return catalog


CATALOG = catalog_of(TABLES)


def plan(sql: str, *, job: str = "job", zone: str = "UTC") -> Sink:
    """The bound plan of one query."""
    (statement,) = parse(sql)
    return analyzed(statement, CATALOG, {"table.local-time-zone": zone}, job=job)


def traced(sql: str) -> PlannedStatement:
    """One query after every arrow."""
    (statement,) = parse(sql)
    assert isinstance(statement, Query)
    return planner.plan(statement, CATALOG, {}, capabilities_of=capabilities_of, traced=True)


def digest(sql: str, *, job: str = "job", zone: str = "UTC") -> str:
    """The identity of what is below the sink after all passes."""
    return optimize(plan(sql, job=job, zone=zone)).inputs[0].digest


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "SELECT a FROM t WHERE a = 1 AND (b = 2 AND s = 'x')",
            "SELECT a FROM t WHERE ((a = 1)) AND b = 2 AND s = 'x'",
        ),
        ("SELECT a FROM t WHERE a = 1", "select x.a from t as x where 1 = x.a and TRUE"),
        ("SELECT lower(s) AS l FROM t", "SELECT LOWER(`s`) l FROM default_database.t"),
        (
            "SELECT a FROM t WHERE a > 1 AND b = 2",
            "SELECT a FROM (SELECT a, b FROM t WHERE a > 1) WHERE b = 2",
        ),
        ("SELECT a FROM t WHERE NOT (a = 1)", "SELECT a FROM t WHERE a <> 1"),
        ("SELECT a + 3 AS x FROM t", "SELECT a + (1 + 2) AS x FROM t"),
    ],
)
def test_equal_queries_are_one_plan(one: str, other: str) -> None:
    assert digest(one) == digest(other)


def test_other_queries_are_other_plans() -> None:
    texts = [
        "a = 1",
        "a = 2",
        "b = 1",
        "s = '1'",
        "a > 1",
        "a = 1 OR b = 1",
        "a = 1 AND b = 1",
        "a IS NULL",
    ]
    assert len({digest(f"SELECT a FROM t WHERE {text}") for text in texts}) == len(texts)


def test_random_values_are_never_shared() -> None:
    for sql in (
        "SELECT UUID() AS u FROM t",
        "SELECT a FROM t WHERE RAND() < 0.5",
        "SELECT * FROM random",
    ):
        assert digest(sql, job="one") != digest(sql, job="other")
    first, second = (
        plan("SELECT UUID() AS x FROM t UNION ALL SELECT UUID() AS x FROM t").inputs[0].inputs
    )
    assert first.digest != second.digest


def test_the_clock_of_an_epoch_is_shared() -> None:
    for sql in ("SELECT * FROM p", "SELECT CURRENT_TIMESTAMP AS c FROM t"):
        assert digest(sql, job="one") == digest(sql, job="other")


def test_jobs_share_across_time_zones_what_does_not_depend_on_them() -> None:
    tokyo = "Asia/Tokyo"
    plain, zoned = (
        "SELECT UPPER(s) AS u FROM t WHERE a > 1",
        "SELECT s FROM t WHERE CAST(lt AS STRING) = '2024-01-01'",
    )
    assert digest(plain) == digest(plain, zone=tokyo)
    assert digest(zoned) != digest(zoned, zone=tokyo)
    assert digest(f"SELECT * FROM ({zoned}) WHERE s = 'x'") != digest(
        f"SELECT * FROM ({zoned}) WHERE s = 'x'", zone=tokyo
    )


def test_a_table_is_one_object_for_all_its_readers() -> None:
    def source(node: LogicalPlan) -> LogicalPlan:
        return source(node.inputs[0]) if node.inputs else node

    assert source(plan("SELECT a FROM t")) is source(
        plan("SELECT b FROM t WHERE a = 1", job="other")
    )


def test_sinks_are_numbered_in_their_job() -> None:
    catalog = catalog_of(TABLES + f"CREATE TABLE o (a INT) {OPTIONS};")
    (statement,) = parse(
        "BEGIN STATEMENT SET; INSERT INTO o SELECT a FROM t; INSERT INTO o SELECT a FROM t; END"
    )
    sinks = bind(statement, catalog, {}, job="job", place=3)
    assert isinstance(sinks, tuple)
    assert [(s.job, s.place) for s in sinks] == [("job", 3), ("job", 4)]


def test_wide_conditions_are_one_node_deep() -> None:
    for operator in ("AND", "OR"):
        sql = "SELECT a FROM t WHERE " + f" {operator} ".join(f"s = 'v{i}'" for i in range(1100))
        node = optimize(plan(sql)).inputs[0].inputs[0]
        assert isinstance(node, Filter)
        assert isinstance(node.predicate, Call)
        assert len(node.predicate.args) == 1100


def test_long_chains_are_refused() -> None:
    with pytest.raises(PlanError, match="a chain of 300 operators is too long"):
        plan("SELECT " + " || ".join(["s"] * 301) + " FROM t")


def test_repeated_doubling_does_not_explode() -> None:
    sql = "SELECT a AS x FROM t"
    for _ in range(40):
        sql = f"SELECT x + x AS x FROM ({sql})"
    node: LogicalPlan = optimize(plan(f"SELECT x FROM ({sql}) WHERE x > 1"))
    sizes = []
    while node.inputs:
        node = node.inputs[0]
        sizes += (
            [sum(1 for _ in walk(e)) for _, e in node.items] if isinstance(node, Project) else []
        )
    assert max(sizes) < 100_000


def test_positions_are_those_of_the_script() -> None:
    node = plan("SELECT\n  a\nFROM t WHERE\n  a > 1 AND REGEXP(s, '[')").inputs[0].inputs[0]
    assert isinstance(node, Filter)
    position = next(
        n.position for n in walk(node.predicate) if isinstance(n, Call) and n.function == "REGEXP"
    )
    assert position is not None
    assert (position.line, position.column) == (4, 13)


def test_passes_are_switched_off_by_name() -> None:
    assert disabled_passes(
        {"optimizer.push-down-filter": "false", "optimizer.simplify": "true"}
    ) == {"push_down_filter"}
    sql = "SELECT * FROM (SELECT a AS x FROM t) WHERE 1 = x"
    every = frozenset(p.__name__ for p in PASSES)
    assert optimize(plan(sql), disabled=every).digest == plan(sql).digest
    with pytest.raises(PlanError, match=r"unknown setting 'optimizer\.push-down'"):
        disabled_passes({"optimizer.push-down": "false"})
    with pytest.raises(PlanError, match="invalid value 'off'"):
        disabled_passes({"optimizer.simplify": "off"})


def test_explanations() -> None:
    sql = "SELECT x FROM (SELECT a AS x, s FROM t) WHERE 1 = x"
    query = plan(sql)
    names = [name for name, _ in traced(sql).traces[0].steps]
    assert names == ["bind", "push_down_filter", "merge_projections", "simplify"]
    assert explain(optimize(query), schema=True).splitlines()[0] == "Sink result  -> x INT"
    shown = explain_json(optimize(query))
    assert json.loads(json.dumps(shown)) == shown
    assert isinstance(shown, dict)
    assert shown["schema"] == [{"name": "x", "type": "INT"}]


def events_table(folder: Path, name: str, rules: list[dict[str, str]]) -> str:
    """CREATE TABLE for a table of the corpus: BIGINT where all values are integers, else STRING."""
    kinds: dict[str, bool] = {}
    with gzip.open(folder / f"{name}.jsonl.gz", "rt") as lines:
        for line in lines:
            for column, value in json.loads(line).items():
                kinds[column] = kinds.get(column, True) and type(value) is int
    for rule in rules:
        for column in rule["where"].split("`")[1::2]:
            kinds.setdefault(column, False)
    columns = ", ".join(f"`{c}` {'BIGINT' if whole else 'STRING'}" for c, whole in kinds.items())
    return f"CREATE TABLE {name} ({columns}) {OPTIONS};"


def test_real_rules_share_one_scan(shared: Path) -> None:
    folder = shared / "corpora" / "sigma"
    rules = [
        json.loads(line)
        for line in (folder / "network_connection.rules.jsonl").read_text().splitlines()
    ]
    alerts = f"CREATE TABLE alerts (rule_id STRING, level STRING, event_id BIGINT) {OPTIONS};"
    catalog = catalog_of(events_table(folder, "network_connection", rules) + alerts)
    plans = []
    for rule in rules:
        select = f"'{rule['id']}' AS rule_id, '{rule['level']}' AS level, _id AS event_id"
        (statement,) = parse(
            f"INSERT INTO alerts SELECT {select} FROM network_connection WHERE {rule['where']}"
        )
        plans.append(optimized(statement, catalog, job=rule["id"]))
    shapes = {tuple(type(n) for n in chain(p)) for p in plans}
    assert shapes == {(Sink, Project, Filter, Scan)}
    assert len({chain(p)[-1].digest for p in plans}) == 1
    assert [p.digest for p in pickle.loads(pickle.dumps(plans))] == [p.digest for p in plans]
    assert isinstance(catalog.get(("alerts",)), Table)


def chain(node: LogicalPlan) -> list[LogicalPlan]:
    return [node, *(n for i in node.inputs for n in chain(i))]


@pytest.mark.parametrize("written", ["WITHOFFSET(ts, 1500)", "withoffset(`ts`, 1500)"])
def test_a_watermark_with_an_offset_is_the_time_less_so_many_milliseconds(written: str) -> None:
    forms = [
        f"CREATE TABLE w (ts TIMESTAMP(3), WATERMARK FOR ts AS {e}) {OPTIONS}"
        for e in (written, "ts - INTERVAL '1.5' SECOND")
    ]
    ours, flinks = (
        catalog_of(form).objects["default_catalog", "default_database", "w"] for form in forms
    )
    assert isinstance(ours, Table)
    assert isinstance(flinks, Table)
    assert ours.watermark == flinks.watermark is not None
