"""Real rules and Flink's own statements, where the corpora are present."""

from __future__ import annotations

import json
from pathlib import Path

from sqlglot import exp

from parser import parse, parse_condition
from tests.conformance.statements import check


def _rows(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_all_sigma_conditions_parse(shared: Path) -> None:
    wheres = [
        r["where"]
        for p in sorted((shared / "corpora" / "sigma").glob("*.rules.jsonl"))
        for r in _rows(p)
    ]
    assert len(wheres) >= 1831
    widest = 0
    for text in wheres:
        connectors = parse_condition(text).find_all(exp.And, exp.Or)
        widest = max(widest, sum(1 for _ in connectors))
    assert widest >= 1090


def test_flinks_statements_parse(shared: Path) -> None:
    """All of them are good Flink SQL: an error would be our mistake."""
    for row in _rows(shared / "corpora" / "flink" / "statements.jsonl"):
        assert parse(row["sql"])


def test_what_is_written_of_flinks_statements_reads_back(shared: Path) -> None:
    """One in eight; `python -m tests.conformance statements` takes them all."""
    rows = _rows(shared / "corpora" / "flink" / "statements.jsonl")
    assert [text.line for row in rows[::8] if (text := check(row["sql"])).faults] == []
