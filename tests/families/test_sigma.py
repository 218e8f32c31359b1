"""Real rules that count what they find: with families all rules of a table are one chain of
operators, and each counts what three independent evaluations found, as it does alone."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import Origin
from sqlengine.jobs.planning import JobText
from tests.conformance.sigma import Rule, drain, records, rules, table_of
from tests.rules import sigma

pytestmark = pytest.mark.skipif(
    not sigma.FOLDER.is_dir(), reason="../shared/corpora/sigma is not there"
)

COUNTS = """CREATE TABLE counts (rule STRING, part BIGINT, n BIGINT)
WITH ('connector' = 'topic', 'topic' = 'counts', 'format' = 'debezium-json')"""
# Events that are counted together, by their numbers.
PART = 100
QUICK = "pipe_created"


def counting(rule: Rule) -> str:
    """The rule as a job that counts its events."""
    name = rule.id.replace("'", "''")
    return (
        f"INSERT INTO counts SELECT '{name}', part, n FROM (SELECT part, COUNT(*) AS n FROM"
        f" (SELECT _id / {PART} AS part FROM `{rule.table}` WHERE {rule.where}) GROUP BY part)"
    )


def counted(folder: Path, table: str, *, families: bool) -> tuple[dict[tuple[str, int], int], int]:
    """The last count of each rule in each part, and how many jobs run in families."""
    engine = Engine(Config(data=folder, families=families, isolation=False))
    try:
        found, lines = rules(sigma.FOLDER, table), records(sigma.FOLDER, table)
        for topic in ("counts", table):
            engine.broker.create_topic(topic)
        texts = {"counts": COUNTS, "table": table_of(table, lines, found)}
        texts |= {rule.job: counting(rule) for rule in found}
        jobs = {name: JobText(name, sql) for name, sql in texts.items()}
        outcomes = engine.change(Request(Origin.SDK, jobs)).values()
        assert [str(o.error) for o in outcomes if o.error is not None] == []
        engine.start()
        engine.broker.append(table, 0, lines, timestamp_ms=0)
        drain(engine)
        return last_counts(engine), len(engine.graph.executor.run.member_of)
    finally:
        engine.close()


def last_counts(engine: Engine) -> dict[tuple[str, int], int]:
    last: dict[tuple[str, int], int] = {}
    offset = 0
    while (found := engine.broker.read("counts", 0, offset)) is not None:
        for value in found.values.to_pylist():
            if (row := json.loads(value)["after"]) is not None:
                last[row["rule"], row["part"]] = row["n"]
        offset = found.next_offset
    return last


@pytest.mark.parametrize(
    "table",
    [pytest.param(t, id=t, marks=() if t == QUICK else (pytest.mark.slow,)) for t in sigma.TABLES],
)
def test_rules_count_what_they_find(table: str, tmp_path: Path) -> None:
    together, members = counted(tmp_path / "together", table, families=True)
    alone, none = counted(tmp_path / "alone", table, families=False)
    expected = Counter((rule, event // PART) for rule, event in sigma.read_expected(table))
    assert together == alone == expected
    assert members > 1
    assert none == 0
